//! A real database, a real chain, and as many nodes as a scenario wants.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_devchain::dev_accounts;
use tollgate_engine::{Created, Engine, EngineOptions, EnginePorts, Policies};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{Checkpoints, LeaseTerms, NoCheckpoints, Store, TxRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{ChainId, Seq, Submitter, Tracking, TxHash, TxId, TxState};
use tollgate_testkit::cluster::{chain_config, dev_signer, register};
use tollgate_testkit::store_fixture::NodeOptions;
use tollgate_testkit::{Cluster, PausePoints, StoreFixture, wait};

use super::chains::{ChainKind, Era, TestChain};
use super::check::CANCELLED;
use crate::support::id;

pub(crate) use crate::support::transfer;
pub(crate) use tollgate_testkit::StoreKind;
pub(crate) use tollgate_testkit::cluster::POLL_INTERVAL;

/// How deep a block is settled here.
pub(crate) const FINALITY: u64 = 4;
/// Dev accounts that nodes have keys of.
const ACCOUNTS: std::ops::Range<usize> = 0..4;

/// One database and one chain. The nodes' stores are their own, as those of processes.
pub(crate) struct Pipeline(Cluster<TestChain>);

impl Deref for Pipeline {
    type Target = Cluster<TestChain>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// How one node differs from another.
pub(crate) struct Setup {
    pub(crate) options: EngineOptions,
    pub(crate) policies: Policies,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    /// How long it keeps a fee quote.
    pub(crate) fee_cache: Option<Duration>,
}

impl From<EngineOptions> for Setup {
    fn from(options: EngineOptions) -> Self {
        let (policies, checkpoints) = (Policies::default(), Arc::new(NoCheckpoints));
        Self { options, policies, checkpoints, fee_cache: None }
    }
}

/// A transaction that was asked for, and how it has to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) id: TxId,
    /// Its value, which no other transaction of the scenario has.
    pub(crate) value: u64,
    pub(crate) ends: TxState,
}

impl Sent {
    pub(crate) const fn new(id: TxId, value: u64) -> Self {
        Self { id, value, ends: TxState::Confirmed }
    }

    /// The same transaction, cancelled: a transfer of nothing takes its slot.
    pub(crate) const fn cancelled(self) -> Self {
        Self { value: 0, ends: CANCELLED, ..self }
    }
}

/// The `n`th dev account.
pub(crate) fn account(n: usize) -> Submitter {
    Submitter::new(ChainId::new(31_337).unwrap(), dev_accounts()[n].address)
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
    record.row.state == TxState::Tracking(Tracking::Mined)
}

/// A pool has it, and no canonical block.
pub(crate) fn is_pending(record: &TxRecord) -> bool {
    let tracked = matches!(record.row.state, TxState::Tracking(_));
    tracked && !is_mined(record) && record.mined.is_none()
}

impl Pipeline {
    pub(crate) async fn on(store: StoreKind, chain: ChainKind) -> Self {
        Self::in_era(store, chain, Era::London).await
    }

    pub(crate) async fn in_era(store: StoreKind, chain: ChainKind, era: Era) -> Self {
        Self::of(store.start().await, TestChain::start(chain, era).await).await
    }

    /// On a database and a chain that run already.
    pub(crate) async fn of(fixture: Arc<dyn StoreFixture>, chain: TestChain) -> Self {
        Self(Cluster::new(fixture, chain, account(0).chain_id).await)
    }

    /// A node with its own connections to both, as another process would have.
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
        let store = self.fixture.open(NodeOptions::default()).await.unwrap();
        self.start(store, name, setup.into(), urls).await
    }

    /// A node that can be paused wherever its store or its engine passes a checkpoint.
    pub(crate) async fn watched_node(
        &self,
        name: &str,
        options: EngineOptions,
        checkpoints: Arc<PausePoints>,
    ) -> Engine {
        let node = NodeOptions { checkpoints: checkpoints.clone(), ..NodeOptions::default() };
        let store = self.fixture.open(node).await.unwrap();
        let setup = Setup { checkpoints, ..options.into() };
        self.start(store, name, setup, &[self.chain.ws_url()]).await
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
        let config = chain_config(urls.iter().cloned());
        let fee_cache = fee_cache.unwrap_or(config.fee_cache);
        let chain = EvmChain::connect(ChainConfig { fee_cache, ..config }).await.unwrap();
        let signer = dev_signer(ACCOUNTS);
        let id = (chain.chain_id(), chain.genesis());
        register(store.as_ref(), id, signer.accounts(), options.nonces.mode).await;
        let ports = self.ports(name, store, Arc::new(chain), Arc::new(signer));
        Engine::start(EnginePorts { policies, checkpoints, ..ports }, options)
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

    pub(crate) async fn cursor(&self, of: Submitter) -> u64 {
        self.submitter(of).await.next_nonce.get()
    }

    /// Waits until a pool has it; no block comes meanwhile.
    pub(crate) async fn until_pooled(&self, hash: TxHash) {
        let is_pooled = async || self.chain.is_pooled(hash).await;
        self.eventually(&format!("{hash} is sent again"), is_pooled).await;
    }

    /// Mines until a condition holds for a transaction.
    pub(crate) async fn mine_until(&self, id: TxId, what: &str, test: impl Fn(&TxRecord) -> bool) {
        self.until_meanwhile(id, what, test, async || self.mine_one().await).await;
    }

    /// Mines until all of these are in the feed.
    pub(crate) async fn mine_until_final(&self, sent: &[Sent]) {
        let mut open: HashSet<TxId> = sent.iter().map(|sent| sent.id).collect();
        let (mut limit, mut after) = (wait::Limit::new(), Seq::MIN);
        loop {
            for entry in self.feed_after(after).await {
                after = entry.seq;
                open.remove(&entry.tx_id);
            }
            let Some(first) = open.iter().min() else { return };
            if limit.is_over() {
                panic!("{} are not final, first {:?}", open.len(), self.record(*first).await);
            }
            self.mine_one().await;
            limit.pause().await;
        }
    }

    /// Mines a block, and leaves the nodes time to see it.
    pub(crate) async fn mine_one(&self) {
        self.chain.mine(1).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }

    /// Waits until a node has seen the chain's head and acted on it for this submitter: a worker
    /// handles new heads before it takes the next intent, so the answer to one proves it.
    pub(crate) async fn caught_up(&self, engine: &Engine, from: Submitter, value: u64) -> Sent {
        let head = self.chain.head().await;
        let is_seen = async || engine.view().head().is_some_and(|seen| seen.number >= head);
        self.eventually(&format!("the head is {head}"), is_seen).await;
        self.send(engine, from, [value]).await.remove(0)
    }
}
