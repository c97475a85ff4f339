//! Sends claimed notices to sinks. Owns one task for each sink, so that none waits for another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{AlertNotice, NoticeClaim, NoticeOutcome, Store, StoreError};
use tollgate_model::{NodeId, Text};
use tracing::{info, warn};

use crate::send::{SendFailure, SinkSender};
use crate::sink::Sink;

/// The pause between two looks for notices of other nodes; those of this node wake the tasks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The time, besides that of a try, after which another node may send a claimed notice.
const CLAIM_GRACE: Duration = Duration::from_secs(50);
/// The pause after the first failed try; it doubles.
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// Tries of one notice: with the pauses about an hour.
const TRIES_MAX: u32 = 12;

/// The notices of this node since its start.
#[derive(Default, Debug)]
pub struct AlertCounts {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
}

impl AlertCounts {
    /// Notices that were taken, tries that failed, notices that were given up.
    pub fn get(&self) -> [u64; 3] {
        [&self.delivered, &self.failed, &self.given_up].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The tasks that send notices.
pub struct AlertDelivery {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    counts: Arc<AlertCounts>,
}

impl AlertDelivery {
    /// Starts a task for each sink.
    pub fn start(
        store: &Arc<dyn Store>,
        node: &NodeId,
        clock: &Arc<dyn Clock>,
        sinks: Vec<Sink>,
        raised: &Arc<Notify>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let counts = Arc::new(AlertCounts::default());
        let wake: Vec<Arc<Notify>> = sinks.iter().map(|_| Arc::default()).collect();
        let mut tasks = vec![tokio::spawn(wake_all(raised.clone(), wake.clone()))];
        for (sink, wake) in sinks.into_iter().zip(wake) {
            let courier = Courier {
                store: store.clone(),
                node: node.clone(),
                clock: clock.clone(),
                sender: SinkSender::new(sink),
                counts: counts.clone(),
            };
            tasks.push(tokio::spawn(courier.run(wake, stopped.clone())));
        }
        Self { stop, tasks, counts }
    }

    /// Counts of what was sent.
    pub fn counts(&self) -> Arc<AlertCounts> {
        self.counts.clone()
    }

    /// Ends every task after its present message.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // The first only wakes the others.
        self.tasks.remove(0).abort();
        join_all(self.tasks).await;
    }
}

async fn wake_all(raised: Arc<Notify>, tasks: Vec<Arc<Notify>>) {
    loop {
        raised.notified().await;
        tasks.iter().for_each(|task| task.notify_one());
    }
}

/// The pause after a failed try, the first of which is 0.
fn pause_after(tries: u32, asked: Option<Duration>) -> Duration {
    let growing = PAUSE_FIRST.saturating_mul(1 << tries.min(16)).min(PAUSE_MAX);
    growing.max(asked.unwrap_or_default().min(PAUSE_MAX))
}

/// The outcome of a try, by how many there were before.
fn outcome(tried: Result<(), &SendFailure>, tries: u32) -> NoticeOutcome {
    let Err(failure) = tried else { return NoticeOutcome::Delivered };
    let error = Text::lossy(&failure.why);
    match failure.is_temporary && tries + 1 < TRIES_MAX {
        true => NoticeOutcome::Retry { after: pause_after(tries, failure.retry_after), error },
        false => NoticeOutcome::GivenUp { error },
    }
}

/// Sends the notices of one sink.
struct Courier {
    store: Arc<dyn Store>,
    node: NodeId,
    clock: Arc<dyn Clock>,
    sender: SinkSender,
    counts: Arc<AlertCounts>,
}

impl Courier {
    async fn run(self, wake: Arc<Notify>, mut stopped: watch::Receiver<bool>) {
        loop {
            let found = self.send_due(&stopped).await;
            if let Err(error) = found {
                warn!(sink = self.sender.sink.name(), %error, "notices can't be claimed");
            }
            tokio::select! {
                () = wake.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                // An error: nobody is left who could say so.
                _ = stopped.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Sends until nothing is due.
    async fn send_due(&self, stopped: &watch::Receiver<bool>) -> Result<(), StoreError> {
        let sink = &self.sender.sink;
        let claim = NoticeClaim {
            batch_max: sink.kind().batch_max(),
            per_minute: sink.per_minute,
            term: sink.timeout + CLAIM_GRACE,
        };
        while !*stopped.borrow() {
            let notices = self.store.claim_notices(&self.node, sink.name(), claim).await?;
            if notices.is_empty() {
                return Ok(());
            }
            self.send(&notices).await?;
        }
        Ok(())
    }

    /// Sends one message and writes how it went. All of its notices share its fate, as a message is taken as a
    /// whole.
    async fn send(&self, notices: &[AlertNotice]) -> Result<(), StoreError> {
        let name = self.sender.sink.name();
        let tries = notices.iter().map(|notice| notice.tries).max().unwrap_or_default();
        let tried = self.sender.send(notices, self.clock.now()).await;
        let outcome = outcome(tried.as_ref().copied(), tries);
        let (number, count) = (notices.len() as u64, &self.counts);
        match &outcome {
            NoticeOutcome::Delivered => {
                count.delivered.fetch_add(number, Ordering::Relaxed);
                info!(sink = name, notices = number, "alert sent");
            }
            NoticeOutcome::Retry { after, error } => {
                count.failed.fetch_add(number, Ordering::Relaxed);
                warn!(sink = name, %error, ?after, "alert not sent; retrying");
            }
            NoticeOutcome::GivenUp { error } => {
                count.given_up.fetch_add(number, Ordering::Relaxed);
                warn!(sink = name, %error, "alert not sent; given up");
            }
        }
        let ids: Vec<_> = notices.iter().map(|it| (it.alert.alert_id, it.phase)).collect();
        self.store.settle_notices(&self.node, name, &ids, &outcome).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_last_for_about_an_hour() {
        let total: Duration = (0..TRIES_MAX - 1).map(|tries| pause_after(tries, None)).sum();
        assert!(
            total > Duration::from_secs(2_400) && total < Duration::from_secs(5_400),
            "{total:?}"
        );
        assert_eq!(pause_after(0, None), PAUSE_FIRST);
        assert_eq!(pause_after(u32::MAX, None), PAUSE_MAX);
        let asked = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(pause_after(0, asked(60)), Duration::from_secs(60));
        assert_eq!(
            pause_after(0, asked(1_000_000)),
            PAUSE_MAX,
            "no receiver stops a sink for days"
        );
    }

    #[test]
    fn message_is_given_up_if_it_is_refused_or_was_tried_often() {
        let failed =
            |is_temporary| SendFailure { why: "x".to_owned(), is_temporary, retry_after: None };
        let given_up = NoticeOutcome::GivenUp { error: Text::lossy("x") };
        assert_eq!(outcome(Ok(()), 99), NoticeOutcome::Delivered);
        assert_eq!(outcome(Err(&failed(false)), 0), given_up);
        assert_eq!(outcome(Err(&failed(true)), TRIES_MAX - 1), given_up);
        assert!(matches!(outcome(Err(&failed(true)), TRIES_MAX - 2), NoticeOutcome::Retry { .. }));
    }
}
