//! Hands signed bytes to nodes, in the order of their nonces.
//!
//! One per submitter, beside its worker, so that a slow node delays neither intake nor others
//! (I14). Never signs, never writes: what comes of a send goes back as a note. Sends only what its
//! worker has made durable (I5).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::port::Checkpoint;
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::{Bytes, TxId};
use tracing::debug;

use crate::context::Context;
use crate::notes::{Answered, Note, Notes};
use crate::planted::PlantedBug;
use crate::supervisor::supervise;

/// How many are handed over at once.
const BATCH_MAX: usize = 100;
/// How often what a node could not answer is tried again before the worker decides.
const TRIES_MAX: u32 = 4;
/// The pause before the second try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Bytes to be sent for a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) tx_id: TxId,
    pub(crate) raw: Bytes,
    /// An earlier try had no clear answer: whatever is answered now, a node may have it.
    doubted: bool,
}

impl Parcel {
    pub(crate) const fn new(tx_id: TxId, raw: Bytes) -> Self {
        Self { tx_id, raw, doubted: false }
    }
}

/// The way to send. Bounded by the window: a worker only gives what has an open slot.
#[derive(Clone)]
pub(crate) struct Sender {
    parcels: mpsc::UnboundedSender<Parcel>,
    /// Given, and not yet answered.
    under_way: Arc<AtomicUsize>,
}

impl Sender {
    /// Starts sending; ends when the handle is dropped.
    pub(crate) fn start(context: &Arc<Context>, notes: Notes) -> Self {
        let (parcels, inbox) = mpsc::unbounded_channel();
        let (inbox, world) = (Arc::new(Mutex::new(inbox)), context.clone());
        let under_way = Arc::new(AtomicUsize::new(0));
        let left = under_way.clone();
        let run = move || run(world.clone(), notes.clone(), inbox.clone(), left.clone());
        supervise(&context.deaths, "sender", run);
        Self { parcels, under_way }
    }

    /// Whether everything that was given has its answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// Sends, after everything that was given before.
    pub(crate) fn send(&self, parcel: Parcel) {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        // A sender that is gone was stopped with its worker.
        let _ = self.parcels.send(parcel);
    }
}

type Inbox = Arc<Mutex<mpsc::UnboundedReceiver<Parcel>>>;

async fn run(context: Arc<Context>, notes: Notes, inbox: Inbox, under_way: Arc<AtomicUsize>) {
    let mut inbox = inbox.lock().await;
    let mut parcels = Vec::new();
    loop {
        let count = inbox.recv_many(&mut parcels, BATCH_MAX).await;
        if count == 0 {
            return;
        }
        let done = Done { count, under_way: &under_way };
        deliver(&context, &notes, std::mem::take(&mut parcels)).await;
        drop(done);
    }
}

/// Counts parcels off, also where their delivery dies.
struct Done<'a> {
    count: usize,
    under_way: &'a AtomicUsize,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.under_way.fetch_sub(self.count, Ordering::AcqRel);
    }
}

/// A higher nonce is not handed over before the lower ones were: what has no clear answer is tried
/// again together with everything behind it.
async fn deliver(context: &Context, notes: &Notes, mut parcels: Vec<Parcel>) {
    let mut pause = FIRST_PAUSE;
    for tried in 1..=TRIES_MAX {
        let raws: Vec<Bytes> = parcels.iter().map(|parcel| parcel.raw.clone()).collect();
        context.checkpoints.reached(Checkpoint::Sending).await;
        let mut answers = context.chain.send_in_order(&raws).await;
        if context.options.breaks(PlantedBug::SlotFreedOnTimeout) {
            let unclear = |answer: &&mut SendAnswer| is_unclear(answer);
            answers.iter_mut().filter(unclear).for_each(|it| it.class = AnswerClass::Invalid);
        }
        context.checkpoints.reached(Checkpoint::NodeAnswered).await;
        let unclear = answers.iter().position(is_unclear);
        let clear = if tried == TRIES_MAX { None } else { unclear };
        let clear = clear.unwrap_or(answers.len()).min(parcels.len());
        let done = parcels.drain(..clear).zip(answers);
        notes.leave(done.map(|(parcel, answer)| answered(parcel, answer)));
        if parcels.is_empty() {
            return;
        }
        // What is behind it may have gone out with it.
        let forgets = context.options.breaks(PlantedBug::FirstDoubted);
        let doubted = if forgets { 1 } else { parcels.len() };
        for parcel in parcels.iter_mut().take(doubted) {
            parcel.doubted = true;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// The node may not have it, and may take it if it is asked again.
fn is_unclear(answer: &SendAnswer) -> bool {
    action_for(answer.class) == AnswerAction::ResendSame
}

fn answered(parcel: Parcel, answer: SendAnswer) -> Note {
    let Parcel { tx_id, doubted, .. } = parcel;
    debug!(%tx_id, class = answer.class.name(), doubted, "a node answered");
    Note::Answered(Answered { tx_id, answer, doubted })
}
