//! Notices the death of actors and starts them again.
//!
//! An actor dies only of a defect (the world's trouble is an `Err` that it handles). Nothing is lost
//! with it: what was durable is in the store, and who waited for an answer is told that it is not
//! known.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_metrics::ChainMetrics;
use tollgate_model::ChainId;
use tracing::{Instrument, Span, error, error_span};

/// The pause after a second death in a row; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After an actor has run this long, its next failure gets the shortest pause again.
const RESET_AFTER: Duration = Duration::from_secs(60);

/// The actors of one chain's engine: how often one was restarted, and the span of their log lines.
#[derive(Clone, Debug)]
pub(crate) struct ActorGroup {
    metrics: Arc<ChainMetrics>,
    span: Span,
}

impl ActorGroup {
    /// The actors of this chain. Every log line of theirs has its id, whatever the level: one process may
    /// serve several chains.
    pub(crate) fn of_chain(chain_id: ChainId, metrics: Arc<ChainMetrics>) -> Self {
        let span = error_span!("engine", chain_id = chain_id.get());
        Self { metrics, span }
    }

    /// The number of restarts since the start.
    pub(crate) fn restarts(&self) -> u64 {
        self.metrics.actor_panics_total.get()
    }
}

/// Runs an actor until it ends by itself. One that dies is started again: the first time at once,
/// then after growing pauses.
pub(crate) fn supervise<A, F>(group: &ActorGroup, actor: &'static str, start: A)
where
    A: Fn() -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (group, span) = (group.clone(), group.span.clone());
    let supervised = async move {
        let mut pause = Duration::ZERO;
        loop {
            let begun = Instant::now();
            match tokio::spawn(start().in_current_span()).await {
                Ok(()) => return,
                // The runtime is being shut down.
                Err(died) if died.is_cancelled() => return,
                Err(died) => {
                    group.metrics.actor_panics_total.inc();
                    error!(actor, error = %died, "actor panicked; restarting");
                }
            }
            if begun.elapsed() > RESET_AFTER {
                pause = Duration::ZERO;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).clamp(FIRST_PAUSE, PAUSE_MAX);
        }
    };
    tokio::spawn(supervised.instrument(span));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use tokio::sync::mpsc;

    #[tokio::test(start_paused = true)]
    async fn an_actor_that_dies_is_started_again_until_it_ends_by_itself() {
        let (starts, mut started) = mpsc::channel(10);
        let group = ActorGroup::of_chain(ChainId::MIN, Arc::default());
        let lives = Arc::new(AtomicU64::new(0));
        let life = lives.clone();
        supervise(&group, "test", move || {
            let (starts, life) = (starts.clone(), life.fetch_add(1, Ordering::Relaxed));
            async move {
                starts.send(life).await.unwrap();
                assert!(life >= 2, "a defect");
            }
        });
        let mut seen = Vec::new();
        while let Some(life) = started.recv().await {
            seen.push(life);
        }
        assert_eq!((seen, group.restarts()), (vec![0, 1, 2], 2));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_between_restarts_grow_to_their_cap_and_no_further() {
        let (starts, mut started) = mpsc::channel(1);
        supervise(&ActorGroup::of_chain(ChainId::MIN, Arc::default()), "test", move || {
            let starts = starts.clone();
            async move {
                starts.send(Instant::now()).await.unwrap();
                panic!("a defect");
            }
        });
        let mut last = started.recv().await.unwrap();
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let start = started.recv().await.unwrap();
            // Timers fire within a millisecond of their time.
            pauses.push((start - last).as_millis() / 10 * 10);
            last = start;
        }
        let (first, longest) = (FIRST_PAUSE.as_millis(), PAUSE_MAX.as_millis());
        assert_eq!(pauses[..4], [0, first, 2 * first, 4 * first]);
        assert!(pauses[8..].iter().all(|pause| *pause == longest), "{pauses:?}");
    }
}
