//! The newest value of something, for many who look at it.
//!
//! As tokio's `watch`, but whoever waits is woken in the order in which they came, not in a random
//! one: a seed of a simulation is one run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

/// A place for a value, and a first look at it.
pub(crate) fn place<T>(value: T) -> (Shown<T>, Seen<T>) {
    let place = Arc::new(Place {
        newest: Mutex::new((0, Arc::new(value))),
        changed: Notify::new(),
        abandoned: AtomicBool::new(false),
    });
    let looks = Arc::new(());
    let shown = Shown { place: place.clone(), looks: Arc::downgrade(&looks) };
    (shown, Seen { place, _looks: looks, version: 0 })
}

struct Place<T> {
    newest: Mutex<(u64, Arc<T>)>,
    changed: Notify,
    abandoned: AtomicBool,
}

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, (u64, Arc<T>)> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that shows values.
pub(crate) struct Shown<T> {
    place: Arc<Place<T>>,
    looks: Weak<()>,
}

impl<T> Shown<T> {
    pub(crate) fn get(&self) -> Arc<T> {
        self.place.lock().1.clone()
    }

    pub(crate) fn show(&self, value: T) {
        let mut newest = self.place.lock();
        *newest = (newest.0 + 1, Arc::new(value));
        drop(newest);
        self.place.changed.notify_waiters();
    }

    /// Nobody looks any more.
    pub(crate) fn is_unseen(&self) -> bool {
        self.looks.strong_count() == 0
    }
}

impl<T> Drop for Shown<T> {
    fn drop(&mut self) {
        self.place.abandoned.store(true, Ordering::SeqCst);
        self.place.changed.notify_waiters();
    }
}

/// An end that looks.
#[derive(Clone)]
pub(crate) struct Seen<T> {
    place: Arc<Place<T>>,
    /// That it is held is what counts.
    _looks: Arc<()>,
    version: u64,
}

impl<T> Seen<T> {
    pub(crate) fn get(&self) -> Arc<T> {
        self.place.lock().1.clone()
    }

    /// Looks, and waits from then on for what is newer.
    pub(crate) fn look(&mut self) -> Arc<T> {
        let newest = self.place.lock();
        self.version = newest.0;
        newest.1.clone()
    }

    /// Waits for another value than the one that was looked at; false if there will be none.
    pub(crate) async fn changed(&mut self) -> bool {
        loop {
            // Made before the look, so that nothing is shown in between.
            let changed = self.place.changed.notified();
            let version = self.place.lock().0;
            if version != self.version {
                self.version = version;
                return true;
            }
            if self.place.abandoned.load(Ordering::SeqCst) {
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
    async fn what_was_shown_before_the_wait_is_not_missed_and_the_end_is_told() {
        let (shown, mut seen) = place(1);
        shown.show(2);
        assert!(seen.changed().await);
        assert_eq!(*seen.look(), 2);
        let mut waits = tokio::spawn(async move { (seen.changed().await, *seen.look(), seen) });
        assert!(futures_util::poll!(&mut waits).is_pending());
        shown.show(3);
        let (changed, value, mut seen) = waits.await.unwrap();
        assert_eq!((changed, value), (true, 3));
        assert!(!shown.is_unseen());
        drop(shown);
        assert!(!seen.changed().await);
    }

    #[tokio::test]
    async fn who_shows_knows_that_nobody_looks() {
        let (shown, seen) = place(1);
        let other = seen.clone();
        drop(seen);
        assert!(!shown.is_unseen());
        drop(other);
        assert!(shown.is_unseen());
    }
}
