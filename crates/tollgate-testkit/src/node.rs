//! A node of a test: a start with a name, its store, and pause points inside its transactions.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tollgate_model::port::{
    Acquisition, ChainRegistration, Checkpoint, Completion, CreateAnswer, FeedFilter, FencedBatch,
    Lease, LeaseTerms, NewTx, OpenTx, Page, RowVersion, Section, SectionOutcome, Store, StoreError,
    SubmitterRecord, TxRecord, TxUpdate, UpdateAnswer,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{NodeId, Seq, Submitter, TxEvent, TxId};

use crate::builders::{
    IntentExt, SectionExt, chain, intent, long_terms, mined_in, moved, page, section, setup,
    submitter,
};
use crate::pause_points::{PausePoints, Paused};
use crate::store_fixture::{NodeOptions, StoreFixture};
use crate::wait::{until, within};

/// A node. Derefs to its store; a clone is the same node.
#[derive(Clone)]
pub struct TestNode {
    pub id: NodeId,
    /// Pauses its transactions.
    pub checkpoints: Arc<PausePoints>,
    store: Arc<dyn Store>,
}

impl Deref for TestNode {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl TestNode {
    /// Opens a fixture's store for a new start of `name`.
    pub async fn open(fixture: &dyn StoreFixture, name: &str, patience: Duration) -> Self {
        let checkpoints = PausePoints::new();
        let store =
            fixture.open(NodeOptions { checkpoints: checkpoints.clone(), patience }).await.unwrap();
        Self { id: crate::builders::node_id(name), checkpoints, store }
    }

    /// A node on a store that is open already.
    pub fn over(store: Arc<dyn Store>, name: &str) -> Self {
        let id = crate::builders::node_id(name);
        Self { id, checkpoints: PausePoints::new(), store }
    }

    /// The same start of the same node over further connections.
    pub async fn again(&self, fixture: &dyn StoreFixture, patience: Duration) -> Self {
        Self { id: self.id.clone(), ..Self::open(fixture, "again", patience).await }
    }

    /// The same start of the same node over some further connections each.
    pub async fn connections(&self, fixture: &dyn StoreFixture, count: usize) -> Vec<Self> {
        join_all((0..count).map(|_| self.again(fixture, NodeOptions::PATIENT))).await
    }

    /// Makes the chain and submitters known.
    pub async fn register(&self, submitters: &[Submitter]) {
        self.register_on(&chain(), submitters).await;
    }

    /// Makes submitters of another chain known.
    pub async fn register_on(&self, chain: &ChainRegistration, submitters: &[Submitter]) {
        self.register_chain(chain).await.unwrap();
        let setups: Vec<_> = submitters.iter().copied().map(setup).collect();
        self.register_submitters(&setups).await.unwrap();
    }

    /// Makes one submitter known and takes its lease for as long as a test can last.
    pub async fn own(&self, submitter: Submitter) -> Lease {
        self.register(&[submitter]).await;
        self.lease(submitter).await
    }

    /// The leases of these submitters, each as by [`Self::own`].
    pub async fn own_all(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<Lease> {
        let mut leases = Vec::new();
        for n in numbers {
            leases.push(self.own(submitter(n)).await);
        }
        leases
    }

    /// Takes a lease for as long as a test can last.
    pub async fn lease(&self, submitter: Submitter) -> Lease {
        self.granted(submitter, &long_terms()).await.0
    }

    /// Takes a lease that nobody else may have, with the submitter as it stands.
    pub async fn granted(
        &self,
        submitter: Submitter,
        terms: &LeaseTerms,
    ) -> (Lease, SubmitterRecord) {
        match self.acquire(submitter, &self.id, terms).await.unwrap() {
            Acquisition::Granted { lease, submitter, .. } => (lease, submitter),
            Acquisition::Held(owner) => panic!("{submitter} is held by {owner:?}"),
        }
    }

    /// One try to take a lease whose time is over, with the cursor as it stands then; `None` if
    /// the old owner is still in the way.
    pub async fn try_take_over(&self, submitter: Submitter) -> Option<(Lease, u64)> {
        match self.acquire(submitter, &self.id, &long_terms()).await {
            Ok(Acquisition::Granted { lease, submitter, .. }) => {
                Some((lease, submitter.next_nonce.get()))
            }
            Ok(Acquisition::Held(_)) | Err(StoreError::Unavailable(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Tries until the lease is this node's.
    pub async fn take_over(&self, submitter: Submitter) -> (Lease, u64) {
        until("the takeover", || self.try_take_over(submitter)).await
    }

    pub async fn try_write(
        &self,
        sections: Vec<Section>,
    ) -> Result<Vec<SectionOutcome>, StoreError> {
        self.commit(&FencedBatch::new(self.id.clone(), sections).unwrap()).await
    }

    pub async fn try_write_one(&self, section: Section) -> Result<SectionOutcome, StoreError> {
        let mut outcomes = self.try_write(vec![section]).await?;
        assert_eq!(outcomes.len(), 1, "one outcome for each section");
        Ok(outcomes.remove(0))
    }

    /// Commits sections as one batch that the database takes.
    pub async fn write_all(&self, sections: Vec<Section>) -> Vec<SectionOutcome> {
        let count = sections.len();
        let outcomes = self.try_write(sections).await.unwrap();
        assert_eq!(outcomes.len(), count, "one outcome for each section");
        outcomes
    }

    /// Commits one section that the database takes.
    pub async fn write(&self, section: Section) -> SectionOutcome {
        self.try_write_one(section).await.unwrap()
    }

    /// Commits one section in which everything must succeed.
    pub async fn write_whole(&self, section: Section) {
        let creates = vec![CreateAnswer::Created; section.creates.len()];
        let updates = vec![UpdateAnswer::Applied; section.updates.len()];
        assert_eq!(self.write(section).await.answers(), Some((creates, updates)));
    }

    /// Writes a new transaction, whose slot, if it has one, is at the cursor.
    pub async fn created(&self, lease: Lease, tx: NewTx) -> NewTx {
        let section = match tx.slot.as_ref().map(|slot| slot.nonce.get()) {
            Some(n) => section(lease).cursor(n, n + 1),
            None => section(lease),
        };
        self.write_whole(section.create(tx.clone())).await;
        tx
    }

    /// Writes a new transaction into each of the first `count` slots.
    pub async fn fill(&self, lease: Lease, count: u64) -> Vec<NewTx> {
        let txs: Vec<_> = (0..count).map(|n| intent().at(n)).collect();
        self.write_whole(section(lease).cursor(0, count).creates(txs.clone())).await;
        txs
    }

    /// Commits one section in a task of its own.
    pub fn write_aside(&self, section: Section) -> JoinHandle<Result<SectionOutcome, StoreError>> {
        let node = self.clone();
        tokio::spawn(async move { node.try_write_one(section).await })
    }

    /// Commits one section in a task of its own, which waits at a checkpoint.
    pub async fn hold_batch(&self, at: Checkpoint, section: Section) -> HeldBatch {
        let mut hold = self.checkpoints.pause_at(at);
        let task = self.write_aside(section);
        hold.reached().await;
        HeldBatch { hold, task }
    }

    /// Applies one change; returns what the row is since.
    pub async fn apply(&self, lease: Lease, update: TxUpdate) -> RowVersion {
        let applied = update.applied();
        self.write_whole(section(lease).change(update)).await;
        applied
    }

    /// A move of the state machine from the row as it stands.
    pub async fn change(&self, tx_id: TxId, event: TxEvent) -> TxUpdate {
        moved(tx_id, self.record(tx_id).await.row, event)
    }

    /// A change of the row as it stands that is no move of the state machine.
    pub async fn note(&self, tx_id: TxId, event: &'static str) -> TxUpdate {
        TxUpdate::noted(tx_id, self.record(tx_id).await.row, event)
    }

    pub async fn step(&self, lease: Lease, tx_id: TxId, event: TxEvent) -> RowVersion {
        self.apply(lease, self.change(tx_id, event).await).await
    }

    /// Puts the newest attempt's receipt into a block.
    pub async fn mine(&self, lease: Lease, tx_id: TxId, block_number: u64) -> RowVersion {
        let record = self.record(tx_id).await;
        let mut update = moved(tx_id, record.row, TxEvent::Mined);
        let mined = mined_in(record.newest_hash.unwrap(), block_number);
        update.evidence = tollgate_model::port::Evidence::Set(mined);
        self.apply(lease, update).await
    }

    /// Writes the receipt of the newest attempt and makes it final.
    pub async fn confirm(&self, lease: Lease, tx_id: TxId) {
        self.mine(lease, tx_id, 7).await;
        self.step(lease, tx_id, TxEvent::Finalised(FinalOutcome::Executed)).await;
    }

    /// A transaction that must exist.
    pub async fn record(&self, tx_id: TxId) -> TxRecord {
        self.tx(tx_id).await.unwrap().unwrap_or_else(|| panic!("{tx_id} is not there"))
    }

    pub async fn has(&self, tx_id: TxId) -> bool {
        self.tx(tx_id).await.unwrap().is_some()
    }

    /// A submitter that must be known.
    pub async fn known(&self, submitter: Submitter) -> SubmitterRecord {
        self.submitter(submitter).await.unwrap().expect("the submitter is known")
    }

    /// All open transactions of a submitter, read in pages.
    pub async fn all_open_work(&self, submitter: Submitter, size: u32) -> Vec<OpenTx> {
        all_pages(size, async |last: Option<&OpenTx>, page| {
            self.open_work(submitter, last.map(|open| open.record.tx_id), page).await
        })
        .await
    }

    /// A page of the completions of the chain that most tests work on.
    pub async fn feed(&self, after: Seq, page: Page) -> Vec<Completion> {
        self.completions(FeedFilter::finals(chain().chain_id), after, page).await.unwrap().items
    }

    pub async fn cursor(&self, submitter: Submitter) -> u64 {
        self.known(submitter).await.next_nonce.get()
    }
}

/// A batch that waits inside its transaction.
pub struct HeldBatch {
    hold: Paused,
    pub task: JoinHandle<Result<SectionOutcome, StoreError>>,
}

impl HeldBatch {
    /// Lets the batch continue; returns its outcome.
    pub async fn finish(self) -> Result<SectionOutcome, StoreError> {
        self.hold.release();
        within("the batch", self.task).await.unwrap()
    }

    /// Lets the batch continue; returns true if it was committed.
    pub async fn lands(self) -> bool {
        self.finish().await.as_ref().is_ok_and(is_committed)
    }
}

/// Reads page after page, each from the last item on, until one is empty.
pub async fn all_pages<T>(
    size: u32,
    mut read: impl AsyncFnMut(Option<&T>, Page) -> Result<Vec<T>, StoreError>,
) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        let items = read(all.last(), page(size)).await.unwrap();
        assert!(items.len() <= size as usize, "{} items on a page of {size}", items.len());
        if items.is_empty() {
            return all;
        }
        all.extend(items);
    }
}

pub fn is_committed(outcome: &SectionOutcome) -> bool {
    matches!(outcome, SectionOutcome::Committed { .. })
}
