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
mod table;
mod tx;
pub(crate) mod viewer;

use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tollgate_model::ChainId;

use crate::http::{Chains, Problem, within};
pub(crate) use layout::{SECURITY_HEADERS, html};
use live::Live;
use samples::Samples;
use session::{Sessions, Token};
pub(crate) use table::{is_page, takes_forms};

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

/// The address of an asset of the API's documentation.
pub(crate) fn docs_assets() -> [&'static str; 3] {
    let assets = &*assets::ASSETS;
    [&assets.docs_style.path, &assets.docs_script.path, &assets.icon.path]
}

/// The routes of the pages.
pub(crate) fn routes(chains: &Chains) -> Router<Chains> {
    table::routes(chains)
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
