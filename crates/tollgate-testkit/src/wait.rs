//! Waiting in tests: for a condition, with a deadline, never for a length of time.

use std::future::Future;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine; only a failed test waits this long.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// The interval between two checks of a condition.
const INTERVAL: Duration = Duration::from_millis(10);

/// The deadline of a loop that polls for a condition.
pub struct Limit {
    start: Instant,
}

impl Limit {
    #[expect(clippy::new_without_default, reason = "a start is not a default")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// True once the deadline has passed.
    pub fn is_over(&self) -> bool {
        self.start.elapsed() > DEADLINE
    }

    /// Waits before the next check.
    pub async fn pause(&mut self) {
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits for `future`, and names what was waited for if the deadline passes.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited {DEADLINE:?} for {what}"),
    }
}

/// Asks until there is an answer, and names what was waited for if the deadline passes.
pub async fn until<T, F, Fut>(what: &str, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let mut limit = Limit::new();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(!limit.is_over(), "waited {DEADLINE:?} for {what}");
        limit.pause().await;
    }
}
