//! What other actors leave for a submitter's worker to act on.
//!
//! Leaving a note never waits, so that a slow worker delays nobody else (I14). There are at most a
//! few notes for each open attempt, and open attempts are bounded by the window (I13).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tollgate_model::port::chain::{Occupant, SendAnswer};
use tollgate_model::port::policy::StuckDecision;
use tollgate_model::port::{Lease, MinedIn};
use tollgate_model::reconcile::Looked;
use tollgate_model::stuck::Trigger;
use tollgate_model::{B256, Bytes, Nonce, TxHash, TxId};

/// Something that happened outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// A receipt of one of its attempts was seen.
    Mined(MinedIn),
    /// A block below the view that was in the evidence of its transactions is not canonical, by two
    /// answers in a row.
    BlockLeft { number: u64, hash: B256 },
    /// A node answered to a send.
    Answered(Answered),
    /// What is in slots that the chain has used was looked for.
    Searched(Vec<SlotSearched>),
    /// Transactions were looked for by their hashes.
    Looked { number: u64, looked: Vec<LookedFor> },
    /// A policy has decided about a transaction.
    Decided(Box<Decided>),
    /// This lease was not renewed. A worker that holds a newer one by then has not lost that.
    LeaseLost(Lease),
    /// The node stops: finish and let go.
    Stop,
}

/// What came of one send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answered {
    pub(crate) tx_id: TxId,
    /// What was sent.
    pub(crate) raw: Bytes,
    pub(crate) answer: SendAnswer,
    /// An earlier try with the same bytes had no clear answer.
    pub(crate) doubted: bool,
}

/// What was found of one slot that the chain has used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotSearched {
    pub(crate) nonce: Nonce,
    /// The attempts that were looked for, first to last.
    pub(crate) attempts: Vec<TxHash>,
    /// What each endpoint says of the receipt of each attempt.
    pub(crate) looked: Vec<Vec<Looked>>,
    pub(crate) receipt: Option<MinedIn>,
    /// The transaction that a block shows in the slot.
    pub(crate) seen: Option<Occupant>,
    /// Why none was seen, for people.
    pub(crate) problem: Option<String>,
}

/// What was found of one transaction by its hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LookedFor {
    pub(crate) tx_id: TxId,
    /// The attempts that were looked for, first to last.
    pub(crate) attempts: Vec<TxHash>,
    /// How many answers to sends had been heard when the look began.
    pub(crate) heard: u64,
    pub(crate) receipts: Vec<MinedIn>,
    /// Each question for a receipt was answered.
    pub(crate) is_answered: bool,
    /// A pool has one of the attempts.
    pub(crate) is_pending: bool,
}

/// What came of a question to a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Decided {
    /// Which question.
    pub(crate) question: Question,
    pub(crate) decision: StuckDecision,
}

/// A question to a policy about a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    /// Counts up within one lease.
    pub(crate) number: u64,
    pub(crate) lease: Lease,
    pub(crate) tx_id: TxId,
    pub(crate) trigger: Trigger,
}

/// A worker's notes.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    notes: Mutex<Vec<Note>>,
    changed: Notify,
}

impl Notes {
    pub(crate) fn leave(&self, notes: impl IntoIterator<Item = Note>) {
        self.inner.notes.lock().unwrap_or_else(PoisonError::into_inner).extend(notes);
        self.inner.changed.notify_one();
    }

    /// All notes so far, in the order they were left.
    pub(crate) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut self.inner.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until a note was left since the last wait ended.
    pub(crate) async fn changed(&self) {
        self.inner.changed.notified().await;
    }
}
