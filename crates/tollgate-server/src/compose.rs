//! Puts a node together: store, chain, keys, engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tollgate_engine::{Engine, EngineOptions, World};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_evm::signer::LocalSigner;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{ChainRegistration, Checkpoints, Store, SubmitterSetup};
use tollgate_model::{NodeId, Nonce, Submitter, Timestamp};
use tollgate_postgres::{PgOptions, PgStore};
use tollgate_server::Api;
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use uuid::Uuid;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Postgres(String),
    Sqlite(PathBuf),
}

impl Database {
    /// `postgres://…` or `sqlite:PATH`.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url.to_owned()));
        }
        match url.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite(PathBuf::from(path))),
            Some(_) | None => Err("the database URL must be postgres://… or sqlite:PATH".into()),
        }
    }

    /// Brings the schema up to date; returns how many migrations that took.
    pub(crate) async fn migrate(&self) -> Result<u32, Failure> {
        Ok(match self {
            Self::Postgres(url) => tollgate_postgres::migrate(&PgOptions::new(url)).await?,
            Self::Sqlite(path) => tollgate_sqlite::migrate(&SqliteOptions::file(path)).await?,
        })
    }

    async fn open(&self, checkpoints: Arc<dyn Checkpoints>) -> Result<Arc<dyn Store>, Failure> {
        self.migrate().await?;
        Ok(match self {
            Self::Postgres(url) => {
                let options = PgOptions { checkpoints, ..PgOptions::new(url) };
                Arc::new(PgStore::open(options).await?)
            }
            Self::Sqlite(path) => {
                let options = SqliteOptions { checkpoints, ..SqliteOptions::file(path) };
                Arc::new(SqliteStore::open(options).await?)
            }
        })
    }
}

/// A node to start.
#[derive(Clone)]
pub(crate) struct NodeConfig {
    pub(crate) name: String,
    pub(crate) database: Database,
    pub(crate) rpc_urls: Vec<String>,
    pub(crate) start_from: Nonce,
    pub(crate) engine: EngineOptions,
}

/// Starts a node's engine with the keys that it has.
pub(crate) async fn start(config: NodeConfig, signer: LocalSigner) -> Result<Api, Failure> {
    let node = NodeId::new(&config.name, Uuid::now_v7())?;
    let accounts = signer.accounts();
    if accounts.is_empty() {
        return Err("no keys: give --private-key-file, --keystore or TOLLGATE_PRIVATE_KEYS".into());
    }
    let endpoints = config.rpc_urls.iter().map(EndpointConfig::new).collect();
    let chain = EvmChain::connect(ChainConfig::new(endpoints)).await?;
    let checkpoints = checkpoints()?;
    let store = config.database.open(checkpoints.clone()).await?;
    let chain_id = chain.chain_id();
    let registration = ChainRegistration { chain_id, genesis: chain.genesis() };
    store.register_chain(&registration).await?;
    let mode = config.engine.nonces.mode;
    let setups: Vec<SubmitterSetup> = accounts
        .into_iter()
        .map(|address| SubmitterSetup {
            submitter: Submitter::new(chain_id, address),
            mode,
            start_from: config.start_from,
        })
        .collect();
    store.register_submitters(&setups).await?;
    let world = World {
        node,
        store: store.clone(),
        chain: Arc::new(chain),
        signer: Arc::new(signer),
        clock: Arc::new(SystemClock),
        checkpoints,
    };
    Ok(Api { engine: Engine::start(world, config.engine), store })
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
