//! The chains that a node serves: an engine and routes for each, and what a node says about them.
//!
//! Nothing is shared between chains but the database and the HTTP server, so that trouble with one chain
//! harms no other (I14).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use tollgate_api::{Chain, ChainList, ChainWithEndpoints, Endpoint, ErrorCode, Ready};
use tollgate_engine::Engine;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::span::{NoSpans, SpanSink};
use tollgate_model::port::{FeedFilter, Page, Store};
use tollgate_model::{ChainId, Seq};

use super::access::Caller;
use super::access::keys::ApiKeys;
use super::events::EventHub;
use super::metrics::MetricsOptions;
use super::middleware::Observers;
use super::node_auth::{NodeAuth, PeerIdentity};
use super::openapi::may_fail;
use super::peers::Peers;
use super::problem::Problem;
use super::tls::PeerTls;
use super::wait::TxWatch;
use super::{Api, BrowserPolicy, SharedApi, chain_routes};
use crate::pages::Pages;

/// The age of a heartbeat up to which a node counts as alive, with the default lease.
const LIVE_WITHIN: Duration = Duration::from_secs(10);

may_fail! {
    ChainsProblems: InvalidQuery;
    ReadyProblems: Draining, Unavailable, StoreUnavailable;
}

/// Tells the state of a chain's endpoints.
pub type EndpointReader = Box<dyn Fn() -> Vec<Endpoint> + Send + Sync>;

/// Options of the API of a node.
#[derive(Clone)]
pub struct ApiOptions {
    /// The rules for requests of browsers.
    pub browsers: BrowserPolicy,
    /// The age of a heartbeat up to which another node counts as alive.
    pub live_within: Duration,
    /// Callers see the confirmations of a transaction.
    pub exposes_confirmations: bool,
    /// Signs requests to other nodes. Without it they are not signed, and no request counts as a node's.
    pub identity: Option<PeerIdentity>,
    /// Certificates for connections to other nodes; without them the host's are trusted.
    pub peer_tls: Option<PeerTls>,
    /// Asks callers for API keys, whose expiry is judged by this clock; without it everybody may do everything.
    pub api_keys: Option<Arc<dyn Clock>>,
    /// The metrics of the process, and how they are shown.
    pub metrics: MetricsOptions,
    /// Receives a span for each request.
    pub spans: Arc<dyn SpanSink>,
}

impl Default for ApiOptions {
    fn default() -> Self {
        let browsers = BrowserPolicy::default();
        let (identity, peer_tls, api_keys) = (None, None, None);
        let (live_within, exposes_confirmations) = (LIVE_WITHIN, false);
        let metrics = MetricsOptions::default();
        let spans = Arc::new(NoSpans);
        Self {
            browsers,
            live_within,
            exposes_confirmations,
            identity,
            peer_tls,
            api_keys,
            metrics,
            spans,
        }
    }
}

/// The chains of a node. Cheap to clone.
#[derive(Clone)]
pub struct Chains(Arc<Shared>);

struct Shared {
    served: Vec<ServedChain>,
    store: Arc<dyn Store>,
    peers: Arc<Peers>,
    node_auth: Option<Arc<NodeAuth>>,
    api_keys: Option<Arc<ApiKeys>>,
    peer_tls: Option<PeerTls>,
    tx_watch: TxWatch,
    events: Arc<EventHub>,
    pages: Pages,
    api: Arc<SharedApi>,
    browsers: BrowserPolicy,
    live_within: Duration,
    draining: AtomicBool,
    metrics: MetricsOptions,
    spans: Arc<dyn SpanSink>,
}

/// A chain that this node serves.
pub(crate) struct ServedChain {
    pub(crate) id: ChainId,
    pub(crate) name: String,
    started: OnceLock<StartedChain>,
    /// The reason why it has not started yet.
    start_error: Mutex<String>,
}

/// A chain whose engine runs.
pub(crate) struct StartedChain {
    pub(crate) api: Api,
    pub(crate) routes: Router,
    endpoints: EndpointReader,
}

impl Chains {
    /// The chains of a node by id and name. Requests for a chain are refused until
    /// [`Self::mark_started`].
    pub fn new(served: Vec<(ChainId, String)>, store: Arc<dyn Store>, options: ApiOptions) -> Self {
        let ApiOptions {
            browsers,
            live_within,
            exposes_confirmations,
            identity,
            peer_tls,
            api_keys,
            metrics,
            spans,
        } = options;
        let api_keys = api_keys.map(|clock| ApiKeys::start(store.clone(), clock));
        let auth = |identity| Arc::new(NodeAuth::new(identity, store.clone(), live_within));
        let node_auth = identity.map(auth);
        let served = served.into_iter().map(|(id, name)| ServedChain {
            id,
            name,
            started: OnceLock::new(),
            start_error: Mutex::new("no endpoint has answered yet".to_owned()),
        });
        let shared_keys = api_keys.clone();
        let api =
            SharedApi { exposes_confirmations, api_keys: shared_keys, ..SharedApi::default() };
        Self(Arc::new(Shared {
            served: served.collect(),
            peers: Arc::new(Peers::new(node_auth.clone(), peer_tls.clone())),
            node_auth,
            api_keys,
            peer_tls,
            store,
            tx_watch: TxWatch::default(),
            events: Arc::default(),
            pages: Pages::default(),
            api: Arc::new(api),
            browsers,
            live_within,
            draining: AtomicBool::new(false),
            metrics,
            spans,
        }))
    }

    /// The chain of a node that serves one, with the default options and without the state of endpoints.
    pub fn of_one(engine: Engine, store: Arc<dyn Store>) -> Self {
        Self::of_one_with(engine, store, ApiOptions::default())
    }

    /// The same with other options.
    pub fn of_one_with(engine: Engine, store: Arc<dyn Store>, options: ApiOptions) -> Self {
        let chains = Self::new(vec![(engine.chain_id(), String::new())], store, options);
        chains.mark_started(engine, Box::new(Vec::new));
        chains
    }

    /// Serves a chain from now on. A chain that has started, or that is not in the list, is ignored.
    pub fn mark_started(&self, engine: Engine, endpoints: EndpointReader) {
        let Some(chain) = self.find(engine.chain_id()) else { return };
        if self.is_draining() {
            engine.drain();
        }
        // Connections of its own, so that trouble of one chain takes nothing from the others.
        let peers = Peers::new(self.0.node_auth.clone(), self.0.peer_tls.clone());
        let api = Api::new(engine, self.0.store.clone(), peers, self.0.api.clone());
        let routes = chain_routes(api.clone());
        let _ = chain.started.set(StartedChain { api, routes, endpoints });
    }

    /// Sets the reason why a chain has not started.
    pub fn set_start_error(&self, id: ChainId, why: &str) {
        if let Some(chain) = self.find(id) {
            why.clone_into(&mut chain.start_error.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Accepts no new work and answers all long polls; what was accepted goes on until the engines
    /// are stopped.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
        self.0.tx_watch.close();
        self.0.events.close();
        self.0.pages.close();
        for started in self.started() {
            started.api.engine.drain();
            started.api.end_waits();
        }
    }

    /// Returns whether no new work is accepted any more.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire) || self.engines().any(Engine::is_draining)
    }

    /// The engines of the chains that have started.
    pub fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.started().map(|started| &started.api.engine)
    }

    /// The API of the first chain that has started.
    pub fn first_api(&self) -> Option<Api> {
        self.started().next().map(|started| started.api.clone())
    }

    pub(crate) fn started(&self) -> impl Iterator<Item = &StartedChain> {
        self.0.served.iter().filter_map(|chain| chain.started.get())
    }

    /// Takes samples for the charts of the pages, for ever.
    pub async fn keep_sampling(self) {
        crate::pages::keep_sampling(self).await;
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.0.pages
    }

    /// All chains, started or not.
    pub(crate) fn served(&self) -> &[ServedChain] {
        &self.0.served
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.0.peers
    }

    /// Recognises the requests of other nodes.
    pub(crate) fn node_auth(&self) -> Option<&NodeAuth> {
        self.0.node_auth.as_deref()
    }

    /// The keys of callers; `None` if none are asked for.
    pub(crate) fn api_keys(&self) -> Option<&ApiKeys> {
        self.0.api_keys.as_deref()
    }

    pub(super) fn observers(&self) -> Observers {
        Observers { metrics: self.0.metrics.node.clone(), spans: self.0.spans.clone() }
    }

    pub(crate) fn metrics(&self) -> &MetricsOptions {
        &self.0.metrics
    }

    pub(crate) fn tx_watch(&self) -> &TxWatch {
        &self.0.tx_watch
    }

    pub(crate) fn event_hub(&self) -> &Arc<EventHub> {
        &self.0.events
    }

    pub(crate) fn browsers(&self) -> &BrowserPolicy {
        &self.0.browsers
    }

    pub(crate) fn live_within(&self) -> Duration {
        self.0.live_within
    }

    pub(crate) fn find(&self, id: ChainId) -> Option<&ServedChain> {
        self.0.served.iter().find(|chain| chain.id == id)
    }

    /// The chain of a node that serves one only.
    pub(crate) fn only(&self) -> Option<&ServedChain> {
        match self.0.served.as_slice() {
            [chain] => Some(chain),
            _ => None,
        }
    }

    /// The served chains in words: `1 (mainnet), 8453 (base)`.
    pub(crate) fn listed(&self) -> String {
        let mut words = String::new();
        for ServedChain { id, name, .. } in &self.0.served {
            let comma = if words.is_empty() { "" } else { ", " };
            let _ = match name.is_empty() {
                true => write!(words, "{comma}{id}"),
                false => write!(words, "{comma}{id} ({name})"),
            };
        }
        words
    }
}

impl StartedChain {
    /// The state of the endpoints.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        (self.endpoints)()
    }
}

impl ServedChain {
    /// The routes of the chain, if it has started.
    pub(crate) fn started(&self) -> Result<&StartedChain, Problem> {
        self.started.get().ok_or_else(|| {
            let detail = format!("chain {} has not started yet: {}", self.id, self.start_error());
            Problem::new(ErrorCode::Unavailable, detail)
        })
    }

    fn start_error(&self) -> String {
        self.start_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state of its endpoints; empty before it has started.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        self.started.get().map(|started| (started.endpoints)()).unwrap_or_default()
    }

    pub(crate) fn shown(&self) -> Chain {
        let head = self.started.get().and_then(|started| started.api.engine.view().head());
        let endpoints = self.started.get().map(|started| (started.endpoints)()).unwrap_or_default();
        let readers = || endpoints.iter().filter(|it| ["full", "read_only"].contains(&&*it.role));
        let is_down = readers().next().is_some() && readers().all(|endpoint| endpoint.resting);
        let (status, detail) = match (self.started.get(), head) {
            (None, _) => ("starting", Some(self.start_error())),
            (Some(_), None) => {
                ("starting", Some("no endpoint has delivered a block since the start".to_owned()))
            }
            (Some(_), Some(_)) if is_down => {
                ("down", Some("no endpoint answers; transactions wait".to_owned()))
            }
            (Some(_), Some(_)) => ("ready", None),
        };
        let confirmations_needed = match self.started.get().map(|it| it.api.engine.finality()) {
            Some(FinalityRule::Confirmations(needed)) => Some(needed),
            Some(FinalityRule::Safe | FinalityRule::Finalized) | None => None,
        };
        Chain {
            chain_id: self.id.get(),
            name: self.name.clone(),
            status: status.into(),
            detail,
            head: head.map(|head| head.number),
            confirmations_needed,
        }
    }
}

/// List the chains of this node
///
/// With the state of their endpoints. Other nodes on the same database may serve other chains; a
/// request for one of those is forwarded.
#[utoipa::path(
    get,
    path = "/api/v1/chains",
    operation_id = "listChains",
    tag = "chains",
    responses((status = 200, description = "The chains.", body = ChainList), ChainsProblems)
)]
pub(crate) async fn list(
    State(chains): State<Chains>,
    caller: Caller,
    params: super::query::QueryParams,
) -> Result<axum::Json<ChainList>, Problem> {
    params.end()?;
    let shown = |chain: &ServedChain| ChainWithEndpoints {
        chain: chain.shown(),
        endpoints: chain.started.get().map(|started| (started.endpoints)()).unwrap_or_default(),
    };
    let scope = &caller.rights().scope;
    let seen = chains.0.served.iter().filter(|chain| scope.has_chain(chain.id));
    Ok(axum::Json(ChainList { items: seen.map(shown).collect() }))
}

/// Can the node take requests
///
/// Yes if its database answers, it is not being stopped, and it has seen a block of one of its chains
/// since its start. Trouble with a chain after that never takes a node out of service.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "health",
    responses((status = 200, description = "It can.", body = Ready), ReadyProblems)
)]
pub(crate) async fn ready(State(chains): State<Chains>) -> Result<axum::Json<Ready>, Problem> {
    if chains.is_draining() {
        let detail = "the node is shutting down and takes no new work";
        return Err(Problem::new(ErrorCode::Draining, detail));
    }
    let page = Page::new(1)?;
    chains.0.store.completions(FeedFilter::finals(ChainId::MIN), Seq::MAX, page).await?;
    let shown: Vec<Chain> = chains.0.served.iter().map(ServedChain::shown).collect();
    if shown.iter().any(|chain| chain.head.is_some()) {
        return Ok(axum::Json(Ready { status: "ready".into(), chains: shown }));
    }
    let why = shown.iter().map(|chain| {
        format!("chain {}: {}", chain.chain_id, chain.detail.as_deref().unwrap_or_default())
    });
    Err(Problem::new(ErrorCode::Unavailable, why.collect::<Vec<_>>().join("; ")))
}
