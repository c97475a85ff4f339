//! Waiting in tests: for a condition, with a deadline, never for a length of time.

use std::future::Future;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine; only a failed test waits this long.
pub const DEADLINE: Duration = Duration::from_secs(45);

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits for `future`, and names what was waited for if it does not come.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited {DEADLINE:?} for {what}"),
    }
}

/// Asks until there is an answer, and names what was waited for if there is none.
pub async fn until<T, F, Fut>(what: &str, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}
