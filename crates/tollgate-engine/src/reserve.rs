//! Nonces for callers that send by themselves: what they ask, and what they are answered.
//!
//! The same lease, cursor and fence as everything else; the submitter's worker carries it out
//! (`worker/commands/reservations.rs`). Off unless [`EngineOptions::reservations`](crate::EngineOptions) says
//! otherwise. What is out can be answered for even then, so that switching it off strands nobody.

use std::time::Duration;

use thiserror::Error;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{Page, Reservation, StoreError};
use tollgate_model::{Nonce, Submitter, Text, TxHash};
use uuid::Uuid;

use crate::engine::Engine;
use crate::errors::Unserved;
use crate::worker::{Command, Reply};

pub(crate) enum ReservationAsk {
    Reserve { hold: Duration, outstanding_max: u32 },
    Used { nonce: Nonce, owner_token: Uuid, tx_hash: TxHash },
    Recyclable { nonce: Nonce, owner_token: Uuid, reason: Text<500> },
}

/// The same with where the answer goes.
pub(crate) struct ReservationCommand {
    pub(crate) ask: ReservationAsk,
    pub(crate) reply: Reply<Reservation, ReserveError>,
}

impl ReservationCommand {
    /// Answers without doing anything. The caller may have gone meanwhile.
    pub(crate) fn refuse(self, why: Unserved) {
        let _ = self.reply.send(Err(why.into()));
    }
}

/// The reason why a reservation was refused. Nothing was written, but for
/// [`Unserved::Unavailable`], where the answer may be lost: a reservation then expires by itself, and
/// the rest can be asked again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// This node hands out no nonces.
    #[error("reservations are switched off here (reservations.enabled)")]
    Disabled,
    /// A strict submitter opens its slots itself, one at a time (I12).
    #[error("a strict submitter hands out no nonces")]
    StrictMode,
    /// The submitter takes no work.
    #[error("the submitter is {}", .0.name())]
    NotActive(SubmitterStatus),
    /// The caller wants it for nothing, or for longer than is allowed (I13).
    #[error("a nonce is held for at least a millisecond and at most {} s", .max.as_secs())]
    HoldOutOfRange {
        /// The longest.
        max: Duration,
    },
    /// Callers hold as many as they may (I13).
    #[error("callers hold as many nonces of this submitter as they may")]
    TooMany,
    /// The nonce is not the caller's: its time was over, it was given back, or used for another
    /// hash. Do not send.
    #[error("the nonce is not this caller's (any more): don't send")]
    StaleToken,
    /// The submitter's worker can't be asked, or could not go on.
    #[error(transparent)]
    Unserved(#[from] Unserved),
}

/// The reservations of an engine's submitters ([`Engine::reservations`]).
#[derive(Clone, Copy)]
pub struct Reservations<'a>(&'a Engine);

impl Engine {
    /// Nonces for callers that send by themselves.
    pub const fn reservations(&self) -> Reservations<'_> {
        Reservations(self)
    }
}

impl Reservations<'_> {
    /// Reserves a nonce for a caller: the lowest recyclable one, else the cursor's. Durable when this returns.
    /// If the caller reports nothing in time, the nonce becomes recyclable.
    pub async fn reserve(
        self,
        of: Submitter,
        hold: Option<Duration>,
    ) -> Result<Reservation, ReserveError> {
        let limits = self.0.context.options.reservations.ok_or(ReserveError::Disabled)?;
        let hold = hold.unwrap_or(limits.hold);
        if hold < Duration::from_millis(1) || hold > limits.hold_max {
            return Err(ReserveError::HoldOutOfRange { max: limits.hold_max });
        }
        if !self.0.serves(of) {
            return Err(self.0.refusal(of).into());
        }
        let outstanding_max = limits.outstanding_max;
        self.ask(of, ReservationAsk::Reserve { hold, outstanding_max }).await
    }

    /// A caller uses its nonce. Reported before it sends, so that no other transaction gets the nonce (I3, I5).
    /// The report may be repeated.
    pub async fn used(
        self,
        of: Submitter,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Reservation, ReserveError> {
        self.ask(of, ReservationAsk::Used { nonce, owner_token, tx_hash }).await
    }

    /// A caller has not used its nonce, and will not.
    pub async fn recyclable(
        self,
        of: Submitter,
        nonce: Nonce,
        owner_token: Uuid,
        reason: Text<500>,
    ) -> Result<Reservation, ReserveError> {
        self.ask(of, ReservationAsk::Recyclable { nonce, owner_token, reason }).await
    }

    /// A page of the reserved and recyclable nonces, lowest first.
    pub async fn list(
        self,
        of: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError> {
        self.0.context.store.reservations(of, after, page).await
    }

    async fn ask(self, of: Submitter, ask: ReservationAsk) -> Result<Reservation, ReserveError> {
        self.0.command(of, |reply| Command::Reservation(ReservationCommand { ask, reply })).await
    }
}
