//! Waits for the feed to grow, on behalf of all callers that wait.
//!
//! However many callers wait, one of them reads the store every [`LOOK_EVERY`] and wakes the others;
//! while nobody waits, the store is not read.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::{Instant, sleep_until};
use tollgate_model::port::{FeedStore, StoreError};
use tollgate_model::{ChainId, Seq};

/// The interval at which the store is read while a caller waits.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The end of the feed of the node's chain, as it was last read.
pub(crate) struct FeedWatch {
    end: watch::Sender<Seq>,
    /// Held by the caller that reads the store: when it was last read.
    last_look: Mutex<Option<Instant>>,
    is_closed: watch::Sender<bool>,
}

impl Default for FeedWatch {
    fn default() -> Self {
        Self {
            end: watch::Sender::new(Seq::MIN),
            last_look: Mutex::default(),
            is_closed: watch::Sender::new(false),
        }
    }
}

impl FeedWatch {
    /// Ends all waits, now and from now on: the node is shutting down.
    pub(crate) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    #[cfg(test)]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.end.receiver_count() == 0
    }

    /// Waits until the feed of the node's chain goes beyond `after`; false if it does not by `until`, or
    /// once it is closed.
    pub(crate) async fn has_grown(
        &self,
        feed: &dyn FeedStore,
        chain: ChainId,
        after: Seq,
        until: Instant,
    ) -> Result<bool, StoreError> {
        let mut is_closed = self.is_closed.subscribe();
        tokio::select! {
            biased;
            () = reached(&mut is_closed, |closed| *closed) => Ok(false),
            () = sleep_until(until) => Ok(false),
            grown = self.grown(feed, chain, after) => grown.map(|()| true),
        }
    }

    async fn grown(
        &self,
        feed: &dyn FeedStore,
        chain: ChainId,
        after: Seq,
    ) -> Result<(), StoreError> {
        let mut end = self.end.subscribe();
        loop {
            tokio::select! {
                () = reached(&mut end, |end| *end > after) => return Ok(()),
                // The caller that read before has what it waited for, or waits no longer.
                last_look = self.last_look.lock() => self.look(last_look, feed, chain, after).await?,
            }
        }
    }

    /// Reads the store until the feed goes beyond `after`.
    async fn look(
        &self,
        mut last_look: MutexGuard<'_, Option<Instant>>,
        feed: &dyn FeedStore,
        chain: ChainId,
        after: Seq,
    ) -> Result<(), StoreError> {
        loop {
            if let Some(last) = *last_look {
                sleep_until(last + LOOK_EVERY).await;
            }
            *last_look = Some(Instant::now());
            let found = feed.feed_end(chain).await?;
            self.end.send_if_modified(|end| std::mem::replace(end, found) != found);
            if found > after {
                return Ok(());
            }
        }
    }
}

/// Waits for a value. Its sender lives as long as whoever waits.
async fn reached<T>(watched: &mut watch::Receiver<T>, is_it: impl FnMut(&T) -> bool) {
    let _ = watched.wait_for(is_it).await;
}
