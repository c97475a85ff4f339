//! Who decides what is done about a transaction that is stuck, and what it may pay.

use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256};
use async_trait::async_trait;

use super::batch::Fees;
use super::chain::FeeQuote;
use super::record::{Attempt, TxRecord};
use crate::amount::GasPrice;
use crate::answer::AnswerClass;
use crate::bump::{BumpDecision, BumpView, Ceiling, Demand, Raise};
use crate::diagnose::Diagnosis;
use crate::stuck::Trigger;
use crate::text::Text;
use crate::time::Timestamp;

/// What a policy is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckContext {
    /// The number of this very question under its token: asked again later it is another one.
    pub question: u64,
    /// Why it is asked.
    pub trigger: Trigger,
    /// The transaction: the head of its submitter's line, unless the trigger says otherwise.
    pub tx: TxRecord,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// What the nodes last answered.
    pub last_answer: Option<AnswerClass>,
    /// What the pools say, where that is looked at.
    pub diagnosis: Option<Diagnosis>,
    /// How long it has been open.
    pub age: Duration,
    /// How many of the submitter's transactions wait behind it.
    pub depth: u64,
}

/// What a policy answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StuckAction {
    /// Nothing but an alert.
    #[default]
    Noop,
    /// Send the same bytes again.
    Resubmit,
    /// Send the intent at a higher price, or a new payload if the transaction allows it.
    Replace,
    /// Close the slot because nobody wants the transaction any more.
    Cancel,
    /// Close the slot because no node takes the transaction.
    Placeholder,
}

impl StuckAction {
    /// Every action there is.
    pub const ALL: [Self; 5] =
        [Self::Noop, Self::Resubmit, Self::Replace, Self::Cancel, Self::Placeholder];

    /// The word for it in configuration, hooks, logs and the audit trail.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Resubmit => "resubmit",
            Self::Replace => "replace",
            Self::Cancel => "cancel",
            Self::Placeholder => "placeholder",
        }
    }

    /// The action of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// What stands in a transaction's place: its own call at another price, or another call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replacement {
    /// The price that is demanded: signed as it is, or nothing is. What replacement needs and the
    /// market asks if it is not given.
    pub max_fee_per_gas: Option<GasPrice>,
    /// The tip that is wanted, in the same way.
    pub max_priority_fee_per_gas: Option<GasPrice>,
    /// Another call, where the caller of the transaction allows one.
    pub call: Option<NewCall>,
}

impl Replacement {
    /// The prices that are demanded.
    pub const fn demand(&self) -> Demand {
        Demand { max_fee: self.max_fee_per_gas, max_priority_fee: self.max_priority_fee_per_gas }
    }
}

/// A call in the place of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewCall {
    /// What is called; `None` creates a contract.
    pub to: Option<Address>,
    /// What is paid.
    pub value: U256,
    /// What is said.
    pub data: Bytes,
    /// The most gas it may use; estimated if it is not given.
    pub gas: Option<u64>,
}

/// A decision and why; all of it goes to the audit trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckDecision {
    /// What to do.
    pub action: StuckAction,
    /// Why.
    pub reason: Text<500>,
    /// With what, for [`StuckAction::Replace`].
    pub replacement: Replacement,
    /// The policy's own words for the audit trail, as JSON text.
    pub fields: Option<Text<2000>>,
    /// The policy could not be asked, or gave no valid answer: then the action is a noop, and the
    /// reason says what was wrong.
    pub failed: bool,
}

impl StuckDecision {
    /// A decision without words of its own.
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
    /// Whether transactions ever offer more by themselves; if not, [`Self::decide`] is not asked.
    fn is_on(&self) -> bool {
        true
    }

    /// Whether a transaction offers more by itself now.
    fn decide(&self, view: &BumpView, now: Timestamp) -> BumpDecision;

    /// An offer that replaces `last`, whoever asks for it, at the price that is demanded if one is.
    fn raise(&self, last: &Fees, quote: &FeeQuote, ceiling: &Ceiling, demand: &Demand) -> Raise;
}

/// Decides; never acts. The engine claims the decision under the fence before it acts (I11).
#[async_trait]
pub trait StuckPolicy: Send + Sync {
    /// What to do about this transaction.
    async fn decide(&self, context: &StuckContext) -> StuckDecision;
}
