//! The events of a run, in order: their digest, and the lines themselves for a replay.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The part of the events that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceMode {
    /// Only their digest.
    Digest,
    /// All lines.
    Lines,
}

/// The events of one run.
pub(crate) struct Trace {
    keep: TraceMode,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    digest: u64,
    events: u64,
    line: String,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(keep: TraceMode) -> Self {
        Self { keep, inner: Mutex::default() }
    }

    /// Notes an event at a time since the start.
    pub(crate) fn note(&self, at_micros: i64, what: fmt::Arguments<'_>) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        inner.line.clear();
        // Writing to a string does not fail.
        let _ = write!(inner.line, "{:>11.3}  {what}", at_micros as f64 / 1_000.0);
        inner.digest = digest(inner.digest, inner.line.as_bytes());
        inner.events += 1;
        if self.keep == TraceMode::Lines {
            inner.lines.push(inner.line.clone());
        }
    }

    /// The digest and the number of all events so far.
    pub(crate) fn sum(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.digest, inner.events)
    }

    pub(crate) fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().lines)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// FNV-1a, from line to line: an order of events has one digest.
fn digest(before: u64, bytes: &[u8]) -> u64 {
    let start = before ^ 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
