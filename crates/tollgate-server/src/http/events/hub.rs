//! Reads the log of events on behalf of all callers that follow it.
//!
//! While anybody follows, one task gives numbers to new events and reads them into a ring. Callers read the
//! ring, and the store for what is older. Nobody waits for a slow caller: the ring goes on without it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use tollgate_model::Seq;
use tollgate_model::event::NumberedEvent;
use tollgate_model::port::{Page, Store, StoreError};
use tracing::warn;

use crate::http::access::Caller;
use crate::http::access::shares::{Places, TakenPlace};

/// The interval at which the store is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pause after a failed read.
const PAUSE: Duration = Duration::from_secs(1);
/// Events in memory (I13): about 5 MB.
const RING_MAX: usize = 10_000;
/// Callers that follow at once (I13), as `Places` shares them out.
const FOLLOWERS_MAX: usize = 500;
/// Reads of older events at once (I13).
const OLDER_READS_MAX: usize = 4;

/// The newest events, for all callers.
pub(crate) struct EventHub {
    state: Mutex<State>,
    /// The number through which the ring is filled.
    through: watch::Sender<u64>,
    is_closed: watch::Sender<bool>,
    older_reads: Semaphore,
    places: Arc<Places>,
}

#[derive(Default)]
struct State {
    followers: usize,
    is_reading: bool,
    /// `None` until the first read of the present task.
    ring: Option<Ring>,
}

/// Every event above `from` and up to `through`.
struct Ring {
    from: Seq,
    through: Seq,
    events: VecDeque<Arc<NumberedEvent>>,
}

/// A part of the log.
pub(crate) struct Part {
    pub(crate) events: Vec<Arc<NumberedEvent>>,
    /// The position to continue from.
    pub(crate) next: Seq,
    /// The last number that was removed; of parts from the ring the lowest.
    pub(crate) removed_through: Seq,
    /// The part is of the ring: the caller is up to date.
    pub(crate) is_live: bool,
}

/// A caller that follows.
pub(crate) struct Follower {
    hub: Arc<EventHub>,
    store: Arc<dyn Store>,
    _place: TakenPlace,
}

impl Default for EventHub {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            through: watch::Sender::new(0),
            is_closed: watch::Sender::new(false),
            older_reads: Semaphore::new(OLDER_READS_MAX),
            places: Places::new(FOLLOWERS_MAX),
        }
    }
}

impl EventHub {
    /// Ends all streams and waits, now and from now on: the node is shutting down.
    pub(crate) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more caller; `None` if there is none, or if its key or tenant has its share.
    pub(crate) fn follow(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        caller: &Caller,
    ) -> Option<Follower> {
        let place = self.places.take(caller)?;
        let mut state = self.state();
        state.followers += 1;
        if !std::mem::replace(&mut state.is_reading, true) {
            state.ring = None;
            tokio::spawn(self.clone().read(store.clone()));
        }
        Some(Follower { hub: self.clone(), store: store.clone(), _place: place })
    }

    /// Fills the ring until nobody follows.
    async fn read(self: Arc<Self>, store: Arc<dyn Store>) {
        loop {
            let pause = match self.look(&*store).await {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    warn!(%error, "events can't be read; retrying");
                    PAUSE
                }
            };
            sleep(pause).await;
            let mut state = self.state();
            if state.followers == 0 {
                (state.is_reading, state.ring) = (false, None);
                return;
            }
        }
    }

    async fn look(&self, store: &dyn Store) -> Result<(), StoreError> {
        let page = Page::new(Page::MAX)?;
        while store.number_events(page).await? >= page.limit() {}
        let known = self.state().ring.as_ref().map(|ring| ring.through);
        let mut after = match known {
            Some(through) => through,
            None => store.event_bounds().await?.end,
        };
        loop {
            let found = store.events(after, page).await?;
            after = found.next;
            let is_end = found.next >= found.end;
            self.fill(found.items, found.next);
            if is_end {
                return Ok(());
            }
        }
    }

    fn fill(&self, events: Vec<NumberedEvent>, through: Seq) {
        let mut state = self.state();
        let ring = state.ring.get_or_insert_with(|| {
            let from = events.first().map_or(through, |first| before(first.seq));
            Ring { from, through, events: VecDeque::new() }
        });
        ring.events.extend(events.into_iter().map(Arc::new));
        ring.through = through;
        while ring.events.len() > RING_MAX
            && let Some(oldest) = ring.events.pop_front()
        {
            ring.from = oldest.seq;
        }
        drop(state);
        self.through
            .send_if_modified(|known| std::mem::replace(known, through.get()) != through.get());
    }
}

fn before(seq: Seq) -> Seq {
    Seq::new(seq.get().saturating_sub(1)).unwrap_or(Seq::MIN)
}

impl Ring {
    /// The next events after a position that the ring reaches back to.
    fn after(&self, after: Seq, limit: usize) -> Option<Part> {
        if after < self.from || after > self.through {
            return None;
        }
        let start = self.events.partition_point(|event| event.seq <= after);
        let events: Vec<_> = self.events.range(start..).take(limit).cloned().collect();
        let is_full = events.len() == limit;
        let next = events.last().filter(|_| is_full).map_or(self.through, |last| last.seq);
        Some(Part { events, next, removed_through: Seq::MIN, is_live: true })
    }
}

impl Follower {
    /// The next part of the log after a position; empty at the end.
    pub(crate) async fn after(&self, after: Seq, page: Page) -> Result<Part, StoreError> {
        let live = {
            let state = self.hub.state();
            state.ring.as_ref().and_then(|ring| ring.after(after, page.limit() as usize))
        };
        if let Some(part) = live {
            return Ok(part);
        }
        // Never closed.
        let _place = self.hub.older_reads.acquire().await;
        let found = self.store.events(after, page).await?;
        let events = found.items.into_iter().map(Arc::new).collect();
        let removed_through = found.removed_through;
        Ok(Part { events, next: found.next, removed_through, is_live: false })
    }

    /// Waits until there is something after a position; false once the node is shutting down.
    pub(crate) async fn grows(&self, after: Seq) -> bool {
        let mut through = self.hub.through.subscribe();
        let mut is_closed = self.hub.is_closed.subscribe();
        // Both senders live as long as this.
        tokio::select! {
            biased;
            _ = is_closed.wait_for(|closed| *closed) => false,
            _ = through.wait_for(|through| *through > after.get()) => true,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.hub.is_closed.borrow()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.hub.state().followers -= 1;
    }
}
