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

/// Microseconds since 1970; distinguishes one dev chain from the next.
pub(crate) fn unix_micros() -> u64 {
    SystemClock.now().unix_micros().unsigned_abs()
}
