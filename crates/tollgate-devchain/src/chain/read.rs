//! Questions to the chain, as seen by one node: its own pool, and a head that may lag.
//!
//! Changes nothing.

use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bytes, U256};
use thiserror::Error;

use super::block::Block;
use super::execute::{Behaviour, Outcome};
use super::gas;
use super::pool::Pool;
use super::state::Account;
use super::tx::Tx;
use super::{Chain, Pooled};

/// Most blocks that one fee history covers, as at geth.
const FEE_HISTORY_MAX_BLOCKS: u64 = 1_024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockId {
    Latest,
    /// The head and what waits; a block can't be asked for by it.
    Pending,
    /// Unlikely to be reorganised.
    Safe,
    /// Never to be reorganised.
    Finalized,
    /// Block 0.
    Earliest,
    Number(u64),
    /// By hash, also if a reorg threw it out.
    Hash(B256),
}

/// A transaction and where it is.
#[derive(Clone, Debug)]
pub enum Found {
    /// In a block, at this place.
    Mined(Arc<Block>, usize),
    /// In the node's pool.
    Pooled(Arc<Tx>),
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Call {
    pub from: Option<Address>,
    /// The recipient; `None` creates a contract.
    pub to: Option<Address>,
    pub value: U256,
    pub data: Bytes,
    /// With at most this gas.
    pub gas: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CallRefused {
    #[error("reverted: {0}")]
    Reverted(String),
    /// No gas within the limit is enough.
    #[error("more than {0} gas needed")]
    GasAboveAllowance(u64),
    /// The caller does not have the value.
    #[error("balance {balance} below {value}")]
    InsufficientFunds { balance: U256, value: U256 },
}

#[derive(Clone, PartialEq, Debug)]
pub struct FeeHistory {
    /// The first block.
    pub oldest: u64,
    /// Of each block, and of the one after the last.
    pub base_fees: Vec<u64>,
    /// Gas used by gas limit.
    pub gas_used_ratios: Vec<f64>,
    /// For each block the tips at the wanted percentiles of its gas.
    pub rewards: Vec<Vec<u128>>,
}

/// The chain as one node sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    chain: &'a Chain,
    pool: usize,
    head: u64,
}

impl Chain {
    pub fn head(&self) -> &Arc<Block> {
        // Block 0 is there from the start, and neither pruning nor a reorg takes the last one.
        &self.blocks[self.blocks.len() - 1]
    }

    /// All canonical blocks that are kept, the oldest first.
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> + '_ {
        self.blocks.iter()
    }

    /// A canonical block.
    pub fn block(&self, number: u64) -> Option<&Arc<Block>> {
        let oldest = self.blocks.front()?.number();
        self.blocks.get(usize::try_from(number.checked_sub(oldest)?).ok()?)
    }

    /// The chain as the node of a pool sees it, `lag` blocks behind.
    pub fn view(&self, pool: usize, lag: u64) -> View<'_> {
        View { chain: self, pool, head: self.head().number().saturating_sub(lag) }
    }
}

impl<'a> View<'a> {
    pub fn head(&self) -> u64 {
        self.head
    }

    pub fn pool(&self) -> &'a Pool {
        self.chain.pool(self.pool)
    }

    /// The number that a tag stands for; a hash only if it is canonical and seen.
    pub fn number(&self, id: BlockId) -> Option<u64> {
        let is_up_to_date = self.head == self.chain.head().number();
        let tagged = |mark: u64, distance: u64| {
            let mark = if is_up_to_date { mark } else { 0 };
            self.head.saturating_sub(distance).max(mark).min(self.head)
        };
        let finality = self.chain.config.finality;
        let number = match id {
            BlockId::Latest | BlockId::Pending => self.head,
            BlockId::Safe => tagged(self.chain.safe_mark, finality.safe),
            BlockId::Finalized => tagged(self.chain.finalized_mark, finality.finalized),
            BlockId::Earliest => 0,
            BlockId::Number(number) => number,
            BlockId::Hash(hash) => *self.chain.by_hash.get(&hash)?,
        };
        (number <= self.head).then_some(number)
    }

    /// A block that it sees.
    pub fn block(&self, id: BlockId) -> Option<&'a Arc<Block>> {
        if let BlockId::Hash(hash) = id {
            let orphan = self.chain.orphans.iter().find(|block| block.hash == hash);
            if orphan.is_some() {
                return orphan;
            }
        }
        self.chain.block(self.number(id)?)
    }

    /// The canonical blocks that it sees and that are kept, the oldest first.
    pub fn blocks(&self) -> impl Iterator<Item = &'a Arc<Block>> + use<'a> {
        let head = self.head;
        self.chain.blocks().take_while(move |block| block.number() <= head)
    }

    /// An account after a block that is kept.
    pub fn account(&self, address: Address, id: BlockId) -> Option<Account> {
        let number = self.number(id)?;
        // Its earlier state is unknown, and must not look like a new account.
        self.chain.block(number)?;
        let is_now = number == self.chain.head().number();
        Some(if is_now {
            self.chain.accounts.now(address)
        } else {
            self.chain.accounts.at(address, number)
        })
    }

    /// The nonce after an account's unbroken run of pooled transactions.
    pub fn pending_nonce(&self, address: Address) -> u64 {
        let nonce = self.account(address, BlockId::Latest).unwrap_or_default().nonce;
        if self.head == self.chain.head().number() {
            self.pool().next_nonce(address, nonce)
        } else {
            self.pool().next_nonce_from(address, nonce)
        }
    }

    /// A transaction wherever it sees it.
    pub fn tx(&self, hash: &B256) -> Option<Found> {
        if let Some((number, index)) = self.chain.places.get(hash)
            && *number <= self.head
        {
            return Some(Found::Mined(self.chain.block(*number)?.clone(), *index));
        }
        self.pool().get(hash).map(|pooled| Found::Pooled(pooled.tx.clone()))
    }

    /// The text with which a transaction reverts.
    pub fn revert_reason(&self, tx: &Tx) -> Option<&'a str> {
        match self.chain.behaviours.get(&tx.envelope.to()?)? {
            Behaviour::Revert(reason) => Some(reason),
            Behaviour::Succeed | Behaviour::Burn(_) | Behaviour::OutOfGas => None,
        }
    }

    /// A sender's pooled transactions: (pending, queued).
    pub fn pooled(&self, sender: Address) -> (Vec<&'a Pooled>, Vec<&'a Pooled>) {
        let next = self.pending_nonce(sender);
        self.pool().of(sender).partition(|pooled| pooled.tx.nonce() < next)
    }

    /// The contract whose code an account runs, if it has delegated (EIP-7702).
    pub fn delegate(&self, address: Address, id: BlockId) -> Option<Address> {
        self.account(address, id)?.delegate
    }

    /// The address has code.
    pub fn has_code(&self, address: Address, id: BlockId) -> Option<bool> {
        let account = self.account(address, id)?;
        Some(account.has_code || self.chain.behaviours.contains_key(&address))
    }

    /// The base fee of the block after its head, if the chain has one.
    pub fn next_base_fee(&self) -> Option<u64> {
        if self.head == self.chain.head().number() {
            return self.chain.next_base_fee();
        }
        self.chain.block(self.head + 1)?.header.base_fee_per_gas
    }

    /// The fees of up to `count` blocks ending with `newest`; nothing before London.
    pub fn fee_history(
        &self,
        count: u64,
        newest: BlockId,
        percentiles: &[f64],
    ) -> Option<FeeHistory> {
        let newest = self.number(newest)?;
        let count = count.clamp(1, FEE_HISTORY_MAX_BLOCKS);
        let first = (newest + 1).saturating_sub(count);
        let blocks: Vec<_> = (first..=newest).filter_map(|at| self.chain.block(at)).collect();
        let mut base_fees =
            blocks.iter().map(|block| block.header.base_fee_per_gas).collect::<Option<Vec<_>>>()?;
        let after = match self.chain.block(newest + 1).filter(|_| newest < self.head) {
            Some(block) => block.header.base_fee_per_gas,
            None => self.next_base_fee(),
        };
        base_fees.push(after?);
        let ratio = |block: &Arc<Block>| {
            block.header.gas_used as f64 / block.header.gas_limit.max(1) as f64
        };
        Some(FeeHistory {
            oldest: blocks.first()?.number(),
            base_fees,
            gas_used_ratios: blocks.iter().map(|block| ratio(block)).collect(),
            rewards: blocks.iter().map(|block| rewards(block, percentiles)).collect(),
        })
    }

    /// Runs a call without changing anything: the gas it would use.
    pub fn call(&self, call: &Call, id: BlockId) -> Result<u64, CallRefused> {
        let account = call.from.and_then(|from| self.account(from, id)).unwrap_or_default();
        if call.from.is_some() && call.value > account.balance {
            let (balance, value) = (account.balance, call.value);
            return Err(CallRefused::InsufficientFunds { balance, value });
        }
        let limit = call.gas.unwrap_or(u64::MAX).min(self.chain.config.block_gas_limit);
        let floor = self.next_base_fee().map_or(0, |_| gas::floor(&call.data));
        let intrinsic = gas::intrinsic(&call.data, call.to.is_none(), None).max(floor);
        let behaviour = call.to.and_then(|to| self.chain.behaviours.get(&to));
        match behaviour.unwrap_or(&Behaviour::Succeed).run(limit, intrinsic) {
            Outcome::Success { gas_used } => Ok(gas_used),
            Outcome::Reverted { reason, .. } => Err(CallRefused::Reverted(reason)),
            Outcome::OutOfGas { .. } => Err(CallRefused::GasAboveAllowance(limit)),
        }
    }
}

/// The tips at these percentiles of the block's gas.
fn rewards(block: &Block, percentiles: &[f64]) -> Vec<u128> {
    let base_fee = u128::from(block.header.base_fee_per_gas.unwrap_or(0));
    let mut tips: Vec<(u128, u64)> = block
        .receipts
        .iter()
        .map(|receipt| (receipt.effective_gas_price - base_fee, receipt.gas_used))
        .collect();
    tips.sort_unstable();
    let at = |percentile: &f64| {
        let threshold = (block.header.gas_used as f64 * percentile / 100.0) as u64;
        let mut seen = 0;
        let found = tips.iter().find(|(_, gas)| {
            seen += gas;
            seen >= threshold
        });
        found.or(tips.last()).map_or(0, |(tip, _)| *tip)
    };
    percentiles.iter().map(at).collect()
}
