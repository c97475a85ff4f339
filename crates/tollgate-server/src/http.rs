//! The routes, and what all of them have in common.

mod body;
mod create;
mod feed;
mod health;
mod problem;
mod query;
mod read;
mod shape;
mod submitters;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use tollgate_engine::Engine;
use tollgate_model::port::Store;

/// The largest body that is read (I13).
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What the handlers work with.
#[derive(Clone)]
pub struct Api {
    /// Takes intents.
    pub engine: Engine,
    /// Answers questions.
    pub store: Arc<dyn Store>,
}

/// All routes of the API.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/api/v1/tx", post(create::create).get(read::list))
        .route("/api/v1/tx/batch", post(create::create_batch))
        .route("/api/v1/tx/by-request", get(read::by_request))
        .route("/api/v1/tx/completions", get(feed::completions))
        .route("/api/v1/tx/{tx_id}", get(read::one))
        .route("/api/v1/tx/{tx_id}/history", get(read::history))
        .route("/api/v1/submitters", get(submitters::list))
        .route("/api/v1/submitters/{address}", get(submitters::one))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(problem::with_request_id))
        .with_state(api)
}
