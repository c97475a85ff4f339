//! Starts a node: store, keys, and for each chain its client, engine and heartbeat.

mod access;
mod file_limit;
mod heartbeat;
mod keyring;
mod policies;
mod sockets;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_api::Endpoint;
use tollgate_engine::{Engine, EngineOptions, EnginePorts, RandomIds};
use tollgate_evm::chain::{ChainConfig, ConnectError, EndpointStatus, EvmChain};
use tollgate_metrics::NodeMetrics;
use tollgate_model::nonce::Mode;
use tollgate_model::ownership::HandoverTimings;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::span::SpanSink;
use tollgate_model::port::{
    ChainRegistration, Checkpoints, LiveNode, PeerKey, Store, StoreError, SubmitterSetup,
};
use tollgate_model::{Address, ChainId, NodeId, Submitter, Text};
use tollgate_server::{
    ApiOptions, BrowserPolicy, Chains, ConnectionLimits, MetricsOptions, PeerIdentity,
};
use tollgate_signer::{LocalSigner, OpenedKeys};
use tracing::{info, warn};
use uuid::Uuid;

use crate::alerts::{NodeAlertOptions, NodeAlerts};
use crate::audit_log::AuditCleaner;
use crate::clock::SystemClock;
use crate::config::{ConfiguredChain, Settings, Source, own_url};
use crate::database::Database;
use crate::events::EventTasks;
use crate::failure::Failure;
use crate::retention::{Retention, RetentionOptions};
use crate::spans::NodeSpans;
pub(crate) use access::Access;
use heartbeat::Heartbeat;
pub(crate) use keyring::Keyring;
use policies::policies;
pub(crate) use sockets::{Sockets, bind};
pub(crate) use tls::{NodeTls, survive_hangups};

/// The pause between two tries to reach a chain that does not answer yet.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two tries to start one of several chains.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// A running node.
pub(crate) struct Node {
    pub(crate) chains: Chains,
    pub(crate) connections: ConnectionLimits,
    pub(crate) tls: NodeTls,
    heartbeats: Heartbeats,
    retention: Option<Retention>,
    alerts: Arc<NodeAlerts>,
    events: EventTasks,
    spans: NodeSpans,
    drain_wait: Duration,
    sampling: JoinHandle<()>,
    _audit_cleaner: AuditCleaner,
}

/// The heartbeats of the chains that have started.
type Heartbeats = Arc<Mutex<Vec<Heartbeat>>>;

impl Node {
    /// Accepts no new work, announces that to the other nodes and releases every lease. If there is
    /// another node, requests are forwarded to it for `drain.wait`, so that load balancers notice.
    pub(crate) async fn drain(&self) {
        self.chains.drain();
        self.retention.iter().for_each(Retention::request_stop);
        self.events.request_stop();
        join_all(self.heartbeats.lock().await.iter().map(Heartbeat::drain)).await;
        join_all(self.chains.engines().map(Engine::stop)).await;
        if join_all(self.chains.engines().map(Engine::has_peer)).await.contains(&true) {
            tokio::time::sleep(self.drain_wait).await;
        }
    }

    /// The time during which requests are forwarded before the node stops.
    pub(crate) const fn drain_wait(&self) -> Duration {
        self.drain_wait
    }

    /// Releases every lease and removes the node from the list.
    pub(crate) async fn stop(self) {
        self.sampling.abort();
        join_all(self.chains.engines().map(Engine::stop)).await;
        let heartbeats = std::mem::take(&mut *self.heartbeats.lock().await);
        join_all(heartbeats.into_iter().map(Heartbeat::leave)).await;
        if let Some(retention) = self.retention {
            retention.stop().await;
        }
        self.alerts.stop().await;
        self.events.stop().await;
        self.spans.stop().await;
    }
}

/// 256 random bits, by which the other nodes recognise the requests of this process.
fn new_peer_key() -> Result<PeerKey, Failure> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| "the system has no random numbers")?;
    Ok(PeerKey::new(bytes))
}

/// The counters of a process that starts now.
fn new_metrics(settings: &Settings) -> Arc<NodeMetrics> {
    let metrics = crate::node_metrics();
    let micros = SystemClock.now().unix_micros();
    let started = Duration::from_micros(micros.unsigned_abs()).as_secs_f64();
    metrics.process.start_time_seconds.set(started);
    let database =
        if settings.database.url.sqlite_file().is_some() { "sqlite" } else { "postgres" };
    let build = vec![env!("CARGO_PKG_VERSION").to_owned(), database.to_owned()];
    metrics.tollgate.build_info.replace([(build, 1.0)]);
    metrics
}

/// Starts a node that listens on `address` and signs with these keys.
pub(crate) async fn start(
    settings: &Settings,
    address: SocketAddr,
    signer: LocalSigner,
    access: Access,
) -> Result<Node, Failure> {
    let name = &settings.node.node_name.0;
    let tls = NodeTls::open(settings)?;
    let checkpoints = checkpoints()?;
    let retention = RetentionOptions::new(&settings.retention)?;
    // A missing disk must not keep a node from its transactions: nothing is removed meanwhile.
    if let Some(Err(problem)) = retention.as_ref().map(RetentionOptions::check_archive) {
        tracing::warn!(error = %problem, "finished transactions can't be archived");
    }
    let metrics = new_metrics(settings);
    let alerts = NodeAlertOptions {
        alerts: settings.alerts.clone(),
        top_ups: settings.node.topup.clone(),
        metrics: metrics.clone(),
    };
    let spans = NodeSpans::start(&settings.traces, name, &metrics)?;
    let database = Database::new(&settings.database).counted(&metrics);
    let wait = settings.startup.wait;
    let store = database.retry(wait, || database.try_open(checkpoints.clone())).await?;
    info!(version = env!("CARGO_PKG_VERSION"), database = database.shown(), "database opened");
    let api_keys: Option<Arc<dyn Clock>> = match access {
        Access::Open => None,
        Access::ApiKeys => {
            let usable = access::usable_keys(&*store).await?;
            info!(usable, "API keys are required");
            Some(Arc::new(SystemClock))
        }
    };
    let own_url = || Text::lossy(&own_url(address, name, tls.api.is_some()));
    let advertise_url = settings.node.advertise_url.clone().unwrap_or_else(own_url);
    let http = &settings.http;
    let hosts: Vec<String> = http.allowed_hosts.iter().map(|host| host.0.clone()).collect();
    let origins: Vec<String> = http.allowed_origins.iter().map(|from| from.0.clone()).collect();
    let browsers = BrowserPolicy::new(address.ip(), advertise_url.as_str(), &hosts, &origins);
    let live_within = HandoverTimings::of(&settings.engine_options()?.lease).live_within;
    let peer_key = new_peer_key()?;
    let options = ApiOptions {
        browsers,
        live_within,
        exposes_confirmations: settings.confirmations.expose,
        identity: Some(PeerIdentity {
            key: peer_key.clone(),
            advertise_url: advertise_url.as_str().to_owned(),
            clock: Arc::new(SystemClock),
        }),
        peer_tls: tls.peers.clone(),
        api_keys,
        metrics: MetricsOptions {
            node: metrics,
            per_submitter: settings.metrics.per_submitter,
            on_own_listener: settings.metrics.listen.is_some(),
        },
        spans: spans.sink(),
    };
    let own_id = NodeId::new(name, Uuid::now_v7())?;
    let alerts = NodeAlerts::start(store.clone(), own_id.clone(), Arc::new(SystemClock), alerts)?;
    let start = Arc::new(ChainStart {
        database,
        store: store.clone(),
        alerts: Arc::new(alerts),
        checkpoints,
        keys: Arc::new(OpenedKeys::new(Keyring::sources(&settings.keys)?, signer.clone())),
        signer: Arc::new(signer),
        advertise_url,
        peer_key,
        heartbeats: Heartbeats::default(),
        spans: spans.sink(),
    });
    let chains = match settings.chains() {
        chains if chains.is_empty() => {
            let chain = connect(settings).await?;
            let served = vec![(chain.chain_id(), String::new())];
            let chains = Chains::new(served, store, options);
            start.start(settings, &[], chain, &chains).await?;
            chains
        }
        each => {
            let served = each.iter().map(|chain| (chain.id, chain.name.clone())).collect();
            let chains = Chains::new(served, store, options);
            let starts = each.into_iter().map(|chain| {
                let (attempted, done) = oneshot::channel();
                tokio::spawn(start.clone().keep_starting(chain, chains.clone(), attempted));
                tokio::time::timeout(wait, done)
            });
            // A chain whose first attempt fails, or takes longer, starts in the background.
            join_all(starts).await;
            chains
        }
    };
    let connections = file_limit::fit_connections(http.connection_limits());
    let heartbeats = start.heartbeats.clone();
    let own_id = NodeId::new(name, Uuid::now_v7())?;
    let events = EventTasks::start(
        &start.store,
        &own_id,
        &settings.events,
        &settings.webhook,
        &settings.nats,
    )?;
    let alerts = start.alerts.clone();
    let begin =
        |options| Retention::start(start.store.clone(), own_id, options, start.checkpoints.clone());
    let (retention, drain_wait) = (retention.map(begin), settings.drain.wait);
    let sampling = tokio::spawn(chains.clone().keep_sampling());
    let _audit_cleaner = AuditCleaner::start(start.store.clone(), settings.audit.keep.0);
    Ok(Node {
        sampling,
        chains,
        connections,
        tls,
        heartbeats,
        retention,
        alerts,
        events,
        spans,
        drain_wait,
        _audit_cleaner,
    })
}

/// The parts that the chains of a node share when they start.
struct ChainStart {
    database: Database,
    store: Arc<dyn Store>,
    alerts: Arc<NodeAlerts>,
    checkpoints: Arc<dyn Checkpoints>,
    signer: Arc<LocalSigner>,
    keys: Arc<OpenedKeys>,
    advertise_url: Text<500>,
    peer_key: PeerKey,
    heartbeats: Heartbeats,
    spans: Arc<dyn SpanSink>,
}

impl ChainStart {
    /// Tries until the chain has started. Whatever prevents it is reported with the chain and harms no
    /// other.
    async fn keep_starting(
        self: Arc<Self>,
        of: ConfiguredChain,
        chains: Chains,
        attempted: oneshot::Sender<()>,
    ) {
        let (mut pause, mut attempted) = (RETRY_PAUSE, Some(attempted));
        while !chains.is_draining() {
            let started = async {
                let chain = connect_once(&of.settings).await?;
                self.start(&of.settings, &of.sets, chain, &chains).await
            };
            let outcome = started.await;
            attempted.take().map(|attempted| attempted.send(()));
            let Err(why) = outcome else { return };
            warn!(chain_id = %of.id, chain = of.name, error = %why, "the chain has not started; retrying");
            chains.set_start_error(of.id, &why.to_string());
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// Starts the engine of a chain. Each chain is a node of its own in the list of nodes.
    async fn start(
        &self,
        settings: &Settings,
        set_by_chain: &[&'static str],
        chain: EvmChain,
        chains: &Chains,
    ) -> Result<(), Failure> {
        let node = NodeId::new(&settings.node.node_name.0, Uuid::now_v7())?;
        let options = EngineOptions {
            set_by_chain: set_by_chain.to_vec(),
            start_from: settings.nonce.start_from,
            ..settings.engine_options()?
        };
        let chain = self.register(settings, chain).await?;
        let (store, chain_id) = (&self.store, chain.chain_id());
        register_submitters(settings, &self.database, store, chain_id, &self.signer, &options)
            .await?;
        let (advertise_url, draining) = (self.advertise_url.clone(), false);
        let policies = policies(settings, Arc::new(SystemClock))?;
        let alive =
            LiveNode { node: node.clone(), chain_id, advertise_url, draining, serves: None };
        let every = options.lease.renew_interval();
        let chain = Arc::new(chain);
        let ports = EnginePorts {
            node,
            store: store.clone(),
            chain: chain.clone(),
            signer: self.signer.clone(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            checkpoints: self.checkpoints.clone(),
            policies,
            alerts: Arc::new(self.alerts.collector()),
            keys: self.keys.clone(),
            metrics: chain.metrics().clone(),
            spans: self.spans.clone(),
        };
        let engine = Engine::start(ports, options);
        self.alerts.add(engine.clone(), chain.clone());
        let served = engine.accounts().served();
        let accounts = served.borrow().accounts().count();
        let key = self.peer_key.clone();
        let heartbeat = Heartbeat::start(store.clone(), alive, key, served, every).await;
        self.heartbeats.lock().await.push(heartbeat);
        let head = highest_head(&chain);
        chains.mark_started(engine, Box::new(move || endpoints(&chain)));
        let finality = settings.node.finality;
        info!(chain_id = chain_id.get(), head, accounts, ?finality, "chain started");
        Ok(())
    }

    /// Registers the chain in the database. If the database knows a chain of the same id with another
    /// genesis block, the endpoints of that chain are used, and the others are left out.
    async fn register(&self, settings: &Settings, chain: EvmChain) -> Result<EvmChain, Failure> {
        let (chain_id, wait) = (chain.chain_id(), settings.startup.wait);
        let registration = ChainRegistration { chain_id, genesis: chain.genesis() };
        let known = self.database.retry(wait, async || {
            match self.store.register_chain(&registration).await {
                Err(StoreError::OtherChain { known, .. }) => Ok(Some(known)),
                registered => registered.map(|()| None),
            }
        });
        let Some(known) = known.await? else { return Ok(chain) };
        let config = settings.chain.chain_config();
        let config = ChainConfig { chain_id: Some(chain_id), genesis: Some(known), ..config };
        EvmChain::connect(config).await.map_err(|error| match error {
            ConnectError::WrongGenesis { .. } => {
                StoreError::OtherChain { chain_id, known }.to_string().into()
            }
            other => describe_chain_error(settings, other).into(),
        })
    }
}

/// The highest head that an endpoint has reported.
fn highest_head(chain: &EvmChain) -> Option<u64> {
    chain.endpoints().iter().filter_map(|status| Some(status.head?.number)).max()
}

fn endpoints(chain: &EvmChain) -> Vec<Endpoint> {
    let shown = |status: EndpointStatus| Endpoint {
        name: status.name,
        role: status.role.name().into(),
        check: status.chain_check,
        resting: status.resting,
        head: status.head.map(|head| head.number),
    };
    chain.endpoints().into_iter().map(shown).collect()
}

async fn connect_once(settings: &Settings) -> Result<EvmChain, Failure> {
    let connected = EvmChain::connect(settings.chain.chain_config()).await;
    connected.map_err(|error| describe_chain_error(settings, error).into())
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
                warn!(error = why, "the chain does not answer yet");
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
            match &id.source {
                // An entry of `[[chains]]`, which the log names.
                Source::Default => format!("id is {expected}, but {endpoint} is on chain {found}"),
                source => {
                    format!("{source}: chain.id is {expected}, but {endpoint} is on chain {found}")
                }
            }
        }
        (error @ ConnectError::WrongChain { .. }, None) => {
            format!("chain: {error}; set chain.id to the chain that is meant")
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
