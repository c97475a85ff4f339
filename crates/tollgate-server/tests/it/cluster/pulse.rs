//! Measures how slow this machine is while a test measures something else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_testkit::postgres::connect;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);
/// Steps that one after another make a handover or a takeover: questions to the database and the
/// chain, wake-ups, a process that answers.
const STEPS: u32 = 10;

/// Asks the database a trivial question again and again. A machine that stands still, or is busy with
/// other work, delays this as it delays everything else.
pub(super) struct Pulse {
    slowest: Arc<Mutex<Duration>>,
    task: JoinHandle<()>,
}

impl Pulse {
    pub(super) async fn start(database_url: &str) -> Self {
        let client = connect(database_url).await.unwrap();
        let slowest = Arc::new(Mutex::new(Duration::ZERO));
        let noted = slowest.clone();
        let task = tokio::spawn(async move {
            loop {
                // From before the pause on: waking up late counts as well.
                let begun = Instant::now();
                tokio::time::sleep(PAUSE).await;
                client.query_one("select 1", &[]).await.unwrap();
                let took = begun.elapsed().saturating_sub(PAUSE);
                let mut slowest = noted.lock().unwrap();
                *slowest = took.max(*slowest);
            }
        });
        Self { slowest, task }
    }

    /// Ten times the slowest step since the start: how much longer anything may take here than it
    /// takes on a machine without other work.
    pub(super) fn allowance(&self) -> Duration {
        *self.slowest.lock().unwrap() * STEPS
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.task.abort();
    }
}
