//! A real database, a real chain, and as many nodes as a scenario wants.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_devchain::dev_accounts;
use tollgate_engine::{Acted, Action, Created, Engine, EngineOptions, EnginePorts, Policies};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::{SignedTx, Signer};
use tollgate_model::port::{Checkpoints, LeaseTerms, NoCheckpoints, Store, TxRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{ChainId, GasPrice, Nonce, Seq, Submitter, Tracking, TxHash, TxId, TxState};
use tollgate_testkit::builders::draft;
use tollgate_testkit::cluster::{chain_config, dev_signer, register};
use tollgate_testkit::store_fixture::NodeOptions;
use tollgate_testkit::{Cluster, PausePoints, StoreFixture, wait};

use super::chains::{ChainKind, Era, TestChain};
use super::check::CANCELLED;
use crate::support::{act, id};

pub(crate) use crate::support::transfer;
pub(crate) use tollgate_testkit::StoreKind;
pub(crate) use tollgate_testkit::cluster::POLL_INTERVAL;

/// The depth at which a block is settled here.
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

/// The settings in which one node differs from another.
pub(crate) struct Setup {
    pub(crate) options: EngineOptions,
    pub(crate) policies: Policies,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    /// The time for which a fee quote is kept.
    pub(crate) fee_cache: Option<Duration>,
    /// Its private endpoints.
    pub(crate) private_urls: Vec<String>,
}

impl From<EngineOptions> for Setup {
    fn from(options: EngineOptions) -> Self {
        let (policies, checkpoints) = (Policies::default(), Arc::new(NoCheckpoints));
        Self { options, policies, checkpoints, fee_cache: None, private_urls: Vec::new() }
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

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Above everything that was offered at the market's first price, and below what is offered now.
pub(crate) const DEAR_BASE_FEE: u64 = 50_000_000_000;

/// Nothing is sent again by itself.
pub(crate) fn patient() -> EngineOptions {
    let resubmit = ResubmitRules { interval: Duration::from_secs(3_600), ..options().resubmit };
    EngineOptions { resubmit, ..options() }
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
    /// Transfers in the order of their values, each with a node.
    pub(crate) async fn pending(
        &self,
        engine: &Engine,
        from: Submitter,
        values: impl IntoIterator<Item = u64>,
    ) -> Vec<Sent> {
        let mut sent = Vec::new();
        for value in values {
            sent.extend(self.send(engine, from, [value]).await);
        }
        for sent in &sent {
            self.until(sent.id, "with a node", is_pending).await;
        }
        sent
    }

    /// Has a further attempt signed, and waits until a pool has it.
    pub(crate) async fn sign(&self, engine: &Engine, tx: TxId, action: Action) -> TxHash {
        let acted = act(engine, tx, action).await;
        let Ok(Acted::Signed(hash)) = acted else { panic!("not signed: {acted:?}") };
        self.until_pooled(hash).await;
        hash
    }

    /// Mines while the market stays high, until all of these are final.
    pub(crate) async fn mine_dear_until_final(&self, sent: &[Sent]) {
        let is_final = |record: &TxRecord| record.row.state.is_final();
        for sent in sent {
            let mine = async || {
                self.chain.set_base_fee(DEAR_BASE_FEE).await;
                self.mine_one().await;
            };
            self.until_meanwhile(sent.id, "final", is_final, mine).await;
        }
    }

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
        let Setup { options, policies, checkpoints, fee_cache, private_urls } = setup;
        let mut config = chain_config(urls.iter().cloned());
        let private = |url| EndpointConfig { role: Role::Private, ..EndpointConfig::new(url) };
        config.endpoints.extend(private_urls.into_iter().map(private));
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

    /// Mines until all of these are final, and verifies the outcome on the chain.
    pub(crate) async fn finish(&self, of: Submitter, sent: &[Sent]) {
        self.mine_until_final(sent).await;
        self.verify(of, sent).await;
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

/// Price and tip in gwei: enough to be mined.
pub(crate) const MODEST: (u64, u64) = (20, 1);
/// Enough to take the place of anything that an engine offers by itself.
pub(crate) const DEAR: (u64, u64) = (200, 10);

/// A transfer in a slot that somebody else signs who has the key, and sends past the engine.
pub(crate) async fn signed_by_outsider(
    of: Submitter,
    nonce: Nonce,
    value: u64,
    (price, tip): (u64, u64),
) -> SignedTx {
    let key = dev_accounts().iter().position(|key| key.address == of.address).unwrap();
    let signer = dev_signer([key]);
    let gwei = |n: u64| GasPrice::from_wei(u128::from(n) * 1_000_000_000).unwrap();
    let fees = Fees { gas_limit: 25_000, max_fee: gwei(price), max_priority_fee: Some(gwei(tip)) };
    signer.sign(vec![draft(of, nonce, value, fees)]).await.remove(0).unwrap()
}
