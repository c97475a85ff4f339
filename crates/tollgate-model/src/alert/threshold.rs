//! When something that is measured again and again is an alert: at a threshold, for a while, with a lower
//! threshold at which it ends.

use std::time::Duration;

use crate::time::Timestamp;

/// The bounds of a measured number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    /// An alert from this number on.
    pub raise: u64,
    /// A raised alert stays while the number is at least this.
    pub clear: u64,
    /// The number must have been at `raise` or above for this time.
    pub after: Duration,
}

impl Threshold {
    /// Ends at half the number, so that one that moves around the threshold raises one alert.
    pub fn halving(raise: u64, after: Duration) -> Self {
        let raise = raise.max(1);
        Self { raise, clear: raise.div_ceil(2), after }
    }

    /// For a condition that holds or does not.
    pub const fn condition(after: Duration) -> Self {
        Self { raise: 1, clear: 1, after }
    }
}

/// The judgement of a measured number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    Calm,
    /// At the threshold, but not for long enough.
    Pending,
    /// To be reported.
    Raised,
}

/// The memory of one measured number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gate {
    /// Since when the number has been at the threshold.
    since: Option<Timestamp>,
    is_raised: bool,
}

impl Gate {
    /// Judges a number. Time that runs back counts as none.
    #[must_use]
    pub fn judge(self, threshold: Threshold, measured: u64, now: Timestamp) -> (Self, Standing) {
        let stays = self.is_raised && measured >= threshold.clear.max(1);
        let since = (measured >= threshold.raise.max(1)).then(|| self.since.unwrap_or(now));
        let is_due = since.is_some_and(|since| now.since(since) >= threshold.after);
        let is_raised = stays || is_due;
        let standing = match (is_raised, since) {
            (true, _) => Standing::Raised,
            (false, Some(_)) => Standing::Pending,
            (false, None) => Standing::Calm,
        };
        (Self { since, is_raised }, standing)
    }

    /// True if there is nothing to remember.
    pub fn is_calm(self) -> bool {
        self == Self::default()
    }
}
