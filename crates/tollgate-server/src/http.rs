//! The routes, and what all of them have in common.

mod actions;
mod batch;
mod body;
mod browser;
mod code;
mod connections;
mod create;
mod doc;
mod docs;
mod feed;
mod feed_watch;
mod forward;
mod guard;
mod health;
mod idempotency;
mod nonces;
mod operate;
mod params;
mod peers;
mod problem;
mod query;
mod read;
mod schema;
mod shape;
mod submitters;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use tollgate_engine::Engine;
use tollgate_model::port::Store;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use browser::BrowserPolicy;
pub use connections::{ConnectionLimits, serve};
use feed_watch::FeedWatch;
use peers::Peers;

/// The largest body that is read (I13).
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The longest that a request may take (I13).
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The longest that a poll may take: its wait, and some time to answer (I13).
const LONG_POLL_LIMIT: Duration = query::WAIT_MAX.saturating_add(Duration::from_secs(10));

/// What the handlers work with.
#[derive(Clone)]
pub struct Api {
    /// Takes intents.
    pub engine: Engine,
    /// Answers questions.
    pub store: Arc<dyn Store>,
    /// Reaches the other nodes.
    peers: Arc<Peers>,
    /// Waits for outcomes, for all callers that do.
    feed_watch: Arc<FeedWatch>,
    /// Which requests of browsers are taken.
    browsers: Arc<BrowserPolicy>,
}

impl Api {
    /// What a node with this engine and this store answers with.
    pub fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        let (peers, browsers) = (Arc::default(), Arc::default());
        Self { engine, store, peers, feed_watch: Arc::default(), browsers }
    }

    /// Answers callers that wait for an outcome, with nothing, and lets nobody wait from now on:
    /// the node is being stopped.
    pub fn end_waits(&self) {
        self.feed_watch.close();
    }

    /// With other rules for requests of browsers than the default.
    #[must_use]
    pub fn with_browser_policy(mut self, policy: BrowserPolicy) -> Self {
        self.browsers = Arc::new(policy);
        self
    }
}

/// All routes of the API.
pub fn router(api: Api) -> Router {
    let (router, _) = documented().split_for_parts();
    router
        .fallback(guard::no_route)
        .method_not_allowed_fallback(guard::no_method)
        .layer(middleware::from_fn_with_state(api.clone(), forward::to_the_owner))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(api.clone(), browser::refuse_cross_site))
        .layer(middleware::from_fn(connections::refuse_beyond_health))
        .layer(middleware::from_fn(guard::with_trace_id))
        .with_state(api)
}

/// The OpenAPI document of all routes, as JSON for people and machines.
pub fn openapi() -> String {
    let (_, document) = documented().split_for_parts();
    // Maps with text as keys and derived types: there is nothing in it that JSON can't say.
    let mut text = serde_json::to_string_pretty(&doc::complete(document)).unwrap_or_default();
    text.push('\n');
    text
}

/// Routes are added with their documentation or not at all: `routes!` takes only handlers that
/// have some.
fn documented() -> OpenApiRouter<Api> {
    let prompt = OpenApiRouter::with_openapi(doc::base())
        .routes(routes!(create::create, read::list))
        .routes(routes!(batch::create_batch))
        .routes(routes!(read::by_request))
        .routes(routes!(read::one))
        .routes(routes!(read::history))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::speed_up))
        .routes(routes!(actions::resubmit))
        .routes(routes!(actions::replace))
        .routes(routes!(actions::resolve))
        .routes(routes!(submitters::list))
        .routes(routes!(submitters::one))
        .routes(routes!(operate::pause))
        .routes(routes!(operate::resume))
        .routes(routes!(operate::mode))
        .routes(routes!(operate::reconcile))
        .routes(routes!(operate::fill))
        .routes(routes!(operate::advance))
        .routes(routes!(submitters::history))
        .routes(routes!(nonces::reserve, nonces::list))
        .routes(routes!(nonces::used))
        .routes(routes!(nonces::recyclable))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(docs::document))
        .routes(routes!(docs::page))
        .routes(routes!(docs::error_page))
        .layer(middleware::from_fn_with_state(TIME_LIMIT, guard::within));
    let patient = OpenApiRouter::default()
        .routes(routes!(feed::completions))
        .layer(middleware::from_fn_with_state(LONG_POLL_LIMIT, guard::within));
    prompt.merge(patient)
}
