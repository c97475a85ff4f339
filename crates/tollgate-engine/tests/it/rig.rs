//! A database, a chain, and as many nodes as a test wants.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tollgate_engine::{Created, Engine, EngineOptions, EnginePorts, Policies, RandomIds};
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::Mode;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{
    Alert, AlertKind, Alerts, Attempt, ChainRegistration, Completion, FeedStore, HistoryEntry,
    LeaseTerms, Page, SubmitterRecord, SubmitterSetup, TxRecord, TxStore,
};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{
    Address, B256, ChainId, Intent, NodeId, Nonce, RequestId, Seq, Submitter, Timestamp, TxId, U256,
};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use uuid::Uuid;

use tollgate_testkit::Gate;
use tollgate_testkit::fake_chain::{FakeChain, FakeSigner};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The machine's clock, which a test can set forward.
#[derive(Default)]
pub(crate) struct RigClock {
    ahead: Mutex<Duration>,
}

impl RigClock {
    pub(crate) fn advance(&self, by: Duration) {
        *self.ahead.lock().unwrap() += by;
    }
}

impl Clock for RigClock {
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    fn now(&self) -> Timestamp {
        Timestamp::from(SystemTime::now()).after(*self.ahead.lock().unwrap())
    }
}

/// Alerts that were raised.
#[derive(Default)]
pub(crate) struct Recorded(Mutex<Vec<Alert>>);

impl Alerts for Recorded {
    fn raise(&self, alert: &Alert) {
        self.0.lock().unwrap().push(alert.clone());
    }
}

impl Recorded {
    pub(crate) fn of(&self, kind: AlertKind) -> Vec<Alert> {
        self.0.lock().unwrap().iter().filter(|alert| alert.kind == kind).cloned().collect()
    }
}

/// One database and one chain.
pub(crate) struct Rig {
    pub(crate) store: SqliteStore,
    pub(crate) gate: Arc<Gate>,
    pub(crate) chain: Arc<FakeChain>,
    pub(crate) alerts: Arc<Recorded>,
    pub(crate) clock: Arc<RigClock>,
    _directory: tempfile::TempDir,
}

pub(crate) fn account(n: u8) -> Submitter {
    Submitter::new(ChainId::new(7).unwrap(), Address::repeat_byte(n))
}

/// An intent that differs from all others by its value.
pub(crate) fn transfer(value: u64) -> Intent {
    Intent::transfer(Address::repeat_byte(0xee), U256::from(value))
}

pub(crate) fn request(text: &str) -> Option<RequestId> {
    Some(RequestId::new(text).unwrap())
}

pub(crate) fn id(created: Created) -> TxId {
    created.tx_id()
}

/// Short times, but leases that outlast a test: nobody loses one because the machine is busy.
pub(crate) fn options() -> EngineOptions {
    let millis = Duration::from_millis;
    EngineOptions {
        lease: LeaseTerms::new(millis(600_000), millis(200), Duration::ZERO).unwrap(),
        finality: FinalityRule::Confirmations(3),
        resubmit: ResubmitRules { interval: millis(400), ..ResubmitRules::default() },
        ..EngineOptions::default()
    }
}

/// Leases that end soon after their owner.
pub(crate) fn hasty() -> EngineOptions {
    let millis = Duration::from_millis;
    let lease = LeaseTerms::new(millis(900), millis(200), Duration::ZERO).unwrap();
    EngineOptions { lease, ..options() }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with_mode(Mode::Pipelined).await
    }

    pub(crate) async fn with_mode(mode: Mode) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let gate = Gate::new();
        let file = SqliteOptions::file(directory.path().join("tollgate.db"));
        let options = SqliteOptions { checkpoints: gate.clone(), ..file };
        let store = SqliteStore::open(options).await.unwrap();
        let chain_id = ChainId::new(7).unwrap();
        let genesis = B256::repeat_byte(1);
        store.register_chain(&ChainRegistration { chain_id, genesis }).await.unwrap();
        let start_from = Nonce::MIN;
        let setup = |n| SubmitterSetup { submitter: account(n), mode, start_from };
        store.register_submitters(&[setup(1), setup(2), setup(3)]).await.unwrap();
        let (chain, alerts) = (Arc::new(FakeChain::new()), Arc::default());
        Self { store, gate, chain, alerts, clock: Arc::default(), _directory: directory }
    }

    pub(crate) fn node(&self, name: &str, options: EngineOptions) -> Engine {
        self.node_with(name, options, Policies::default())
    }

    pub(crate) fn node_with(
        &self,
        name: &str,
        options: EngineOptions,
        policies: Policies,
    ) -> Engine {
        let accounts = [1, 2, 3].map(|n| account(n).address).to_vec();
        self.node_signing(name, options, policies, Arc::new(FakeSigner(accounts)))
    }

    pub(crate) fn node_signing(
        &self,
        name: &str,
        options: EngineOptions,
        policies: Policies,
        signer: Arc<dyn Signer>,
    ) -> Engine {
        let ports = EnginePorts {
            node: NodeId::new(name, Uuid::now_v7()).unwrap(),
            store: Arc::new(self.store.clone()),
            chain: self.chain.clone(),
            signer,
            clock: self.clock.clone(),
            ids: Arc::new(RandomIds),
            checkpoints: self.gate.clone(),
            policies,
            alerts: self.alerts.clone(),
        };
        Engine::start(ports, options)
    }

    pub(crate) async fn record(&self, id: TxId) -> TxRecord {
        self.store.tx(id).await.unwrap().unwrap()
    }

    /// Waits until a transaction is what it should be.
    pub(crate) async fn until(&self, id: TxId, what: &str, test: impl Fn(&TxRecord) -> bool) {
        let waits = async {
            while !test(&self.record(id).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waits).await.is_err() {
            panic!("{id} never {what}: {:?}", self.record(id).await);
        }
    }

    /// Mines until all of these are final.
    pub(crate) async fn mine_until_final(&self, ids: &[TxId]) {
        let waits = async {
            for id in ids {
                while !self.record(*id).await.seen.state.is_final() {
                    self.chain.mine();
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        if tokio::time::timeout(PATIENCE, waits).await.is_err() {
            for id in ids {
                let record = self.record(*id).await;
                if !record.seen.state.is_final() {
                    panic!("not final: {record:?}, pool {}", self.chain.pooled());
                }
            }
        }
    }

    pub(crate) async fn attempts(&self, id: TxId) -> Vec<Attempt> {
        self.store.attempts(id).await.unwrap()
    }

    pub(crate) async fn history(&self, id: TxId) -> Vec<HistoryEntry> {
        self.store.history(id, 0, Page::new(Page::MAX).unwrap()).await.unwrap()
    }

    pub(crate) async fn submitter(&self, of: Submitter) -> SubmitterRecord {
        self.store.submitter(of).await.unwrap().unwrap()
    }

    /// Waits for anything.
    pub(crate) async fn eventually(&self, what: &str, mut test: impl AsyncFnMut() -> bool) {
        let waits = async {
            while !test().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, waits).await;
        assert!(in_time.is_ok(), "never: {what}");
    }

    pub(crate) async fn feed(&self) -> Vec<Completion> {
        let page = Page::new(Page::MAX).unwrap();
        self.store.completions(account(1).chain_id, Seq::MIN, page).await.unwrap().items
    }

    /// The values that were paid, in the order of nonces, which must have no gap.
    pub(crate) fn paid(&self, from: Submitter) -> Vec<u64> {
        let mined = self.chain.mined(from.address);
        for (expected, tx) in mined.iter().enumerate() {
            assert_eq!(tx.nonce, expected as u64, "the chain's nonces have no gap");
        }
        mined.iter().map(|tx| tx.value.to::<u64>()).collect()
    }
}
