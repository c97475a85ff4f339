//! The answer to a create.

use thiserror::Error;
use tollgate_model::TxId;
use tollgate_model::ids::InvalidId;
use tollgate_model::port::{KnownRequest, Owner};

/// What became of a create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Created {
    /// It is new, and durable.
    New(TxId),
    /// The same request was made before: this is its transaction (I7).
    Known(TxId),
}

/// Why an intent was not taken. Nothing was written, and no nonce was used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The intent itself is wrong.
    #[error("{0}")]
    Invalid(#[from] InvalidId),
    /// No key for the account, or no such chain here.
    #[error("submitter is not served here")]
    UnknownSubmitter,
    /// The call would fail on the chain.
    #[error("the call would revert: {0}")]
    Reverts(String),
    /// The request id belongs to another payload (I7).
    #[error("the request id belongs to another payload")]
    RequestIdConflict(KnownRequest),
    /// Another node owns the submitter.
    #[error("another node owns the submitter")]
    NotOwner(Option<Owner>),
    /// Too much waits for this submitter (I13).
    #[error("too much waits for this submitter")]
    Busy,
    /// The database or the chain can't be asked now.
    #[error("not now: {0}")]
    Unavailable(String),
}
