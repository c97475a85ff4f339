//! The fenced batch: every critical write, for many submitters, in one database transaction.
//!
//! A batch has one [`Section`] per submitter. A store proves each section's lease and holds it
//! until the commit (I1, I2); a section that was fenced, or whose slots no longer fit, is left out
//! as a whole and its neighbours go on.

mod attempt;
mod audit;
mod check;
mod create;
mod judge;
mod outcome;
mod update;

pub use attempt::{AttemptKind, Fees, NewAttempt, Slot};
pub use audit::SubmitterAuditEntry;
pub use create::{NewTx, Payload};
pub use judge::{Judgement, SectionFacts, judge};
pub use outcome::{CreateAnswer, SectionOutcome, UpdateAnswer};
pub use update::{Confirmations, Evidence, Schedule, TxUpdate};

use super::lease::Lease;
use super::wait::SubmitterWait;
use crate::event::EventKinds;
use crate::ids::{InvalidValue, NodeId, Nonce, TxId};
use crate::nonce::{Mode, SubmitterStatus};
use crate::text::Text;

/// Limits on what one batch may hold (I13).
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits;

impl BatchLimits {
    /// Maximum number of creates and updates in one batch.
    pub const OPS: usize = 5_000;
    /// Maximum size of one payload and of one signed transaction: twice what nodes accept.
    pub const PAYLOAD_BYTES: usize = 256 * 1024;
    /// Maximum number of blocks in one confirmation list.
    pub const CONFIRMATIONS: usize = 4_096;
    /// Maximum number of conditions that one submitter waits for.
    pub const WAITS: usize = 100;
    /// Maximum gas of one transaction: what a signed 64-bit column holds. No chain has larger blocks.
    pub const GAS: u64 = i64::MAX as u64;
}

/// The critical writes of one node: at most one section per submitter.
#[derive(Clone, Debug)]
pub struct FencedBatch {
    node: NodeId,
    sections: Vec<Section>,
    events: EventKinds,
}

impl FencedBatch {
    /// Checks everything that can be checked without the database, so that a store never sees an
    /// invalid batch.
    pub fn new(node: NodeId, sections: Vec<Section>) -> Result<Self, InvalidValue> {
        check::batch(&sections)?;
        Ok(Self { node, sections, events: EventKinds::ALL })
    }

    /// Writes events of these kinds only; without this of every kind.
    pub const fn with_events(mut self, kinds: EventKinds) -> Self {
        self.events = kinds;
        self
    }

    /// The kinds of events to write.
    pub const fn events(&self) -> EventKinds {
        self.events
    }

    pub const fn node(&self) -> &NodeId {
        &self.node
    }

    /// The sections, in the order of the outcomes.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }
}

/// The critical writes for one submitter; either all are committed or none.
#[derive(Clone, Debug)]
pub struct Section {
    /// The lease under which the section is written.
    pub lease: Lease,
    /// The expected and the new cursor. Required if the section opens slots.
    pub cursor: Option<CursorMove>,
    /// The operator's reason for moving the cursor; `None` if no operator asked for it.
    pub cursor_reason: Option<Text<500>>,
    /// Pauses, protects or resumes the submitter.
    pub status: Option<StatusChange>,
    pub mode: Option<ModeChange>,
    /// All conditions that the submitter waits for, replacing the stored ones; `None` keeps those.
    pub waits: Option<Vec<SubmitterWait>>,
    pub creates: Vec<NewTx>,
    /// The creates are placeholders in recycled slots: they may be opened whatever the submitter's status
    /// is, because an operator asked for them.
    pub fills_holes: bool,
    pub updates: Vec<TxUpdate>,
}

impl Section {
    /// Creates an empty section.
    pub const fn new(lease: Lease) -> Self {
        Self {
            lease,
            cursor: None,
            cursor_reason: None,
            status: None,
            mode: None,
            waits: None,
            creates: Vec::new(),
            fills_holes: false,
            updates: Vec::new(),
        }
    }

    /// The number of creates and updates.
    pub const fn ops(&self) -> usize {
        self.creates.len() + self.updates.len()
    }

    /// Checks everything that can be checked without the database. A batch that holds an invalid
    /// section is refused as a whole, so the committer checks each section before it joins a batch (I14).
    pub fn check(&self) -> Result<(), InvalidValue> {
        check::section(self)
    }

    /// Splits the updates into sections of at most `ops`. Changes of the submitter itself and the
    /// creates go with the first section.
    pub fn split(mut self, ops: usize) -> Vec<Self> {
        let ops = ops.clamp(1, BatchLimits::OPS);
        let mut rest = self.updates.split_off(ops.min(self.updates.len())).into_iter().peekable();
        let lease = self.lease;
        let mut parts = vec![self];
        while rest.peek().is_some() {
            let mut part = Self::new(lease);
            part.updates.extend(rest.by_ref().take(ops));
            parts.push(part);
        }
        parts
    }

    fn tx_ids(&self) -> impl Iterator<Item = TxId> {
        let created = self.creates.iter().map(|tx| tx.tx_id);
        created.chain(self.updates.iter().map(|update| update.tx_id))
    }

    /// The slots that this section opens. Queued transactions come before new ones because they are
    /// older and get the lower nonces.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        let waited = self.updates.iter().filter_map(|update| update.slot.as_ref());
        waited.chain(self.creates.iter().filter_map(|tx| tx.slot.as_ref()))
    }
}

/// A compare-and-set of the cursor: if it is not at `from`, nothing of the section is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorMove {
    /// The expected cursor.
    pub from: Nonce,
    /// The new cursor; never below `from` (I4).
    pub to: Nonce,
}

/// A compare-and-set of a submitter's status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusChange {
    /// The expected status.
    pub from: SubmitterStatus,
    /// The new status.
    pub to: SubmitterStatus,
    /// The operator's or rule's reason.
    pub reason: Text<500>,
}

/// A compare-and-set of a submitter's mode. A store writes it only while the submitter has no open
/// transaction and no reservation; [`crate::mode::change`] is the rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModeChange {
    /// The expected mode.
    pub from: Mode,
    /// The new mode.
    pub to: Mode,
    pub reason: Text<500>,
}
