//! Errors of [`with_nonce`](crate::Client::with_nonce), by what the caller should do.

use thiserror::Error;
use tollgate_model::port::signer::{SignError, SignedTx};
use tollgate_model::{Nonce, TxHash};

use super::reservation::Reservation;
use crate::client::ClientError;

/// The reason why a slot returned no signed bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlotError {
    /// The signer refused: nothing was signed, the nonce is unused.
    #[error("not signed: {0}")]
    NotSigned(#[from] SignError),
    /// The bytes were signed for another account or nonce.
    #[error("signed for another slot: {0}")]
    OtherSlot(String),
    /// A slot allows one signature.
    #[error("the slot has been signed for already")]
    AlreadySigned,
    /// The reservation is no longer the caller's: its deadline has passed. The bytes are discarded.
    #[error("the nonce is no longer reserved for this caller")]
    Stale,
    /// The report to Tollgate failed, with unknown outcome. The bytes are not returned.
    #[error("the hash {tx_hash} could not be reported: {source}")]
    NotReported {
        /// The hash of the signed bytes.
        tx_hash: TxHash,
        /// The cause.
        source: ClientError,
    },
}

/// The reason why `with_nonce` failed, with the state of the nonce.
#[derive(Debug, Error)]
pub enum WithNonceError<E> {
    /// No nonce was reserved: the closure did not run.
    #[error("no nonce was reserved: {0}")]
    NotReserved(#[source] ClientError),
    /// The closure failed before it signed. The nonce is free again, at once or at its deadline.
    #[error("failed with nonce {nonce} unused: {error}")]
    Unused {
        /// The nonce.
        nonce: Nonce,
        /// The closure's error.
        error: E,
    },
    /// The closure failed after it got the bytes: **they may have been sent**. Nobody else gets the
    /// nonce. Look for the hash on the chain, and send the same bytes again if it is not there: later
    /// nonces wait for it.
    #[error("failed after {} was signed for nonce {nonce}, which may be sent: {error}", .signed.tx_hash)]
    MaybeSent {
        /// The nonce.
        nonce: Nonce,
        /// The signed transaction.
        signed: Box<SignedTx>,
        /// The closure's error.
        error: E,
    },
    /// Signed, but the report to Tollgate failed, so the closure did not get the bytes. Repeat
    /// [`Client::used`](crate::Client::used): if it succeeds, **send them**, because nobody else will
    /// fill the nonce; if it says stale, discard them.
    #[error("nonce {} is not settled: {error}", .reservation.nonce)]
    Unsettled {
        /// The argument for `used`.
        reservation: Box<Reservation>,
        /// The signed transaction.
        signed: Box<SignedTx>,
        /// The closure's error.
        error: E,
    },
}
