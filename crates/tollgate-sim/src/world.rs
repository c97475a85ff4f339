//! The shared state of one run: time, randomness, the database, the chain, and the checker.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_devchain::chain::Rng;
use tollgate_model::account_pool::{AccountPool, PoolName};
use tollgate_model::ids::InvalidValue;
use tollgate_model::nonce::Mode;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    AccountPoolStore, ChainRegistration, StoreError, SubmitterSetup, TxStore,
};
use tollgate_model::{B256, ChainId, Nonce, Submitter, Timestamp};
use tollgate_sqlite::{SqliteOptions, SqliteStore, Threads};

use crate::chain::{CHAIN_ID, SimChain, accounts};
use crate::checker::Checker;
use crate::node::Node;
use crate::plan::{Faults, Plan};
use crate::planted::{Bug, PlantedMemory};
use crate::trace::{Trace, TraceMode};

/// The start of every run: 2025-06-15, a little after the chain's first block.
const START_MICROS: i64 = 1_750_000_100_000_000;

/// Simulated time, which is also the database's clock.
#[derive(Clone, Copy)]
pub(crate) struct SimTime {
    start: Instant,
}

impl SimTime {
    fn since_start_micros(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

impl Clock for SimTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(START_MICROS + self.since_start_micros())
    }
}

/// Intents of a second chain: enough to be mistaken for the first one's.
const SECOND_CHAIN_INTENTS: usize = 12;

/// The pool of all accounts of a chain.
pub(crate) fn pool_name() -> Result<PoolName, InvalidValue> {
    PoolName::new("all")
}

/// The parts that the worlds of two chains share.
struct Shared {
    store: SqliteStore,
    trace: Arc<Trace>,
    shares_feed: bool,
    time: SimTime,
    bug: Option<Bug>,
}

/// One run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    pub(crate) planted: PlantedMemory,
    pub(crate) store: SqliteStore,
    pub(crate) chain: SimChain,
    pub(crate) checker: Checker,
    pub(crate) trace: Arc<Trace>,
    /// Another chain's completions are in the same feed.
    pub(crate) shares_feed: bool,
    chain_id: ChainId,
    time: SimTime,
    rng: Mutex<Rng>,
    is_calm: AtomicBool,
    nodes: Mutex<Vec<Option<Node>>>,
    /// The world of the other chain, if there is one.
    other: OnceLock<Weak<World>>,
}

impl World {
    /// The world of a seed. `favours`: its plan is changed so that the bug can show.
    pub(crate) async fn new(
        seed: u64,
        bug: Option<Bug>,
        favours: bool,
        keep: TraceMode,
    ) -> Result<Arc<Self>, StoreError> {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::draw(&mut rng);
        if let Some(bug) = bug.filter(|_| favours) {
            bug.favour(&mut plan);
        }
        let time = SimTime { start: Instant::now() };
        let options = SqliteOptions {
            clock: Arc::new(time),
            threads: Threads::Callers,
            overrides: bug.map_or(&[], Bug::overrides),
            ..SqliteOptions::memory()
        };
        let store = SqliteStore::open(options).await?;
        if let Some(statements) = bug.and_then(Bug::statements) {
            store.execute_batch(statements).await?;
        }
        let shared = Shared {
            store,
            trace: Arc::new(Trace::new(keep)),
            shares_feed: plan.second_chain,
            time,
            bug,
        };
        Self::on_chain(CHAIN_ID, seed, (rng, plan), shared).await
    }

    /// A world of another chain with the same accounts, in the same database.
    pub(crate) async fn second(&self, seed: u64) -> Result<Arc<Self>, StoreError> {
        let mut rng = Rng::new(!seed);
        let plan = Plan {
            intents: SECOND_CHAIN_INTENTS,
            orphans: 0,
            second_chain: false,
            storm: self.plan.storm,
            ..Plan::draw(&mut rng)
        };
        let shared = Shared {
            store: self.store.clone(),
            trace: self.trace.clone(),
            shares_feed: true,
            time: self.time,
            bug: self.bug,
        };
        Self::on_chain(CHAIN_ID + 1, seed, (rng, plan), shared).await
    }

    async fn on_chain(
        chain_id: u64,
        seed: u64,
        (rng, plan): (Rng, Plan),
        shared: Shared,
    ) -> Result<Arc<Self>, StoreError> {
        let Shared { store, trace, shares_feed, time, bug } = shared;
        let chain = SimChain::new(seed, chain_id, &plan);
        let chain_id = ChainId::new(chain_id)?;
        store.register_chain(&ChainRegistration { chain_id, genesis: B256::ZERO }).await?;
        let world = Self {
            chain,
            checker: Checker::default(),
            nodes: Mutex::new((0..plan.nodes).map(|_| None).collect()),
            plan,
            bug,
            planted: PlantedMemory::default(),
            store,
            trace,
            shares_feed,
            chain_id,
            time,
            rng: Mutex::new(rng),
            is_calm: AtomicBool::new(false),
            other: OnceLock::new(),
        };
        let (mode, start_from) = (world.plan.mode, Nonce::MIN);
        let setup = |submitter| SubmitterSetup { submitter, mode, start_from };
        let setups: Vec<_> = world.submitters().into_iter().map(setup).collect();
        world.store.register_submitters(&setups).await?;
        let members = setups.iter().map(|setup| setup.submitter.address).collect();
        let pool = AccountPool { name: pool_name()?, members };
        world.store.put_pool(chain_id, &pool).await?;
        crate::orphans::leave(&world).await?;
        crate::workload::use_accounts_before(&world, seed);
        world.note(format_args!("{:?}", world.plan));
        Ok(Arc::new(world))
    }

    /// Makes the worlds of two chains known to each other: a process may serve both.
    pub(crate) fn meet(self: &Arc<Self>, other: &Arc<Self>) {
        // Each world meets one other, once.
        let _ = self.other.set(Arc::downgrade(other));
        let _ = other.other.set(Arc::downgrade(self));
    }

    /// The world of the other chain.
    pub(crate) fn other(&self) -> Option<Arc<Self>> {
        self.other.get()?.upgrade()
    }

    pub(crate) fn submitters(&self) -> Vec<Submitter> {
        let accounts = accounts().into_iter().take(self.plan.submitters);
        accounts.map(|account| Submitter::new(self.chain_id(), account.address)).collect()
    }

    pub(crate) fn any_submitter(&self) -> Submitter {
        let mut all = self.submitters();
        all.swap_remove(self.below(all.len() as u64) as usize)
    }

    pub(crate) fn chain_id(&self) -> ChainId {
        self.chain_id
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.plan.mode == Mode::Strict
    }

    /// Callers may reserve nonces: not of strict submitters, nor beside a backlog.
    pub(crate) fn may_reserve(&self) -> bool {
        !self.is_strict() && self.plan.faults.reserve > 0.0
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    // Time.

    pub(crate) fn now(&self) -> Timestamp {
        self.time.now()
    }

    pub(crate) fn millis(&self) -> u64 {
        u64::try_from(self.now().unix_micros() / 1_000).unwrap_or(0)
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.note(self.time.since_start_micros(), what);
    }

    // Chance.

    fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.rng().below(bound)
    }

    pub(crate) fn chance(&self, probability: f64) -> bool {
        self.rng().chance(probability)
    }

    pub(crate) fn flips(&self) -> bool {
        self.below(2) == 0
    }

    /// A duration from `least` to below `most` milliseconds.
    pub(crate) fn between(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most.saturating_sub(least).max(1)))
    }

    /// Draws a fault of a call. There is none in the calm.
    pub(crate) fn strikes(&self, chance: impl FnOnce(&Faults) -> f64) -> bool {
        let chance = chance(&self.plan.faults);
        !self.is_calm() && chance > 0.0 && self.chance(chance)
    }

    /// Draws a fault that no calm ends.
    pub(crate) fn steadily(&self, chance: f64) -> bool {
        chance > 0.0 && self.chance(chance)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    pub(crate) fn calm_down(&self) {
        self.note(format_args!("calm"));
        self.is_calm.store(true, Ordering::Relaxed);
        for node in self.alive() {
            node.network.heal();
        }
    }

    /// The duration of a call: a few milliseconds, or up to beyond a lease.
    pub(crate) fn travel_time(&self) -> Duration {
        if self.strikes(|faults| faults.slow) {
            return self.between(500, 9_000);
        }
        self.short_time()
    }

    pub(crate) fn short_time(&self) -> Duration {
        Duration::from_millis(1 + self.below(12))
    }

    // Nodes.

    fn nodes(&self) -> MutexGuard<'_, Vec<Option<Node>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn seat(&self, index: usize, node: Option<Node>) {
        self.nodes()[index] = node;
    }

    /// Drops all nodes.
    pub(crate) fn vacate(&self) {
        self.nodes().clear();
    }

    pub(crate) fn alive(&self) -> Vec<Node> {
        self.nodes().iter().flatten().filter(|node| !node.network.is_dead()).cloned().collect()
    }

    pub(crate) fn any_node(&self) -> Option<Node> {
        let mut alive = self.alive();
        let count = alive.len() as u64;
        (count > 0).then(|| alive.swap_remove(self.below(count) as usize))
    }
}
