//! Removal of finished transactions, and what is kept of them.
//!
//! A removal is one database transaction: a reader finds the transaction's row or its [`RemovedTx`], never
//! neither. Final rows never change (I9), so no lease is needed.

use std::time::Duration;

use alloy_primitives::B256;
use async_trait::async_trait;

use super::{Attempt, Confirmations, HistoryEntry, Page, StoreError, TxRecord};
use crate::ids::{NodeId, RequestId, Seq, Submitter, TxHash, TxId};
use crate::state::TxState;
use crate::time::Timestamp;

/// A transaction that ended long enough ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinishedTx {
    /// The number of its final entry in the feed.
    pub seq: Seq,
    pub tx_id: TxId,
    /// False for the highest final slot of a submitter: the engine tells used nonces by it, so it stays until a
    /// higher one is final.
    pub is_removable: bool,
}

/// A finished transaction with everything that is stored about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedRecord {
    pub record: TxRecord,
    pub attempts: Vec<Attempt>,
    /// The audit trail, oldest first; its beginning only if there is more than the largest page holds.
    pub history: Vec<HistoryEntry>,
    pub confirmations: Option<Confirmations>,
}

/// The row that is kept of a removed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovedTx {
    pub tx_id: TxId,
    pub submitter: Submitter,
    pub request_id: Option<RequestId>,
    /// The digest of its payload: another digest means another request (I7).
    pub payload_digest: B256,
    /// The final state.
    pub state: TxState,
    /// The mined hash, if one was mined.
    pub tx_hash: Option<TxHash>,
    /// When it became final.
    pub finished_at: Timestamp,
    pub removed_at: Timestamp,
}

/// Finished transactions that leave the database.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Makes this node the one that removes transactions, for a time; false if another node is. It saves
    /// double work: two nodes that remove at once harm nothing.
    async fn claim_retention(&self, node: &NodeId, term: Duration) -> Result<bool, StoreError>;

    /// Reads the transactions among the next `page` final entries of the feed that ended longer than `age`
    /// ago, in the order of the feed.
    async fn finished(
        &self,
        after: Seq,
        age: Duration,
        page: Page,
    ) -> Result<Vec<FinishedTx>, StoreError>;

    /// Reads everything about these, for an archive; those that are not there are left out.
    async fn finished_records(&self, tx_ids: &[TxId]) -> Result<Vec<FinishedRecord>, StoreError>;

    /// Removes those of these that ended longer than `age` ago and are removable, with their entries of the
    /// feed; returns how many. Idempotent: also after an error that leaves the outcome unknown.
    async fn remove_finished(&self, tx_ids: &[TxId], age: Duration) -> Result<u64, StoreError>;

    /// Reads what is kept of a removed transaction.
    async fn removed(&self, tx_id: TxId) -> Result<Option<RemovedTx>, StoreError>;

    /// Reads what is kept of a removed transaction, by its request id.
    async fn removed_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<RemovedTx>, StoreError>;

    /// Deletes what is kept of removed transactions that ended longer than `age` ago, at most a page of them;
    /// returns how many. Their request ids are free again.
    async fn forget_removed(&self, age: Duration, page: Page) -> Result<u64, StoreError>;
}
