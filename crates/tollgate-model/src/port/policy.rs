//! Who decides what is done about a transaction that is stuck.

use async_trait::async_trait;

use super::record::{Attempt, TxRecord};
use crate::answer::AnswerClass;
use crate::diagnose::Diagnosis;
use crate::stuck::Trigger;
use crate::text::Text;
use std::time::Duration;

/// What a policy is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckContext {
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

/// A decision and why; both go to the audit trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckDecision {
    /// What to do.
    pub action: StuckAction,
    /// Why.
    pub reason: Text<500>,
}

/// Decides; never acts. The engine claims the decision under the fence before it acts (I11).
#[async_trait]
pub trait StuckPolicy: Send + Sync {
    /// What to do about this transaction.
    async fn decide(&self, context: &StuckContext) -> StuckDecision;
}
