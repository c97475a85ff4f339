//! Stops a writer where a race begins, and lets it go on when the test says so.
//!
//! Deterministic: a test arms a checkpoint, starts the writer, waits until it stands there, acts
//! on another node, and releases it. A gate that is not armed lets everybody pass.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tollgate_model::port::{Checkpoint, Checkpoints};

use crate::wait::within;

/// A [`Checkpoints`] that a test can close.
#[derive(Default)]
pub struct Gate {
    armed: Mutex<Option<Armed>>,
    trapped: Mutex<Option<Checkpoint>>,
}

struct Armed {
    at: Checkpoint,
    arrived: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The next one to reach `at` stops there until the [`Hold`] is released or dropped; those
    /// that come after it pass.
    pub fn arm(&self, at: Checkpoint) -> Hold {
        let (arrived, has_arrived) = oneshot::channel();
        let (release, released) = oneshot::channel();
        *self.armed.lock().unwrap() = Some(Armed { at, arrived, released });
        Hold { at, arrived: has_arrived, release }
    }

    /// The next one to reach `at` dies there.
    pub fn trap(&self, at: Checkpoint) {
        *self.trapped.lock().unwrap() = Some(at);
    }

    fn take(&self, at: Checkpoint) -> Option<Armed> {
        self.armed.lock().unwrap().take_if(|armed| armed.at == at)
    }
}

#[async_trait]
impl Checkpoints for Gate {
    async fn reached(&self, at: Checkpoint) {
        let trapped = self.trapped.lock().unwrap().take_if(|trapped| *trapped == at).is_some();
        assert!(!trapped, "trapped at {at:?}");
        if let Some(armed) = self.take(at) {
            let _ = armed.arrived.send(());
            // A dropped hold releases too.
            let _ = armed.released.await;
        }
    }
}

/// A closed gate, and whoever stands at it.
pub struct Hold {
    at: Checkpoint,
    arrived: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

impl Hold {
    /// Waits until somebody stands at the gate.
    pub async fn reached(&mut self) {
        within(&format!("a writer at {:?}", self.at), &mut self.arrived).await.unwrap();
    }

    /// Lets it go on.
    pub fn release(self) {
        let _ = self.release.send(());
    }
}
