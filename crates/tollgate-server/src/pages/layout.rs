//! The common parts of all pages: the frame, the headers, and the page of a problem.

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use tollgate_engine::Engine;

use super::assets::ASSETS;
use super::viewer::Viewer;
use super::with_headers;
use crate::http::{Chains, Problem};

/// Pages run their own script and style, speak to their own node, and send forms to it; nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The headers of every page. `same-origin` rather than `no-referrer`, under which forms have no origin.
pub(crate) const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The frame around a page.
pub(crate) struct Frame {
    pub(crate) style: &'static str,
    pub(crate) script: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) node: String,
    /// The entry of the navigation that is marked.
    pub(crate) place: &'static str,
    pub(crate) viewer: Option<String>,
    pub(crate) csrf: String,
    /// The address at which the script hears of changes; empty for pages that don't change.
    pub(crate) live: String,
    pub(crate) query: String,
}

impl Frame {
    pub(crate) fn new(chains: &Chains, viewer: &Viewer, place: &'static str) -> Self {
        Self {
            viewer: viewer.name(),
            csrf: viewer.csrf.as_str().to_owned(),
            place,
            ..Self::without_viewer(chains)
        }
    }

    pub(crate) fn without_viewer(chains: &Chains) -> Self {
        let node = chains.engines().next().map(Engine::node);
        let node = node.map(|node| short_node(node.as_str())).unwrap_or_default();
        Self {
            style: &ASSETS.style.path,
            script: &ASSETS.script.path,
            icon: &ASSETS.icon.path,
            node,
            place: "",
            viewer: None,
            csrf: String::new(),
            live: String::new(),
            query: String::new(),
        }
    }

    /// The frame of a page that hears of changes to a topic.
    pub(crate) fn live(self, topic: &str) -> Self {
        let live = tollgate_api::path::with_query("/live", &[("topic", Some(topic.to_owned()))]);
        Self { live, ..self }
    }
}

/// The name of a node without the id of its process.
pub(crate) fn short_node(id: &str) -> String {
    let name = id.rsplit_once('/').map_or(id, |(name, _)| name);
    name.to_owned()
}

/// Writes a page.
pub(crate) fn html(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => with_headers(Html(text).into_response()),
        Err(_) => Problem::defect().into_response(),
    }
}

pub(crate) fn with_status(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    status: u16,
    title: String,
    detail: String,
    code: &'static str,
}

/// A problem as a page.
pub(crate) fn error_page(chains: &Chains, viewer: Option<&Viewer>, problem: &Problem) -> Response {
    let frame = match viewer {
        Some(viewer) => Frame::new(chains, viewer, ""),
        None => Frame::without_viewer(chains),
    };
    let page = ErrorPage {
        frame,
        status: problem.code.status(),
        title: problem.code.title().to_owned(),
        detail: problem.body.detail.clone(),
        code: problem.code.name(),
    };
    with_status(problem.status(), html(&page))
}

/// Shows the problems of handlers as pages.
pub(crate) async fn show_problems(
    State(chains): State<Chains>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => error_page(&chains, None, &problem),
        None => response,
    }
}
