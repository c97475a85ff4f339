//! The records of a run: one entry per intent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::Wait;

/// The interval at which progress is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(250);

/// The outcome of an intent's create.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum IntentOutcome {
    /// Not created, or its answer never came: it may or may not be mined.
    #[default]
    Unclear,
    /// Accepted.
    Accepted,
    /// Created by an earlier run with the same seed.
    Known,
    /// Refused: it must not be mined.
    Refused,
}

/// One intent. Times are microseconds since the run began; 0 is never.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Entry {
    pub(crate) outcome: IntentOutcome,
    pub(crate) latency_us: u32,
    pub(crate) accepted_us: u64,
    pub(crate) done_us: u64,
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) entries: Vec<Entry>,
    /// Answers after which a request was repeated, by code.
    pub(crate) retried: BTreeMap<String, u64>,
    /// Intents that were refused or given up, by code.
    pub(crate) refused: BTreeMap<String, u64>,
    /// States other than CONFIRMED in the feed, by name.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Calls with an answer, and those of them that the node forwarded.
    pub(crate) calls: u64,
    pub(crate) forwarded: u64,
    /// Calls of an open loop that began late because all callers were busy.
    pub(crate) late: u64,
    /// Intents that were in the feed more than once.
    pub(crate) shown_twice: u64,
    /// The generator's own CPU time.
    pub(crate) cpu: Duration,
    pub(crate) elapsed: Duration,
}

/// A run in progress.
pub(crate) struct Run {
    begun: Instant,
    cpu_begun: Duration,
    accepted: AtomicU64,
    done: AtomicU64,
    length: Option<u64>,
    records: Mutex<Records>,
}

impl Run {
    pub(crate) fn new(length: Option<u64>) -> Self {
        Self {
            begun: Instant::now(),
            cpu_begun: cpu(),
            accepted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            length,
            records: Mutex::default(),
        }
    }

    pub(crate) const fn begun(&self) -> Instant {
        self.begun
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Accepted intents so far that have reached the state the run waits for.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome of an intent.
    pub(crate) fn settle(&self, number: u64, outcome: IntentOutcome, begun: Instant) {
        let now = self.begun.elapsed();
        let mut records = self.lock();
        let entry = records.entry(number);
        entry.outcome = outcome;
        if outcome == IntentOutcome::Accepted {
            entry.accepted_us = micros(now);
            entry.latency_us = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
            self.accepted.fetch_add(1, Ordering::Relaxed);
            // The feed may have been faster than the answer.
            if entry.done_us > 0 {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Records that an intent was refused or given up.
    pub(crate) fn give_up(&self, number: u64, outcome: IntentOutcome, code: &str, begun: Instant) {
        self.settle(number, outcome, begun);
        count(&mut self.lock().refused, code);
    }

    /// Records an answered call.
    pub(crate) fn answered(&self, forwarded: bool) {
        let mut records = self.lock();
        records.calls += 1;
        records.forwarded += u64::from(forwarded);
    }

    /// Records that a call of an open loop began late.
    pub(crate) fn note_late(&self) {
        self.lock().late += 1;
    }

    /// Records that a request is repeated.
    pub(crate) fn retry(&self, code: &str) {
        count(&mut self.lock().retried, code);
    }

    /// Records that the feed or a block contains an intent. `failed` is the state if it is not CONFIRMED.
    pub(crate) fn finish(&self, number: u64, failed: Option<&str>) {
        let now = micros(self.begun.elapsed());
        let mut records = self.lock();
        let entry = records.entry(number);
        if entry.done_us > 0 {
            records.shown_twice += 1;
            return;
        }
        entry.done_us = now;
        if entry.outcome == IntentOutcome::Accepted {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(state) = failed {
            count(&mut records.failed, state);
        }
    }

    /// Ends the run; later events are ignored.
    pub(crate) fn end(&self) -> Records {
        let mut records = std::mem::take(&mut *self.lock());
        records.elapsed = self.begun.elapsed();
        records.cpu = cpu().saturating_sub(self.cpu_begun);
        records
    }
}

impl Records {
    fn entry(&mut self, number: u64) -> &mut Entry {
        let place = number as usize;
        if place >= self.entries.len() {
            self.entries.resize(place + 1, Entry::default());
        }
        &mut self.entries[place]
    }
}

fn count(counts: &mut BTreeMap<String, u64>, code: &str) {
    match counts.get_mut(code) {
        Some(count) => *count += 1,
        None => {
            counts.insert(code.to_owned(), 1);
        }
    }
}

/// Never 0, which means never.
fn micros(at: Duration) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

/// Draws the progress on stderr until it is aborted.
pub(crate) async fn show_progress(run: Arc<Run>, wait: Wait) {
    let bar = match run.length {
        Some(length) => ProgressBar::new(length),
        None => ProgressBar::no_length(),
    };
    let template = match run.length {
        Some(_) => "{bar:30} {pos}/{len} accepted  {msg}",
        None => "{spinner} {pos} accepted  {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let mut before = (0, 0, Duration::ZERO);
    loop {
        tokio::time::sleep(DRAW_INTERVAL).await;
        let now = (run.accepted(), run.done(), run.elapsed());
        let seconds = (now.2 - before.2).as_secs_f64();
        let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
        let mut message = format!("{:.0}/s", rate(now.0, before.0));
        if wait != Wait::Accepted {
            let rate = rate(now.1, before.1);
            message = format!("{message}, {} {} {rate:.0}/s", now.1, wait.name());
        }
        bar.set_position(now.0);
        bar.set_message(message);
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn completion_before_the_answer_counts_once() {
        let run = Run::new(None);
        let begun = Instant::now();
        run.finish(3, None);
        assert_eq!((run.accepted(), run.done()), (0, 0));
        run.settle(3, IntentOutcome::Accepted, begun);
        assert_eq!((run.accepted(), run.done()), (1, 1));
        run.finish(3, None);
        run.finish(2, Some("FAILED_FINAL"));
        run.give_up(1, IntentOutcome::Refused, "invalid_body", begun);
        let records = run.end();
        assert_eq!((records.shown_twice, records.entries.len()), (1, 4));
        assert_eq!((records.failed["FAILED_FINAL"], records.refused["invalid_body"]), (1, 1));
    }
}
