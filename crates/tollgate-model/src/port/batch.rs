//! The fenced batch: every critical write, for many submitters, in one database transaction.
//!
//! A batch has one [`Section`] per submitter. A store proves each section's lease and holds it
//! until the commit (I1, I2); a section that was fenced, or whose slots no longer fit, is left out
//! as a whole and its neighbours go on.

mod audit;
mod check;
mod judge;

pub use audit::SubmitterNote;
pub use judge::{Judgement, SectionFacts, judge};

use std::time::Duration;

use alloy_primitives::{B256, Bytes, keccak256};

use super::lease::Lease;
use super::record::{KnownRequest, MinedIn, Seen};
use crate::amount::GasPrice;
use crate::ids::{InvalidId, NodeId, Nonce, RequestId, TxHash, TxId};
use crate::nonce::SubmitterStatus;
use crate::state::{Allocated, Queued, TxState};
use crate::text::Text;
use crate::time::Timestamp;
use crate::transition::{IllegalMove, TxEvent, transition};

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
    /// Bytes of one outbox event.
    pub const EVENT_BYTES: usize = 64 * 1024;
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
    /// Pause, PROTECT or resume.
    pub status: Option<StatusChange>,
    /// New transactions.
    pub creates: Vec<NewTx>,
    /// Changes of existing ones.
    pub updates: Vec<TxUpdate>,
}

impl Section {
    /// An empty section, to be filled in.
    pub const fn new(lease: Lease) -> Self {
        Self { lease, cursor: None, status: None, creates: Vec::new(), updates: Vec::new() }
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

/// An intent as it was accepted, and its digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    bytes: Bytes,
    digest: B256,
}

impl Payload {
    /// Takes the intent's canonical bytes: equal intents must have equal bytes (I7).
    pub fn new(bytes: Bytes) -> Result<Self, InvalidId> {
        if bytes.is_empty() || bytes.len() > BatchLimits::PAYLOAD_BYTES {
            let problem =
                format!("{} bytes, must be 1..={}", bytes.len(), BatchLimits::PAYLOAD_BYTES);
            return Err(InvalidId::new("payload", problem));
        }
        let digest = keccak256(&bytes);
        Ok(Self { bytes, digest })
    }

    /// Keeps `bytes`, but knows them by what was asked for: what was filled in on the way (an
    /// estimate of gas, say) does not make another request of it.
    pub fn filled_in(bytes: Bytes, asked: &Self) -> Result<Self, InvalidId> {
        Ok(Self { digest: asked.digest, ..Self::new(bytes)? })
    }

    /// The bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The Keccak-256 of what was asked for.
    pub const fn digest(&self) -> B256 {
        self.digest
    }
}

/// A transaction to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTx {
    /// Its id, made by the writer.
    pub tx_id: TxId,
    /// The caller's name for it.
    pub request_id: Option<RequestId>,
    /// The intent.
    pub payload: Payload,
    /// Its slot and signed attempt; without one it is QUEUED.
    pub slot: Option<Slot>,
    /// QUEUED/HELD instead of QUEUED/WAITING.
    pub held: bool,
    /// When the intent expires.
    pub valid_until: Option<Timestamp>,
    /// What to tell the world.
    pub outbox: Option<NewEvent>,
}

impl NewTx {
    /// The state that it is born in.
    pub const fn born(&self) -> TxState {
        match (&self.slot, self.held) {
            (Some(_), _) => TxState::Allocated(Allocated::Unsent),
            (None, false) => TxState::Queued(Queued::Waiting),
            (None, true) => TxState::Queued(Queued::Held),
        }
    }
}

/// A nonce for a transaction, with the first signed form that uses it (I5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The nonce.
    pub nonce: Nonce,
    /// It comes from the pool of recyclable nonces below the cursor, not from the cursor.
    pub recycled: bool,
    /// What will be sent.
    pub attempt: NewAttempt,
}

/// A signed form to be kept for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAttempt {
    /// Its hash.
    pub tx_hash: TxHash,
    /// The bytes to send.
    pub raw: Bytes,
    /// What it is for.
    pub kind: AttemptKind,
    /// What it pays.
    pub fees: Fees,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AttemptKind {
    /// The intent, as first signed.
    Intent,
    /// The intent at a higher price.
    Bump,
    /// A new payload that the caller allowed.
    Replacement,
    /// A transfer to self that a caller asked for.
    Cancellation,
    /// A transfer to self that closes the slot of a transaction no node would take.
    Placeholder,
}

impl AttemptKind {
    /// Every kind there is.
    pub const ALL: [Self; 5] =
        [Self::Intent, Self::Bump, Self::Replacement, Self::Cancellation, Self::Placeholder];

    /// The word for it in the API and in hooks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Bump => "bump",
            Self::Replacement => "replacement",
            Self::Cancellation => "cancellation",
            Self::Placeholder => "placeholder",
        }
    }

    /// The number under which stores keep the kind.
    pub const fn code(self) -> i16 {
        match self {
            Self::Intent => 1,
            Self::Bump => 2,
            Self::Replacement => 3,
            Self::Cancellation => 4,
            Self::Placeholder => 5,
        }
    }

    /// The kind that a store keeps under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// What an attempt pays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fees {
    /// The most gas it may use.
    pub gas_limit: u64,
    /// `maxFeePerGas`, or the gas price of a legacy transaction.
    pub max_fee: GasPrice,
    /// `maxPriorityFeePerGas`; `None` for a legacy transaction.
    pub max_priority_fee: Option<GasPrice>,
}

/// A change of one transaction, by comparison with what the writer saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxUpdate {
    /// Which.
    pub tx_id: TxId,
    /// What the writer saw; if the row has moved since, the answer is [`UpdateAnswer::Lost`].
    pub seen: Seen,
    to: TxState,
    event: Change,
    /// A slot for a queued transaction; belongs to [`TxEvent::SlotAllocated`] alone.
    pub slot: Option<Slot>,
    /// A further attempt at the same nonce.
    pub attempt: Option<NewAttempt>,
    /// The slot that goes back to the pool; belongs to [`TxEvent::SlotRecycled`] alone.
    pub freed_nonce: Option<Nonce>,
    /// The receipt.
    pub evidence: Evidence,
    /// The confirmation list, replacing the stored one as a whole.
    pub confirmations: Option<Confirmations>,
    /// When to send it again.
    pub schedule: Schedule,
    /// One more resubmission to count.
    pub resubmitted: bool,
    /// The last error that the world gave for it.
    pub last_error: Option<Text<2000>>,
    /// What was last found out about its place in the nodes' pools; `None` keeps what is stored.
    pub diagnosis: Option<Text<300>>,
    /// More for the audit trail.
    pub detail: Option<Text<4000>>,
    /// What to tell the world.
    pub outbox: Option<NewEvent>,
}

/// What an update's audit entry is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Moved(TxEvent),
    Noted(&'static str),
}

impl TxUpdate {
    /// A move of the state machine; one that it does not have can't be written.
    pub fn moved(tx_id: TxId, seen: Seen, event: TxEvent) -> Result<Self, IllegalMove> {
        let to = transition(seen.state, event)?;
        Ok(Self::build(tx_id, seen, to, Change::Moved(event)))
    }

    /// A change that leaves the state as it is: a claim, a schedule, a further attempt (I11).
    pub const fn noted(tx_id: TxId, seen: Seen, what: &'static str) -> Self {
        Self::build(tx_id, seen, seen.state, Change::Noted(what))
    }

    const fn build(tx_id: TxId, seen: Seen, to: TxState, event: Change) -> Self {
        Self {
            tx_id,
            seen,
            to,
            event,
            slot: None,
            attempt: None,
            freed_nonce: None,
            evidence: Evidence::Keep,
            confirmations: None,
            schedule: Schedule::Keep,
            resubmitted: false,
            last_error: None,
            diagnosis: None,
            detail: None,
            outbox: None,
        }
    }

    /// Where it goes.
    pub const fn to(&self) -> TxState {
        self.to
    }

    /// The move that it is, unless it only leaves a note.
    pub const fn event(&self) -> Option<TxEvent> {
        match self.event {
            Change::Moved(event) => Some(event),
            Change::Noted(_) => None,
        }
    }

    /// The word for it in the audit trail.
    pub const fn event_name(&self) -> &'static str {
        match self.event {
            Change::Moved(event) => event.name(),
            Change::Noted(what) => what,
        }
    }

    /// The signed form that this change adds, with a slot or without.
    pub fn new_attempt(&self) -> Option<&NewAttempt> {
        self.slot.as_ref().map(|slot| &slot.attempt).or(self.attempt.as_ref())
    }

    /// What the row will be if this change is applied.
    pub const fn applied(&self) -> Seen {
        Seen { state: self.to, version: self.seen.version.saturating_add(1) }
    }
}

/// What an update says of the receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Nothing.
    Keep,
    /// It is in this block.
    Set(MinedIn),
    /// It is in no block any more.
    Clear,
}

/// When to send again, counted from the commit by the database's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// As it is.
    Keep,
    /// After this long.
    In(Duration),
    /// Not by itself.
    Never,
}

/// The blocks on top of a receipt, from its own block on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confirmations {
    /// The number of the receipt's block.
    pub first_block: u64,
    /// The hashes of it and its successors.
    pub hashes: Vec<B256>,
    /// The list differs from an earlier one in more than its length.
    pub new_fork: bool,
}

/// An event for the outbox, written with the change that it tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent {
    /// `TxAccepted`, `TxSubmitted`, ….
    pub kind: &'static str,
    /// Receivers drop a second event with the same key.
    pub key: Text<200>,
    /// What receivers get.
    pub body: Bytes,
}

/// What became of one section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionOutcome {
    /// It is durable, but for what the answers say.
    Committed {
        /// When its creates were accepted, by the database's clock.
        at: Timestamp,
        /// One for each create, in order.
        creates: Vec<CreateAnswer>,
        /// One for each update, in order.
        updates: Vec<UpdateAnswer>,
    },
    /// Nothing was written: the lease is gone (I2).
    Fenced,
    /// Nothing was written: the section's slots would not fit what is stored. The cursor is
    /// elsewhere, a request is known already, a row has moved. Drop the cached nonce, leave out
    /// what the answers name, and allocate again.
    Stale {
        /// Where the cursor is.
        cursor: Nonce,
        /// The submitter's status.
        status: SubmitterStatus,
        /// What would have become of each create.
        creates: Vec<CreateAnswer>,
        /// What would have become of each update.
        updates: Vec<UpdateAnswer>,
    },
    /// Nothing was written: the database's own rules (the second line) refused the section, by
    /// the constraint named here. A clash of ids, or a defect; its neighbours were not harmed.
    Refused(String),
}

impl SectionOutcome {
    /// The answers to creates and updates, if it is durable.
    pub fn answers(self) -> Option<(Vec<CreateAnswer>, Vec<UpdateAnswer>)> {
        match self {
            Self::Committed { creates, updates, .. } => Some((creates, updates)),
            Self::Fenced | Self::Stale { .. } | Self::Refused(_) => None,
        }
    }
}

/// What became of one create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateAnswer {
    /// It is new.
    Created,
    /// The same request made this transaction already (I7).
    Duplicate(KnownRequest),
    /// The request id belongs to another payload (I7).
    Conflict(KnownRequest),
}

impl CreateAnswer {
    /// The answer for a create whose request id is, or is not, taken.
    pub fn judge(payload: &Payload, known: Option<KnownRequest>) -> Self {
        match known {
            None => Self::Created,
            Some(known) if known.payload_digest == payload.digest => Self::Duplicate(known),
            Some(known) => Self::Conflict(known),
        }
    }
}

/// What became of one update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateAnswer {
    /// The row is now what [`TxUpdate::applied`] says.
    Applied,
    /// The row was not what the writer had seen: read it again.
    Lost,
}
