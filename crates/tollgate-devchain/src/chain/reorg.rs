//! Reorganisations: the last blocks are dropped, others are added, and the transactions of the dropped
//! ones are handled as chosen.
//!
//! `safe` and `finalized` are kept unless a reorg explicitly goes beyond them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use thiserror::Error;

use super::Chain;
use super::block::Block;
use super::tx::Tx;

/// The handling of the transactions of dropped blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DroppedTxs {
    /// The same transactions in blocks of the same numbers; only the hashes differ.
    #[default]
    Kept,
    /// In the new blocks too, but shuffled over them; each sender keeps its order.
    Moved,
    /// The new blocks are empty; the transactions are back in the pools.
    Returned,
    /// The new blocks are empty; the transactions are nowhere.
    Dropped,
}

/// The finality tags that a reorg may violate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Beyond {
    /// Nothing: blocks up to `safe` stay.
    #[default]
    Nothing,
    /// Blocks between `finalized` and `safe` may go.
    Safe,
    /// Any block may go.
    Finalized,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reorg {
    /// The number of dropped blocks.
    pub depth: u64,
    /// The number of new blocks; fewer than `depth` lowers the head for a while.
    pub replacements: u64,
    pub dropped_txs: DroppedTxs,
    /// The finality tags that it may violate.
    pub beyond: Beyond,
}

impl Reorg {
    /// As many new blocks as go.
    pub fn new(depth: u64, dropped_txs: DroppedTxs) -> Self {
        Self { depth, replacements: depth, dropped_txs, beyond: Beyond::Nothing }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReorgOutcome {
    /// The blocks that went, the lowest first.
    pub dropped: Vec<Arc<Block>>,
    /// The blocks that came, the lowest first.
    pub added: Vec<Arc<Block>>,
    /// Transactions that no pool and no block holds any more.
    pub lost: Vec<B256>,
}

/// The reason why a reorg is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ReorgRefused {
    /// Block 0 and what is pruned can't go.
    #[error("only {available} blocks can be dropped")]
    TooDeep { available: u64 },
    /// A promise stands in the way.
    #[error("block {number} is {tag}: ask for a reorg beyond {tag}")]
    Promised { number: u64, tag: &'static str },
}

impl Chain {
    /// Drops the last blocks and mines others, the first of them not before `timestamp`.
    pub fn reorg(&mut self, reorg: Reorg, timestamp: u64) -> Result<ReorgOutcome, ReorgRefused> {
        let head = self.head().number();
        let oldest = self.blocks.front().map_or(0, |block| block.number());
        if reorg.depth > head - oldest {
            return Err(ReorgRefused::TooDeep { available: head - oldest });
        }
        let base = head - reorg.depth;
        let refused = |tag| Err(ReorgRefused::Promised { number: base + 1, tag });
        if base < self.finalized_mark && reorg.beyond < Beyond::Finalized {
            return refused("finalized");
        }
        if base < self.safe_mark && reorg.beyond < Beyond::Safe {
            return refused("safe");
        }
        self.safe_mark = self.safe_mark.min(base);
        self.finalized_mark = self.finalized_mark.min(base);
        let dropped = self.rewind(base);
        let txs: Vec<Arc<Tx>> =
            dropped.iter().flat_map(|block| block.txs.iter().cloned()).collect();
        let mut plan = self.plan(&dropped, reorg);
        let mut added = Vec::new();
        let mut left = Vec::new();
        for round in 0..reorg.replacements {
            left.extend(plan.pop_front().unwrap_or_default());
            let (block, rest) =
                self.mine_exactly(std::mem::take(&mut left), timestamp.saturating_add(round));
            left = rest;
            added.push(block);
        }
        if reorg.dropped_txs != DroppedTxs::Dropped {
            left.extend(plan.into_iter().flatten());
            self.put_back(&left, &txs, reorg.dropped_txs);
        }
        let is_held = |hash: &B256| {
            self.places.contains_key(hash) || self.pools.iter().any(|p| p.get(hash).is_some())
        };
        let lost = txs.iter().map(|tx| tx.hash).filter(|hash| !is_held(hash)).collect();
        Ok(ReorgOutcome { dropped, added, lost })
    }

    /// The transactions of each new block.
    fn plan(&mut self, dropped: &[Arc<Block>], reorg: Reorg) -> VecDeque<Vec<Arc<Tx>>> {
        match reorg.dropped_txs {
            DroppedTxs::Kept => dropped.iter().map(|block| block.txs.clone()).collect(),
            DroppedTxs::Moved => {
                let txs = self.shuffle(dropped.iter().flat_map(|block| block.txs.iter().cloned()));
                let mut plan = VecDeque::from(vec![Vec::new(); reorg.replacements.max(1) as usize]);
                let mut at = 0;
                let last = plan.len() as u64 - 1;
                for tx in txs {
                    // Never back, so that nonces stay in order; on by one now and then.
                    if at < last && self.rng.chance(0.3) {
                        at += 1;
                    }
                    plan[at as usize].push(tx);
                }
                plan
            }
            DroppedTxs::Returned | DroppedTxs::Dropped => VecDeque::new(),
        }
    }

    /// Another order of the same transactions, with each sender's own order kept.
    fn shuffle(&mut self, txs: impl Iterator<Item = Arc<Tx>>) -> Vec<Arc<Tx>> {
        let mut senders: BTreeMap<Address, VecDeque<Arc<Tx>>> = BTreeMap::new();
        txs.for_each(|tx| senders.entry(tx.sender).or_default().push_back(tx));
        let mut queues: Vec<_> = senders.into_values().collect();
        let mut order = Vec::new();
        while !queues.is_empty() {
            let at = self.rng.below(queues.len() as u64) as usize;
            order.extend(queues[at].pop_front());
            if queues[at].is_empty() {
                queues.swap_remove(at);
            }
        }
        order
    }

    /// Gives the pools back what no block took.
    fn put_back(&mut self, left: &[Arc<Tx>], all: &[Arc<Tx>], dropped_txs: DroppedTxs) {
        let rules = self.rules();
        for tx in if dropped_txs == DroppedTxs::Returned { all } else { left } {
            let account = self.accounts.now(tx.sender);
            for pool in &mut self.pools {
                let _ = pool.admit(tx, &rules, account);
            }
        }
    }

    /// Makes `base` the head; hands back the blocks above it, the lowest first.
    fn rewind(&mut self, base: u64) -> Vec<Arc<Block>> {
        let keep = self.blocks.iter().take_while(|block| block.number() <= base).count();
        let dropped: Vec<Arc<Block>> = self.blocks.split_off(keep).into();
        for block in &dropped {
            self.kept_txs -= block.txs.len();
            self.forget(block);
            self.orphans.push_back(block.clone());
        }
        while self.orphans.len() > self.config.retention.orphans {
            self.orphans.pop_front();
        }
        self.accounts.rewind(base);
        self.forks += 1;
        self.next_base_fee_override = None;
        for pool in &mut self.pools {
            pool.follow_reorg(&self.accounts);
        }
        dropped
    }
}
