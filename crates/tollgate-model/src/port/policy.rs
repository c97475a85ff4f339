//! Who decides what is done about a transaction that is stuck.

use async_trait::async_trait;

use super::record::{Attempt, TxRecord};
use crate::text::Text;
use std::time::Duration;

/// What a policy is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckContext {
    /// The transaction at the head of its submitter's line.
    pub tx: TxRecord,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
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
    /// Send the intent at a higher price.
    Replace,
    /// Close the slot because nobody wants the transaction any more.
    Cancel,
    /// Close the slot because no node takes the transaction.
    Placeholder,
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
