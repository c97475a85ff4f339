//! The clock of the machine: for schedules and ages, never for leases.

use std::time::SystemTime;

use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemClock.now().since(Timestamp::EPOCH).as_secs()
}
