//! The change that makes a database safe to start nodes on after it was restored from a backup.
//!
//! A restored database is older than the chain and than what callers remember: transactions may have been
//! sent, and requests accepted, after the backup was taken. No rule can tell from the database alone which,
//! so every account stops taking slots until an operator resumes it (I3, I7).

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::ids::NodeId;
use crate::text::Text;

/// Added to every fencing token: more changes of owner than can have happened since the backup, so that
/// no token is granted twice (I4).
pub const TOKEN_STEP: i64 = 1_000_000;

/// Added to the last number of the feed: more entries than can have been written since the backup, so
/// that a reader with a number of before the restore misses nothing that is written after it (I10).
pub const SEQ_STEP: i64 = 1_000_000_000;

/// The state of a restored database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RestoreSummary {
    /// Accounts, none of which is active.
    pub accounts: u64,
    /// Transactions without a nonce. They may have been carried out after the backup was taken.
    pub queued: u64,
    /// Transactions with a nonce that are not final.
    pub in_flight: u64,
}

/// The outcome of marking a database as restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreOutcome {
    /// The changes are committed.
    Marked(RestoreSummary),
    /// Nothing was changed: so many nodes are alive on the database.
    NodesAlive(u64),
}

/// A database that was restored from a backup.
#[async_trait]
pub trait RestoreStore: Send + Sync {
    /// In one database transaction: pauses every account with a reason (one in PROTECT stays there),
    /// releases every lease with a token that was never granted, removes all nodes, and leaves out numbers
    /// of the feed. `by` stands in the audit trail. Refused while a node had its last heartbeat within
    /// `live_within`.
    async fn mark_restored(
        &self,
        by: &NodeId,
        reason: &Text<500>,
        live_within: Duration,
    ) -> Result<RestoreOutcome, StoreError>;
}
