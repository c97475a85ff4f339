//! Nonces that came back and those that callers hold, as a worker knows them. The store has the
//! truth; only this worker changes it while it holds the lease.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_model::port::{Page, ReservationState, StoreError};
use tollgate_model::{Nonce, Timestamp};
use tracing::{debug, info};

use super::{Desk, Stop};
use crate::context::Context;

/// How often expired reservations are returned.
const TEND_INTERVAL: Duration = Duration::from_secs(1);
/// How often the chain is asked whether it has passed what is in the pool.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

/// What is not with a managed transaction.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Free, and handed out before the cursor moves.
    pub(super) recyclable: BTreeSet<Nonce>,
    /// In callers' hands.
    pub(super) reserved: BTreeSet<Nonce>,
    /// Used by callers, and not mined yet as far as is known.
    used: BTreeSet<Nonce>,
    tended_at: Option<Timestamp>,
}

impl Pool {
    /// Whether it is time to look after it.
    fn is_due(&self, now: Timestamp) -> bool {
        let empty = self.recyclable.is_empty() && self.reserved.is_empty() && self.used.is_empty();
        !empty && self.tended_at.is_none_or(|last| now.since(last) >= TEND_INTERVAL)
    }
}

impl Pool {
    /// A caller used its nonce.
    pub(super) fn spend(&mut self, nonce: Nonce) {
        self.reserved.remove(&nonce);
        self.used.insert(nonce);
    }

    /// What callers fill by themselves: no holes.
    pub(super) fn with_callers(&self) -> BTreeSet<Nonce> {
        self.reserved.union(&self.used).copied().collect()
    }
}

impl Desk {
    /// Reads the pool from the store: after a takeover, and when it was not what it seemed.
    pub(super) async fn load_pool(&mut self) -> Result<(), Stop> {
        let page = Page::new(Page::MAX).map_err(|error| Stop::Restart(error.to_string()))?;
        self.book.pool = Pool::default();
        let mut after = None;
        loop {
            let found = self.context.store.reservations(self.submitter, after, page).await;
            let found = found.map_err(|error| Stop::Restart(error.to_string()))?;
            for reservation in &found {
                match reservation.state {
                    ReservationState::Reserved => {
                        self.book.pool.reserved.insert(reservation.nonce);
                    }
                    ReservationState::Recyclable => self.book.put_back([reservation.nonce]),
                    ReservationState::Used => {}
                }
            }
            if found.len() < page.limit() as usize {
                break;
            }
            after = found.last().map(|last| last.nonce);
        }
        self.load_used(page).await?;
        let Pool { recyclable, reserved, .. } = &self.book.pool;
        if !recyclable.is_empty() || !reserved.is_empty() {
            let (free, held) = (recyclable.len(), reserved.len());
            info!(submitter = %self.submitter, free, held, "nonces outside of the cursor");
        }
        Ok(())
    }

    /// What callers have used and the chain may not have yet: no holes. Where the chain can't be asked
    /// they are shown as such until it has them.
    async fn load_used(&mut self, page: Page) -> Result<(), Stop> {
        if self.context.options.reservations.is_none() {
            return Ok(());
        }
        let Ok(counts) = self.chain_counts().await else { return Ok(()) };
        let used = self.context.store.used_from(self.submitter, counts.mined, page).await;
        let used = used.map_err(|error| Stop::Restart(error.to_string()))?;
        self.book.pool.used.extend(used);
        Ok(())
    }

    /// Returns what callers held too long, and drops what the chain has passed.
    pub(super) async fn tend_pool(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        if !self.book.pool.is_due(now) {
            return Ok(());
        }
        self.book.pool.tended_at = Some(now);
        if !self.book.pool.reserved.is_empty() {
            let Context { store, node, .. } = self.context.as_ref();
            let expired = tended(store.expire_reservations(node, self.lease).await)?;
            if !expired.is_empty() {
                info!(submitter = %self.submitter, ?expired, "reservations expired");
            }
            self.book.put_back(expired);
        }
        self.retire_passed(now).await
    }

    /// I3: what the chain has mined is spent, whoever did it.
    async fn retire_passed(&mut self, now: Timestamp) -> Result<(), Stop> {
        let Pool { recyclable, used, .. } = &self.book.pool;
        let lowest = recyclable.first().into_iter().chain(used.first()).min();
        let Some(lowest) = lowest.copied() else { return Ok(()) };
        let fresh = |read_at: Timestamp| now.since(read_at) < COUNT_AGE_MAX && !self.book.drift;
        if !self.book.chain.is_some_and(|chain| fresh(chain.read_at))
            && let Err(error) = self.chain_counts().await
        {
            debug!(submitter = %self.submitter, %error, "the pool waits for the chain");
            return Ok(());
        }
        let Some(mined) = self.book.chain.map(|chain| chain.mined).filter(|m| *m > lowest) else {
            return Ok(());
        };
        self.book.pool.used.retain(|nonce| *nonce >= mined);
        let Context { store, node, .. } = self.context.as_ref();
        for nonce in tended(store.retire_passed(node, self.lease, mined).await)? {
            self.book.pool.recyclable.remove(&nonce);
        }
        Ok(())
    }
}

/// What can't be done now is done at the next tick; what may have been done is read back.
pub(super) fn tended(done: Result<Vec<Nonce>, StoreError>) -> Result<Vec<Nonce>, Stop> {
    match done {
        Ok(nonces) => Ok(nonces),
        Err(StoreError::Fenced(_)) => Err(Stop::Fenced),
        Err(StoreError::Unavailable(_)) => Ok(Vec::new()),
        Err(error) => Err(Stop::Restart(error.to_string())),
    }
}
