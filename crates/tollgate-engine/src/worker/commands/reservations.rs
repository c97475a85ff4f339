//! Nonces for callers that send by themselves, under the submitter's lease. The store picks the nonce and writes
//! it in one fenced transaction; the state follows.

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{Reservation, Reserve, StoreError};
use tracing::debug;

use super::ActionFailure;
use crate::context::Context;
use crate::reserve::{ReservationAsk, ReserveError};
use crate::worker::{Session, Stop};

/// The answer to a caller, or the reason why the worker stops.
type Outcome = Result<Reservation, ActionFailure<ReserveError>>;

pub(super) async fn carry_out(session: &mut Session, ask: ReservationAsk) -> Outcome {
    let lease = session.lease;
    let context = session.context.clone();
    let Context { store, node, .. } = context.as_ref();
    match ask {
        ReservationAsk::Reserve { hold, outstanding_max } => {
            check_may_reserve(session)?;
            let floor = Reserve::floor_of(session.chain_counts().await?);
            let owner_token = context.ids.owner_token();
            let ask = Reserve { lease, owner_token, hold, floor, outstanding_max };
            let reserved = written(session, store.reserve(node, &ask).await)?;
            let reservation = reserved.ok_or(ReserveError::TooMany)?;
            debug!(submitter = %session.submitter, nonce = %reservation.nonce, "nonce reserved");
            session.state.note_reserved(reservation.nonce).map_err(Stop::from)?;
            Ok(reservation)
        }
        ReservationAsk::Used { nonce, owner_token, tx_hash } => {
            let used = store.reservation_used(node, lease, nonce, owner_token, tx_hash).await;
            let used = written(session, used)?.ok_or(ReserveError::StaleToken)?;
            session.state.pool_mut().spend(nonce);
            Ok(used)
        }
        ReservationAsk::Recyclable { nonce, owner_token, reason } => {
            let back = store.reservation_recyclable(node, lease, nonce, owner_token, &reason).await;
            let back = written(session, back)?.ok_or(ReserveError::StaleToken)?;
            session.state.put_back([back.nonce]);
            Ok(back)
        }
    }
}

/// Refuses what can't be written now. A write with unknown outcome restarts the worker, and the caller asks
/// again.
fn written<T>(
    session: &mut Session,
    done: Result<T, StoreError>,
) -> Result<T, ActionFailure<ReserveError>> {
    match session.written(done) {
        Err(error @ StoreError::Unavailable(_)) => Err(ReserveError::from(error).into()),
        done => Ok(done.map_err(Stop::from)?),
    }
}

/// I12: nobody but the worker opens slots of a strict submitter.
fn check_may_reserve(session: &Session) -> Result<(), ReserveError> {
    match (session.state.mode(), session.state.status()) {
        (Mode::Strict, _) => Err(ReserveError::StrictMode),
        (Mode::Pipelined, SubmitterStatus::Active) => Ok(()),
        (Mode::Pipelined, status) => Err(ReserveError::NotActive(status)),
    }
}
