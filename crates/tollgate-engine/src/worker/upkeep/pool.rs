//! Looks after nonces that no managed transaction has: returns what callers held too long, drops what the chain
//! has passed. Owns when that was last done.

use std::time::Duration;

use tollgate_model::fill::FillWith;
use tollgate_model::port::{AlertKind, Page, ReservationState, StoreError, WaitKind};
use tollgate_model::{Nonce, Text, Timestamp};
use tracing::{debug, info};

use super::Upkeep;
use crate::context::Context;
use crate::worker::alarm::AlertSubject;
use crate::worker::{Session, Stop};

const TEND_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks at a free nonce below open slots.
const HOLE_LOOK: Duration = Duration::from_secs(30);
/// The age of a count after which the chain is asked whether it has passed the pool.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct PoolWatch {
    hole_looked_at: Option<Timestamp>,
    tended_at: Option<Timestamp>,
}

impl Upkeep {
    /// Returns what callers held too long, and drops what the chain has passed.
    pub(in crate::worker) async fn tend_pool(&mut self, session: &mut Session) -> Result<(), Stop> {
        let now = session.now();
        let is_due = self.pool.tended_at.is_none_or(|last| now.since(last) >= TEND_INTERVAL);
        let pool = session.state.pool();
        if !is_due || pool.is_empty() && pool.is_used_loaded() {
            return Ok(());
        }
        self.pool.tended_at = Some(now);
        if !pool.is_used_loaded() {
            load_used(session).await?;
        }
        if !session.state.pool().reserved().is_empty() {
            let Context { store, node, .. } = session.context.as_ref();
            let expired = store.expire_reservations(node, session.lease).await;
            let expired = unless_unavailable(session, expired)?;
            if !expired.is_empty() {
                info!(submitter = %session.submitter, ?expired, "reservations expired");
            }
            session.state.put_back(expired);
        }
        retire_passed(session, now).await?;
        watch_used(session, now);
        self.look_for_hole(session, now);
        Ok(())
    }

    /// A free nonce below open slots that nobody waits to fill is a hole: it is looked at now, and not only
    /// when chain and slots are compared next.
    fn look_for_hole(&mut self, session: &mut Session, now: Timestamp) {
        let lowest = session.state.pool().recyclable().first().copied();
        let is_below = lowest.is_some() && lowest < session.state.in_flight().highest();
        let has_looked = self.pool.hole_looked_at.is_some_and(|at| now.since(at) < HOLE_LOOK);
        if is_below && !has_looked && !session.state.queue().has_next(now) {
            self.pool.hole_looked_at = Some(now);
            session.agenda.reconcile_soon(now);
        }
    }
}

/// Reads the pool from the store: after a takeover, and when it was not what it seemed.
pub(in crate::worker) async fn load_pool(session: &mut Session) -> Result<(), Stop> {
    let page = Page::new(Page::MAX)?;
    session.state.pool_mut().clear();
    let mut after = None;
    loop {
        let found = session.context.store.reservations(session.submitter, after, page).await?;
        for reservation in &found {
            let nonce = reservation.nonce;
            match reservation.state {
                ReservationState::Reserved => session.state.pool_mut().reserve(nonce),
                ReservationState::Recyclable => {
                    let reason = reservation.reason.as_ref().map(Text::as_str);
                    let with = FillWith::of_stored(reason);
                    session.state.pool_mut().set_filled_with(nonce, with);
                    session.state.put_back([nonce]);
                }
                ReservationState::Used => {}
            }
        }
        if found.len() < page.limit() as usize {
            break;
        }
        after = found.last().map(|last| last.nonce);
    }
    load_used(session).await?;
    let pool = session.state.pool();
    let (free, held) = (pool.recyclable().len(), pool.reserved().len());
    if free + held > 0 {
        info!(submitter = %session.submitter, free, held, "nonce pool loaded");
    }
    Ok(())
}

/// Loads the nonces that callers have used and the chain may not have yet: no holes. Where the chain can't be
/// asked they are shown as such until it has them.
async fn load_used(session: &mut Session) -> Result<(), Stop> {
    if session.context.options.reservations.is_none() {
        session.state.pool_mut().add_used(Vec::new());
        return Ok(());
    }
    let Ok(counts) = session.chain_counts().await else { return Ok(()) };
    let page = Page::new(Page::MAX)?;
    let used = session.context.store.used_from(session.submitter, counts.mined, page).await?;
    session.state.pool_mut().add_used(used);
    Ok(())
}

/// A caller said to use the nonce that the chain waits for, and no pool has anything there: after a while an
/// alert is raised. Nobody but an operator may give it away (I3): what is signed may yet be sent.
fn watch_used(session: &mut Session, now: Timestamp) {
    let Some(chain) = session.state.chain_count().last() else { return };
    let waits_for = Some(chain.mined).filter(|nonce| {
        chain.pending <= chain.mined
            && session.state.pool().is_used(*nonce)
            && session.state.in_flight().at(*nonce).is_none()
    });
    let waits = session.state.waits_mut();
    waits.retain(WaitKind::UnsentReservation, |nonce| waits_for == Some(nonce));
    let Some(nonce) = waits_for else { return };
    let since = waits.since(WaitKind::UnsentReservation, nonce, now);
    if now.since(since) < session.context.options.stuck.head_after {
        return;
    }
    let detail = format!(
        "a caller said to use nonce {nonce}, and no endpoint has it: everything above waits. Have \
         the caller send it, or hand it back with `submitter fill --used`"
    );
    session.alert(AlertKind::ReservationUnsent, AlertSubject::nonce(nonce), &detail);
}

/// I3: what the chain has mined is spent, whoever did it.
async fn retire_passed(session: &mut Session, now: Timestamp) -> Result<(), Stop> {
    let Some(lowest) = session.state.pool().lowest() else { return Ok(()) };
    let chain = session.state.chain_count().last();
    let is_fresh = chain.is_some_and(|chain| now.since(chain.read_at) < COUNT_AGE_MAX);
    let must_ask = !is_fresh || session.state.chain_count().has_drift();
    if must_ask && let Err(error) = session.chain_counts().await {
        debug!(submitter = %session.submitter, %error, "nonce pool not checked");
        return Ok(());
    }
    let mined =
        session.state.chain_count().last().map(|chain| chain.mined).filter(|mined| *mined > lowest);
    let Some(mined) = mined else { return Ok(()) };
    session.state.pool_mut().drop_below(mined);
    let Context { store, node, .. } = session.context.as_ref();
    let retired = store.retire_passed(node, session.lease, mined).await;
    for nonce in unless_unavailable(session, retired)? {
        session.state.pool_mut().take(nonce);
    }
    Ok(())
}

/// Leaves what can't be written now to the next tick. A write with unknown outcome restarts the worker.
pub(super) fn unless_unavailable(
    session: &mut Session,
    done: Result<Vec<Nonce>, StoreError>,
) -> Result<Vec<Nonce>, Stop> {
    match session.written(done) {
        Err(StoreError::Unavailable(_)) => Ok(Vec::new()),
        done => Ok(done?),
    }
}
