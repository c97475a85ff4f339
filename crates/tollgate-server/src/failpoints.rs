//! Dies at a checkpoint, as by `kill -9`: for the tests of recovery (`docs/failpoints.md`). Only in
//! builds with the feature `failpoints`, which no shipped binary has.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tollgate_model::port::{Checkpoint, Checkpoints, NoCheckpoints};

use crate::failure::Failure;

/// Names the checkpoint and how often it is passed before the end, as `sending:2`.
const VARIABLE: &str = "TOLLGATE_KILL_AT";
/// Names a file; before it is there, nothing counts. So a test chooses whose pass is the last one.
const ONCE: &str = "TOLLGATE_KILL_ONCE";

struct KillAt {
    at: Checkpoint,
    left: AtomicU32,
    once: Option<PathBuf>,
}

impl KillAt {
    fn is_armed(&self) -> bool {
        self.once.as_ref().is_none_or(|file| file.exists())
    }
}

#[async_trait]
impl Checkpoints for KillAt {
    async fn reached(&self, at: Checkpoint) {
        if at == self.at && self.is_armed() && self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let ourselves = rustix::process::getpid();
            let _ = rustix::process::kill_process(ourselves, rustix::process::Signal::KILL);
            // No instruction of ours runs after the signal; other threads may be a moment behind.
            std::future::pending::<()>().await;
        }
    }
}

/// Reads the environment.
pub(crate) fn from_env() -> Result<Arc<dyn Checkpoints>, Failure> {
    let Ok(asked) = std::env::var(VARIABLE) else { return Ok(Arc::new(NoCheckpoints)) };
    let (name, passes) = asked.split_once(':').unwrap_or((&asked, "0"));
    let at = Checkpoint::from_name(name).ok_or_else(|| format!("{VARIABLE}: no {name:?}"))?;
    let once = std::env::var_os(ONCE).map(PathBuf::from);
    Ok(Arc::new(KillAt { at, left: AtomicU32::new(passes.parse()?), once }))
}
