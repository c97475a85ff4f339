//! The completion feed and the event outbox.

use async_trait::async_trait;

use super::{Page, StoreError};
use crate::ids::{ChainId, RequestId, Seq, Submitter, TxHash, TxId};
use crate::state::TxState;
use crate::time::Timestamp;
use alloy_primitives::Bytes;

/// One entry of the completion feed. A transaction has exactly one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The position in the feed: consecutive from 1, in commit order (I10).
    pub seq: Seq,
    /// The transaction that became final.
    pub tx_id: TxId,
    pub submitter: Submitter,
    pub request_id: Option<RequestId>,
    pub state: TxState,
    /// The mined hash, if one was mined.
    pub tx_hash: Option<TxHash>,
    /// When it became final.
    pub at: Timestamp,
}

/// A page of one chain's completions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedPage {
    /// The chain's completions, in the order of the feed.
    pub items: Vec<Completion>,
    /// The last position of the whole feed, read together with the items: no completion of any chain
    /// can still appear at or below it (I10).
    pub end: Seq,
}

impl FeedPage {
    /// The position to continue from, after a page of `asked` that began after `after`. A page that
    /// is not full was read to the end of the feed, so entries of other chains are skipped once and
    /// never read again.
    pub fn next(&self, after: Seq, asked: Page) -> Seq {
        let is_full = self.items.len() >= asked.limit() as usize;
        match self.items.last() {
            Some(last) if is_full => last.seq,
            Some(_) | None => after.max(self.end),
        }
    }
}

/// An event that waits for delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxEvent {
    /// The event's number; not in commit order.
    pub id: i64,
    /// `TxAccepted`, `TxSubmitted`, ….
    pub kind: String,
    /// Receivers drop a second event with the same key.
    pub key: String,
    /// The transaction that the event is about.
    pub tx_id: TxId,
    pub body: Bytes,
    pub created_at: Timestamp,
}

/// The completions feed and the outbox.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// Reads a page of a chain's completions after a position. A reader that remembers only
    /// [`FeedPage::next`] never misses one, whatever the commit order was (I10).
    async fn completions(
        &self,
        chain_id: ChainId,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError>;

    /// The position of a chain's last completion; zero before the first. One cheap read, for readers
    /// that wait for the next one.
    async fn feed_end(&self, chain_id: ChainId) -> Result<Seq, StoreError>;

    /// Reads the oldest undelivered events.
    async fn outbox(&self, page: Page) -> Result<Vec<OutboxEvent>, StoreError>;

    /// Deletes delivered events.
    async fn forget_outbox(&self, ids: &[i64]) -> Result<(), StoreError>;
}
