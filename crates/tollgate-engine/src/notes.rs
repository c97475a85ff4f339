//! What other actors leave for a submitter's worker to act on.
//!
//! Leaving a note never waits, so that a slow worker delays nobody else (I14). There are at most a
//! few notes for each open attempt, and open attempts are bounded by the window (I13).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::port::policy::StuckDecision;
use tollgate_model::port::{Lease, MinedIn};
use tollgate_model::stuck::Trigger;
use tollgate_model::{B256, Bytes, TxId};

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
