//! The completion feed.

use async_trait::async_trait;

use super::{Page, StoreError, TxReceipt};
use crate::ids::{ChainId, RequestId, Seq, Submitter, TxHash, TxId};
use crate::state::TxState;
use crate::time::Timestamp;
use alloy_primitives::Bytes;

/// One entry of the completion feed. A transaction has exactly one final entry, and one for each time that it
/// became stuck or ceased to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The position in the feed: consecutive from 1 over all entries, in commit order (I10).
    pub seq: Seq,
    pub tx_id: TxId,
    pub submitter: Submitter,
    pub request_id: Option<RequestId>,
    /// The state that the change led to.
    pub state: TxState,
    /// The mined hash, if one was mined.
    pub tx_hash: Option<TxHash>,
    /// When the state was reached.
    pub at: Timestamp,
    /// The stored intent; `None` if the transaction's row is gone.
    pub payload: Option<Bytes>,
    /// The receipt, as it is stored now.
    pub mined: Option<TxReceipt>,
}

/// The kind of a feed entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeedKind {
    /// The transaction is final.
    Final,
    /// The transaction is stuck, or stuck for another reason than before.
    Stuck,
    /// The transaction is not stuck any more, and not final.
    Unstuck,
}

impl FeedKind {
    /// The kind of the entry that a change of state writes; `None` if it writes none.
    pub fn of_change(from: TxState, to: TxState) -> Option<Self> {
        let is_entry = match (from, to) {
            (_, to) if to.is_final() => true,
            (from, TxState::Stuck(_)) => from != to,
            (TxState::Stuck(_), _) => true,
            (_, _) => false,
        };
        is_entry.then(|| Self::of_state(to))
    }

    /// The kind of an entry by the state that it tells.
    pub const fn of_state(state: TxState) -> Self {
        match state {
            state if state.is_final() => Self::Final,
            TxState::Stuck(_) => Self::Stuck,
            _ => Self::Unstuck,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Stuck => "stuck",
            Self::Unstuck => "unstuck",
        }
    }
}

/// The entries that a reader of the feed wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FeedFilter {
    /// The chain; `None` is all chains of the database.
    pub chain_id: Option<ChainId>,
    /// Also entries of transactions that became stuck or ceased to be.
    pub with_stuck: bool,
}

impl FeedFilter {
    /// The final entries of one chain.
    pub const fn finals(chain_id: ChainId) -> Self {
        Self { chain_id: Some(chain_id), with_stuck: false }
    }
}

/// A page of the feed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedPage {
    /// The entries that pass the filter, in the order of the feed.
    pub items: Vec<Completion>,
    /// The last position of the whole feed, read together with the items: no entry of any chain or kind
    /// can still appear at or below it (I10).
    pub end: Seq,
    /// The last position that was removed, read together with the items: a page that begins below it may lack
    /// entries.
    pub removed_through: Seq,
}

impl FeedPage {
    /// The position to continue from, after a page of `asked` that began after `after`. A page that
    /// is not full was read to the end of the feed, so entries that the filter leaves out are skipped once and
    /// never read again.
    pub fn next(&self, after: Seq, asked: Page) -> Seq {
        let is_full = self.items.len() >= asked.limit() as usize;
        match self.items.last() {
            Some(last) if is_full => last.seq,
            Some(_) | None => after.max(self.end),
        }
    }
}

/// The completions feed.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// Reads a page of the feed after a position. A reader that remembers only [`FeedPage::next`] never
    /// misses an entry, whatever the commit order was (I10).
    async fn completions(
        &self,
        of: FeedFilter,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError>;

    /// The position of the last entry; zero before the first. Over all chains it may be one that the filter
    /// leaves out. One cheap read, for readers that wait for the next one.
    async fn feed_end(&self, of: FeedFilter) -> Result<Seq, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Failed, StuckReason, Tracking};

    #[test]
    fn change_writes_an_entry_when_it_ends_or_enters_or_leaves_stuck() {
        let pending = TxState::Tracking(Tracking::Pending);
        let mined = TxState::Tracking(Tracking::Mined);
        let capped = TxState::Stuck(StuckReason::FeeCap);
        let unfunded = TxState::Stuck(StuckReason::InsufficientFunds);
        for (from, to, kind) in [
            (pending, mined, None),
            (pending, capped, Some(FeedKind::Stuck)),
            (capped, capped, None),
            (capped, unfunded, Some(FeedKind::Stuck)),
            (capped, mined, Some(FeedKind::Unstuck)),
            (capped, TxState::Failed(Failed::Cancelled), Some(FeedKind::Final)),
            (mined, TxState::Confirmed, Some(FeedKind::Final)),
        ] {
            assert_eq!(FeedKind::of_change(from, to), kind, "{from:?} to {to:?}");
        }
    }
}
