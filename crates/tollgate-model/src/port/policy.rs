//! Policies: what to do about a stuck transaction, and what a transaction may pay.

use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256};
use async_trait::async_trait;

use super::batch::Fees;
use super::chain::FeeQuote;
use super::record::{Attempt, TxRecord};
use crate::amount::GasPrice;
use crate::answer::AnswerClass;
use crate::bump::{BumpDecision, BumpView, Ceiling, Raise, RequestedPrice};
use crate::diagnose::Diagnosis;
use crate::stuck::Trigger;
use crate::text::Text;
use crate::time::Timestamp;
use crate::trace::TraceParent;

/// The input of a stuck policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckContext {
    /// The number of this question under its fencing token; a later question has another number.
    pub question: u64,
    pub trigger: Trigger,
    /// The transaction: the submitter's head of line, unless the trigger says otherwise.
    pub tx: TxRecord,
    pub attempts: Vec<Attempt>,
    pub last_answer: Option<AnswerClass>,
    /// The mempool diagnosis, if it is enabled.
    pub diagnosis: Option<Diagnosis>,
    /// The time for which the transaction has been open.
    pub age: Duration,
    /// The number of the submitter's transactions behind it.
    pub depth: u64,
    /// The trace of the request that made the transaction.
    pub trace: Option<TraceParent>,
}

/// The actions that a policy can choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StuckAction {
    /// Only raise an alert.
    #[default]
    Noop,
    /// Send the same bytes again.
    Resubmit,
    /// Send the intent at a higher price, or a new payload if the transaction allows it.
    Replace,
    /// Close the slot because the caller no longer wants the transaction.
    Cancel,
    /// Close the slot because no node accepts the transaction.
    Placeholder,
}

names!(StuckAction {
    Noop => "noop",
    Resubmit => "resubmit",
    Replace => "replace",
    Cancel => "cancel",
    Placeholder => "placeholder",
});

/// The replacement of a transaction: its own call at another price, or another call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replacement {
    /// The price to sign: exactly this or nothing is signed. If it is `None`, the price follows from
    /// the replacement minimum and the market.
    pub max_fee_per_gas: Option<GasPrice>,
    /// The tip to sign, by the same rule.
    pub max_priority_fee_per_gas: Option<GasPrice>,
    /// Another call, if the transaction's caller allows one.
    pub call: Option<NewCall>,
}

impl Replacement {
    /// The prices that the replacement demands.
    pub const fn demand(&self) -> RequestedPrice {
        RequestedPrice {
            max_fee: self.max_fee_per_gas,
            max_priority_fee: self.max_priority_fee_per_gas,
        }
    }
}

/// A call that replaces another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewCall {
    /// The called contract or recipient; `None` creates a contract.
    pub to: Option<Address>,
    pub value: U256,
    pub data: Bytes,
    /// The gas limit; estimated if it is `None`.
    pub gas: Option<u64>,
}

/// A decision with its reason; all of it is written to the audit trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckDecision {
    pub action: StuckAction,
    pub reason: Text<500>,
    /// The replacement, for [`StuckAction::Replace`].
    pub replacement: Replacement,
    /// The policy's own fields for the audit trail, as JSON text.
    pub fields: Option<Text<2000>>,
    /// The policy could not be asked or gave no valid answer: the action is a noop, and the reason
    /// says what was wrong.
    pub failed: bool,
}

impl StuckDecision {
    /// A decision without fields of its own.
    pub fn new(action: StuckAction, reason: &str) -> Self {
        Self {
            action,
            reason: Text::lossy(reason),
            replacement: Replacement::default(),
            fields: None,
            failed: false,
        }
    }
}

/// Decides what a transaction may pay; never signs. [`crate::bump::BumpRules`] is the default.
pub trait BumpPolicy: Send + Sync {
    /// Returns whether transactions are ever bumped automatically; if not, [`Self::decide`] is not called.
    fn is_on(&self) -> bool {
        true
    }

    /// Decides whether a transaction is bumped now.
    fn decide(&self, view: &BumpView, now: Timestamp) -> BumpDecision;

    /// Computes the fees of an attempt that replaces `last`, at the demanded price if there is one.
    fn raise(
        &self,
        last: &Fees,
        quote: &FeeQuote,
        ceiling: &Ceiling,
        demand: &RequestedPrice,
    ) -> Raise;
}

/// Decides about stuck transactions; never acts. The engine claims the decision under the fence
/// before it acts (I11).
#[async_trait]
pub trait StuckPolicy: Send + Sync {
    /// Decides about this transaction.
    async fn decide(&self, context: &StuckContext) -> StuckDecision;
}
