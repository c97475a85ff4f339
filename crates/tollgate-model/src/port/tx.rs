//! Transactions: the fenced batch, and everything that is read back.

use std::time::Duration;

use alloy_primitives::Address;
use async_trait::async_trait;

use super::StoreError;
use super::batch::{Confirmations, FencedBatch, SectionOutcome};
use super::lease::Lease;
use super::record::{
    Attempt, ChainRegistration, HistoryEntry, KnownRequest, LineHead, OpenTx, Seen, SubmitterEntry,
    SubmitterOverview, SubmitterRecord, SubmitterSetup, TxRecord,
};
use crate::ids::{ChainId, InvalidId, Nonce, RequestId, Submitter, TxHash, TxId};
use crate::nonce::Mode;
use crate::state::TxState;
use crate::time::Timestamp;

/// How many rows one read may return (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page(u32);

impl Page {
    /// The largest page.
    pub const MAX: u32 = 1_000;

    /// Takes a page size of 1 to [`Self::MAX`].
    pub fn new(limit: u32) -> Result<Self, InvalidId> {
        if (1..=Self::MAX).contains(&limit) {
            Ok(Self(limit))
        } else {
            Err(InvalidId::new("limit", format!("{limit} is not 1 to {}", Self::MAX)))
        }
    }

    /// Whether a list is no longer than the largest page.
    pub fn fits(length: usize) -> Result<(), InvalidId> {
        match u32::try_from(length) {
            Ok(length) if length <= Self::MAX => Ok(()),
            Ok(_) | Err(_) => {
                Err(InvalidId::new("list", format!("{length} are more than {}", Self::MAX)))
            }
        }
    }

    /// The size.
    pub const fn limit(self) -> u32 {
        self.0
    }
}

/// Which transactions to list, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListFilter {
    /// On this chain.
    pub chain_id: Option<ChainId>,
    /// Of this account.
    pub submitter: Option<Submitter>,
    /// In one of these states.
    pub states: StateFilter,
    /// Accepted at this time or later.
    pub from: Option<Timestamp>,
    /// Accepted before this time.
    pub to: Option<Timestamp>,
}

/// How far the time in a transaction's id may be from the time at which it was accepted. The id is made
/// by the clock of the node that takes the request in, before it waits for its commit; the time is the
/// database's, at the commit.
const ID_SLACK: Duration = Duration::from_secs(600);

impl ListFilter {
    /// The lowest id that what was accepted from [`Self::from`] on can have. Ids begin with their time, so
    /// a store need not walk over everything that is older.
    pub fn lowest_id(&self) -> Option<TxId> {
        self.from.map(|from| TxId::first_at(from.before(ID_SLACK)))
    }

    /// The id that a page lies below: the place that was asked for, or the lowest one that what was
    /// accepted before [`Self::to`] can't have any more.
    pub fn below(&self, after: Option<TxId>) -> Option<TxId> {
        let end = self.to.map(|to| TxId::first_at(to.after(ID_SLACK)));
        [after, end].into_iter().flatten().min()
    }

    /// Whether the filter contradicts itself, so that nothing can pass it.
    pub fn excludes_everything(&self) -> bool {
        let elsewhere = |chain_id| self.submitter.is_some_and(|of| of.chain_id != chain_id);
        self.chain_id.is_some_and(elsewhere)
            || self.states == StateFilter::Of(Vec::new())
            || matches!((self.from, self.to), (Some(from), Some(to)) if from >= to)
    }
}

/// Which states to list. The kinds differ in how a store finds them without scanning what is
/// finished.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StateFilter {
    /// All of them.
    #[default]
    Any,
    /// These.
    Of(Vec<TxState>),
}

/// What a fresh look under the fence found, after a commit whose answer was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The submitter as it stands; the unknown commit can no longer change it.
    pub submitter: SubmitterRecord,
    /// For each transaction asked for: what it is, or `None` if it does not exist.
    pub rows: Vec<Option<Seen>>,
}

/// Transactions, their attempts, their history, and the submitters they belong to.
#[async_trait]
pub trait TxStore: Send + Sync {
    /// Makes a chain known, or checks that it is the one that is known under this id.
    async fn register_chain(&self, chain: &ChainRegistration) -> Result<(), StoreError>;

    /// Makes submitters known. One that is known stays as it is: cursor (I4) and mode.
    async fn register_submitters(&self, setups: &[SubmitterSetup]) -> Result<(), StoreError>;

    /// Writes a batch in one transaction, with an outcome for each section, in order.
    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError>;

    /// Finds out what became of an unknown commit: proves the lease anew and waits until nothing
    /// that was sent under it before can still land.
    async fn settle(
        &self,
        node: &crate::ids::NodeId,
        lease: Lease,
        tx_ids: &[TxId],
    ) -> Result<Settled, StoreError>;

    /// Which of these requests are known, in the order asked: the pre-check of a create.
    async fn known_requests(
        &self,
        requests: &[(Submitter, RequestId)],
    ) -> Result<Vec<Option<KnownRequest>>, StoreError>;

    /// One transaction.
    async fn tx(&self, tx_id: TxId) -> Result<Option<TxRecord>, StoreError>;

    /// One transaction by the caller's name for it.
    async fn tx_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<TxRecord>, StoreError>;

    /// The transactions that these attempts belong to; hashes that are not ours are left out.
    async fn tx_ids_by_hash(&self, hashes: &[TxHash]) -> Result<Vec<(TxHash, TxId)>, StoreError>;

    /// A page of transactions, newest first, after (older than) a place.
    async fn list(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError>;

    /// The attempts of one transaction, first to last.
    async fn attempts(&self, tx_id: TxId) -> Result<Vec<Attempt>, StoreError>;

    /// A page of one transaction's audit trail, oldest first, after a version.
    async fn history(
        &self,
        tx_id: TxId,
        after_version: u32,
        page: Page,
    ) -> Result<Vec<HistoryEntry>, StoreError>;

    /// A page of one submitter's audit trail, oldest first, after a number.
    async fn submitter_history(
        &self,
        submitter: Submitter,
        after_number: u64,
        page: Page,
    ) -> Result<Vec<SubmitterEntry>, StoreError>;

    /// The confirmation list that was last stored for a transaction.
    async fn confirmations(&self, tx_id: TxId) -> Result<Option<Confirmations>, StoreError>;

    /// A page of a submitter's open transactions with their attempts, oldest first: what a new
    /// owner goes on with.
    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError>;

    /// A page of the nonces, from one on, of a submitter's open transactions, lowest first. Nothing else
    /// of them is read.
    async fn slots_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// The head of a submitter's line ([`crate::stuck::head`]): what all its other work waits for.
    async fn line_head(&self, submitter: Submitter) -> Result<Option<LineHead>, StoreError>;

    /// A page of a chain's submitters with owner and load, in the order of their addresses.
    async fn submitters(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError>;

    /// The mode of each of these, in the order asked; `None` if it is not known.
    async fn modes(&self, submitters: &[Submitter]) -> Result<Vec<Option<Mode>>, StoreError>;

    /// One submitter's own row.
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
        assert_eq!(TxId::first_at(Timestamp::from_unix_micros(-1)), TxId::from_uuid(Uuid::nil()));
    }
}
