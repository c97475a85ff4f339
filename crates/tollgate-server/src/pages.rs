//! The pages for operators: what a node does, drawn on the server, with live updates and actions.
//!
//! Owns no rule and no state of transactions: pages read and act through the routes of the API ([`api`]), as
//! their viewer. Only the nonce ladder, the search and the charts read the store themselves. Needs nothing
//! from elsewhere, and works without the script. `docs/pages.md` describes it.

mod actions;
mod api;
mod assets;
mod chart;
pub(crate) mod errors;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod ladder;
mod layout;
mod list;
mod live;
mod login;
mod overview;
mod samples;
mod search;
mod session;
mod submitter;
mod submitters;
mod tx;
mod viewer;

use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tollgate_model::ChainId;

use crate::http::{Chains, Problem, within};
pub(crate) use layout::SECURITY_HEADERS;
use live::Live;
use samples::Samples;
use session::{Sessions, Token};

/// The longest that a page may take (I13).
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The longest form (I13).
const FORM_BYTES_MAX: usize = 16 * 1024;

/// The memory of the pages of a node.
#[derive(Default)]
pub(crate) struct Pages {
    sessions: Sessions,
    samples: Samples,
    live: Live,
    open_csrf: OnceLock<Token>,
}

impl Pages {
    /// The token of forms where no key is asked for.
    fn open_csrf(&self) -> Result<Token, Problem> {
        if let Some(token) = self.open_csrf.get() {
            return Ok(token.clone());
        }
        let token = viewer::new_csrf()?;
        Ok(self.open_csrf.get_or_init(|| token).clone())
    }

    /// Ends all waits of listeners: the node is shutting down.
    pub(crate) fn close(&self) {
        self.live.close();
    }
}

/// Takes samples for the charts, for ever.
pub(crate) async fn keep_sampling(chains: Chains) {
    let ids: Vec<ChainId> = chains.served().iter().map(|chain| chain.id).collect();
    chains.pages().samples.keep(chains.store().as_ref(), &ids).await;
}

/// Returns whether a path is one of the pages, whose forms are no JSON.
pub(crate) fn takes_forms(path: &str) -> bool {
    ["/login", "/logout"].contains(&path)
        || ["/tx/", "/submitters/"].iter().any(|root| path.starts_with(root))
}

/// Returns whether a path is one of the pages. Their handlers ask for a session ([`viewer::Viewer`]).
pub(crate) fn is_page(path: &str) -> bool {
    let is_under = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let roots = ["/tx", "/submitters", "/search", "/live", "/login", "/logout", "/assets"];
    path == "/" || roots.into_iter().any(is_under)
}

/// The address of an asset of the API's documentation.
pub(crate) fn docs_assets() -> [&'static str; 3] {
    let assets = &*assets::ASSETS;
    [&assets.docs_style.path, &assets.docs_script.path, &assets.icon.path]
}

/// The routes of the pages.
pub(crate) fn routes(chains: &Chains) -> Router<Chains> {
    Router::new()
        .route("/", get(overview::page))
        .route("/tx", get(list::page))
        .route("/tx/{tx_id}", get(tx::page))
        .route("/tx/{tx_id}/{action}", get(actions::confirm_tx).post(actions::act_on_tx))
        .route("/submitters", get(submitters::page))
        .route("/submitters/{chain_id}/{address}", get(submitter::page))
        .route(
            "/submitters/{chain_id}/{address}/{action}",
            get(actions::confirm_submitter).post(actions::act_on_submitter),
        )
        .route("/search", get(search::page))
        .route("/live", get(live::events))
        .route("/login", get(login::form).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/assets/{name}", get(assets::asset))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(from_fn_with_state(chains.clone(), layout::show_problems))
        .layer(from_fn_with_state(TIME_LIMIT, within))
}

/// A page with the headers that all pages have.
pub(crate) fn with_headers(mut response: Response) -> Response {
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response.into_response()
}
