//! The layers around every handler: a trace id, a time limit, and an answer even if the handler panics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use tokio::time::Instant;
use tollgate_api::ErrorCode;
use tollgate_metrics::NodeMetrics;
use tollgate_model::TraceParent;
use tollgate_model::port::span::{Span, SpanKind, SpanSink};
use tollgate_model::secret::masked;
use tollgate_model::trace::SpanId;
use tracing::{Instrument, debug, info, warn};
use uuid::Uuid;

use super::access::AnsweredTo;
use super::forward::OWNER;
use super::problem::Problem;

/// Carries the trace id, on requests and on answers. The name is the one that proxies know.
pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static(tollgate_api::header::TRACE_ID);
/// Names the caller's trace, as in the W3C's Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static(tollgate_api::header::TRACEPARENT);
/// Longest trace id of a caller that is passed on (I13).
pub(crate) const TRACE_ID_MAX: usize = 128;
/// The most characters of a path that are logged (I13).
const PATH_CHARS_MAX: usize = 200;
/// When to come back, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The trace id of a request that came through [`with_trace_id`].
pub(crate) fn trace_id(headers: &HeaderMap) -> &str {
    headers.get(&TRACE_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
}

/// The routes whose answers are logged at DEBUG: programs ask them all the time.
const QUIET_ROUTES: [&str; 3] = ["/livez", "/readyz", "/metrics"];
/// A path that programs ask all the time.
fn is_quiet(path: &str) -> bool {
    QUIET_ROUTES.contains(&path)
}

/// The route of a request that no route matched.
const NO_ROUTE: &str = "none";

/// Passes the pattern of the route on to [`with_trace_id`]. Patterns are few; paths are as many as callers like.
pub(crate) async fn note_route(request: Request, next: Next) -> Response {
    let pattern = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(pattern) = pattern {
        response.extensions_mut().insert(pattern);
    }
    response
}

/// The observers of every request.
#[derive(Clone)]
pub(crate) struct Observers {
    pub(crate) metrics: Arc<NodeMetrics>,
    pub(crate) spans: Arc<dyn SpanSink>,
}

/// A request as a part of the caller's trace.
fn request_span(
    context: TraceParent,
    parent: Option<SpanId>,
    answered: &Answered,
    status: StatusCode,
    method: &'static str,
) -> Span {
    Span {
        context,
        parent,
        links: Vec::new(),
        name: "request",
        kind: SpanKind::Server,
        took: answered.took,
        failed: status.is_server_error(),
        attributes: vec![
            ("http.request.method", method.to_owned()),
            ("http.route", answered.route().to_owned()),
            ("http.response.status_code", status.as_str().to_owned()),
        ],
    }
}

/// Counts a request while it is being answered, also where its caller goes away.
struct InFlight(Arc<NodeMetrics>);

impl InFlight {
    fn begin(metrics: Arc<NodeMetrics>) -> Self {
        metrics.tollgate.http_in_flight.add(1.0);
        Self(metrics)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.tollgate.http_in_flight.add(-1.0);
    }
}

/// A request as the log and the metrics show it.
struct Answered {
    method: String,
    path: String,
    route: Option<MatchedPath>,
    took: Duration,
}

impl Answered {
    fn route(&self) -> &str {
        self.route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str)
    }
}

/// The trace that a request belongs to; `None` if it names none, or more than one, or what is none.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let header = given.next()?.to_str().ok()?;
    given.next().is_none().then(|| header.parse().ok())?
}

/// The span of a request, on its way to [`name_own_span`].
#[derive(Clone, Copy)]
struct OwnSpan(TraceParent);

/// Names the span of the request in place of the caller's, so that what becomes of the request is a part of it. Behind
/// the check of nodes' signatures, which cover the header.
pub(crate) async fn name_own_span(mut request: Request, next: Next) -> Response {
    let own = request.extensions().get().map(|OwnSpan(own)| own.to_string());
    if let Some(own) = own.and_then(|own| HeaderValue::from_str(&own).ok()) {
        request.headers_mut().insert(TRACEPARENT, own);
    }
    next.run(request).await
}

/// Gives every request a trace id (the caller's own, if it sent a usable one, else that of its trace) and
/// every problem its body, counts and times it, and logs it.
pub(crate) async fn with_trace_id(
    State(Observers { metrics, spans }): State<Observers>,
    mut request: Request,
    next: Next,
) -> Response {
    let (begun, in_flight) = (Instant::now(), InFlight::begin(metrics));
    let known_method = method_name(request.method());
    let usable = |id: &&str| (1..=TRACE_ID_MAX).contains(&id.len()) && masked(id) == **id;
    let given = Some(trace_id(request.headers())).filter(usable);
    let given = given.map(ToOwned::to_owned);
    let given = given.or_else(|| Some(traceparent(request.headers())?.trace_id().to_string()));
    let caller = traceparent(request.headers());
    let context = spans.begin(caller).filter(|_| !is_quiet(request.uri().path()));
    let given = given.or_else(|| context.map(|context| context.trace_id().to_string()));
    let id = given.unwrap_or_else(|| Uuid::now_v7().to_string());
    let named = HeaderValue::from_str(&id).ok();
    if let Some(id) = &named {
        // Another node that is asked on the caller's behalf is told the same.
        request.headers_mut().insert(TRACE_ID, id.clone());
    }
    if let Some(context) = context {
        request.extensions_mut().insert(OwnSpan(context));
    }
    let (method, path) = (shown(request.method().as_str()), shown(request.uri().path()));
    // Whatever is logged on the way has the name of the call.
    let span = tracing::error_span!("request", trace_id = id);
    let mut response = next.run(request).instrument(span.clone()).await;
    let problem = response.extensions_mut().remove::<Problem>();
    let route = response.extensions_mut().remove::<MatchedPath>();
    let answered = Answered { method, path, route, took: begun.elapsed() };
    span.in_scope(|| log(&answered, &response, problem.as_ref()));
    let (metrics, route) = (&in_flight.0.tollgate, answered.route());
    let status = response.status();
    metrics.http_requests_total.with(&[known_method, route, status.as_str()]).inc();
    metrics.http_request_seconds.with(&[route]).observe(answered.took);
    if let Some(context) = context {
        let parent = caller.map(TraceParent::span_id);
        spans.record(request_span(context, parent, &answered, status, known_method));
    }
    if let Some(problem) = problem {
        write_problem(&mut response, problem, &id);
    }
    if let Some(id) = named {
        response.headers_mut().insert(TRACE_ID, id);
    }
    response
}

/// A path or method as the log shows it: without what may be a private key, and not without end.
fn shown(path: &str) -> String {
    masked(path).chars().take(PATH_CHARS_MAX).collect()
}

/// A method as a label: callers can send any word.
fn method_name(method: &Method) -> &'static str {
    let known =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let names = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    known.iter().zip(names).find(|(it, _)| *it == method).map_or("other", |(_, name)| name)
}

fn log(answered: &Answered, response: &Response, problem: Option<&Problem>) {
    let (status, route) = (response.status(), answered.route());
    let Answered { method, path, took, .. } = answered;
    let key_id = response.extensions().get().map(|AnsweredTo(id)| id.as_str());
    let duration_ms = took.as_secs_f64() * 1e3;
    let is_quiet = QUIET_ROUTES.contains(&route);
    let code = problem.map(|problem| problem.code.name());
    let detail = problem.map(|problem| problem.body.detail.as_str());
    match status {
        status if status.is_server_error() => {
            let status = status.as_u16();
            warn!(method, route, path, status, duration_ms, code, detail, key_id, "request failed");
        }
        status if status.is_client_error() => {
            let status = status.as_u16();
            info!(
                method,
                route, path, status, duration_ms, code, detail, key_id, "request refused"
            );
        }
        status if is_quiet => {
            let status = status.as_u16();
            debug!(method, route, path, status, duration_ms, key_id, "request answered");
        }
        status => {
            let status = status.as_u16();
            info!(method, route, path, status, duration_ms, key_id, "request answered");
        }
    }
}

fn write_problem(response: &mut Response, problem: Problem, trace_id: &str) {
    let (is_retryable, owner) = (problem.code.is_retryable(), problem.body.owner.clone());
    let body = serde_json::to_vec(&problem.with_trace_id(trace_id)).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    let content_type = HeaderValue::from_static("application/problem+json");
    headers.insert(header::CONTENT_TYPE, content_type);
    if is_retryable && !headers.contains_key(header::RETRY_AFTER) {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    let owner = owner.and_then(|url| HeaderValue::from_str(&url).ok());
    headers.extend(owner.map(|url| (OWNER, url)));
}

/// I13: no request takes longer than its limit. A handler that panics answers all the same, and
/// its connection stays.
pub(crate) async fn within(
    State(limit): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    let path = shown(request.uri().path());
    let handler = AssertUnwindSafe(next.run(request)).catch_unwind();
    let problem = match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => return response,
        Ok(Err(_)) => {
            tracing::error!(path, "request handler panicked");
            Problem::defect()
        }
        Err(_) => Problem::new(ErrorCode::Timeout, format!("not answered within {limit:?}")),
    };
    axum::response::IntoResponse::into_response(problem)
}

pub(crate) async fn no_route() -> Problem {
    no_route_problem()
}

pub(crate) fn no_route_problem() -> Problem {
    Problem::new(ErrorCode::NotFound, "there is no such route")
}

pub(crate) async fn no_method() -> Problem {
    Problem::new(
        ErrorCode::MethodNotAllowed,
        "this method is not allowed here; the Allow header names those that are",
    )
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tollgate_model::port::span::NoSpans;
    use tower::ServiceExt;

    use super::*;

    #[test]
    fn traceparent_is_read_if_there_is_exactly_one_and_it_is_well_formed() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
            }
            traceparent(&headers).map(|trace| trace.to_string())
        };
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(read(&[good]).as_deref(), Some(good));
        for bad in [&[][..], &[good, good], &["00"], &["\u{e9}"]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn logged_path_is_masked_and_shortened() {
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        assert!(!shown(&format!("/api/v1/tx/0x{key}/cancel")).contains(&key[..20]));
        assert_eq!(shown("/api/v1/tx"), "/api/v1/tx");
        assert_eq!(shown(&"/x".repeat(60_000)).len(), PATH_CHARS_MAX);
    }

    fn unobserved() -> Observers {
        Observers { metrics: Arc::default(), spans: Arc::new(NoSpans) }
    }

    async fn ask(path: &str) -> (StatusCode, axum::http::HeaderMap, serde_json::Value) {
        async fn dies() -> &'static str {
            panic!("on purpose")
        }
        let router = Router::new()
            .route("/sleeps", get(std::future::pending::<()>))
            .route("/dies", get(dies))
            .route("/fine", get(|| async { "{}" }))
            .method_not_allowed_fallback(no_method)
            .layer(middleware::from_fn_with_state(Duration::from_millis(20), within))
            .layer(middleware::from_fn(note_route))
            .layer(middleware::from_fn_with_state(unobserved(), with_trace_id));
        let method = if path == "/fine" { "PUT" } else { "GET" };
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn handler_that_never_ends_is_a_retryable_timeout() {
        let (status, headers, body) = ask("/sleeps").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((&body["code"], &body["retryable"]), (&"timeout".into(), &true.into()));
        assert_eq!(headers["retry-after"], "1");
        assert_eq!(headers["content-type"], "application/problem+json");
    }

    #[tokio::test]
    async fn handler_that_panics_is_an_internal_error_without_the_panic_message() {
        let (status, headers, body) = ask("/dies").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body["code"], "internal");
        assert!(!body.to_string().contains("on purpose"), "{body}");
        assert_eq!(body["traceId"], headers["x-request-id"].to_str().unwrap());
    }

    #[tokio::test]
    async fn wrong_method_is_refused_with_the_allowed_ones() {
        let (status, headers, body) = ask("/fine").await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(headers["allow"], "GET,HEAD");
        assert_eq!(body["code"], "method_not_allowed");
    }
}
