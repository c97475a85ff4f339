//! Store errors, named by what the caller should do about them.

use thiserror::Error;

use crate::ids::{ChainId, InvalidId, Submitter};

/// Why a store operation failed.
///
/// Three things that look alike are kept apart: the lease was lost ([`Self::Fenced`], or
/// [`SectionOutcome::Fenced`](super::SectionOutcome::Fenced) in a batch), a row had moved
/// ([`UpdateAnswer::Lost`](super::UpdateAnswer::Lost)), and the outcome is unknown
/// ([`Self::CommitUnknown`]).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The input can't be stored. Nothing was written; the same call will fail again.
    #[error("invalid input: {0}")]
    Invalid(#[from] InvalidId),
    /// This chain is not registered in the database. Nothing was written.
    #[error("chain {0} is not registered")]
    UnknownChain(ChainId),
    /// The database belongs to another chain with the same id. Nothing was written.
    #[error(
        "this database was made for another chain of id {chain_id} (its genesis block differs): \
         use a new database"
    )]
    OtherChain {
        /// The id that both chains share.
        chain_id: ChainId,
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
    Unavailable(String),
    /// The commit was sent and its answer was lost: it may or may not be durable.
    /// Call [`TxStore::settle`](super::TxStore::settle) before deciding anything.
    #[error("commit unknown: {0}")]
    CommitUnknown(String),
    /// The database's settings break a promise: refuse to start.
    #[error("unsafe database: {0}")]
    Unsafe(String),
    /// A row that this program can't have written, or a defect of this program. Nothing was written.
    #[error("store defect: {0}")]
    Defect(String),
}

impl StoreError {
    /// Whether the same call can succeed later without a change by the caller.
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
