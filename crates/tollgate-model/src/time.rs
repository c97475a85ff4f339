//! Instants as values. Nothing here reads a clock: time is an argument.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 in UTC, the resolution of every store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// From microseconds since 1970.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn unix_micros(self) -> i64 {
        self.0
    }

    /// The instant `after` later, or the last representable one.
    pub fn after(self, after: Duration) -> Self {
        Self(self.0.saturating_add(micros(after)))
    }

    /// The instant `before` earlier, or the first representable one.
    pub fn before(self, before: Duration) -> Self {
        Self(self.0.saturating_sub(micros(before)))
    }

    /// The time since `earlier`; zero if that is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        if time.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}us)", self.0)
    }
}

/// A duration as stores save it, saturating.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_survives_the_way_through_system_time() {
        for micros in [0, 1, -1, 1_700_000_000_123_456, -62_135_596_800_000_000] {
            let time = Timestamp::from_unix_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn time_since_a_future_instant_is_zero() {
        let now = Timestamp::from_unix_micros(5);
        assert_eq!(now.since(Timestamp::from_unix_micros(9)), Duration::ZERO);
        assert_eq!(now.since(Timestamp::EPOCH), Duration::from_micros(5));
    }
}
