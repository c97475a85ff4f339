//! Events that other actors post for a submitter's worker to act on.
//!
//! Posting never waits, so that a slow worker delays nobody else (I14). There are at most a few events for
//! each open attempt, and open attempts are bounded by the window (I13).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_model::port::chain::{Occupant, SendAnswer};
use tollgate_model::port::policy::StuckDecision;
use tollgate_model::port::{Lease, TxReceipt};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::stuck::Trigger;
use tollgate_model::{B256, Bytes, Nonce, Route, TxHash, TxId};

/// Something that happened outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WorkerEvent {
    /// A receipt of one of its attempts was seen.
    Mined(TxReceipt),
    /// A block below the view that was in the evidence of its transactions is not canonical, by two
    /// answers in a row.
    BlockLeft { number: u64, hash: B256 },
    /// A receipt is supported well enough to be final.
    Supported(TxReceipt),
    /// A receipt was proven wrong: its block does not hold the transaction.
    Refuted(TxReceipt),
    /// A node answered to a send.
    Answered(SendOutcome),
    /// A search of slots that the chain has used has ended.
    Searched(Vec<SlotFindings>),
    /// Transactions were looked for by their hashes.
    LookedUp { number: u64, found: Vec<LookupFindings> },
    /// A policy has decided about a transaction.
    Decided(Box<PolicyAnswer>),
    /// This lease was not renewed. A worker that holds a newer one by then has not lost that.
    LeaseLost(Lease),
}

/// The outcome of one send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SendOutcome {
    pub(crate) tx_id: TxId,
    pub(crate) raw: Bytes,
    /// The route on which it was sent.
    pub(crate) route: Route,
    pub(crate) answer: SendAnswer,
    /// An earlier try with the same bytes had no clear answer.
    pub(crate) doubted: bool,
    /// The time from the send to the answer, of the last try.
    pub(crate) took: Duration,
}

/// The findings about one slot that the chain has used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotFindings {
    pub(crate) nonce: Nonce,
    /// The attempts that were looked for, first to last.
    pub(crate) attempts: Vec<TxHash>,
    /// The answer of each endpoint about the receipt of each attempt.
    pub(crate) looked: Vec<Vec<ReceiptLookup>>,
    pub(crate) receipt: Option<TxReceipt>,
    /// The transaction that a block shows in the slot.
    pub(crate) seen: Option<Occupant>,
    /// The reason why none was seen, for people.
    pub(crate) problem: Option<String>,
}

/// The findings about one transaction by its hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LookupFindings {
    pub(crate) tx_id: TxId,
    /// The attempts that were looked for, first to last.
    pub(crate) attempts: Vec<TxHash>,
    /// The number of answers to sends when the lookup began.
    pub(crate) answers: u64,
    pub(crate) receipts: Vec<TxReceipt>,
    /// Each question for a receipt was answered.
    pub(crate) is_answered: bool,
    /// A pool has one of the attempts.
    pub(crate) is_pending: bool,
}

/// The answer of a policy to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PolicyAnswer {
    pub(crate) question: PolicyQuestion,
    pub(crate) decision: StuckDecision,
}

/// A question to a policy about a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PolicyQuestion {
    /// Counts up within one lease.
    pub(crate) number: u64,
    pub(crate) lease: Lease,
    pub(crate) tx_id: TxId,
    pub(crate) trigger: Trigger,
}

/// A worker's mailbox.
#[derive(Clone, Default)]
pub(crate) struct Mailbox {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    events: Mutex<Vec<WorkerEvent>>,
    is_stop_requested: AtomicBool,
    changed: Notify,
}

impl Mailbox {
    pub(crate) fn post(&self, events: impl IntoIterator<Item = WorkerEvent>) {
        self.inner.events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
        self.inner.changed.notify_one();
    }

    /// Asks the worker to stop and to release its lease. Not an event, because events are lost when a worker
    /// restarts, and whoever stops the node waits for the worker.
    pub(crate) fn request_stop(&self) {
        self.inner.is_stop_requested.store(true, Ordering::Release);
        self.inner.changed.notify_one();
    }

    pub(crate) fn is_stop_requested(&self) -> bool {
        self.inner.is_stop_requested.load(Ordering::Acquire)
    }

    /// Takes out all events so far, in the order they were posted.
    pub(crate) fn drain(&self) -> Vec<WorkerEvent> {
        std::mem::take(&mut self.inner.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until an event was posted since the last wait ended.
    pub(crate) async fn changed(&self) {
        self.inner.changed.notified().await;
    }
}
