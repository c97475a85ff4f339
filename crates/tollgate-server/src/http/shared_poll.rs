//! Polls the store on behalf of all callers that wait for a value.
//!
//! However many callers wait, one of them reads the store every [`LOOK_EVERY`] and wakes the others;
//! while nobody waits, the store is not read. No caller holds a database connection while it waits.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::{Instant, sleep_until};
use tollgate_model::port::StoreError;

/// The interval at which the store is read while a caller waits.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A value of the store, as it was last read.
pub(crate) struct SharedPoll<T> {
    latest: watch::Sender<T>,
    /// Held by the caller that reads the store: when it was last read.
    last_look: Mutex<Option<Instant>>,
    is_closed: watch::Sender<bool>,
    look_every: Duration,
}

impl<T: PartialEq> SharedPoll<T> {
    /// A value that was not read yet.
    pub(crate) fn new(first: T) -> Self {
        Self::every(first, LOOK_EVERY)
    }

    /// The same with an interval of its own.
    pub(crate) fn every(first: T, look_every: Duration) -> Self {
        Self {
            look_every,
            latest: watch::Sender::new(first),
            last_look: Mutex::default(),
            is_closed: watch::Sender::new(false),
        }
    }

    /// Ends all waits, now and from now on: the node is shutting down.
    pub(crate) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// Returns whether waits end at once.
    pub(crate) fn is_closed(&self) -> bool {
        *self.is_closed.borrow()
    }

    #[cfg(test)]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.latest.receiver_count() == 0
    }

    /// The value that was last read.
    pub(crate) fn latest(&self) -> T
    where
        T: Clone,
    {
        self.latest.borrow().clone()
    }

    /// Changes the value that was last read, without waking anyone.
    pub(crate) fn amend(&self, change: impl FnOnce(&mut T)) {
        self.latest.send_if_modified(|latest| {
            change(latest);
            false
        });
    }

    /// Waits until the value is as wanted, reading it with `read`; false if it is not by `until`, or once
    /// the poll is closed.
    pub(crate) async fn reaches<F: Future<Output = Result<T, StoreError>>>(
        &self,
        until: Instant,
        read: impl Fn() -> F,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<bool, StoreError> {
        let mut is_closed = self.is_closed.subscribe();
        tokio::select! {
            biased;
            () = reached(&mut is_closed, |closed| *closed) => Ok(false),
            () = sleep_until(until) => Ok(false),
            found = self.found(&read, &is_wanted) => found.map(|()| true),
        }
    }

    async fn found<F: Future<Output = Result<T, StoreError>>>(
        &self,
        read: &impl Fn() -> F,
        is_wanted: &impl Fn(&T) -> bool,
    ) -> Result<(), StoreError> {
        let mut latest = self.latest.subscribe();
        loop {
            tokio::select! {
                () = reached(&mut latest, is_wanted) => return Ok(()),
                // The caller that read before has what it waited for, or waits no longer.
                last_look = self.last_look.lock() => self.look(last_look, read, is_wanted).await?,
            }
        }
    }

    /// Reads the store until the value is as wanted.
    async fn look<F: Future<Output = Result<T, StoreError>>>(
        &self,
        mut last_look: MutexGuard<'_, Option<Instant>>,
        read: &impl Fn() -> F,
        is_wanted: &impl Fn(&T) -> bool,
    ) -> Result<(), StoreError> {
        loop {
            if let Some(last) = *last_look {
                sleep_until(last + self.look_every).await;
            }
            *last_look = Some(Instant::now());
            let found = read().await?;
            let is_found = is_wanted(&found);
            self.latest.send_if_modified(|latest| {
                let is_new = *latest != found;
                *latest = found;
                is_new
            });
            if is_found {
                return Ok(());
            }
        }
    }
}

/// Waits for a value. Its sender lives as long as whoever waits.
async fn reached<T>(watched: &mut watch::Receiver<T>, is_it: impl FnMut(&T) -> bool) {
    let _ = watched.wait_for(is_it).await;
}
