//! Starts a node: store, chain, keys, engine, heartbeat.

mod file_limit;
mod heartbeat;
mod keyring;
mod policies;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_engine::{Engine, EngineOptions, EnginePorts, LoggedAlerts, RandomIds};
use tollgate_evm::chain::{ConnectError, EvmChain};
use tollgate_model::nonce::Mode;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{ChainRegistration, Checkpoints, LiveNode, Store, SubmitterSetup};
use tollgate_model::{Address, ChainId, NodeId, Submitter, Text};
use tollgate_server::{Api, BrowserPolicy, ConnectionLimits};
use tollgate_signer::LocalSigner;
use tracing::warn;
use uuid::Uuid;

use crate::clock::SystemClock;
use crate::config::{Settings, own_url};
use crate::database::Database;
use crate::failure::{Failure, io_reason};
use heartbeat::Heartbeat;
pub(crate) use keyring::Keyring;
use policies::policies;

/// The pause between two tries to reach a chain that does not answer yet.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A running node.
pub(crate) struct Node {
    pub(crate) api: Api,
    pub(crate) connections: ConnectionLimits,
    heartbeat: Heartbeat,
    drain_wait: Duration,
}

impl Node {
    /// Accepts no new work, announces that to the other nodes and releases every lease. If there is
    /// another node, requests are forwarded to it for `drain.wait`, so that load balancers notice.
    pub(crate) async fn drain(&self) {
        self.api.engine.drain();
        self.api.end_waits();
        self.heartbeat.drain().await;
        self.api.engine.stop().await;
        if self.api.engine.has_peer().await {
            tokio::time::sleep(self.drain_wait).await;
        }
    }

    /// The time during which requests are forwarded before the node stops.
    pub(crate) const fn drain_wait(&self) -> Duration {
        self.drain_wait
    }

    /// Releases every lease and removes the node from the list.
    pub(crate) async fn stop(self) {
        self.api.engine.stop().await;
        self.heartbeat.leave().await;
    }
}

/// Binds the address of the API. Done before anything else is started, because it may be in use.
pub(crate) async fn bind(address: SocketAddr) -> Result<tokio::net::TcpListener, Failure> {
    tokio::net::TcpListener::bind(address).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there already".to_owned(),
            std::io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            std::io::ErrorKind::PermissionDenied => "not allowed".to_owned(),
            _ => io_reason(&error),
        };
        format!("can't listen on {address}: {why}").into()
    })
}

/// Starts a node that listens on `address` and signs with these keys.
pub(crate) async fn start(
    settings: &Settings,
    address: SocketAddr,
    signer: LocalSigner,
) -> Result<Node, Failure> {
    let name = &settings.node.node_name.0;
    let node = NodeId::new(name, Uuid::now_v7())?;
    let checkpoints = checkpoints()?;
    let options = settings.engine_options()?;
    let (database, wait) = (Database::new(&settings.database), settings.startup.wait);
    let store = database.retry(wait, || database.try_open(checkpoints.clone())).await?;
    let chain = connect(settings).await?;
    let chain_id = chain.chain_id();
    let registration = ChainRegistration { chain_id, genesis: chain.genesis() };
    database.retry(wait, || store.register_chain(&registration)).await?;
    register_submitters(settings, &database, &store, chain_id, &signer, &options).await?;
    let own_url = || Text::lossy(&own_url(address, name));
    let advertise_url = settings.node.advertise_url.clone().unwrap_or_else(own_url);
    let http = &settings.http;
    let hosts: Vec<String> = http.allowed_hosts.iter().map(|host| host.0.clone()).collect();
    let origins: Vec<String> = http.allowed_origins.iter().map(|from| from.0.clone()).collect();
    let browsers = BrowserPolicy::new(address.ip(), advertise_url.as_str(), &hosts, &origins);
    let served = options.served_with(&signer);
    let alive =
        LiveNode { node: node.clone(), chain_id, advertise_url, draining: false, serves: None };
    let renew_interval = options.lease.renew_interval();
    let heartbeat = Heartbeat::start(store.clone(), alive, served, renew_interval).await;
    let ports = EnginePorts {
        node,
        store: store.clone(),
        chain: Arc::new(chain),
        signer: Arc::new(signer),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        checkpoints,
        policies: policies(settings, Arc::new(SystemClock))?,
        alerts: Arc::new(LoggedAlerts),
    };
    let api = Api::new(Engine::start(ports, options), store).with_browser_policy(browsers);
    let connections = file_limit::fit_connections(http.connection_limits());
    Ok(Node { api, connections, heartbeat, drain_wait: settings.drain.wait })
}

/// Connects to the chain. One endpoint that answers is enough; if none does, tries again for up to
/// `startup.wait`.
async fn connect(settings: &Settings) -> Result<EvmChain, Failure> {
    let config = settings.chain.chain_config();
    let until = Instant::now() + settings.startup.wait;
    let chain = loop {
        match EvmChain::connect(config.clone()).await {
            Ok(chain) => break chain,
            Err(ConnectError::Unavailable(why)) if Instant::now() < until => {
                warn!(why, "the chain does not answer yet");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(error) => return Err(describe_chain_error(settings, error).into()),
        }
    };
    for endpoint in chain.endpoints().iter().filter(|status| status.chain_check == "unchecked") {
        warn!(endpoint = endpoint.name, "does not answer yet: used as soon as it does");
    }
    Ok(chain)
}

fn describe_chain_error(settings: &Settings, error: ConnectError) -> String {
    match (error, &settings.chain.id) {
        (ConnectError::WrongChain { endpoint, expected, found }, Some(id))
            if id.value == expected =>
        {
            format!("{}: chain.id is {expected}, but {endpoint} is on chain {found}", id.source)
        }
        (ConnectError::Unavailable(why), _) => {
            format!("no endpoint of the chain answers: {}", why.replace('\n', " "))
        }
        (other, _) => format!("chain: {other}"),
    }
}

/// Registers the accounts that this node serves. The settings never change the mode of an account
/// that is registered already; a warning names the command that does.
async fn register_submitters(
    settings: &Settings,
    database: &Database,
    store: &Arc<dyn Store>,
    chain_id: ChainId,
    signer: &LocalSigner,
    options: &EngineOptions,
) -> Result<(), Failure> {
    let strict = &settings.submitter.strict;
    let mode = |address: Address| match strict.contains(&address) {
        true => Mode::Strict,
        false => settings.submitter.mode,
    };
    let accounts = signer.accounts().into_iter().chain(options.presigned.iter().copied());
    let setups: Vec<SubmitterSetup> = accounts
        .map(|address| SubmitterSetup {
            submitter: Submitter::new(chain_id, address),
            mode: mode(address),
            start_from: settings.nonce.start_from,
        })
        .collect();
    let wait = settings.startup.wait;
    database.retry(wait, || store.register_submitters(&setups)).await?;
    let submitters: Vec<Submitter> = setups.iter().map(|setup| setup.submitter).collect();
    let stored = database.retry(wait, || store.modes(&submitters)).await?;
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
    for account in strict.iter().filter(|of| !submitters.iter().any(|it| it.address == **of)) {
        warn!(%account, "submitter.strict names an account that this node does not serve");
    }
    Ok(())
}

/// The observer of checkpoints inside the engine and the store.
#[cfg(feature = "failpoints")]
fn checkpoints() -> Result<Arc<dyn Checkpoints>, Failure> {
    crate::failpoints::from_env()
}

#[cfg(not(feature = "failpoints"))]
fn checkpoints() -> Result<Arc<dyn Checkpoints>, Failure> {
    Ok(Arc::new(tollgate_model::port::NoCheckpoints))
}
