//! Blocks on demand: which transactions, in which order, and what follows for the pools.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use alloy_primitives::Address;

use super::block::{self, Block, Receipt, Sealing};
use super::execute::{Place, Skip};
use super::tx::Tx;
use super::{Chain, Pooled};

/// The best tip first; of equals the one that came first.
type Offer = (u128, Reverse<u64>, Address, u64);

impl Chain {
    /// Mines one block from the pools: the best tips first, each sender's nonces in order.
    ///
    /// A timestamp that is not after the parent's becomes the parent's plus one.
    pub fn mine(&mut self, timestamp: u64) -> Arc<Block> {
        self.mine_only(timestamp, |_| true)
    }

    /// [`Self::mine`] without the pooled transactions that are not `wanted`.
    pub fn mine_only(&mut self, timestamp: u64, wanted: impl Fn(&Tx) -> bool) -> Arc<Block> {
        let mut draft = Draft::default();
        self.fill(&mut draft, wanted);
        self.finish(draft, timestamp)
    }

    /// Mines one block with exactly these transactions in this order, as far as they can run; the
    /// rest is handed back. Pools are not asked.
    pub fn mine_exactly(
        &mut self,
        txs: Vec<Arc<Tx>>,
        timestamp: u64,
    ) -> (Arc<Block>, Vec<Arc<Tx>>) {
        let mut draft = Draft::default();
        let left = txs.into_iter().filter(|tx| self.place(&mut draft, tx).is_err()).collect();
        (self.finish(draft, timestamp), left)
    }

    /// Puts what pays best into the draft until nothing fits.
    fn fill(&mut self, draft: &mut Draft, wanted: impl Fn(&Tx) -> bool) {
        let senders: BTreeSet<Address> =
            self.heard_pools().flat_map(|pool| self.pools[pool].senders()).collect();
        let base_fee = self.next_base_fee();
        let mut offers: BinaryHeap<Offer> = senders
            .into_iter()
            .filter_map(|sender| {
                let nonce = self.accounts.now(sender).nonce;
                self.offer(sender, nonce, base_fee)
            })
            .collect();
        while let Some((_, _, sender, nonce)) = offers.pop() {
            let Some(tx) = self.best(sender, nonce, base_fee).map(|pooled| pooled.tx.clone())
            else {
                continue;
            };
            // What does not run blocks its sender for this block, not the others.
            if wanted(&tx) && self.place(draft, &tx).is_ok() {
                offers.extend(self.offer(sender, nonce + 1, base_fee));
            }
        }
    }

    fn heard_pools(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.pools.len()).filter(|pool| self.pools[*pool].is_mined_from)
    }

    /// Of the pools' candidates for a slot, the one that pays best now.
    fn best(&self, sender: Address, nonce: u64, base_fee: Option<u64>) -> Option<&Pooled> {
        self.heard_pools()
            .filter_map(|pool| self.pools[pool].at(sender, nonce))
            .filter(|pooled| pooled.tx.tip_at(base_fee).is_some())
            .max_by_key(|pooled| (pooled.tx.tip_at(base_fee), Reverse(pooled.tx.hash)))
    }

    fn offer(&self, sender: Address, nonce: u64, base_fee: Option<u64>) -> Option<Offer> {
        let pooled = self.best(sender, nonce, base_fee)?;
        Some((pooled.tx.tip_at(base_fee)?, Reverse(pooled.arrival), sender, nonce))
    }

    /// Runs one transaction as the next of the draft.
    fn place(&mut self, draft: &mut Draft, tx: &Arc<Tx>) -> Result<(), Skip> {
        let base_fee = self.next_base_fee();
        let used = draft.receipts.last().map_or(0, |last| last.cumulative_gas_used);
        let mut place = Place {
            chain_id: self.config.chain_id,
            number: self.head().number() + 1,
            base_fee,
            gas_left: self.config.block_gas_limit - used,
            cumulative_gas_used: used,
            accounts: &mut self.accounts,
            behaviours: &self.behaviours,
        };
        let receipt = place.run(tx)?;
        draft.txs.push(tx.clone());
        draft.receipts.push(receipt);
        Ok(())
    }

    /// Seals the draft, makes it the head, and lets the pools follow.
    fn finish(&mut self, draft: Draft, timestamp: u64) -> Arc<Block> {
        let parent = self.head();
        let sealing = Sealing {
            parent_hash: parent.hash,
            parent_state_root: parent.header.state_root,
            number: parent.number() + 1,
            timestamp: timestamp.max(parent.header.timestamp + 1),
            gas_limit: self.config.block_gas_limit,
            base_fee: self.next_base_fee(),
            fork: self.forks,
            seed: self.config.seed,
        };
        self.next_base_fee_override = None;
        let block = Arc::new(block::seal(&sealing, draft.txs, draft.receipts));
        self.append(block.clone());
        for pool in &mut self.pools {
            pool.follow(&self.accounts);
        }
        block
    }

    fn append(&mut self, block: Arc<Block>) {
        let number = block.number();
        self.by_hash.insert(block.hash, number);
        for (index, tx) in block.txs.iter().enumerate() {
            self.places.insert(tx.hash, (number, index));
        }
        self.kept_txs += block.txs.len();
        self.blocks.push_back(block);
        let finality = self.config.finality;
        self.safe_mark = self.safe_mark.max(number.saturating_sub(finality.safe));
        self.finalized_mark = self.finalized_mark.max(number.saturating_sub(finality.finalized));
        self.prune();
    }

    /// Lets go of the oldest blocks; what can still be reorganised is kept.
    fn prune(&mut self) {
        let keep = self.config.retention;
        let mut is_pruned = false;
        while (self.blocks.len() > keep.blocks || self.kept_txs > keep.transactions)
            && self.blocks.front().is_some_and(|oldest| oldest.number() < self.finalized_mark)
        {
            let Some(oldest) = self.blocks.pop_front() else { break };
            self.kept_txs -= oldest.txs.len();
            self.forget(&oldest);
            is_pruned = true;
        }
        if is_pruned && let Some(oldest) = self.blocks.front() {
            self.accounts.forget_before(oldest.number());
        }
    }

    /// Takes a block out of the indexes.
    pub(super) fn forget(&mut self, block: &Block) {
        self.by_hash.remove(&block.hash);
        for tx in &block.txs {
            self.places.remove(&tx.hash);
        }
    }
}

/// A block in the making.
#[derive(Default)]
struct Draft {
    txs: Vec<Arc<Tx>>,
    receipts: Vec<Receipt>,
}
