//! Serves the OpenAPI document, a page to read and try it, and pages about errors.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse, Response};

use tollgate_api::ErrorCode;

use super::openapi::may_fail;
use super::params::PageParams;
use super::problem::Problem;
use super::query::PathParams;

/// Reads `/openapi.json` and draws it. Holds all that it needs, so that it works offline.
const PAGE: &str = include_str!("docs_page/page.html");
/// The page may run its own script and ask this server; nothing else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

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
    ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(PAGE)).into_response()
}

/// Read about an error
#[utoipa::path(
    get,
    path = "/docs/errors/{code}",
    operation_id = "getErrorPage",
    tag = "docs",
    params(PageParams),
    responses(
        (status = 200, description = "A page.", body = String, content_type = "text/plain"),
        PageProblems
    )
)]
pub(crate) async fn error_page(PathParams(name): PathParams<String>) -> Result<Response, Problem> {
    let code = ErrorCode::of(&name).ok_or_else(|| Problem::not_found("code", "code"))?;
    // Not text/markdown: browsers save that instead of showing it.
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], code.page()).into_response())
}
