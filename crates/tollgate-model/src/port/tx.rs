//! Transactions: the fenced batch and all reads.

use std::ops::Range;
use std::time::Duration;

use alloy_primitives::Address;
use async_trait::async_trait;

use super::StoreError;
use super::batch::{Confirmations, FencedBatch, SectionOutcome};
use super::lease::Lease;
use super::record::{
    Attempt, ChainRegistration, FinalSlot, HistoryEntry, KnownRequest, LineHead, OpenTx,
    RowVersion, SlotState, SubmitterEntry, SubmitterOverview, SubmitterRecord, SubmitterSetup,
    TxRecord,
};
use super::wait::SubmitterWait;
use crate::ids::{ChainId, InvalidValue, Nonce, RequestId, Submitter, TxHash, TxId};
use crate::nonce::Mode;
use crate::state::TxState;
use crate::time::Timestamp;

/// The maximum number of rows of one read (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page(u32);

impl Page {
    pub const MAX: u32 = 1_000;

    /// Accepts a page size of 1 to [`Self::MAX`].
    pub fn new(limit: u32) -> Result<Self, InvalidValue> {
        if (1..=Self::MAX).contains(&limit) {
            Ok(Self(limit))
        } else {
            Err(InvalidValue::new("limit", format!("{limit} is not 1 to {}", Self::MAX)))
        }
    }

    /// Checks that a list is no longer than the largest page.
    pub fn fits(length: usize) -> Result<(), InvalidValue> {
        match u32::try_from(length) {
            Ok(length) if length <= Self::MAX => Ok(()),
            Ok(_) | Err(_) => {
                Err(InvalidValue::new("list", format!("{length} are more than {}", Self::MAX)))
            }
        }
    }

    pub const fn limit(self) -> u32 {
        self.0
    }
}

/// A filter for the list of transactions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListFilter {
    pub chain_id: Option<ChainId>,
    pub submitter: Option<Submitter>,
    pub states: StateFilter,
    /// Only transactions accepted at this time or later.
    pub from: Option<Timestamp>,
    /// Only transactions accepted before this time.
    pub to: Option<Timestamp>,
}

/// The maximum difference between the time in a transaction's id and its acceptance time. The id is made by the
/// accepting node's clock before the commit; the acceptance time is the database's, at the
/// commit.
const ID_SLACK: Duration = Duration::from_secs(600);

impl ListFilter {
    /// The lowest id that a transaction accepted from [`Self::from`] on can have. Ids begin with their
    /// time, so a store can skip everything older.
    pub fn lowest_id(&self) -> Option<TxId> {
        self.from.map(|from| TxId::first_at(from.before(ID_SLACK)))
    }

    /// The exclusive upper bound of ids: the page's position, or the lowest id that a transaction
    /// accepted before [`Self::to`] can't have.
    pub fn below(&self, after: Option<TxId>) -> Option<TxId> {
        let end = self.to.map(|to| TxId::first_at(to.after(ID_SLACK)));
        [after, end].into_iter().flatten().min()
    }

    /// Returns whether the filter contradicts itself, so that nothing can pass it.
    pub fn excludes_everything(&self) -> bool {
        let elsewhere = |chain_id| self.submitter.is_some_and(|of| of.chain_id != chain_id);
        self.chain_id.is_some_and(elsewhere)
            || self.states == StateFilter::Of(Vec::new())
            || matches!((self.from, self.to), (Some(from), Some(to)) if from >= to)
    }
}

/// A filter by state. The variants differ in how a store finds the rows without scanning finished
/// ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StateFilter {
    /// All states.
    #[default]
    Any,
    /// Only these states.
    Of(Vec<TxState>),
}

/// The state under the fence after a commit with unknown outcome was resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The submitter's row; the unknown commit can no longer change it.
    pub submitter: SubmitterRecord,
    /// The row version of each transaction asked for; `None` if it does not exist.
    pub rows: Vec<Option<RowVersion>>,
}

/// Transactions, attempts, history and submitters.
#[async_trait]
pub trait TxStore: Send + Sync {
    /// Registers a chain, or checks that the registered one is the same chain.
    async fn register_chain(&self, chain: &ChainRegistration) -> Result<(), StoreError>;

    /// Registers submitters. One that is already registered keeps its cursor (I4) and mode.
    async fn register_submitters(&self, setups: &[SubmitterSetup]) -> Result<(), StoreError>;

    /// Commits a batch in one database transaction; returns an outcome for each section, in order.
    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError>;

    /// Resolves a commit with unknown outcome: proves the lease anew and waits until nothing that was
    /// sent under it before can still be committed.
    async fn settle(
        &self,
        node: &crate::ids::NodeId,
        lease: Lease,
        tx_ids: &[TxId],
    ) -> Result<Settled, StoreError>;

    /// Looks up these requests, in the order asked: the idempotency pre-check of a create.
    async fn known_requests(
        &self,
        requests: &[(Submitter, RequestId)],
    ) -> Result<Vec<Option<KnownRequest>>, StoreError>;

    /// Reads one transaction.
    async fn tx(&self, tx_id: TxId) -> Result<Option<TxRecord>, StoreError>;

    /// Reads state and version of these, in the order asked; `None` if there is no such transaction. One
    /// cheap read, for callers that wait for a state.
    async fn row_versions(&self, tx_ids: &[TxId]) -> Result<Vec<Option<RowVersion>>, StoreError>;

    /// Reads one transaction by its request id.
    async fn tx_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<TxRecord>, StoreError>;

    /// Maps attempt hashes to their transactions; unknown hashes are left out.
    async fn tx_ids_by_hash(&self, hashes: &[TxHash]) -> Result<Vec<(TxHash, TxId)>, StoreError>;

    /// Lists transactions, newest first, after (older than) a position.
    async fn list(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError>;

    /// Reads the newest top-ups that an account pays ([`crate::top_up`]), newest first.
    async fn top_ups(&self, from: Submitter, page: Page) -> Result<Vec<TxRecord>, StoreError>;

    /// Reads the attempts of one transaction in the order of their numbers.
    async fn attempts(&self, tx_id: TxId) -> Result<Vec<Attempt>, StoreError>;

    /// Reads a page of one transaction's audit trail, oldest first, after a version.
    async fn history(
        &self,
        tx_id: TxId,
        after_version: u32,
        page: Page,
    ) -> Result<Vec<HistoryEntry>, StoreError>;

    /// Reads a page of one submitter's audit trail, oldest first, after a number.
    async fn submitter_history(
        &self,
        submitter: Submitter,
        after_number: u64,
        page: Page,
    ) -> Result<Vec<SubmitterEntry>, StoreError>;

    /// Reads the confirmation list that was last stored for a transaction.
    async fn confirmations(&self, tx_id: TxId) -> Result<Option<Confirmations>, StoreError>;

    /// Reads a page of a submitter's open transactions with their attempts, oldest first: the work
    /// that a new owner continues.
    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError>;

    /// Lists the nonces, from one on, of a submitter's open transactions, lowest first.
    async fn slots_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Lists a submitter's slots in a range, open and final, lowest first.
    async fn slot_states(
        &self,
        submitter: Submitter,
        range: Range<Nonce>,
        page: Page,
    ) -> Result<Vec<SlotState>, StoreError>;

    /// Lists a submitter's final slots, highest first.
    async fn final_slots(
        &self,
        submitter: Submitter,
        page: Page,
    ) -> Result<Vec<FinalSlot>, StoreError>;

    /// Reads a submitter's head of line ([`crate::stuck::head`]).
    async fn line_head(&self, submitter: Submitter) -> Result<Option<LineHead>, StoreError>;

    /// Reads a page of a chain's submitters with owner and load, ordered by address.
    async fn submitters(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError>;

    /// Reads the mode of each of these, in the order asked; `None` if it is not registered.
    async fn modes(&self, submitters: &[Submitter]) -> Result<Vec<Option<Mode>>, StoreError>;

    /// Reads the conditions that a submitter waits for, and since when.
    async fn waits(&self, submitter: Submitter) -> Result<Vec<SubmitterWait>, StoreError>;

    /// Reads one submitter's row.
    async fn submitter(&self, submitter: Submitter) -> Result<Option<SubmitterRecord>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(1_700_000_000 + seconds))
    }

    #[test]
    fn times_of_a_filter_bound_the_ids_with_room_for_clocks_and_queues() {
        let filter = ListFilter { from: Some(at(0)), to: Some(at(60)), ..ListFilter::default() };
        let slack = ID_SLACK.as_secs();
        let lowest = TxId::first_at(Timestamp::from_unix_micros(
            at(0).unix_micros() - i64::try_from(slack).unwrap() * 1_000_000,
        ));
        assert_eq!(filter.lowest_id(), Some(lowest));
        let end = TxId::first_at(at(60 + slack));
        assert_eq!(filter.below(None), Some(end));
        let newer = TxId::from_uuid(Uuid::max());
        assert_eq!(filter.below(Some(newer)), Some(end));
        assert_eq!(filter.below(Some(lowest)), Some(lowest), "a page further down");
        let all = ListFilter::default();
        assert_eq!((all.lowest_id(), all.below(None)), (None, None));
        assert_eq!(all.below(Some(newer)), Some(newer));
    }

    #[test]
    fn ids_made_at_a_time_are_not_below_the_first_of_it() {
        let seconds = 1_700_000_000;
        let made = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
        assert!(TxId::from_uuid(made) >= TxId::first_at(at(0)));
        assert!(TxId::from_uuid(made) < TxId::first_at(at(1)));
        assert_eq!(TxId::from_uuid(made).time(), at(0));
        assert_eq!(TxId::first_at(Timestamp::from_unix_micros(-1)), TxId::from_uuid(Uuid::nil()));
    }
}
