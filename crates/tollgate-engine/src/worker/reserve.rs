//! Carries out what callers that send by themselves ask for, under the submitter's lease.
//!
//! The store picks the nonce and writes it in one fenced transaction; the book follows.

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{Reservation, Reserve, StoreError};
use tracing::debug;

use super::{Desk, Stop};
use crate::act::ActError;
use crate::context::Context;
use crate::reserve::{ReservationAsk, ReservationOrder, ReserveError};

impl Desk {
    /// Answers the caller whatever happens; what was not understood ends the desk.
    pub(super) async fn carry_out_reservation(
        &mut self,
        order: ReservationOrder,
    ) -> Result<(), Stop> {
        let ReservationOrder { ask, reply } = order;
        let (answer, stop) = match self.try_reservation(ask).await {
            Ok(answer) => (Ok(answer), Ok(())),
            Err(StoreError::Fenced(_)) => (Err(ActError::NotOwner(None)), Err(Stop::Fenced)),
            Err(error @ StoreError::Unavailable(_)) => {
                (Err(ActError::Unavailable(error.to_string())), Ok(()))
            }
            // It may be written: what is out is read back, and the caller asks again.
            Err(error) => {
                let why = error.to_string();
                (Err(ActError::Unavailable(why.clone())), Err(Stop::Restart(why)))
            }
        };
        // A caller that has gone meanwhile lets its time run out.
        let _ = reply.send(answer);
        stop
    }

    async fn try_reservation(
        &mut self,
        ask: ReservationAsk,
    ) -> Result<Result<Reservation, ReserveError>, StoreError> {
        match ask {
            ReservationAsk::Reserve { hold, outstanding_max } => {
                if let Some(refused) = self.refuses_to_reserve() {
                    return Ok(Err(refused));
                }
                let Ok(counts) = self.chain_counts().await else {
                    return Ok(Err(ReserveError::Unavailable("the chain can't be asked".into())));
                };
                let owner_token = self.context.ids.owner_token();
                let (lease, floor) = (self.lease, Reserve::floor_of(counts));
                let ask = Reserve { lease, owner_token, hold, floor, outstanding_max };
                let Context { store, node, .. } = self.context.as_ref();
                let reserved = store.reserve(node, &ask).await?;
                if let Some(reservation) = &reserved {
                    self.note_reserved(reservation)?;
                }
                Ok(reserved.ok_or(ReserveError::TooMany))
            }
            ReservationAsk::Used { nonce, owner_token, tx_hash } => {
                let Context { store, node, .. } = self.context.as_ref();
                let used =
                    store.reservation_used(node, self.lease, nonce, owner_token, tx_hash).await?;
                if used.is_some() {
                    self.book.pool.spend(nonce);
                }
                Ok(used.ok_or(ReserveError::StaleToken))
            }
            ReservationAsk::Recyclable { nonce, owner_token, reason } => {
                let Context { store, node, .. } = self.context.as_ref();
                let back = store
                    .reservation_recyclable(node, self.lease, nonce, owner_token, &reason)
                    .await?;
                self.book.put_back(back.iter().map(|back| back.nonce));
                Ok(back.ok_or(ReserveError::StaleToken))
            }
        }
    }

    fn refuses_to_reserve(&self) -> Option<ReserveError> {
        let strict = self.book.mode == Mode::Strict;
        let active = self.book.status == SubmitterStatus::Active;
        // I12: nobody but the worker opens slots of a strict submitter.
        match (strict, active) {
            (true, _) => Some(ReserveError::StrictMode),
            (false, false) => Some(ReserveError::NotActive(self.book.status)),
            (false, true) => None,
        }
    }

    /// I3: what a caller holds is neither in the pool nor at the cursor any more.
    fn note_reserved(&mut self, reservation: &Reservation) -> Result<(), StoreError> {
        let nonce = reservation.nonce;
        debug!(submitter = %self.submitter, %nonce, "reserved");
        self.book.pool.recyclable.remove(&nonce);
        self.book.pool.reserved.insert(nonce);
        self.book.cursor = self.book.cursor.max(nonce.forward(1)?);
        Ok(())
    }
}
