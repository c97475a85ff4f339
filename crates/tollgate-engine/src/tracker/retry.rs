//! Repeated reads: when each is due, when an alert about it is due, and the loop that carries them out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
pub(super) use tollgate_model::alert::ALERT_REPEAT;

/// Reads in flight at once (I13).
const JOBS_MAX: usize = 8;
/// The pause after the first failed try; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause before the alert about a receipt. Its block is in the view, so endpoints have it: a
/// rate limit of some seconds must not delay it for much longer.
pub(super) const PAUSE_BEFORE_ALERT_MAX: Duration = Duration::from_secs(4);
/// The longest pause after that.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a read is tried, and since when it has been tried.
#[derive(Clone, Copy)]
pub(super) struct Retry {
    pub(super) tries: u32,
    pub(super) in_flight: bool,
    pub(super) since: Instant,
    due: Instant,
    alerted: Option<Instant>,
}

impl Retry {
    pub(super) fn now() -> Self {
        let now = Instant::now();
        Self { tries: 0, in_flight: false, since: now, due: now, alerted: None }
    }

    pub(super) fn failed(&mut self, pause_max: Duration) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.tries.min(16)).min(pause_max);
        self.tries += 1;
        self.due = Instant::now() + pause;
        self.in_flight = false;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.in_flight && self.due <= now
    }

    /// The time of the next try; `None` while one is in flight.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.in_flight).then_some(self.due)
    }

    /// Returns whether an alert is due now: the read has failed for as long as `after`, and there was no
    /// alert lately.
    pub(super) fn take_alert(&mut self, after: Duration) -> bool {
        let is_due = self.since.elapsed() >= after
            && self.alerted.is_none_or(|at| at.elapsed() >= ALERT_REPEAT);
        if is_due {
            self.alerted = Some(Instant::now());
        }
        is_due
    }
}

/// Carries out jobs as they become due, at most [`JOBS_MAX`] at once. Runs for ever.
pub(super) async fn run_jobs<J, T, F: Future<Output = T>>(
    changed: &Notify,
    mut take_due: impl FnMut() -> Option<J>,
    next_due: impl Fn() -> Option<Instant>,
    run: impl Fn(J) -> F,
    mut done: impl FnMut(T),
) {
    let mut jobs = FuturesUnordered::new();
    loop {
        while jobs.len() < JOBS_MAX
            && let Some(job) = take_due()
        {
            jobs.push(run(job));
        }
        let next = next_due().filter(|_| jobs.len() < JOBS_MAX);
        let due = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(result) = jobs.next(), if !jobs.is_empty() => done(result),
            () = changed.notified() => {}
            () = due => {}
        }
    }
}
