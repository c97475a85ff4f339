//! Puts a node together: store, chain, keys, engine, heartbeat.

mod files;
mod heartbeat;
mod keyring;
mod policies;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tollgate_engine::{Engine, EngineOptions, LoggedAlerts, RandomIds, World};
use tollgate_evm::chain::{ChainConfig, ConnectError, EvmChain};
use tollgate_evm::signer::LocalSigner;
use tollgate_model::nonce::Mode;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{
    ChainRegistration, Checkpoints, LiveNode, Store, StoreError, SubmitterSetup,
};
use tollgate_model::{Address, NodeId, Nonce, Submitter, Text, Timestamp};
use tollgate_postgres::{PgOptions, PgStore};
use tollgate_server::{Api, BrowserPolicy, ConnectionLimits};
use tollgate_sqlite::{SqliteOptions, SqlitePath, SqliteStore};
use tracing::warn;
use uuid::Uuid;

use crate::config::{
    HttpSettings, Place, PolicySettings, Settings, io_words, masked_database, own_url,
};
use heartbeat::Heartbeat;
pub(crate) use keyring::Keyring;
use policies::policies;

/// The pause between two tries at something that does not answer yet.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What went wrong, for people.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The machine's clock: for schedules and ages, never for leases.
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the node's clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Seconds since 1970, for the first block of a dev chain.
pub(crate) fn unix_seconds() -> u64 {
    SystemClock.now().since(Timestamp::EPOCH).as_secs()
}

/// Where a node keeps its state.
#[derive(Clone)]
pub(crate) enum Database {
    Postgres(PgOptions),
    Sqlite(SqliteOptions),
}

impl Database {
    /// A file, with the defaults.
    pub(crate) fn file(path: impl Into<PathBuf>) -> Self {
        Self::Sqlite(SqliteOptions::file(path))
    }

    /// Whether a URL is `postgres://…` or `sqlite:PATH`.
    pub(crate) fn check(url: &str) -> Result<(), String> {
        let rest = ["postgres://", "postgresql://", "sqlite:"];
        match rest.iter().find_map(|scheme| url.strip_prefix(scheme)) {
            Some(rest) if !rest.is_empty() => Ok(()),
            Some(_) | None => Err("must be postgres://… or sqlite:PATH".to_owned()),
        }
    }

    /// Its place, without secrets.
    fn place(&self) -> String {
        match self {
            Self::Postgres(options) => masked_database(&options.url),
            Self::Sqlite(SqliteOptions { path: SqlitePath::File(path), .. }) => {
                masked_database(&format!("sqlite:{}", path.display()))
            }
            Self::Sqlite(_) => "sqlite in memory".to_owned(),
        }
    }

    /// Brings the schema up to date; returns how many migrations that took.
    pub(crate) async fn migrate(&self) -> Result<u32, Failure> {
        self.try_migrate().await.map_err(|error| self.trouble(&error).into())
    }

    async fn try_migrate(&self) -> Result<u32, StoreError> {
        match self {
            Self::Postgres(options) => tollgate_postgres::migrate(options).await,
            Self::Sqlite(options) => tollgate_sqlite::migrate(options).await,
        }
    }

    async fn try_open(
        &self,
        checkpoints: Arc<dyn Checkpoints>,
    ) -> Result<Arc<dyn Store>, StoreError> {
        self.try_migrate().await?;
        Ok(match self {
            Self::Postgres(options) => {
                Arc::new(PgStore::open(PgOptions { checkpoints, ..options.clone() }).await?)
            }
            Self::Sqlite(options) => {
                Arc::new(SqliteStore::open(SqliteOptions { checkpoints, ..options.clone() }).await?)
            }
        })
    }

    /// Asks it; waits for a server that does not answer yet. A file that can't be opened now can't
    /// be opened later either.
    async fn patiently<T, A: Future<Output = Result<T, StoreError>>>(
        &self,
        wait: Duration,
        ask: impl Fn() -> A,
    ) -> Result<T, Failure> {
        let until = Instant::now() + wait;
        loop {
            match ask().await {
                Err(StoreError::Unavailable(why))
                    if matches!(self, Self::Postgres(_)) && Instant::now() < until =>
                {
                    warn!(database = self.place(), %why, "the database does not answer yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                answer => return answer.map_err(|error| self.trouble(&error).into()),
            }
        }
    }

    /// What is wrong, in one line.
    fn trouble(&self, error: &StoreError) -> String {
        let what = match error {
            StoreError::Unavailable(why) => format!("can't be reached or opened: {why}"),
            StoreError::Unsafe(why) | StoreError::Defect(why) => why.to_string(),
            other => other.to_string(),
        };
        format!("database {}: {}", self.place(), what.replace('\n', " "))
    }
}

/// A node to start.
#[derive(Clone)]
pub(crate) struct NodeConfig {
    pub(crate) name: String,
    /// Where the others reach it.
    pub(crate) advertise_url: Text<500>,
    /// Which requests of browsers it takes.
    pub(crate) browsers: BrowserPolicy,
    pub(crate) connections: ConnectionLimits,
    pub(crate) database: Database,
    pub(crate) chain: ChainConfig,
    /// Where the chain's id was said, if it was.
    pub(crate) chain_id_place: Place,
    pub(crate) start_from: Nonce,
    /// Accounts that are strict whatever the others are.
    pub(crate) strict: Vec<Address>,
    pub(crate) engine: EngineOptions,
    pub(crate) policies: PolicySettings,
    /// How long it waits for what does not answer yet.
    pub(crate) startup_wait: Duration,
    /// How long it passes requests on once it is told to stop.
    pub(crate) drain_wait: Duration,
}

impl NodeConfig {
    /// A node by its settings, listening on an address.
    pub(crate) fn new(settings: &Settings, address: SocketAddr) -> Self {
        let own_url = || Text::lossy(&own_url(address, &settings.node_name));
        let advertise_url = settings.advertise_url.clone().unwrap_or_else(own_url);
        let HttpSettings { allowed_hosts, allowed_origins, connections } = &settings.http;
        let url = advertise_url.as_str();
        Self {
            name: settings.node_name.clone(),
            browsers: BrowserPolicy::new(address.ip(), url, allowed_hosts, allowed_origins),
            connections: *connections,
            advertise_url,
            database: settings.database.clone(),
            chain: settings.chain.clone(),
            chain_id_place: settings.chain_id_place.clone(),
            start_from: settings.start_from,
            strict: settings.strict.clone(),
            engine: settings.engine.clone(),
            policies: settings.policies.clone(),
            startup_wait: settings.startup_wait,
            drain_wait: settings.drain_wait,
        }
    }

    /// Asks the endpoints which chain they are on. One that answers is enough; where none does, they
    /// are waited for.
    async fn connect(&self) -> Result<EvmChain, Failure> {
        let until = Instant::now() + self.startup_wait;
        let chain = loop {
            match EvmChain::connect(self.chain.clone()).await {
                Ok(chain) => break chain,
                Err(ConnectError::Unavailable(why)) if Instant::now() < until => {
                    warn!(why, "the chain does not answer yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(self.chain_trouble(error).into()),
            }
        };
        for endpoint in chain.endpoints().iter().filter(|status| status.standing == "unchecked") {
            warn!(endpoint = endpoint.name, "does not answer yet: used as soon as it does");
        }
        Ok(chain)
    }

    fn chain_trouble(&self, error: ConnectError) -> String {
        match error {
            ConnectError::WrongChain { endpoint, expected, found }
                if self.chain.chain_id == Some(expected) =>
            {
                format!(
                    "{}: chain.id is {expected}, but {endpoint} is on chain {found}",
                    self.chain_id_place
                )
            }
            ConnectError::Unavailable(why) => {
                format!("no endpoint of the chain answers: {}", why.replace('\n', " "))
            }
            other => format!("chain: {other}"),
        }
    }
}

/// A node that runs.
pub(crate) struct Node {
    pub(crate) api: Api,
    /// How many callers it serves.
    pub(crate) connections: ConnectionLimits,
    heartbeat: Heartbeat,
    drain_wait: Duration,
}

impl Node {
    /// Takes up nothing new, tells the others so, and lets every lease go. What still comes in is
    /// passed on from then on, for as long as it takes load balancers to notice.
    pub(crate) async fn drain(&self) {
        self.api.engine.drain();
        self.api.end_waits();
        self.heartbeat.drain().await;
        self.api.engine.stop().await;
        if self.api.engine.has_peer().await {
            tokio::time::sleep(self.drain_wait).await;
        }
    }

    /// How long it passes requests on before it stops.
    pub(crate) const fn drain_wait(&self) -> Duration {
        self.drain_wait
    }

    /// Lets every lease go, and leaves the list of nodes.
    pub(crate) async fn stop(self) {
        self.api.engine.stop().await;
        self.heartbeat.leave().await;
    }
}

/// Takes the address that the API will listen on: better to know that it is taken before anything
/// is begun.
pub(crate) async fn bind(address: SocketAddr) -> Result<tokio::net::TcpListener, Failure> {
    tokio::net::TcpListener::bind(address).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there already".to_owned(),
            std::io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            std::io::ErrorKind::PermissionDenied => "not allowed".to_owned(),
            _ => io_words(&error),
        };
        format!("can't listen on {address}: {why}").into()
    })
}

/// Starts a node's engine with the keys that it has.
pub(crate) async fn start(config: NodeConfig, signer: LocalSigner) -> Result<Node, Failure> {
    let node = NodeId::new(&config.name, Uuid::now_v7())?;
    let checkpoints = checkpoints()?;
    let (database, wait) = (&config.database, config.startup_wait);
    let store = database.patiently(wait, || database.try_open(checkpoints.clone())).await?;
    let chain = config.connect().await?;
    let chain_id = chain.chain_id();
    let registration = ChainRegistration { chain_id, genesis: chain.genesis() };
    database.patiently(wait, || store.register_chain(&registration)).await?;
    let mode = |address: Address| match config.strict.contains(&address) {
        true => Mode::Strict,
        false => config.engine.nonces.mode,
    };
    let setups: Vec<SubmitterSetup> = signer
        .accounts()
        .into_iter()
        .chain(config.engine.presigned.iter().copied())
        .map(|address| SubmitterSetup {
            submitter: Submitter::new(chain_id, address),
            mode: mode(address),
            start_from: config.start_from,
        })
        .collect();
    database.patiently(wait, || store.register_submitters(&setups)).await?;
    let asked: Vec<Submitter> = setups.iter().map(|setup| setup.submitter).collect();
    let stored = database.patiently(wait, || store.modes(&asked)).await?;
    warn_of_other_modes(&setups, &stored);
    for unknown in config.strict.iter().filter(|of| !asked.iter().any(|it| it.address == **of)) {
        warn!(account = %unknown, "submitter.strict names an account that this node does not serve");
    }
    let advertise_url = config.advertise_url.clone();
    let served = config.engine.served_with(&signer);
    let alive =
        LiveNode { node: node.clone(), chain_id, advertise_url, draining: false, serves: None };
    let (interval, drain_wait) = (config.engine.lease.renew_interval(), config.drain_wait);
    let heartbeat = Heartbeat::start(store.clone(), alive, served, interval).await;
    let world = World {
        node,
        store: store.clone(),
        chain: Arc::new(chain),
        signer: Arc::new(signer),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        checkpoints,
        policies: policies(config.policies, Arc::new(SystemClock)),
        alerts: Arc::new(LoggedAlerts),
    };
    let api = Api::new(Engine::start(world, config.engine), store);
    let api = api.with_browser_policy(config.browsers);
    let connections = files::within_file_limit(config.connections);
    Ok(Node { api, connections, heartbeat, drain_wait })
}

/// A node's settings never change the mode of an account that is known; whoever expected it is told how
/// to do it.
fn warn_of_other_modes(setups: &[SubmitterSetup], stored: &[Option<Mode>]) {
    for (setup, mode) in setups.iter().zip(stored) {
        if let Some(mode) = mode.filter(|mode| *mode != setup.mode) {
            let (account, configured) = (setup.submitter.address, setup.mode.name());
            warn!(
                %account,
                mode = mode.name(),
                configured,
                "the account keeps the mode that it was registered with; to change it: \
                 tollgate submitter mode {account} {configured} --reason …"
            );
        }
    }
}

/// Who wants to know how far the work is.
#[cfg(feature = "failpoints")]
fn checkpoints() -> Result<Arc<dyn Checkpoints>, Failure> {
    crate::failpoints::from_env()
}

#[cfg(not(feature = "failpoints"))]
fn checkpoints() -> Result<Arc<dyn Checkpoints>, Failure> {
    Ok(Arc::new(tollgate_model::port::Unwatched))
}
