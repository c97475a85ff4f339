//! Outcomes in order, and events on their way out.

use async_trait::async_trait;

use super::{Page, StoreError};
use crate::ids::{ChainId, RequestId, Seq, Submitter, TxHash, TxId};
use crate::state::TxState;
use crate::time::Timestamp;
use alloy_primitives::Bytes;

/// One outcome. A transaction has exactly one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Its place in the feed: consecutive from 1, in the order of commits (I10).
    pub seq: Seq,
    /// Which transaction ended.
    pub tx_id: TxId,
    /// Whose it was.
    pub submitter: Submitter,
    /// The caller's name for it.
    pub request_id: Option<RequestId>,
    /// How it ended.
    pub state: TxState,
    /// The hash that was mined, if any was.
    pub tx_hash: Option<TxHash>,
    /// When.
    pub at: Timestamp,
}

/// A page of one chain's completions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedPage {
    /// The chain's completions, in the order of the feed.
    pub items: Vec<Completion>,
    /// The last place of the whole feed, seen together with the items: of whatever chain it is, no
    /// completion up to it is still to come (I10).
    pub end: Seq,
}

impl FeedPage {
    /// Where the reader of this page goes on, after a page of `asked` that began after `after`. A
    /// page that is not full was read to the end: what is there of other chains is passed over once
    /// and never looked at again.
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
    /// Its number; not a place in an order of commits.
    pub id: i64,
    /// `TxAccepted`, `TxSubmitted`, ….
    pub kind: String,
    /// Receivers drop a second event with the same key.
    pub key: String,
    /// The transaction that it tells of.
    pub tx_id: TxId,
    /// What receivers get.
    pub body: Bytes,
    /// When the change was written.
    pub created_at: Timestamp,
}

/// The completions feed and the outbox.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// A page of a chain's completions after a place. A reader that remembers only
    /// [`FeedPage::next`] never misses one, whatever the order of commits was (I10).
    async fn completions(
        &self,
        chain_id: ChainId,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError>;

    /// The place of a chain's last completion; zero before the first. One cheap read, for whoever
    /// waits for the next one.
    async fn feed_end(&self, chain_id: ChainId) -> Result<Seq, StoreError>;

    /// The oldest events that were not delivered.
    async fn outbox(&self, page: Page) -> Result<Vec<OutboxEvent>, StoreError>;

    /// Forgets events that were delivered.
    async fn forget_outbox(&self, ids: &[i64]) -> Result<(), StoreError>;
}
