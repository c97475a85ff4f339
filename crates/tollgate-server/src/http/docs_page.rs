//! Serves the OpenAPI document, a page to read and try it, and pages about errors.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};

use tollgate_api::ErrorCode;

use super::Chains;
use super::openapi::may_fail;
use super::params::PageParams;
use super::problem::Problem;
use super::query::PathParams;
use crate::pages::{docs_assets, errors, with_headers};

/// Reads `/openapi.json` and draws it, by a script and a style of this node, so that it works offline.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let [style, script, icon] = docs_assets();
    let page = include_str!("docs_page/page.html");
    page.replace("{style}", style).replace("{script}", script).replace("{icon}", icon)
});

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
pub(crate) async fn page() -> Response {
    with_headers(Html(PAGE.as_str()).into_response())
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
