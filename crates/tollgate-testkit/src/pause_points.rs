//! Pauses a writer at a checkpoint, so that a race happens at a chosen moment.
//!
//! A test arms a checkpoint, waits until a writer has arrived there, does something on another
//! node, and releases the writer. Checkpoints that are not armed have no effect.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tollgate_model::port::{Checkpoint, Checkpoints};

use crate::wait::within;

/// [`Checkpoints`] at which a test can pause or kill a writer.
#[derive(Default)]
pub struct PausePoints {
    armed: Mutex<Option<(Checkpoint, PauseHere)>>,
    panics_at: Mutex<Option<Checkpoint>>,
}

impl PausePoints {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Pauses the next writer that reaches `at` until the [`Paused`] is released or dropped. Later
    /// writers pass.
    pub fn pause_at(&self, at: Checkpoint) -> Paused {
        let (paused, here) = pause(format!("a writer at {at:?}"));
        *self.armed.lock().unwrap() = Some((at, here));
        paused
    }

    /// Makes the next writer that reaches `at` panic.
    pub fn panic_at(&self, at: Checkpoint) {
        *self.panics_at.lock().unwrap() = Some(at);
    }
}

#[async_trait]
impl Checkpoints for PausePoints {
    async fn reached(&self, at: Checkpoint) {
        let panics = self.panics_at.lock().unwrap().take_if(|armed| *armed == at).is_some();
        assert!(!panics, "panics at {at:?}, as the test demands");
        let armed = self.armed.lock().unwrap().take_if(|(armed, _)| *armed == at);
        if let Some((_, here)) = armed {
            here.wait().await;
        }
    }
}

/// The test's end of a pause.
pub struct Paused {
    what: String,
    arrived: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

impl Paused {
    pub async fn reached(&mut self) {
        within(&self.what, &mut self.arrived).await.unwrap();
    }

    pub fn release(self) {
        let _ = self.release.send(());
    }
}

/// The writer's end of a pause.
pub(crate) struct PauseHere {
    arrived: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

impl PauseHere {
    pub(crate) async fn wait(self) {
        let _ = self.arrived.send(());
        // A dropped `Paused` releases, too.
        let _ = self.released.await;
    }
}

/// Both ends of a pause; `what` names it if nobody arrives.
pub(crate) fn pause(what: String) -> (Paused, PauseHere) {
    let (arrived, has_arrived) = oneshot::channel();
    let (release, released) = oneshot::channel();
    (Paused { what, arrived: has_arrived, release }, PauseHere { arrived, released })
}
