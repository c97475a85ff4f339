//! A channel that holds the newest value, for many receivers.
//!
//! As tokio's `watch`, but receivers are woken in the order in which they wait, not in a random
//! one: a seed of a simulation is one run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

/// A channel that holds the newest value.
pub(crate) fn channel<T>(value: T) -> (ValueSender<T>, ValueReceiver<T>) {
    let cell = Arc::new(Cell {
        newest: Mutex::new((0, Arc::new(value))),
        changed: Notify::new(),
        abandoned: AtomicBool::new(false),
    });
    let receivers = Arc::new(());
    let sender = ValueSender { cell: cell.clone(), receivers: Arc::downgrade(&receivers) };
    (sender, ValueReceiver { cell, _receivers: receivers, version: 0 })
}

struct Cell<T> {
    newest: Mutex<(u64, Arc<T>)>,
    changed: Notify,
    abandoned: AtomicBool,
}

impl<T> Cell<T> {
    fn lock(&self) -> MutexGuard<'_, (u64, Arc<T>)> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that sets values.
pub(crate) struct ValueSender<T> {
    cell: Arc<Cell<T>>,
    receivers: Weak<()>,
}

impl<T> ValueSender<T> {
    pub(crate) fn get(&self) -> Arc<T> {
        self.cell.lock().1.clone()
    }

    pub(crate) fn set(&self, value: T) {
        let mut newest = self.cell.lock();
        *newest = (newest.0 + 1, Arc::new(value));
        drop(newest);
        self.cell.changed.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.receivers.strong_count() == 0
    }
}

impl<T> Drop for ValueSender<T> {
    fn drop(&mut self) {
        self.cell.abandoned.store(true, Ordering::SeqCst);
        self.cell.changed.notify_waiters();
    }
}

/// An end that reads values.
#[derive(Clone)]
pub(crate) struct ValueReceiver<T> {
    cell: Arc<Cell<T>>,
    /// Counts the receivers.
    _receivers: Arc<()>,
    version: u64,
}

impl<T> ValueReceiver<T> {
    pub(crate) fn get(&self) -> Arc<T> {
        self.cell.lock().1.clone()
    }

    /// The newest value; [`Self::changed`] waits for another one from then on.
    pub(crate) fn latest(&mut self) -> Arc<T> {
        let newest = self.cell.lock();
        self.version = newest.0;
        newest.1.clone()
    }

    /// Waits for another value than the one that was read; false if there will be none.
    pub(crate) async fn changed(&mut self) -> bool {
        loop {
            // Made before the version is read, so that nothing is missed in between.
            let changed = self.cell.changed.notified();
            let version = self.cell.lock().0;
            if version != self.version {
                self.version = version;
                return true;
            }
            if self.cell.abandoned.load(Ordering::SeqCst) {
                return false;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn value_set_before_the_wait_is_not_missed_and_a_dropped_sender_ends_it() {
        let (sender, mut receiver) = channel(1);
        sender.set(2);
        assert!(receiver.changed().await);
        assert_eq!(*receiver.latest(), 2);
        let mut waits =
            tokio::spawn(async move { (receiver.changed().await, *receiver.latest(), receiver) });
        assert!(futures_util::poll!(&mut waits).is_pending());
        sender.set(3);
        let (changed, value, mut receiver) = waits.await.unwrap();
        assert_eq!((changed, value), (true, 3));
        assert!(!sender.is_closed());
        drop(sender);
        assert!(!receiver.changed().await);
    }

    #[tokio::test]
    async fn sender_is_closed_when_the_last_receiver_is_dropped() {
        let (sender, receiver) = channel(1);
        let other = receiver.clone();
        drop(receiver);
        assert!(!sender.is_closed());
        drop(other);
        assert!(sender.is_closed());
    }
}
