//! The errors that creates, actions and reservations share: the reasons why a submitter's worker did nothing.

use thiserror::Error;
use tollgate_model::IllegalMove;
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::chain::ChainUnavailable;
use tollgate_model::port::signer::SignError;
use tollgate_model::port::{Owner, StoreError};

use crate::act::ActError;
use crate::create::CreateError;
use crate::reserve::ReserveError;

/// The reason why a submitter's worker can't be asked, or could not go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unserved {
    /// No key for the account, or no such chain here.
    #[error("no signing key for this account on this node")]
    UnknownSubmitter,
    /// Another node owns the submitter.
    #[error("another node owns the submitter")]
    NotOwner(Option<Owner>),
    /// Too much waits for this submitter (I13).
    #[error("too much waits for this submitter")]
    Busy,
    /// The database, the chain or the signer can't be asked now.
    #[error("temporarily unavailable: {0}")]
    Unavailable(#[source] Cause),
}

impl Unserved {
    /// Unavailable for a reason that no port gave.
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable(Cause::Other(why.into()))
    }
}

/// Lets the errors of ports be returned with `?`.
macro_rules! from_causes {
    ($($cause:ident => $($error:ident),*;)*) => {
        $($(
            impl From<$cause> for $error {
                fn from(cause: $cause) -> Self {
                    Unserved::Unavailable(cause.into()).into()
                }
            }
        )*)*
    };
}

from_causes! {
    StoreError => Unserved, CreateError, ActError, ReserveError;
    ChainUnavailable => Unserved, CreateError, ActError, ReserveError;
    SignError => Unserved, ActError;
}

/// An error outside of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Cause {
    /// In the database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// At the chain's endpoints.
    #[error(transparent)]
    Chain(#[from] ChainUnavailable),
    /// At the signer.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// A value that no store can hold.
    #[error(transparent)]
    Invalid(#[from] InvalidValue),
    /// A transaction was not in the state that it was taken for.
    #[error(transparent)]
    IllegalMove(#[from] IllegalMove),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Cause {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}
