//! Nonces reserved for callers that sign and send by themselves, with an account that Tollgate also
//! manages.
//!
//! [`Client::with_nonce`] reserves a nonce, runs a closure with it, and settles the nonce whatever
//! happens:
//!
//! - before anything is signed, a closure that fails returns the nonce at once, and a program that
//!   dies lets it expire: the next caller gets it;
//! - [`Slot::sign`] signs *and reports the hash to Tollgate* before it returns the bytes, so from the
//!   moment at which they could be sent nobody else gets the nonce, even if the program dies.
//!
//! Every request can be repeated: a reservation whose answer was lost expires, and `used` with the
//! same hash has the same answer. `examples/transfer.rs` is a complete program;
//! `docs/reservations.md` explains the protocol. Never sends a transaction and never decides a fee.

mod error;
mod reservation;
mod slot;
mod tx;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use error::{SlotError, WithNonceError};
pub use reservation::Reservation;
use serde_json::json;
use slot::Progress;
pub use slot::{Slot, SlotSigner};
use tollgate_model::{Address, TxHash};
pub use tx::Tx;

use crate::client::{Client, ClientError};

/// The reason given for a nonce that was returned unused.
const UNUSED: &str = "not used";

/// Reservations.
impl Client {
    /// Reserves nonces for this long instead of the node's default. Must exceed the time between
    /// reservation and signature; whole seconds.
    #[must_use]
    pub const fn with_hold(mut self, hold: Duration) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Reserves a nonce, runs the closure with it, and settles the nonce.
    ///
    /// A closure that succeeds without signing returns the nonce. If this future is dropped, or the
    /// program dies, the nonce expires, or stays used if [`Slot::sign`] had reported it.
    ///
    /// # Errors
    /// [`WithNonceError`] states the nonce's state and what to do.
    pub async fn with_nonce<S, F, R, T, E>(
        &self,
        submitter: Address,
        signer: S,
        run: F,
    ) -> Result<T, WithNonceError<E>>
    where
        S: SlotSigner + 'static,
        F: FnOnce(Slot) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let reservation = self.reserve(submitter).await.map_err(WithNonceError::NotReserved)?;
        let nonce = reservation.nonce;
        let progress = Arc::new(Mutex::new(Progress::Open));
        let slot = Slot {
            client: self.clone(),
            reservation: reservation.clone(),
            signer: Arc::new(signer),
            progress: progress.clone(),
        };
        let ended = run(slot).await;
        match (close(&progress), ended) {
            (Progress::SlotToFill(_), Ok(done)) => Ok(done),
            (Progress::SlotToFill(signed), Err(error)) => {
                Err(WithNonceError::MaybeSent { nonce, signed: Box::new(signed), error })
            }
            (Progress::Reporting(_), Ok(done)) => Ok(done),
            (Progress::Reporting(signed), Err(error)) => {
                let (reservation, signed) = (Box::new(reservation), Box::new(signed));
                Err(WithNonceError::Unsettled { reservation, signed, error })
            }
            (Progress::Open, ended) => {
                // If this fails, the reservation expires, with the same effect.
                let _ = self.recyclable(&reservation, UNUSED).await;
                ended.map_err(|error| WithNonceError::Unused { nonce, error })
            }
            (Progress::Lost, ended) => {
                ended.map_err(|error| WithNonceError::Unused { nonce, error })
            }
        }
    }

    /// Reserves a nonce.
    ///
    /// # Errors
    /// [`ClientError::Refused`] or [`ClientError::NoAnswer`].
    pub async fn reserve(&self, submitter: Address) -> Result<Reservation, ClientError> {
        let path = format!("/api/v1/submitters/{submitter}/nonces");
        let body = match self.hold {
            Some(hold) => json!({ "holdSeconds": hold.as_secs().max(1) }),
            None => json!({}),
        };
        let answer = self.post(submitter, &path, &body).await?;
        serde_json::from_value(answer.body)
            .map_err(|error| ClientError::NoAnswer(format!("unreadable: {error}")))
    }

    /// Reports that a nonce is used by this hash. Reported before sending; can be repeated.
    ///
    /// # Errors
    /// [`ClientError::Stale`]: don't send.
    pub async fn used(&self, held: &Reservation, tx_hash: TxHash) -> Result<(), ClientError> {
        let body = json!({ "ownerToken": held.owner_token, "txHash": tx_hash });
        self.post(held.submitter, &path(held, "used"), &body).await.map(drop)
    }

    /// Returns a nonce that was not used and will not be.
    ///
    /// # Errors
    /// [`ClientError::Stale`]: it was returned before.
    pub async fn recyclable(&self, held: &Reservation, reason: &str) -> Result<(), ClientError> {
        let body = json!({ "ownerToken": held.owner_token, "reason": reason });
        self.post(held.submitter, &path(held, "recyclable"), &body).await.map(drop)
    }
}

/// The progress of a slot. A slot that outlives its closure can't sign any more.
fn close(progress: &Mutex<Progress>) -> Progress {
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *progress, Progress::Lost)
}

fn path(held: &Reservation, action: &str) -> String {
    format!("/api/v1/submitters/{}/nonces/{}/{action}", held.submitter, held.nonce)
}
