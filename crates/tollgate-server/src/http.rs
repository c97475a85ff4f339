//! The routes of the API, and what all of them go through.

mod access;
mod account_pools;
mod accounts;
mod api_keys;
mod audit;
mod authorization;
mod batch;
mod body;
mod browser;
mod chain_scope;
mod connections;
mod costs;
mod create;
mod create_request;
mod csv;
mod dispatch;
mod docs_page;
mod events;
mod feed;
mod forward;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod health;
mod idempotency;
mod live_nodes;
mod metrics;
mod middleware;
mod node_auth;
mod nonces;
mod openapi;
mod operator_routes;
mod params;
mod parse_errors;
mod peers;
mod problem;
mod query;
mod read;
mod served_chains;
mod shared_poll;
mod submitter_actions;
mod submitters;
mod tls;
mod tx_actions;
mod wait;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tollgate_api::limit::WAIT_MAX;
use tollgate_engine::{ChainView, Engine};
use tollgate_model::ChainId;
use tollgate_model::port::Store;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::pages;

use access::keys::ApiKeys;
pub(crate) use access::keys::KnownKey;
pub(crate) use access::table::{Needed, is_like, needed};
pub(crate) use access::{AnsweredTo, CALLER, Caller, Counted};

pub use browser::BrowserPolicy;
pub use connections::{ConnectionLimits, Listener, ListenerKind, serve, serve_listener};
pub(crate) use connections::{OverTls, RemoteAddress};
pub(crate) use dispatch::dispatch;
use feed::FeedEnds;
pub use metrics::{MetricsOptions, metrics_dictionary, metrics_router};
pub(crate) use middleware::within;
#[cfg(feature = "fuzzing")]
pub use node_auth::fuzzing::node_headers;
pub use node_auth::{PeerIdentity, SignedHead, sign};
use peers::Peers;
pub(crate) use problem::Problem;
pub(crate) use served_chains::ServedChain;
pub use served_chains::{ApiOptions, Chains, EndpointReader};
pub(crate) use shared_poll::SharedPoll;
pub use tls::{PeerTls, Reloaded, ServerTls, ServerTlsFiles, TlsVersion, log_reload};

/// The longest that a request may take (I13).
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The longest that a poll may take: its wait, and some time to answer (I13).
const LONG_POLL_LIMIT: Duration = WAIT_MAX.saturating_add(Duration::from_secs(10));

/// The state that the handlers of all chains share.
#[derive(Default)]
struct SharedApi {
    engines: Mutex<Vec<Engine>>,
    /// Callers see the confirmations of a transaction.
    exposes_confirmations: bool,
    /// The keys of callers; `None` if none are asked for.
    api_keys: Option<Arc<ApiKeys>>,
}

/// The state of the handlers of one chain.
#[derive(Clone)]
pub struct Api {
    /// The engine of the chain.
    pub engine: Engine,
    /// The database, for reads.
    pub store: Arc<dyn Store>,
    /// Connections to the other nodes.
    peers: Arc<Peers>,
    /// The ends of feeds, for all long polls.
    feed_ends: Arc<FeedEnds>,
    /// The engines of all chains that have started, and the options of the API.
    shared: Arc<SharedApi>,
}

impl Api {
    /// The API of one chain.
    fn new(engine: Engine, store: Arc<dyn Store>, peers: Peers, shared: Arc<SharedApi>) -> Self {
        shared.engines.lock().unwrap_or_else(PoisonError::into_inner).push(engine.clone());
        Self { engine, store, peers: Arc::new(peers), feed_ends: Arc::default(), shared }
    }

    /// The keys of callers; `None` if none are asked for.
    pub(crate) fn api_keys(&self) -> Option<&ApiKeys> {
        self.shared.api_keys.as_deref()
    }

    /// The view of a chain, if this node follows it.
    fn view_of(&self, chain_id: ChainId) -> Option<Arc<ChainView>> {
        let engines = self.shared.engines.lock().unwrap_or_else(PoisonError::into_inner);
        engines.iter().find(|engine| engine.chain_id() == chain_id).map(Engine::view)
    }

    /// The number of a chain's newest block, if this node follows the chain.
    fn head_of(&self, chain_id: ChainId) -> Option<u64> {
        Some(self.view_of(chain_id)?.head()?.number)
    }

    /// Answers all long polls with nothing, and lets none wait from now on: the node is shutting down.
    fn end_waits(&self) {
        self.feed_ends.close();
    }
}

/// All routes of a node: its own, and behind them those of its chains.
pub fn router(chains: Chains) -> Router {
    let (router, _) = node_documented().split_for_parts();
    let observers = chains.observers();
    router
        .merge(pages::routes(&chains).route_layer(from_fn(body::form_in_time)))
        .fallback(dispatch::to_its_chain)
        .method_not_allowed_fallback(middleware::no_method)
        .layer(from_fn_with_state(chains.clone(), access::control))
        .layer(from_fn(middleware::name_own_span))
        .layer(from_fn_with_state(chains.clone(), browser::refuse_cross_site))
        .layer(from_fn_with_state(chains.clone(), node_auth::authenticate))
        .layer(from_fn(connections::refuse_beyond_health))
        .layer(from_fn(middleware::note_route))
        .layer(from_fn_with_state(observers, middleware::with_trace_id))
        .with_state(chains)
}

/// The routes of one chain.
fn chain_routes(api: Api) -> Router {
    let (router, _) = chain_documented().split_for_parts();
    router
        .fallback(middleware::no_route)
        .method_not_allowed_fallback(middleware::no_method)
        .layer(from_fn_with_state(api.clone(), forward::to_the_owner))
        .layer(from_fn(middleware::note_route))
        .with_state(api)
}

/// The OpenAPI document of all routes, as JSON for people and machines.
pub fn openapi() -> String {
    let (_, node) = node_documented().split_for_parts();
    let (_, mut document) = chain_documented().split_for_parts();
    document.merge(node);
    // Maps with text as keys and derived types: all of it can be written as JSON.
    let mut text = serde_json::to_string_pretty(&openapi::complete(document)).unwrap_or_default();
    text.push('\n');
    text
}

/// Routes are added with their documentation or not at all: `routes!` takes only handlers that
/// have some.
fn chain_documented() -> OpenApiRouter<Api> {
    let prompt = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(create::create, read::list))
        .routes(routes!(batch::create_batch))
        .routes(routes!(read::by_request))
        .routes(routes!(read::by_hash))
        .routes(routes!(costs::costs))
        .routes(routes!(read::one))
        .routes(routes!(read::history))
        .routes(routes!(tx_actions::cancel))
        .routes(routes!(tx_actions::speed_up))
        .routes(routes!(tx_actions::resubmit))
        .routes(routes!(tx_actions::replace))
        .routes(routes!(tx_actions::resolve))
        .routes(routes!(submitters::list, accounts::open))
        .routes(routes!(submitters::one, accounts::change, accounts::remove))
        .routes(routes!(account_pools::list))
        .routes(routes!(account_pools::one, account_pools::put, account_pools::remove))
        .routes(routes!(submitter_actions::pause))
        .routes(routes!(submitter_actions::resume))
        .routes(routes!(submitter_actions::mode))
        .routes(routes!(submitter_actions::reconcile))
        .routes(routes!(submitter_actions::fill))
        .routes(routes!(submitter_actions::advance))
        .routes(routes!(submitters::history))
        .routes(routes!(nonces::reserve, nonces::list))
        .routes(routes!(nonces::used))
        .routes(routes!(nonces::recyclable))
        .layer(from_fn_with_state(TIME_LIMIT, middleware::within));
    let patient = OpenApiRouter::default()
        .routes(routes!(feed::completions))
        .layer(from_fn_with_state(LONG_POLL_LIMIT, middleware::within));
    prompt.merge(patient)
}

/// The routes that are about the node itself.
fn node_documented() -> OpenApiRouter<Chains> {
    OpenApiRouter::default()
        .routes(routes!(served_chains::list))
        .routes(routes!(live_nodes::list))
        .routes(routes!(api_keys::list, api_keys::make))
        .routes(routes!(api_keys::revoke))
        .routes(routes!(api_keys::rotate))
        .routes(routes!(audit::list))
        .routes(routes!(health::live))
        .routes(routes!(served_chains::ready))
        .routes(routes!(events::events))
        .routes(routes!(metrics::on_api))
        .routes(routes!(docs_page::document))
        .routes(routes!(docs_page::page))
        .routes(routes!(docs_page::error_page))
        .layer(from_fn_with_state(TIME_LIMIT, middleware::within))
}
