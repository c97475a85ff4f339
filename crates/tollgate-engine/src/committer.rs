//! Groups the critical writes of all submitters into database transactions.
//!
//! Owns no state of a submitter. A batch is whatever waited while the last commit ran: there is no
//! timer. A submitter always uses the same lane, so its sections commit in the order in which they
//! were given.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use tollgate_metrics::{ChainMetrics, CommitResult, FencedOp};
use tollgate_model::NodeId;
use tollgate_model::event::EventKinds;
use tollgate_model::port::span::SpanSink;
use tollgate_model::port::{FencedBatch, Section, SectionOutcome, Store, StoreError};
use tracing::error;

use crate::spans::{record_commit, traces_of};
use crate::supervisor::{ActorGroup, supervise};

/// Two overlap: one waits for the disk while the other is being put together.
const LANES: usize = 2;
/// Sections that may wait in front of a lane (I13); beyond that callers wait.
const WAITING_MAX: usize = 1_024;

type OutcomeSender = oneshot::Sender<Result<SectionOutcome, StoreError>>;

/// A section and where its outcome goes.
struct CommitJob {
    section: Section,
    reply: OutcomeSender,
}

/// The way to commit a section.
#[derive(Clone)]
pub(crate) struct Committer {
    lanes: Arc<[mpsc::Sender<CommitJob>]>,
    metrics: Arc<ChainMetrics>,
}

impl Committer {
    /// Starts the lanes; they end when the last handle is gone.
    pub(crate) fn start(
        store: &Arc<dyn Store>,
        node: &NodeId,
        (batch_max, events): (usize, EventKinds),
        actors: &ActorGroup,
        metrics: &Arc<ChainMetrics>,
        spans: &Arc<dyn SpanSink>,
    ) -> Self {
        let lane = |_| {
            let (jobs, inbox) = mpsc::channel(WAITING_MAX);
            let (store, node, metrics) = (store.clone(), node.clone(), metrics.clone());
            let spans = spans.clone();
            let lane = Arc::new(Lane { store, node, batch_max, events, metrics, spans });
            let inbox = Arc::new(Mutex::new(inbox));
            supervise(actors, "committer", move || lane.clone().run(inbox.clone()));
            jobs
        };
        Self { lanes: (0..LANES).map(lane).collect(), metrics: metrics.clone() }
    }

    /// Commits one section, together with whatever else waits.
    pub(crate) async fn commit(&self, section: Section) -> Result<SectionOutcome, StoreError> {
        let _waiting = Waiting::begin(&self.metrics);
        let mut hasher = DefaultHasher::new();
        section.lease.submitter.hash(&mut hasher);
        let lane = (hasher.finish() % self.lanes.len() as u64) as usize;
        let (reply, outcome) = oneshot::channel();
        let gone = || StoreError::Unavailable("the committer has stopped".into());
        self.lanes[lane].send(CommitJob { section, reply }).await.map_err(|_| gone())?;
        // A lane that panicked may have sent the commit before.
        outcome.await.map_err(|_| StoreError::CommitUnknown("the committer died".into()))?
    }
}

/// Counts a section as long as its caller waits for it.
struct Waiting<'a>(&'a ChainMetrics);

impl<'a> Waiting<'a> {
    fn begin(metrics: &'a ChainMetrics) -> Self {
        metrics.writer_queue_depth.add(1.0);
        Self(metrics)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.writer_queue_depth.add(-1.0);
    }
}

struct Lane {
    store: Arc<dyn Store>,
    node: NodeId,
    batch_max: usize,
    events: EventKinds,
    metrics: Arc<ChainMetrics>,
    spans: Arc<dyn SpanSink>,
}

impl Lane {
    async fn run(self: Arc<Self>, inbox: Arc<Mutex<mpsc::Receiver<CommitJob>>>) {
        let mut inbox = inbox.lock().await;
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let Some(job) = inbox.recv().await else { return };
                waiting.push_back(job);
            }
            while waiting.len() < WAITING_MAX {
                let Ok(job) = inbox.try_recv() else { break };
                waiting.push_back(job);
            }
            let batch = take_batch(&mut waiting, self.batch_max);
            self.commit(batch).await;
        }
    }

    async fn commit(&self, jobs: Vec<CommitJob>) {
        let (sections, replies): (Vec<_>, Vec<_>) =
            jobs.into_iter().filter_map(answer_invalid).unzip();
        if sections.is_empty() {
            return;
        }
        let metrics = &self.metrics;
        metrics.writer_batch_submitters.observe_count(sections.len());
        let operations = sections.iter().map(Section::ops).sum();
        metrics.writer_batch_size.observe_count(operations);
        let traces = traces_of(&*self.spans, &sections);
        let begun = Instant::now();
        let outcomes = match FencedBatch::new(self.node.clone(), sections) {
            Ok(batch) => self.store.commit(&batch.with_events(self.events)).await,
            Err(invalid) => Err(invalid.into()),
        };
        let took = begun.elapsed();
        metrics.commit_seconds.observe(took);
        let size = (replies.len(), operations);
        record_commit(&*self.spans, &traces, (took, outcomes.is_err()), size);
        self.count(&outcomes, replies.len());
        match outcomes {
            Ok(outcomes) => {
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    let _ = reply.send(Ok(outcome));
                }
            }
            Err(why) => {
                error!(error = %why, "batch failed");
                for reply in replies {
                    let _ = reply.send(Err(why.clone()));
                }
            }
        }
    }

    fn count(&self, outcomes: &Result<Vec<SectionOutcome>, StoreError>, sections: usize) {
        let counters = &self.metrics.commit_total;
        let failed = match outcomes {
            Ok(outcomes) => {
                for result in outcomes.iter().map(result_of) {
                    counters.inc(result);
                    if result == CommitResult::Fenced {
                        self.metrics.lease_fenced_total.inc(FencedOp::Commit);
                    }
                }
                return;
            }
            Err(StoreError::CommitUnknown(_)) => CommitResult::Unknown,
            Err(_) => CommitResult::Error,
        };
        counters.add(failed, sections as u64);
    }
}

/// The name of an outcome in metrics.
const fn result_of(outcome: &SectionOutcome) -> CommitResult {
    match outcome {
        SectionOutcome::Committed { .. } => CommitResult::Committed,
        SectionOutcome::Fenced => CommitResult::Fenced,
        SectionOutcome::Stale { .. } => CommitResult::Stale,
        SectionOutcome::Refused(_) => CommitResult::Refused,
    }
}

/// Answers a section that can't be written, whatever the database holds. I14: one that went into a batch
/// would have all its neighbours refused.
fn answer_invalid(job: CommitJob) -> Option<(Section, OutcomeSender)> {
    match job.section.check() {
        Ok(()) => Some((job.section, job.reply)),
        Err(invalid) => {
            error!(submitter = %job.section.lease.submitter, error = %invalid, "section refused");
            let _ = job.reply.send(Err(invalid.into()));
            None
        }
    }
}

/// The oldest sections that fit into one transaction: one per submitter, `batch_max` operations.
/// What is left keeps its order.
fn take_batch(waiting: &mut VecDeque<CommitJob>, batch_max: usize) -> Vec<CommitJob> {
    let (mut batch, mut left) = (Vec::new(), VecDeque::new());
    let (mut submitters, mut ops) = (HashSet::new(), 0);
    for job in waiting.drain(..) {
        let size = job.section.ops().max(1);
        let fits = batch.is_empty() || ops + size <= batch_max;
        // The first that does not fit makes its submitter wait, so that order is kept.
        if submitters.insert(job.section.lease.submitter) && fits {
            ops += size;
            batch.push(job);
        } else {
            left.push_back(job);
        }
    }
    *waiting = left;
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::port::{CursorMove, Lease, RowVersion, TxUpdate};
    use tollgate_model::{Address, ChainId, FencingToken, Nonce, Queued, Submitter, TxId, TxState};

    fn job(account: u8, mark: u64) -> CommitJob {
        let submitter = Submitter::new(ChainId::MIN, Address::repeat_byte(account));
        let mut section = Section::new(Lease { submitter, token: FencingToken::MIN });
        let mark = Nonce::new(mark).unwrap();
        section.cursor = Some(CursorMove { from: mark, to: mark });
        CommitJob { section, reply: oneshot::channel().0 }
    }

    fn marks(jobs: impl IntoIterator<Item = CommitJob>) -> Vec<(u8, u64)> {
        let mark = |job: CommitJob| {
            let account = job.section.lease.submitter.address.as_slice()[0];
            (account, job.section.cursor.unwrap().from.get())
        };
        jobs.into_iter().map(mark).collect()
    }

    #[test]
    fn a_batch_has_one_section_per_submitter_and_the_rest_keeps_its_order() {
        let mut waiting = VecDeque::from([job(1, 0), job(1, 1), job(2, 0), job(1, 2), job(2, 1)]);
        assert_eq!(marks(take_batch(&mut waiting, 100)), [(1, 0), (2, 0)]);
        assert_eq!(marks(take_batch(&mut waiting, 100)), [(1, 1), (2, 1)]);
        assert_eq!(marks(take_batch(&mut waiting, 100)), [(1, 2)]);
        assert!(waiting.is_empty());
    }

    /// A section of so many changes.
    fn sized(account: u8, mark: u64, size: u128) -> CommitJob {
        let mut job = job(account, mark);
        let row = RowVersion { state: TxState::Queued(Queued::Waiting), version: 1 };
        let id = |n| TxId::from_uuid(uuid::Uuid::from_u128(n));
        let noted = |n| TxUpdate::noted(id(n), row, "noted");
        job.section.updates = (0..size).map(noted).collect();
        job
    }

    #[test]
    fn section_that_does_not_fit_is_not_overtaken_by_a_smaller_one_of_its_submitter() {
        let mut waiting =
            VecDeque::from([sized(1, 0, 3), sized(2, 0, 3), sized(2, 1, 1), sized(3, 0, 1)]);
        assert_eq!(marks(take_batch(&mut waiting, 4)), [(1, 0), (3, 0)]);
        assert_eq!(marks(take_batch(&mut waiting, 4)), [(2, 0)]);
        assert_eq!(marks(take_batch(&mut waiting, 4)), [(2, 1)]);
    }

    #[test]
    fn section_counts_with_all_its_changes_and_one_above_the_limit_goes_alone() {
        let mut waiting = VecDeque::from([sized(1, 0, 9), sized(2, 0, 2), sized(3, 0, 2)]);
        assert_eq!(marks(take_batch(&mut waiting, 4)), [(1, 0)]);
        assert_eq!(marks(take_batch(&mut waiting, 4)), [(2, 0), (3, 0)]);
    }

    #[test]
    fn section_that_cannot_be_written_is_answered_by_itself() {
        let mut bad = job(1, 0);
        let (reply, answer) = oneshot::channel();
        bad.reply = reply;
        let (from, to) = (Nonce::new(5).unwrap(), Nonce::new(4).unwrap());
        bad.section.cursor = Some(CursorMove { from, to });
        assert!(answer_invalid(bad).is_none(), "I14: it goes into no batch");
        assert!(matches!(answer.blocking_recv().unwrap(), Err(StoreError::Invalid(_))));
        assert!(answer_invalid(job(2, 0)).is_some());
    }

    #[test]
    fn a_batch_is_bounded_but_never_empty() {
        let mut waiting = VecDeque::from([job(1, 0), job(2, 0), job(3, 0)]);
        assert_eq!(marks(take_batch(&mut waiting, 2)), [(1, 0), (2, 0)]);
        assert_eq!(marks(take_batch(&mut waiting, 0)), [(3, 0)]);
    }
}
