//! Serves the OpenAPI document, a page to read and try it, and pages about errors.

use std::sync::LazyLock;

use askama::Template;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use tollgate_api::ErrorCode;

use super::Chains;
use super::openapi::may_fail;
use super::params::PageParams;
use super::problem::Problem;
use super::query::PathParams;
use crate::pages::viewer::{self, Viewer};
use crate::pages::{docs_assets, errors, html};

/// Reads `/openapi.json` and draws it, by a script and a style of this node, so that it works offline.
#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage {
    style: &'static str,
    script: &'static str,
    icon: &'static str,
    sender: Sender,
}

/// The caller of the requests that the page sends.
enum Sender {
    /// No key is asked for.
    Anybody,
    /// The key of the session: the cookie names it, and the script sends the token along.
    Session { name: String, csrf: String },
    /// The key that is typed into the page.
    Key,
}

impl Sender {
    fn of(chains: &Chains, viewer: Option<&Viewer>) -> Self {
        match viewer {
            _ if chains.api_keys().is_none() => Self::Anybody,
            Some(viewer) => Self::Session {
                name: viewer.name().unwrap_or_default(),
                csrf: viewer.csrf.as_str().to_owned(),
            },
            None => Self::Key,
        }
    }
}

/// Made once: it is the same for every caller.
static DOCUMENT: LazyLock<String> = LazyLock::new(super::openapi);

may_fail! {
    DocsProblems: ;
    PageProblems: InvalidPath, NotFound;
}

/// The OpenAPI document
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = "docs",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), DocsProblems)
)]
pub(crate) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// Read and try the API in a browser
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "getDocs",
    tag = "docs",
    responses(
        (status = 200, description = "A page.", body = String, content_type = "text/html"),
        DocsProblems
    )
)]
pub(crate) async fn page(State(chains): State<Chains>, parts: Parts) -> Response {
    // Where the session can't be looked up, or does not count, the page works with a typed key.
    let viewer = match viewer::refuse_callers_listener(&parts) {
        Ok(()) => viewer::find(&chains, &parts).await.ok().flatten(),
        Err(_) => None,
    };
    let [style, script, icon] = docs_assets();
    let sender = Sender::of(&chains, viewer.as_ref());
    html(&DocsPage { style, script, icon, sender })
}

/// Read about an error
#[utoipa::path(
    get,
    path = "/docs/errors/{code}",
    operation_id = "getErrorPage",
    tag = "docs",
    params(PageParams),
    responses(
        (status = 200, description = "A page; as HTML, where the caller accepts that.", content(
            (String = "text/plain"), (String = "text/html")
        )),
        PageProblems
    )
)]
pub(crate) async fn error_page(
    State(chains): State<Chains>,
    headers: HeaderMap,
    PathParams(name): PathParams<String>,
) -> Result<Response, Problem> {
    let code = ErrorCode::of(&name).ok_or_else(|| Problem::not_found("code", "code"))?;
    if errors::wants_html(&headers) {
        return Ok(errors::page(&chains, code));
    }
    // Not text/markdown: browsers save that instead of showing it.
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], code.page()).into_response())
}
