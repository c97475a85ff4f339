//! Nonces that came back and those that callers hold, as a worker knows them. The store has the
//! truth; only this worker changes it while it holds the lease.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_model::fill::FillWith;
use tollgate_model::port::{AlertKind, Page, ReservationState, StoreError, WaitKind};
use tollgate_model::{Nonce, Text, Timestamp};
use tracing::{debug, info};

use super::alarm::About;
use super::{Desk, Stop};
use crate::context::Context;

/// How often expired reservations are returned.
const TEND_INTERVAL: Duration = Duration::from_secs(1);
/// How often a free nonce below open slots is looked at.
const HOLE_LOOK: Duration = Duration::from_secs(30);
/// How often the chain is asked whether it has passed what is in the pool.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

/// What is not with a managed transaction.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Free, and handed out before the cursor moves.
    pub(super) recyclable: BTreeSet<Nonce>,
    /// In callers' hands.
    pub(super) reserved: BTreeSet<Nonce>,
    /// Of the free ones, those that an operator wants to be filled by placeholders.
    marked: BTreeSet<Nonce>,
    /// Used by callers, and not mined yet as far as is known.
    used: BTreeSet<Nonce>,
    /// What callers had used before this worker began is among them.
    used_is_loaded: bool,
    hole_looked_at: Option<Timestamp>,
    tended_at: Option<Timestamp>,
}

impl Pool {
    /// Whether it is time to look after it.
    fn is_due(&self, now: Timestamp) -> bool {
        let empty = self.recyclable.is_empty() && self.reserved.is_empty() && self.used.is_empty();
        !(empty && self.used_is_loaded)
            && self.tended_at.is_none_or(|last| now.since(last) >= TEND_INTERVAL)
    }
}

impl Pool {
    /// A caller used its nonce.
    pub(super) fn spend(&mut self, nonce: Nonce) {
        self.reserved.remove(&nonce);
        self.used.insert(nonce);
    }

    /// Notes what is to fill a free nonce.
    pub(super) fn set_filled_with(&mut self, nonce: Nonce, with: FillWith) {
        match with {
            FillWith::Placeholder => self.marked.insert(nonce),
            FillWith::Next => self.marked.remove(&nonce),
        };
        self.used.remove(&nonce);
    }

    /// Whether a free nonce is to be filled by a placeholder.
    pub(super) fn is_marked(&self, nonce: Nonce) -> bool {
        self.marked.contains(&nonce) && self.recyclable.contains(&nonce)
    }

    /// Whether any free nonce is to be filled by a placeholder.
    pub(super) fn has_marked(&self) -> bool {
        !self.marked.is_disjoint(&self.recyclable)
    }

    /// What callers fill by themselves: no holes.
    pub(super) fn with_callers(&self) -> BTreeSet<Nonce> {
        self.reserved.union(&self.used).copied().collect()
    }
}

impl Desk {
    /// Reads the pool from the store: after a takeover, and when it was not what it seemed.
    pub(super) async fn load_pool(&mut self) -> Result<(), Stop> {
        let page = full_page()?;
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
                    ReservationState::Recyclable => {
                        let reason = reservation.reason.as_ref().map(Text::as_str);
                        let with = FillWith::of_stored(reason);
                        self.book.pool.set_filled_with(reservation.nonce, with);
                        self.book.put_back([reservation.nonce]);
                    }
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
            self.book.pool.used_is_loaded = true;
            return Ok(());
        }
        let Ok(counts) = self.chain_counts().await else { return Ok(()) };
        let used = self.context.store.used_from(self.submitter, counts.mined, page).await;
        let used = used.map_err(|error| Stop::Restart(error.to_string()))?;
        self.book.pool.used.extend(used);
        self.book.pool.used_is_loaded = true;
        Ok(())
    }

    /// Returns what callers held too long, and drops what the chain has passed.
    pub(super) async fn tend_pool(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        if !self.book.pool.is_due(now) {
            return Ok(());
        }
        self.book.pool.tended_at = Some(now);
        if !self.book.pool.used_is_loaded {
            self.load_used(full_page()?).await?;
        }
        if !self.book.pool.reserved.is_empty() {
            let Context { store, node, .. } = self.context.as_ref();
            let expired = tended(store.expire_reservations(node, self.lease).await)?;
            if !expired.is_empty() {
                info!(submitter = %self.submitter, ?expired, "reservations expired");
            }
            self.book.put_back(expired);
        }
        self.retire_passed(now).await?;
        self.watch_used(now);
        self.look_for_hole(now);
        Ok(())
    }

    /// A caller said to use the nonce that the chain waits for, and no pool has anything there: after a
    /// while people are told. Nobody but a person may give it away (I3): what is signed may yet be sent.
    fn watch_used(&mut self, now: Timestamp) {
        let Some(chain) = self.book.chain else { return };
        let waits_for = Some(chain.mined).filter(|nonce| {
            chain.pending <= chain.mined
                && self.book.pool.used.contains(nonce)
                && self.book.at(*nonce).is_none()
        });
        let is_waited_for = |nonce| waits_for == Some(nonce);
        self.book.waits.retain(WaitKind::UnsentReservation, is_waited_for);
        let Some(nonce) = waits_for else { return };
        let since = self.book.waits.since(WaitKind::UnsentReservation, nonce, now);
        if now.since(since) < self.context.options.stuck.head_after {
            return;
        }
        let about = About { tx_id: None, nonce: Some(nonce) };
        let detail = format!(
            "a caller said to use nonce {nonce}, and no endpoint has it: everything above waits. Have \
             the caller send it, or hand it back with `submitter fill --used`"
        );
        self.alarm.raise(AlertKind::ReservationUnsent, about, &detail, now);
    }

    /// A free nonce below open slots that nobody waits to fill is a hole: it is looked at now, and not
    /// only when chain and slots are compared next.
    fn look_for_hole(&mut self, now: Timestamp) {
        let highest = self.book.iter().next_back().map(|open| open.nonce);
        let is_below = self.book.pool.recyclable.first().copied() < highest;
        let has_looked = self.book.pool.hole_looked_at.is_some_and(|at| now.since(at) < HOLE_LOOK);
        if self.book.pool.recyclable.is_empty() || !is_below || has_looked {
            return;
        }
        if !self.book.queued.has_next(now) {
            self.book.pool.hole_looked_at = Some(now);
            self.agenda.reconcile_soon(now);
        }
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
        self.book.pool.marked.retain(|nonce| *nonce >= mined);
        let Context { store, node, .. } = self.context.as_ref();
        for nonce in tended(store.retire_passed(node, self.lease, mined).await)? {
            self.book.pool.recyclable.remove(&nonce);
        }
        Ok(())
    }
}

fn full_page() -> Result<Page, Stop> {
    Page::new(Page::MAX).map_err(|error| Stop::Restart(error.to_string()))
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
