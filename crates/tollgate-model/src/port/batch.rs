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
pub use audit::SubmitterNote;
pub use create::{NewEvent, NewTx, Payload};
pub use judge::{Judgement, SectionFacts, judge};
pub use outcome::{CreateAnswer, SectionOutcome, UpdateAnswer};
pub use update::{Confirmations, Evidence, Schedule, TxUpdate};

use super::lease::Lease;
use super::wait::SubmitterWait;
use crate::ids::{InvalidId, NodeId, Nonce, TxId};
use crate::nonce::{Mode, SubmitterStatus};
use crate::text::Text;

/// Limits on what one batch may hold (I13).
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits;

impl BatchLimits {
    /// Creates and updates in one batch.
    pub const OPS: usize = 5_000;
    /// Bytes of one payload, and of one signed transaction: twice what nodes take.
    pub const PAYLOAD_BYTES: usize = 256 * 1024;
    /// Blocks in one confirmation list.
    pub const CONFIRMATIONS: usize = 4_096;
    /// Things that one submitter waits for.
    pub const WAITS: usize = 100;
    /// Bytes of one outbox event.
    pub const EVENT_BYTES: usize = 64 * 1024;
    /// Gas of one transaction: a store's signed 64 bits. No chain has blocks of that size.
    pub const GAS: u64 = i64::MAX as u64;
}

/// Critical writes of one node, at most one section per submitter.
#[derive(Clone, Debug)]
pub struct FencedBatch {
    node: NodeId,
    sections: Vec<Section>,
}

impl FencedBatch {
    /// Checks everything that can be checked without the database; nothing that a store is given
    /// is half-valid.
    pub fn new(node: NodeId, sections: Vec<Section>) -> Result<Self, InvalidId> {
        check::batch(&sections)?;
        Ok(Self { node, sections })
    }

    /// The node that writes.
    pub const fn node(&self) -> &NodeId {
        &self.node
    }

    /// The sections, in the order of the answers.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }
}

/// Critical writes for one submitter: all of them or none.
#[derive(Clone, Debug)]
pub struct Section {
    /// The proof.
    pub lease: Lease,
    /// Where the cursor must be and where it goes. Needed to open slots.
    pub cursor: Option<CursorMove>,
    /// Why an operator moves the cursor; `None` where nobody asked for it.
    pub cursor_reason: Option<Text<500>>,
    /// Pause, PROTECT or resume.
    pub status: Option<StatusChange>,
    /// Pipelined to strict, or back.
    pub mode: Option<ModeChange>,
    /// Everything that the submitter waits for, replacing what is stored; `None` keeps that.
    pub waits: Option<Vec<SubmitterWait>>,
    /// New transactions.
    pub creates: Vec<NewTx>,
    /// Changes of existing ones.
    pub updates: Vec<TxUpdate>,
}

impl Section {
    /// An empty section, to be filled in.
    pub const fn new(lease: Lease) -> Self {
        Self {
            lease,
            cursor: None,
            cursor_reason: None,
            status: None,
            mode: None,
            waits: None,
            creates: Vec::new(),
            updates: Vec::new(),
        }
    }

    /// How many creates and updates it holds.
    pub const fn ops(&self) -> usize {
        self.creates.len() + self.updates.len()
    }

    /// Checks everything that can be checked without the database. A batch that holds a section for
    /// which this fails is refused as a whole, so whoever puts a batch together asks first (I14).
    pub fn check(&self) -> Result<(), InvalidId> {
        check::section(self)
    }

    /// The same changes in sections of at most `ops` updates. What changes of the submitter itself,
    /// and the creates, go with the first of them.
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

    /// The slots that this section opens. Transactions that waited come first: they are older, so
    /// they get the lower nonces.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        let waited = self.updates.iter().filter_map(|update| update.slot.as_ref());
        waited.chain(self.creates.iter().filter_map(|tx| tx.slot.as_ref()))
    }
}

/// The cursor's step, by comparison: if it is not at `from`, nothing of the section is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorMove {
    /// Where the writer believes it to be.
    pub from: Nonce,
    /// Where it goes; never below `from` (I4).
    pub to: Nonce,
}

/// A submitter's status changes, by comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusChange {
    /// What the writer believes it to be.
    pub from: SubmitterStatus,
    /// What it becomes.
    pub to: SubmitterStatus,
    /// Why.
    pub reason: Text<500>,
}

/// A submitter's mode changes, by comparison. A store writes it only while nothing of the submitter is
/// open and callers hold none of its nonces: [`crate::mode::change`] is the rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModeChange {
    /// What the writer believes it to be.
    pub from: Mode,
    /// What it becomes.
    pub to: Mode,
    /// Why.
    pub reason: Text<500>,
}
