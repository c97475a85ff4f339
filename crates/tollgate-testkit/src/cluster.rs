//! Nodes in this process: real engines that share a database and a chain of the test's choice.
//!
//! [`Cluster`] holds what the nodes share and reads the outcome. [`ports`] fills the ports of one
//! engine, with defaults for everything that a test does not choose.

mod fake;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_devchain::dev_accounts;
use tollgate_engine::{EnginePorts, LoggedAlerts, Policies, RandomIds};
use tollgate_evm::chain::ChainConfig;
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::nonce::Mode;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::span::NoSpans;
use tollgate_model::port::{
    Alert, AlertKind, Alerts, Attempt, ChainRegistration, Completion, FeedFilter, HistoryEntry,
    NoCheckpoints, NoKeys, Store, SubmitterRecord, SubmitterSetup, TxRecord,
};
use tollgate_model::{Address, B256, ChainId, Nonce, Seq, Submitter, TxId};
use tollgate_signer::{Key, LocalSigner};

use crate::builders::{full_page, node_id};
use crate::clock::TestClock;
use crate::store_fixture::{NodeOptions, StoreFixture};
use crate::{PausePoints, wait};

pub use fake::{FakeCluster, account};

/// The interval at which a client under test asks for a new head.
pub const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// One database and one chain, shared by all nodes.
pub struct Cluster<C> {
    pub fixture: Arc<dyn StoreFixture>,
    pub store: Arc<dyn Store>,
    pub chain: C,
    pub chain_id: ChainId,
    /// Pauses nodes that use [`Self::store`].
    pub checkpoints: Arc<PausePoints>,
    pub alerts: Arc<RecordedAlerts>,
    pub clock: Arc<TestClock>,
}

#[derive(Default)]
pub struct RecordedAlerts(Mutex<Vec<Alert>>);

impl Alerts for RecordedAlerts {
    fn raise(&self, alert: &Alert) {
        self.0.lock().unwrap().push(alert.clone());
    }
}

impl RecordedAlerts {
    /// Those of one kind, in order.
    pub fn of(&self, kind: AlertKind) -> Vec<Alert> {
        self.0.lock().unwrap().iter().filter(|alert| alert.kind == kind).cloned().collect()
    }
}

/// The ports of a new start of a node. The clock is the machine's, alerts are logged, and nothing
/// watches its checkpoints.
pub fn ports(
    name: &str,
    store: Arc<dyn Store>,
    chain: Arc<dyn Chain>,
    signer: Arc<dyn Signer>,
) -> EnginePorts {
    EnginePorts {
        node: node_id(name),
        store,
        chain,
        signer,
        clock: Arc::new(TestClock::default()),
        ids: Arc::new(RandomIds),
        checkpoints: Arc::new(NoCheckpoints),
        policies: Policies::default(),
        alerts: Arc::new(LoggedAlerts),
        keys: Arc::new(NoKeys),
        metrics: Arc::default(),
        spans: Arc::new(NoSpans),
    }
}

/// Registers a chain and submitters of one mode on it, whose cursors start at 0.
pub async fn register(
    store: &dyn Store,
    (chain_id, genesis): (ChainId, B256),
    accounts: impl IntoIterator<Item = Address>,
    mode: Mode,
) {
    store.register_chain(&ChainRegistration { chain_id, genesis }).await.unwrap();
    let setup = |address| SubmitterSetup {
        submitter: Submitter::new(chain_id, address),
        mode,
        start_from: Nonce::MIN,
    };
    let setups: Vec<_> = accounts.into_iter().map(setup).collect();
    store.register_submitters(&setups).await.unwrap();
}

/// The configuration of a chain's client, with short times.
pub fn chain_config(urls: impl IntoIterator<Item = String>) -> ChainConfig {
    let config = ChainConfig::new(urls.into_iter().map(EndpointConfig::new).collect());
    ChainConfig { poll_interval: POLL_INTERVAL, ..config }
}

/// A signer with the keys of some dev accounts.
pub fn dev_signer(accounts: impl IntoIterator<Item = usize>) -> LocalSigner {
    let keys = dev_accounts();
    LocalSigner::new(accounts.into_iter().map(|n| Key::from_bytes(&keys[n].private_key).unwrap()))
}

/// Writes the keys of some dev accounts to a file for `--private-key-file`.
pub fn write_keys(path: &Path, accounts: impl IntoIterator<Item = usize>) {
    let all = dev_accounts();
    let keys = accounts.into_iter().map(|n| all[n].private_key.to_string());
    std::fs::write(path, keys.collect::<Vec<_>>().join("\n")).unwrap();
}

impl<C> Cluster<C> {
    /// On this database and chain; no node runs yet.
    pub async fn new(fixture: Arc<dyn StoreFixture>, chain: C, chain_id: ChainId) -> Self {
        let checkpoints = PausePoints::new();
        let options = NodeOptions { checkpoints: checkpoints.clone(), ..NodeOptions::default() };
        let store = fixture.open(options).await.unwrap();
        let (alerts, clock) = (Arc::default(), Arc::default());
        Self { fixture, store, chain, chain_id, checkpoints, alerts, clock }
    }

    /// The ports of one more node, with the cluster's clock and alerts.
    pub fn ports(
        &self,
        name: &str,
        store: Arc<dyn Store>,
        chain: Arc<dyn Chain>,
        signer: Arc<dyn Signer>,
    ) -> EnginePorts {
        let (clock, alerts) = (self.clock.clone(), self.alerts.clone());
        EnginePorts { clock, alerts, ..ports(name, store, chain, signer) }
    }

    /// A transaction that must exist.
    pub async fn record(&self, id: TxId) -> TxRecord {
        self.store.tx(id).await.unwrap().unwrap()
    }

    /// Waits until a condition holds for a transaction.
    pub async fn until(&self, id: TxId, what: &str, test: impl Fn(&TxRecord) -> bool) {
        self.until_meanwhile(id, what, test, async || {}).await;
    }

    /// Waits until a condition holds for a transaction; does something after each look.
    pub async fn until_meanwhile(
        &self,
        id: TxId,
        what: &str,
        test: impl Fn(&TxRecord) -> bool,
        mut meanwhile: impl AsyncFnMut(),
    ) {
        let mut limit = wait::Limit::new();
        loop {
            let record = self.record(id).await;
            if test(&record) {
                return;
            }
            assert!(!limit.is_over(), "{id} never {what}: {record:?}");
            meanwhile().await;
            limit.pause().await;
        }
    }

    pub async fn eventually(&self, what: &str, mut test: impl AsyncFnMut() -> bool) {
        let mut limit = wait::Limit::new();
        while !test().await {
            assert!(!limit.is_over(), "never: {what}");
            limit.pause().await;
        }
    }

    pub async fn attempts(&self, id: TxId) -> Vec<Attempt> {
        self.store.attempts(id).await.unwrap()
    }

    pub async fn history(&self, id: TxId) -> Vec<HistoryEntry> {
        self.store.history(id, 0, full_page()).await.unwrap()
    }

    /// A submitter that must be registered.
    pub async fn submitter(&self, of: Submitter) -> SubmitterRecord {
        self.store.submitter(of).await.unwrap().unwrap()
    }

    pub async fn feed_after(&self, after: Seq) -> Vec<Completion> {
        self.feed_page(FeedFilter::finals(self.chain_id), after).await
    }

    async fn feed_page(&self, filter: FeedFilter, after: Seq) -> Vec<Completion> {
        self.store.completions(filter, after, full_page()).await.unwrap().items
    }

    /// The final entries.
    pub async fn feed(&self) -> Vec<Completion> {
        self.whole_feed(FeedFilter::finals(self.chain_id)).await
    }

    /// The entries of all kinds, whose numbers have no gap.
    pub async fn feed_of_all_kinds(&self) -> Vec<Completion> {
        self.whole_feed(FeedFilter { chain_id: Some(self.chain_id), with_stuck: true }).await
    }

    async fn whole_feed(&self, filter: FeedFilter) -> Vec<Completion> {
        let mut feed: Vec<Completion> = Vec::new();
        loop {
            let after = feed.last().map_or(Seq::MIN, |entry| entry.seq);
            let page = self.feed_page(filter, after).await;
            if page.is_empty() {
                return feed;
            }
            feed.extend(page);
        }
    }
}
