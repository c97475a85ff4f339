//! Certain refusals: what the chain would never accept, decided before a nonce is chosen.
//!
//! Pure functions: intake refuses a create that could only stop its account. A refusal must be certain:
//! whatever may still succeed is accepted, and the nodes' later answers are handled by the other rules.
//! `docs/decisions.md` has the table.

mod kind;
mod tx_limits;

use alloy_primitives::{Address, U256};

use crate::amount::{GasPrice, Wei};
use crate::answer::AnswerClass;
use crate::bump::Cap;
use crate::fees::{FeeCaps, cost, first_offer, gas_limit};
use crate::ids::Nonce;
use crate::intent::Intent;
use crate::port::batch::{AttemptKind, BatchLimits, Fees};
use crate::port::chain::{CallEstimate, ChainLimits, FeeQuote, Funds};
use crate::port::signer::AccessListEntry;

pub use kind::{FundsShort, Refusal, RefusalKind, RefusedField};
pub use tx_limits::{
    EIP_3860_BYTES, EIP_7825_GAS, POOL_TX_BYTES, TxLimit, TxLimitSettings, TxLimits,
};

/// The intrinsic gas of every transaction: all that a plain transfer uses.
pub const TX_GAS: u64 = 21_000;
/// Additional gas of a contract creation (EIP-2).
const CREATE_GAS: u64 = 32_000;
/// Gas per 32 bytes of initcode (EIP-3860).
const INITCODE_WORD_GAS: u64 = 2;
/// Gas per zero byte and per other byte of call data (EIP-2028). Chains that never adopted it charge
/// more.
const ZERO_BYTE_GAS: u64 = 4;
const NONZERO_BYTE_GAS: u64 = 16;
/// Gas per address and per key of an access list (EIP-2930).
const ACCESS_ADDRESS_GAS: u64 = 2_400;
const ACCESS_KEY_GAS: u64 = 1_900;
/// Gas per authorization (EIP-7702). A part is returned if the authority exists, but all of it is needed first.
const AUTHORIZATION_GAS: u64 = 25_000;
/// Minimum gas per zero byte and per other byte of call data under EIP-7623.
const FLOOR_ZERO_BYTE_GAS: u64 = 10;
const FLOOR_NONZERO_BYTE_GAS: u64 = 40;

/// A price below this share of the base fee is refused. Above it the base fee may come down: even eighteen
/// empty blocks in a row lower it only to a tenth.
const BASE_FEE_SHARE: u128 = 10;

/// The reason why there is no estimate of a call's gas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoEstimate {
    /// The call itself can't succeed.
    Refused(Refusal),
    /// A node's trouble: the same call may succeed later.
    Unavailable(String),
}

/// The reason why a call can't succeed, by the class of a node's answer to its estimate; `None` if the
/// answer is about the node.
///
/// An estimate has no nonce, no price and no place in a pool, so answers about those are a node's trouble.
/// So is an unknown answer: repeating a hopeless call costs a caller less than giving up a good one.
pub const fn refusal_of_estimate(class: AnswerClass) -> Option<RefusalKind> {
    match class {
        AnswerClass::Reverted => Some(RefusalKind::WouldRevert),
        AnswerClass::InsufficientFunds => Some(RefusalKind::InsufficientFunds),
        // The node chose the limit itself, so the call needs more than a block has.
        AnswerClass::GasLimit => Some(RefusalKind::GasAboveBlockLimit),
        AnswerClass::Invalid => Some(RefusalKind::InvalidTransaction),
        AnswerClass::Accepted
        | AnswerClass::AlreadyKnown
        | AnswerClass::NonceTooLow
        | AnswerClass::NonceTooHigh
        | AnswerClass::ReplacementUnderpriced
        | AnswerClass::Underpriced
        | AnswerClass::FeeTooLow
        | AnswerClass::FeeTooHigh
        | AnswerClass::PoolFull
        | AnswerClass::RateLimited
        | AnswerClass::Transient
        | AnswerClass::Unknown => None,
    }
}

/// The gas that an estimated call uses.
///
/// # Errors
/// [`NoEstimate`]: the caller's mistake, or a node's trouble.
pub fn estimated_gas(trial: CallEstimate) -> Result<u64, NoEstimate> {
    let answer = match trial {
        CallEstimate::Gas(gas) => return Ok(gas),
        CallEstimate::Reverts(reason) => {
            let detail = format!("the call would revert: {reason}");
            return Err(NoEstimate::Refused(Refusal::new(RefusalKind::WouldRevert, detail)));
        }
        CallEstimate::Refused(answer) => answer,
    };
    Err(match refusal_of_estimate(answer.class) {
        Some(kind) => {
            let detail = format!("a node refused to estimate the call: {}", answer.said);
            NoEstimate::Refused(Refusal::new(kind, detail))
        }
        None => NoEstimate::Unavailable(answer.said),
    })
}

/// A transaction, complete except for nonce and signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PricedTx<'a> {
    /// The called contract or recipient; `None` creates a contract.
    pub to: Option<Address>,
    pub value: U256,
    pub data: &'a [u8],
    pub access_list: &'a [AccessListEntry],
    /// The number of its authorizations.
    pub authorizations: usize,
    /// The caller's cap on the gas price.
    pub callers_cap: Option<GasPrice>,
    pub fees: Fees,
}

impl<'a> PricedTx<'a> {
    /// An intent at these fees.
    pub fn of(intent: &'a Intent, fees: Fees) -> Self {
        Self {
            to: intent.to,
            value: intent.value,
            data: &intent.data,
            access_list: &intent.access_list,
            authorizations: intent.authorization_list.len(),
            callers_cap: intent.max_fee_per_gas,
            fees,
        }
    }

    /// The maximum cost: value plus gas limit × price.
    pub fn cost(&self) -> U256 {
        cost(self.value, &self.fees)
    }
}

/// The minimum gas limit of a transaction on any chain, or on one with a floor for call data (EIP-7623),
/// which also has EIP-3860. Chains that charge more, such as rollups, say so in their answers.
pub fn least_gas(demand: &PricedTx<'_>, has_calldata_floor: bool) -> u64 {
    let bytes = demand.data.len() as u64;
    let zeros = demand.data.iter().filter(|byte| **byte == 0).count() as u64;
    let priced = |zero: u64, other: u64| zeros * zero + (bytes - zeros) * other;
    let keys: u64 = demand.access_list.iter().map(|entry| entry.storage_keys.len() as u64).sum();
    let intrinsic = TX_GAS
        + if demand.to.is_none() { CREATE_GAS } else { 0 }
        + priced(ZERO_BYTE_GAS, NONZERO_BYTE_GAS)
        + demand.access_list.len() as u64 * ACCESS_ADDRESS_GAS
        + keys * ACCESS_KEY_GAS
        + demand.authorizations as u64 * AUTHORIZATION_GAS;
    if !has_calldata_floor {
        return intrinsic;
    }
    let words = if demand.to.is_none() { bytes.div_ceil(32) } else { 0 };
    let intrinsic = intrinsic + words * INITCODE_WORD_GAS;
    intrinsic.max(TX_GAS + priced(FLOOR_ZERO_BYTE_GAS, FLOOR_NONZERO_BYTE_GAS))
}

/// Judges a transaction's size and gas limit.
///
/// # Errors
/// The transaction is longer than nodes accept, or its gas is below the intrinsic gas, above the chain's
/// limit for a transaction, or above a block's.
pub fn judge_gas(
    demand: &PricedTx<'_>,
    limits: &ChainLimits,
    of_tx: &TxLimits,
) -> Result<(), Refusal> {
    of_tx.judge_size(demand)?;
    let given = demand.fees.gas_limit;
    let needs = least_gas(demand, limits.has_calldata_floor);
    if given < needs {
        let detail = format!("{given} is below {needs}, which it pays before it is executed");
        return Err(Refusal::of(RefusalKind::GasTooLow, RefusedField::Gas, detail));
    }
    of_tx.judge_gas(demand)?;
    let limit = if limits.is_confirmed { gas_max(limits) } else { BatchLimits::GAS };
    if given > limit {
        let detail = format!("{given} is above {limit}, which is what a block has");
        return Err(Refusal::of(RefusalKind::GasAboveBlockLimit, RefusedField::Gas, detail));
    }
    Ok(())
}

/// The maximum gas of a transaction. If the block limit is unknown, it is what a store can save: more could
/// be accepted and never be written.
fn gas_max(limits: &ChainLimits) -> u64 {
    limits.block_gas.unwrap_or(u64::MAX).min(BatchLimits::GAS)
}

/// The gas limit of a zero-value self-transfer, by a node's estimate. An impossible estimate is ignored:
/// the slot that it should close would stay open.
pub fn gas_to_self(trial: Option<&CallEstimate>, limits: &ChainLimits) -> u64 {
    match trial {
        Some(CallEstimate::Gas(estimate)) if *estimate <= gas_max(limits) => {
            gas_limit(*estimate).clamp(TX_GAS, gas_max(limits).max(TX_GAS))
        }
        Some(CallEstimate::Gas(_) | CallEstimate::Reverts(_) | CallEstimate::Refused(_)) | None => {
            TX_GAS
        }
    }
}

/// The gas limit of a transaction whose call was estimated without its access list and authorizations: the estimate plus a
/// margin, but never above a block's limit, nor above the transaction limit if the estimate itself is
/// below that.
///
/// # Errors
/// [`NoEstimate::Unavailable`]: the estimate is impossible, which is the node's mistake because the
/// caller gave no gas.
pub fn gas_for_estimate(
    estimate: u64,
    demand: &PricedTx<'_>,
    limits: &ChainLimits,
    of_tx: &TxLimits,
) -> Result<u64, NoEstimate> {
    let least = least_gas(demand, limits.has_calldata_floor);
    let estimated = PricedTx { access_list: &[], authorizations: 0, ..*demand };
    let least_without_list = least_gas(&estimated, limits.has_calldata_floor);
    let block_gas = gas_max(limits);
    if gas_limit(estimate) < least_without_list || estimate > block_gas {
        return Err(NoEstimate::Unavailable(format!(
            "a node estimated {estimate} gas, which must be from {least_without_list} to {block_gas}"
        )));
    }
    let whole = estimate.saturating_add(least.saturating_sub(least_without_list));
    let with_margin = of_tx.clamp_margin(gas_limit(whole), whole);
    Ok(with_margin.min(block_gas.max(whole)).min(BatchLimits::GAS))
}

/// Judges the price against the base fee. Only a cap can make it so low.
///
/// # Errors
/// The cap is below a tenth of the base fee; the refusal names the cap.
pub fn judge_price(
    demand: &PricedTx<'_>,
    base_fee: Option<GasPrice>,
    caps: &FeeCaps,
) -> Result<(), Refusal> {
    let offer = demand.fees.max_fee;
    let Some(base_fee) = base_fee.filter(|base| offer.wei() * BASE_FEE_SHARE < base.wei()) else {
        return Ok(());
    };
    let cap = if demand.callers_cap.is_some_and(|cap| cap <= offer) {
        Cap::Callers
    } else if caps.max_fee_per_gas.is_some_and(|cap| cap <= offer) {
        Cap::ChainPrice
    } else {
        Cap::ChainTotal
    };
    let why = format!("it allows {offer} wei for a unit of gas, and the base fee is {base_fee}");
    let kind = RefusalKind::FeeCapTooLow;
    Err(match cap {
        Cap::Callers => Refusal::of(kind, RefusedField::MaxFeePerGas, why),
        Cap::ChainPrice | Cap::ChainTotal | Cap::Storable => {
            Refusal::new(kind, format!("{}: {why}", cap.name()))
        }
    })
}

/// A signed attempt's cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptCost {
    pub kind: AttemptKind,
    pub fees: Fees,
    /// The value of a [`AttemptKind::Replacement`], which may differ from the intent's; `None` if it could not
    /// be read. Unused for the other kinds.
    pub replaced_value: Option<U256>,
}

/// The maximum cost of an account's open transactions: the same rule for creates and simulations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenCosts {
    slots: Vec<(Nonce, U256)>,
    queued: U256,
}

impl OpenCosts {
    /// Adds a transaction with a slot that is not mined: the cost of its most expensive attempt, because any
    /// of them may be mined. `attempts` are in signing order. A cancellation or placeholder transfers no
    /// value; a bump transfers the value of the attempt that it repeats.
    pub fn add_slot(
        &mut self,
        nonce: Nonce,
        intent_value: U256,
        attempts: impl IntoIterator<Item = AttemptCost>,
    ) {
        let mut value = intent_value;
        let costs = attempts.into_iter().map(|attempt| match attempt.kind {
            AttemptKind::Cancellation | AttemptKind::Placeholder => cost(U256::ZERO, &attempt.fees),
            AttemptKind::Intent | AttemptKind::Bump => cost(value, &attempt.fees),
            AttemptKind::Replacement => {
                value = attempt.replaced_value.unwrap_or(value);
                cost(value, &attempt.fees)
            }
        });
        let most = costs.max().unwrap_or(intent_value);
        self.slots.push((nonce, most));
    }

    /// Adds a queued transaction: its value, and all of its gas at the current price. Without a gas limit it
    /// can't be signed, so it costs nothing.
    pub fn add_queued(&mut self, intent: &Intent, quote: &FeeQuote, caps: &FeeCaps) {
        let Some(gas_limit) = intent.gas else { return };
        let fees = first_offer(intent, quote, gas_limit, caps).0;
        self.queued = self.queued.saturating_add(PricedTx::of(intent, fees).cost());
    }

    /// The funds that the account has left for a new transaction, by the endpoint that reports most: one
    /// that lags or reports too little refuses nothing by itself. An endpoint that has mined a slot has
    /// already deducted its cost from the balance.
    pub fn available(&self, funds: &[Funds]) -> Option<Wei> {
        let left = |funds: &Funds| {
            let unmined = self.slots.iter().filter(|(nonce, _)| *nonce >= funds.mined);
            let needed = unmined.fold(self.queued, |sum, (_, cost)| sum.saturating_add(*cost));
            Wei(funds.balance.0.saturating_sub(needed))
        };
        funds.iter().map(left).max()
    }
}

/// Judges whether the rest of an account's balance covers a transaction.
///
/// # Errors
/// The balance does not cover it.
pub fn judge_funds(value: U256, fees: &Fees, left: Wei) -> Result<(), Refusal> {
    let cost = cost(value, fees);
    if cost <= left.0 {
        return Ok(());
    }
    let detail = format!(
        "the transaction may cost {cost} wei with its fee, and the account has {left} besides what its \
         open transactions may cost"
    );
    let field = if value.is_zero() { RefusedField::Submitter } else { RefusedField::Value };
    let funds = Some(FundsShort { needed: Wei(cost), available: left });
    Err(Refusal { funds, ..Refusal::of(RefusalKind::InsufficientFunds, field, detail) })
}

#[cfg(test)]
mod tests;
