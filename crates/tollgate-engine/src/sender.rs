//! Hands signed bytes to nodes, in the order of their nonces.
//!
//! One per submitter, beside its worker, so that a slow node delays neither intake nor others
//! (I14), with a queue for each route: endpoints of one route never see the transactions of the other, so that there
//! is no order between them. Never signs, never writes: the outcome of a send is posted to its mailbox. Sends only what its
//! worker has made durable (I5).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tollgate_model::answer::{AnswerAction, action_for};
use tollgate_model::port::Checkpoint;
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::{Bytes, Route, TxId};
use tracing::debug;

use crate::context::Context;
use crate::mailbox::{Mailbox, SendOutcome, WorkerEvent};
use crate::supervisor::supervise;

/// Transactions in one call (I13).
const BATCH_MAX: usize = 100;
/// Tries of a send without a clear answer, before the worker decides.
const TRIES_MAX: u32 = 4;
/// The pause before the second try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Bytes to be sent for a transaction.
#[derive(Clone, Debug)]
pub(crate) struct SendJob {
    pub(crate) tx_id: TxId,
    pub(crate) raw: Bytes,
    /// The endpoints that may see the bytes.
    pub(crate) route: Route,
    /// An earlier try had no clear answer: whatever is answered now, a node may have it.
    doubted: bool,
}

impl SendJob {
    pub(crate) const fn new(tx_id: TxId, raw: Bytes, route: Route) -> Self {
        Self { tx_id, raw, route, doubted: false }
    }
}

/// The way to send. Bounded by the window: a worker only gives what has an open slot.
pub(crate) struct Sender {
    public: RouteSender,
    /// Started with the first private transaction.
    private: OnceLock<RouteSender>,
    context: Arc<Context>,
    mailbox: Mailbox,
}

impl Sender {
    /// Starts sending; ends when the handle is dropped.
    pub(crate) fn start(context: &Arc<Context>, mailbox: Mailbox) -> Self {
        let public = RouteSender::start(context, mailbox.clone(), Route::Public);
        Self { public, private: OnceLock::new(), context: context.clone(), mailbox }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.public.is_idle() && self.private.get().is_none_or(RouteSender::is_idle)
    }

    /// Sends, after everything that was given before on the same route.
    pub(crate) fn send(&self, job: SendJob) {
        match job.route {
            Route::Public => self.public.send(job),
            Route::Private => self
                .private
                .get_or_init(|| {
                    RouteSender::start(&self.context, self.mailbox.clone(), Route::Private)
                })
                .send(job),
        }
    }
}

/// Sends the transactions of one route.
struct RouteSender {
    jobs: mpsc::UnboundedSender<SendJob>,
    /// Given, and not yet answered.
    under_way: Arc<AtomicUsize>,
}

impl RouteSender {
    fn start(context: &Arc<Context>, mailbox: Mailbox, route: Route) -> Self {
        let (jobs, inbox) = mpsc::unbounded_channel();
        let (inbox, shared) = (Arc::new(Mutex::new(inbox)), context.clone());
        let under_way = Arc::new(AtomicUsize::new(0));
        let left = under_way.clone();
        let run = move || run(shared.clone(), mailbox.clone(), route, inbox.clone(), left.clone());
        supervise(&context.actors, "sender", run);
        Self { jobs, under_way }
    }

    fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    fn send(&self, job: SendJob) {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        // A sender that is gone was stopped with its worker.
        let _ = self.jobs.send(job);
    }
}

type SendQueue = Arc<Mutex<mpsc::UnboundedReceiver<SendJob>>>;

async fn run(
    context: Arc<Context>,
    mailbox: Mailbox,
    route: Route,
    inbox: SendQueue,
    under_way: Arc<AtomicUsize>,
) {
    let mut inbox = inbox.lock().await;
    let mut jobs = Vec::new();
    loop {
        let count = inbox.recv_many(&mut jobs, BATCH_MAX).await;
        if count == 0 {
            return;
        }
        let done = Done { count, under_way: &under_way };
        deliver(&context, &mailbox, route, std::mem::take(&mut jobs)).await;
        drop(done);
    }
}

/// Counts jobs off, also where their delivery panics.
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
async fn deliver(context: &Context, mailbox: &Mailbox, route: Route, mut jobs: Vec<SendJob>) {
    let mut pause = FIRST_PAUSE;
    for tried in 1..=TRIES_MAX {
        let raws: Vec<Bytes> = jobs.iter().map(|job| job.raw.clone()).collect();
        context.checkpoints.reached(Checkpoint::Sending).await;
        let begun = Instant::now();
        let answers = context.chain.send_in_order(&raws, route).await;
        let took = begun.elapsed();
        context.checkpoints.reached(Checkpoint::NodeAnswered).await;
        let unclear = answers.iter().position(is_unclear);
        let clear = if tried == TRIES_MAX { None } else { unclear };
        let clear = clear.unwrap_or(answers.len()).min(jobs.len());
        let done = jobs.drain(..clear).zip(answers);
        mailbox.post(done.map(|(job, answer)| outcome(job, answer, took)));
        if jobs.is_empty() {
            return;
        }
        // What is behind it may have gone out with it.
        for job in &mut jobs {
            job.doubted = true;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// The node may not have it, and may take it if it is asked again.
fn is_unclear(answer: &SendAnswer) -> bool {
    action_for(answer.class) == AnswerAction::ResendSame
}

fn outcome(job: SendJob, answer: SendAnswer, took: Duration) -> WorkerEvent {
    let SendJob { tx_id, raw, route, doubted } = job;
    debug!(%tx_id, class = answer.class.name(), tx_route = route.name(), doubted, "send answered");
    WorkerEvent::Answered(SendOutcome { tx_id, raw, route, answer, doubted, took })
}
