//! The clock of nodes under test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

/// The machine's clock, which a test can advance.
#[derive(Default)]
pub struct TestClock {
    /// The time at which the clock was stopped. It goes with the machine's without one.
    stopped_at: Option<Timestamp>,
    ahead_micros: AtomicU64,
}

impl TestClock {
    /// A clock that moves when the test advances it, and never by itself.
    pub fn stopped() -> Self {
        Self { stopped_at: Some(Self::default().now()), ..Self::default() }
    }

    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap();
        self.ahead_micros.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    fn now(&self) -> Timestamp {
        let ahead = Duration::from_micros(self.ahead_micros.load(Ordering::SeqCst));
        self.stopped_at.unwrap_or_else(|| Timestamp::from(SystemTime::now())).after(ahead)
    }
}
