//! Store errors, named by what the caller should do about them.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use thiserror::Error;

use crate::B256;
use crate::ids::{ChainId, InvalidValue, Submitter};

/// The reason why a store operation failed.
///
/// Three things that look alike are kept apart: the lease was lost ([`Self::Fenced`], or
/// [`SectionOutcome::Fenced`](super::SectionOutcome::Fenced) in a batch), a row had moved
/// ([`UpdateAnswer::Lost`](super::UpdateAnswer::Lost)), and the outcome is unknown
/// ([`Self::CommitUnknown`]).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The input can't be stored. Nothing was written; the same call will fail again.
    #[error("invalid input: {0}")]
    Invalid(#[from] InvalidValue),
    /// This chain is not registered in the database. Nothing was written.
    #[error("chain {0} is not registered")]
    UnknownChain(ChainId),
    /// The database belongs to another chain with the same id. Nothing was written.
    #[error(
        "this database was made for another chain of id {chain_id}, and no endpoint has its genesis \
         block: check the URLs of the endpoints; use a new database only if the chain is a new one"
    )]
    OtherChain {
        /// The id that both chains share.
        chain_id: ChainId,
        /// The genesis block of the chain that the database belongs to.
        known: B256,
    },
    /// This submitter is not registered in the database. Nothing was written.
    #[error("submitter {0} is not registered")]
    UnknownSubmitter(Submitter),
    /// The lease was lost: stop all work for the submitter at once. Nothing was written.
    #[error("fenced: the lease of {0} is no longer ours")]
    Fenced(Submitter),
    /// The database is temporarily unavailable; try again later. Nothing was written, or only what
    /// is idempotent (a lease, a heartbeat, a registration).
    #[error("store unavailable: {0}")]
    Unavailable(#[source] Cause),
    /// The commit was sent and its answer was lost: it may or may not be durable.
    /// Call [`TxStore::settle`](super::TxStore::settle) before deciding anything.
    #[error("commit unknown: {0}")]
    CommitUnknown(#[source] Cause),
    /// The database's settings break a promise: refuse to start.
    #[error("unsafe database: {0}")]
    Unsafe(#[source] Cause),
    /// A row that this program can't have written, or a defect of this program. Nothing was written.
    #[error("store defect: {0}")]
    Defect(#[source] Cause),
}

impl StoreError {
    /// Returns whether the same call can succeed later without a change by the caller.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Invalid(_)
            | Self::UnknownChain(_)
            | Self::OtherChain { .. }
            | Self::UnknownSubmitter(_)
            | Self::Fenced(_)
            | Self::CommitUnknown(_)
            | Self::Unsafe(_)
            | Self::Defect(_) => false,
        }
    }
}

/// A description of a store's failure, and the driver's error where there is one.
#[derive(Clone)]
pub struct Cause {
    text: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Cause {
    /// A failed operation and the error below it, whose message the text includes.
    pub fn new(text: impl Into<String>, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { text: text.into(), source: Some(Arc::new(source)) }
    }

    /// An error that needs no more words than its own.
    pub fn of(source: impl StdError + Send + Sync + 'static) -> Self {
        Self::new(source.to_string(), source)
    }
}

impl<T: Into<String>> From<T> for Cause {
    fn from(text: T) -> Self {
        Self { text: text.into(), source: None }
    }
}

impl Deref for Cause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// By their texts: errors of drivers can't be compared.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cause {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_error_leads_to_the_drivers_error() {
        let error = StoreError::Unavailable(Cause::of(fmt::Error));
        let cause = error.source().unwrap();
        assert_eq!(cause.source().unwrap().to_string(), fmt::Error.to_string());
        assert_eq!(error, StoreError::Unavailable(fmt::Error.to_string().into()));
    }
}
