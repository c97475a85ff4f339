//! What can go wrong, and what the caller should do about it.

use thiserror::Error;
use tollgate_model::port::signer::{SignError, SignedTx};
use tollgate_model::{Nonce, TxHash};

use crate::reservation::Reservation;

/// Why Tollgate did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The nonce is not the caller's any more. Don't send what was signed for it.
    #[error("the nonce is not this caller's any more: don't send")]
    Stale,
    /// Tollgate refuses, and would again.
    #[error("{code}: {detail}")]
    Refused {
        /// What to switch on: a code of Tollgate's API.
        code: String,
        /// What was wrong, for people.
        detail: String,
    },
    /// No answer that says anything, though it was asked again and again. It may have been done.
    #[error("no answer: {0}")]
    NoAnswer(String),
}

impl From<tollgate_client::ClientError> for ClientError {
    fn from(error: tollgate_client::ClientError) -> Self {
        use tollgate_client::ClientError::{NoAnswer, Refused};
        match error {
            Refused { code, .. } if code == "stale_owner_token" => Self::Stale,
            Refused { code, detail } => Self::Refused { code, detail },
            NoAnswer(why) => Self::NoAnswer(why),
        }
    }
}

/// Why there are no signed bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlotError {
    /// The signer refused: nothing was signed, the nonce is unused.
    #[error("not signed: {0}")]
    NotSigned(#[from] SignError),
    /// What was signed elsewhere is not for this slot.
    #[error("signed for another slot: {0}")]
    OtherSlot(String),
    /// A slot is good for one signature.
    #[error("the slot was signed for already")]
    AlreadySigned,
    /// The nonce is not the caller's any more: the deadline has passed. The bytes are thrown away.
    #[error("the nonce is not this caller's any more")]
    Stale,
    /// Tollgate could not be told. The bytes are not handed out: they may be told as used, or not.
    #[error("Tollgate could not be told of {tx_hash}: {why}")]
    Untold {
        /// The hash of what was signed.
        tx_hash: TxHash,
        /// What was wrong.
        why: ClientError,
    },
}

/// How a closure with a nonce ended, if not well.
#[derive(Debug, Error)]
pub enum WithNonceError<E> {
    /// There was no nonce to run it with: it did not run.
    #[error("no nonce was reserved: {0}")]
    NotReserved(ClientError),
    /// It failed before anything was signed. The nonce goes to somebody else, at once or at its
    /// deadline.
    #[error("failed with nonce {nonce} unused: {error}")]
    Unused {
        /// The nonce.
        nonce: Nonce,
        /// What the closure said.
        error: E,
    },
    /// It failed after the bytes were handed out: **they may be sent**. Nobody else gets the nonce.
    /// Look for the hash on the chain, and send the same bytes again if it is not there: what comes
    /// after this nonce waits for it.
    #[error("failed after {} was signed for nonce {nonce}, which may be sent: {error}", .signed.tx_hash)]
    MaybeSent {
        /// The nonce.
        nonce: Nonce,
        /// What was handed out.
        signed: Box<SignedTx>,
        /// What the closure said.
        error: E,
    },
    /// Signed, but Tollgate could not be told, so the bytes were not handed out. Ask again with
    /// [`Client::used`](crate::Client::used): if it says yes, **send them**, because nobody else will
    /// fill the nonce; if it says stale, throw them away.
    #[error("nonce {} is not settled: {error}", .reservation.nonce)]
    Unsettled {
        /// What to ask with.
        reservation: Box<Reservation>,
        /// What was signed and not handed out.
        signed: Box<SignedTx>,
        /// What the closure said.
        error: E,
    },
}
