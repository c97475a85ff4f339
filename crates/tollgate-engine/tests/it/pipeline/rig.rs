//! A real database, a real chain, and as many nodes as a scenario wants.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tollgate_devchain::dev_accounts;
use tollgate_engine::{Created, Engine, EngineOptions, EnginePorts, Policies, RandomIds};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_evm::signer::{Key, LocalSigner};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{
    ChainRegistration, Checkpoints, Completion, LeaseTerms, Page, Store, SubmitterSetup, TxRecord,
    Unwatched,
};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{
    Address, ChainId, Intent, NodeId, Nonce, Seq, Submitter, Tracking, TxHash, TxId, TxState, U256,
};
use tollgate_testkit::world::NodeOptions;
use tollgate_testkit::{Gate, PgWorld, SqliteWorld, World};
use uuid::Uuid;

use super::chains::{ChainKind, Era, TestChain};
use super::check::CANCELLED;
use crate::rig::{Recorded, RigClock, id};

/// How long the work of a whole scenario may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two blocks, and between two looks.
pub(crate) const PACE: Duration = Duration::from_millis(40);
/// How deep a block is settled here.
pub(crate) const FINALITY: u64 = 4;
/// Accounts that nodes have keys of.
const ACCOUNTS: usize = 4;

/// Which database a scenario runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
}

/// One database and one chain.
pub(crate) struct Pipeline {
    pub(crate) chain: TestChain,
    /// The test's own eyes.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) world: Arc<dyn World>,
    /// What any of its nodes told people.
    pub(crate) alerts: Arc<Recorded>,
    /// The clock of all its nodes.
    pub(crate) clock: Arc<RigClock>,
}

/// How one node differs from another.
pub(crate) struct Setup {
    pub(crate) options: EngineOptions,
    pub(crate) policies: Policies,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    /// How long it takes the market for what it was.
    pub(crate) fee_cache: Option<Duration>,
}

impl From<EngineOptions> for Setup {
    fn from(options: EngineOptions) -> Self {
        let (policies, checkpoints) = (Policies::default(), Arc::new(Unwatched));
        Self { options, policies, checkpoints, fee_cache: None }
    }
}

/// What was asked for, and how it has to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) id: TxId,
    /// What it pays: each of a scenario pays something else.
    pub(crate) value: u64,
    pub(crate) ends: TxState,
}

impl Sent {
    pub(crate) const fn new(id: TxId, value: u64) -> Self {
        Self { id, value, ends: TxState::Confirmed }
    }

    /// It is not wanted any more: a transfer of nothing stands in its slot.
    pub(crate) const fn cancelled(self) -> Self {
        Self { value: 0, ends: CANCELLED, ..self }
    }
}

/// The `n`th dev account.
pub(crate) fn account(n: usize) -> Submitter {
    Submitter::new(ChainId::new(31_337).unwrap(), dev_accounts()[n].address)
}

/// An intent that differs from all others by what it pays.
pub(crate) fn transfer(value: u64) -> Intent {
    Intent::transfer(Address::repeat_byte(0xee), U256::from(value))
}

/// Short times, but leases that outlast a scenario: nothing comes right only because one ends.
pub(crate) fn options() -> EngineOptions {
    let millis = Duration::from_millis;
    EngineOptions {
        lease: LeaseTerms::new(millis(120_000), millis(200), Duration::ZERO).unwrap(),
        finality: FinalityRule::Confirmations(FINALITY),
        resubmit: ResubmitRules { interval: millis(1_000), ..ResubmitRules::default() },
        ..EngineOptions::default()
    }
}

pub(crate) fn is_mined(record: &TxRecord) -> bool {
    record.seen.state == TxState::Tracking(Tracking::Mined)
}

/// A node has it, and no block that counts.
pub(crate) fn is_pending(record: &TxRecord) -> bool {
    let tracked = matches!(record.seen.state, TxState::Tracking(_));
    tracked && !is_mined(record) && record.mined.is_none()
}

impl Pipeline {
    pub(crate) async fn on(store: StoreKind, chain: ChainKind) -> Self {
        Self::in_era(store, chain, Era::London).await
    }

    pub(crate) async fn in_era(store: StoreKind, chain: ChainKind, era: Era) -> Self {
        let world: Arc<dyn World> = match store {
            StoreKind::Sqlite => Arc::new(SqliteWorld::new().await),
            StoreKind::Postgres => Arc::new(PgWorld::new().await),
        };
        Self::of(world, TestChain::start(chain, era).await).await
    }

    /// On a database and a chain that are there already.
    pub(crate) async fn of(world: Arc<dyn World>, chain: TestChain) -> Self {
        let store = world.open(NodeOptions::default()).await.unwrap();
        Self { chain, store, world, alerts: Arc::default(), clock: Arc::default() }
    }

    /// A node with connections of its own to both, as another process would have.
    pub(crate) async fn node(&self, name: &str, setup: impl Into<Setup>) -> Engine {
        self.node_over(name, setup, &[self.chain.ws_url()]).await
    }

    /// A node that knows the chain by these endpoints.
    pub(crate) async fn node_over(
        &self,
        name: &str,
        setup: impl Into<Setup>,
        urls: &[String],
    ) -> Engine {
        let store = self.world.open(NodeOptions::default()).await.unwrap();
        self.start(store, name, setup.into(), urls).await
    }

    /// A node that can be stopped wherever its store or its engine passes a checkpoint.
    pub(crate) async fn watched_node(
        &self,
        name: &str,
        options: EngineOptions,
        gate: Arc<Gate>,
    ) -> Engine {
        let watched = NodeOptions { watch: gate.clone(), ..NodeOptions::default() };
        let store = self.world.open(watched).await.unwrap();
        let setup = Setup { checkpoints: gate, ..options.into() };
        self.start(store, name, setup, &[self.chain.ws_url()]).await
    }

    /// Creates transfers, all at once.
    pub(crate) async fn send(
        &self,
        engine: &Engine,
        from: Submitter,
        values: impl IntoIterator<Item = u64>,
    ) -> Vec<Sent> {
        let creates = values.into_iter().map(async |value| {
            let created = engine.create(from, None, transfer(value)).await;
            let created = created.unwrap_or_else(|error| panic!("{value}: {error}"));
            assert!(matches!(created, Created::New(_)), "{created:?}");
            Sent::new(id(created), value)
        });
        join_all(creates).await
    }

    pub(crate) async fn record(&self, id: TxId) -> TxRecord {
        self.store.tx(id).await.unwrap().unwrap()
    }

    pub(crate) async fn cursor(&self, of: Submitter) -> u64 {
        self.store.submitter(of).await.unwrap().unwrap().next_nonce.get()
    }

    /// Waits until a transaction is what it should be; no block comes meanwhile.
    pub(crate) async fn until(&self, id: TxId, what: &str, test: impl Fn(&TxRecord) -> bool) {
        let begun = Instant::now();
        loop {
            let record = self.record(id).await;
            if test(&record) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never {what}: {record:?}");
            tokio::time::sleep(PACE / 4).await;
        }
    }

    /// Waits for anything else; no block comes meanwhile.
    pub(crate) async fn eventually(&self, what: &str, mut test: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !test().await {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            tokio::time::sleep(PACE / 4).await;
        }
    }

    /// Waits until a pool has it; no block comes meanwhile.
    pub(crate) async fn until_pooled(&self, hash: TxHash) {
        let begun = Instant::now();
        while !self.chain.is_pooled(hash).await {
            assert!(begun.elapsed() < PATIENCE, "{hash} is never sent again");
            tokio::time::sleep(PACE / 4).await;
        }
    }

    /// Mines until a transaction is what it should be.
    pub(crate) async fn mine_until(&self, id: TxId, what: &str, test: impl Fn(&TxRecord) -> bool) {
        let begun = Instant::now();
        loop {
            let record = self.record(id).await;
            if test(&record) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never {what}: {record:?}");
            self.chain.mine(1).await;
            tokio::time::sleep(PACE).await;
        }
    }

    /// Mines until all of these are in the feed.
    pub(crate) async fn mine_until_final(&self, sent: &[Sent]) {
        let mut open: HashSet<TxId> = sent.iter().map(|sent| sent.id).collect();
        let (begun, mut after) = (Instant::now(), Seq::MIN);
        loop {
            for entry in self.feed_after(after).await {
                after = entry.seq;
                open.remove(&entry.tx_id);
            }
            let Some(first) = open.iter().min() else { return };
            if begun.elapsed() > PATIENCE {
                panic!("{} are not final, first {:?}", open.len(), self.record(*first).await);
            }
            self.chain.mine(1).await;
            tokio::time::sleep(PACE).await;
        }
    }

    /// Waits until a node has seen the chain's head and acted on it for this submitter: a worker
    /// follows what it sees before it takes the next intent, so the answer to one proves it.
    pub(crate) async fn caught_up(&self, engine: &Engine, from: Submitter, value: u64) -> Sent {
        let (begun, head) = (Instant::now(), self.chain.head().await);
        while engine.view().head().is_none_or(|seen| seen.number < head) {
            assert!(begun.elapsed() < PATIENCE, "{:?} is not {head}", engine.view().head());
            tokio::time::sleep(PACE / 4).await;
        }
        self.send(engine, from, [value]).await.remove(0)
    }

    async fn feed_after(&self, after: Seq) -> Vec<Completion> {
        let page = Page::new(Page::MAX).unwrap();
        self.store.completions(account(0).chain_id, after, page).await.unwrap().items
    }

    /// The whole feed.
    pub(crate) async fn feed(&self) -> Vec<Completion> {
        let mut feed = Vec::new();
        loop {
            let after = feed.last().map_or(Seq::MIN, |entry: &Completion| entry.seq);
            let page = self.feed_after(after).await;
            if page.is_empty() {
                return feed;
            }
            feed.extend(page);
        }
    }

    /// Starts an engine on a store and a chain as `tollgate serve` does.
    pub(crate) async fn start(
        &self,
        store: Arc<dyn Store>,
        name: &str,
        setup: Setup,
        urls: &[String],
    ) -> Engine {
        let Setup { options, policies, checkpoints, fee_cache } = setup;
        let endpoints = urls.iter().map(EndpointConfig::new).collect();
        let config = ChainConfig::new(endpoints);
        let fee_cache = fee_cache.unwrap_or(config.fee_cache);
        let config = ChainConfig { poll_interval: PACE, fee_cache, ..config };
        let chain = EvmChain::connect(config).await.unwrap();
        let (chain_id, genesis) = (chain.chain_id(), chain.genesis());
        store.register_chain(&ChainRegistration { chain_id, genesis }).await.unwrap();
        let keys = dev_accounts();
        let keys = keys.iter().take(ACCOUNTS).map(|key| Key::from_bytes(&key.private_key).unwrap());
        let signer = LocalSigner::new(keys);
        let setup = |address| SubmitterSetup {
            submitter: Submitter::new(chain_id, address),
            mode: options.nonces.mode,
            start_from: Nonce::MIN,
        };
        let setups: Vec<_> = signer.accounts().into_iter().map(setup).collect();
        store.register_submitters(&setups).await.unwrap();
        let ports = EnginePorts {
            node: NodeId::new(name, Uuid::now_v7()).unwrap(),
            store,
            chain: Arc::new(chain),
            signer: Arc::new(signer),
            clock: self.clock.clone(),
            ids: Arc::new(RandomIds),
            checkpoints,
            policies,
            alerts: self.alerts.clone(),
        };
        Engine::start(ports, options)
    }
}
