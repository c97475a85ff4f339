//! Waits for the feed to grow, on behalf of all callers that wait.
//!
//! However many wait, one of them looks at the store every [`LOOK_EVERY`] and tells the others;
//! when nobody waits, nobody looks.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::{Instant, sleep_until};
use tollgate_model::port::{FeedStore, StoreError};
use tollgate_model::{ChainId, Seq};

/// How often the store is looked at while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Where the feed of the node's chain ended when somebody last looked.
pub(crate) struct FeedWatch {
    end: watch::Sender<Seq>,
    /// Held by the one that looks: when that was last done.
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
    /// Nobody waits any more: the node is being stopped.
    pub(crate) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// Whether nobody waits.
    #[cfg(test)]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.end.receiver_count() == 0
    }

    /// Waits until there is something of the node's chain after a place; false if there is nothing by `until`, or if
    /// nobody may wait any more.
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
                // Whoever looked before is gone: it found what it wanted, or waits no longer.
                last_look = self.last_look.lock() => self.look(last_look, feed, chain, after).await?,
            }
        }
    }

    /// Looks until there is something after a place.
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
