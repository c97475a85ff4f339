//! Around every handler: an id for the request, a limit on its time, and an answer even if the
//! handler dies.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use uuid::Uuid;

use super::code::Code;
use super::forward::OWNER;
use super::problem::Problem;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id of a caller that is passed on (I13).
pub(crate) const REQUEST_ID_MAX: usize = 128;
/// When to come back, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Gives every request an id (the caller's own, if it sent a usable one) and every problem its body.
pub(crate) async fn with_request_id(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = given.filter(|id| (1..=REQUEST_ID_MAX).contains(&id.len()));
    let id = usable.map_or_else(|| Uuid::now_v7().to_string(), ToOwned::to_owned);
    let named = HeaderValue::from_str(&id).ok();
    if let Some(id) = &named {
        // Another node that is asked on the caller's behalf is told the same.
        request.headers_mut().insert(REQUEST_ID, id.clone());
    }
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let body = serde_json::to_vec(&problem.body(Some(&id))).unwrap_or_default();
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        let content_type = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, content_type);
        if problem.code.is_retryable() {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        let owner = problem.owner.and_then(|url| HeaderValue::from_str(&url).ok());
        headers.extend(owner.map(|url| (OWNER, url)));
    }
    if let Some(id) = named {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// I13: no request takes longer than its limit. A handler that panics answers all the same, and
/// its connection stays.
pub(crate) async fn within(
    State(limit): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let handler = AssertUnwindSafe(next.run(request)).catch_unwind();
    let problem = match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => return response,
        Ok(Err(_)) => {
            tracing::error!(path, "handler died");
            Problem::defect()
        }
        Err(_) => {
            tracing::warn!(path, ?limit, "request not answered in time");
            Problem::new(Code::Timeout, format!("not answered within {limit:?}"))
        }
    };
    axum::response::IntoResponse::into_response(problem)
}

pub(crate) async fn no_route() -> Problem {
    Problem::not_found("route")
}

pub(crate) async fn no_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "the route does not take this method")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

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
            .layer(middleware::from_fn(with_request_id));
        let method = if path == "/fine" { "PUT" } else { "GET" };
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_handler_that_never_ends_is_a_timeout_that_may_be_tried_again() {
        let (status, headers, body) = ask("/sleeps").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((&body["code"], &body["retryable"]), (&"timeout".into(), &true.into()));
        assert_eq!(headers["retry-after"], "1");
        assert_eq!(headers["content-type"], "application/problem+json");
    }

    #[tokio::test]
    async fn a_handler_that_panics_answers_with_a_problem_that_tells_nothing() {
        let (status, headers, body) = ask("/dies").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body["code"], "internal");
        assert!(!body.to_string().contains("on purpose"), "{body}");
        assert_eq!(body["requestId"], headers["x-request-id"].to_str().unwrap());
    }

    #[tokio::test]
    async fn a_wrong_method_is_told_the_right_ones() {
        let (status, headers, body) = ask("/fine").await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(headers["allow"], "GET,HEAD");
        assert_eq!(body["code"], "method_not_allowed");
    }
}
