//! The admission rules of a pool, as in the real clients and in their order.
//!
//! Decides on facts that are handed to it; what it takes, it puts into the pool.

use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, U256};

use super::super::gas;
use super::super::rejection::Rejection;
use super::super::state::Account;
use super::super::tx::Tx;
use super::Pool;

/// The chain's rules for transactions.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The id that signatures must carry.
    pub chain_id: u64,
    pub block_gas_limit: u64,
    /// The next block's base fee, on a chain that has one.
    pub next_base_fee: Option<u64>,
}

/// Taken; and who had to go for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// The one that held the nonce before.
    pub replaced: Option<B256>,
    /// The cheapest, if the pool was full.
    pub evicted: Option<B256>,
}

impl Pool {
    pub fn admit(
        &mut self,
        tx: &Arc<Tx>,
        rules: &Rules,
        account: Account,
    ) -> Result<Admission, Rejection> {
        if self.get(&tx.hash).is_some() {
            return Err(Rejection::AlreadyKnown(tx.hash));
        }
        self.check_form(tx, rules)?;
        self.check_fees(tx, rules)?;
        let replaced = self.check_account(tx, account)?;
        let evicted = match replaced {
            Some(_) => None,
            None => self.make_room(tx, account)?,
        };
        if let Some(old) = &replaced {
            // The run of nonces stays whole: the same nonce comes right back.
            let next = self.next_nonce(tx.sender, account.nonce);
            self.remove(old);
            self.insert(tx.clone(), account.nonce);
            if let Some(queue) = self.queues.get_mut(&tx.sender) {
                queue.next = next;
            }
        } else {
            self.insert(tx.clone(), account.nonce);
        }
        Ok(Admission { replaced, evicted })
    }

    /// The checks that need only the transaction and the chain's rules.
    fn check_form(&self, tx: &Tx, rules: &Rules) -> Result<(), Rejection> {
        let kind = tx.envelope.tx_type() as u8;
        let is_dynamic = tx.envelope.is_dynamic_fee();
        if !matches!(kind, 0..=2 | 4) || (is_dynamic && rules.next_base_fee.is_none()) {
            return Err(Rejection::TypeNotSupported(kind));
        }
        match tx.envelope.chain_id() {
            None => return Err(Rejection::Unprotected),
            Some(have) if have != rules.chain_id => {
                return Err(Rejection::WrongChainId { have, want: rules.chain_id });
            }
            Some(_) => {}
        }
        let (size, limit) = (tx.raw.len(), self.limits.tx_bytes);
        if size > limit {
            return Err(Rejection::Oversized { size, limit });
        }
        let gas = tx.gas_limit();
        if gas > rules.block_gas_limit {
            return Err(Rejection::GasAboveBlock { gas, limit: rules.block_gas_limit });
        }
        if tx.nonce() == u64::MAX {
            return Err(Rejection::NonceMax);
        }
        let need = gas::intrinsic_of(tx);
        if gas < need {
            return Err(Rejection::IntrinsicGas { gas, need });
        }
        let need = gas::floor(tx.envelope.input());
        if rules.next_base_fee.is_some() && gas < need {
            return Err(Rejection::FloorGas { gas, need });
        }
        Ok(())
    }

    fn check_fees(&self, tx: &Tx, rules: &Rules) -> Result<(), Rejection> {
        let (tip, fee_cap) = (tx.tip_cap(), tx.fee_cap());
        if tip > fee_cap {
            return Err(Rejection::TipAboveFeeCap { tip, fee_cap });
        }
        let fee_wei = tx.max_fee();
        if let Some(cap_wei) = self.limits.fee_cap_wei.filter(|cap| fee_wei > *cap) {
            return Err(Rejection::FeeAboveCap { fee_wei, cap_wei });
        }
        let min = self.limits.min_tip_wei;
        if tip < min {
            return Err(Rejection::TipTooLow { tip, min });
        }
        let base_fee = u128::from(rules.next_base_fee.unwrap_or(0));
        if self.limits.refuse_below_base_fee && fee_cap < base_fee {
            return Err(Rejection::BelowBaseFee { fee_cap, base_fee });
        }
        Ok(())
    }

    /// The checks against the sender's account and its other transactions; returns the one it replaces.
    fn check_account(&self, tx: &Tx, account: Account) -> Result<Option<B256>, Rejection> {
        let nonce = tx.nonce();
        if nonce < account.nonce {
            return Err(Rejection::NonceTooLow { next: account.nonce, nonce });
        }
        let next = self.next_nonce(tx.sender, account.nonce);
        if self.limits.nonce_gap.is_some_and(|gap| nonce.saturating_sub(next) > gap) {
            return Err(Rejection::NonceTooHigh { next, nonce });
        }
        let held = self.at(tx.sender, nonce).map(|pooled| &pooled.tx);
        let pooled = self.queues.get(&tx.sender).map_or(U256::ZERO, |queue| queue.cost);
        let queued = pooled.saturating_sub(held.map_or(U256::ZERO, |tx| tx.cost()));
        let cost = tx.cost();
        if queued.saturating_add(cost) > account.balance {
            return Err(Rejection::InsufficientFunds { balance: account.balance, queued, cost });
        }
        let Some(held) = held else {
            let pooled = self.queues.get(&tx.sender).map_or(0, |queue| queue.txs.len());
            if pooled >= self.limits.per_sender {
                return Err(Rejection::SenderLimit { sender: tx.sender, pooled });
            }
            return Ok(None);
        };
        let percent = 100 + self.limits.price_bump_percent;
        // a ≥ b × (100 + bump) / 100, without the rounding.
        let is_bumped = |new: u128, old: u128| {
            U256::from(new) * U256::from(100) >= U256::from(old) * U256::from(percent) && new > old
        };
        if is_bumped(tx.fee_cap(), held.fee_cap()) && is_bumped(tx.tip_cap(), held.tip_cap()) {
            Ok(Some(held.hash))
        } else {
            Err(Rejection::ReplacementUnderpriced(tx.hash))
        }
    }

    /// A full pool gives up its cheapest for a better one that can be mined.
    fn make_room(&mut self, tx: &Tx, account: Account) -> Result<Option<B256>, Rejection> {
        if self.len() < self.limits.total {
            return Ok(None);
        }
        let Some(cheapest) = self.cheapest().map(|pooled| pooled.tx.clone()) else {
            return Err(Rejection::PoolFull);
        };
        if (tx.tip_cap(), tx.fee_cap()) <= (cheapest.tip_cap(), cheapest.fee_cap()) {
            return Err(Rejection::Underpriced);
        }
        let is_gapped = tx.nonce() > self.next_nonce(tx.sender, account.nonce);
        let cuts_itself = cheapest.sender == tx.sender && cheapest.nonce() < tx.nonce();
        if is_gapped || cuts_itself {
            return Err(Rejection::PoolFull);
        }
        self.remove(&cheapest.hash);
        Ok(Some(cheapest.hash))
    }
}
