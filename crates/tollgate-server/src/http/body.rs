//! Reads JSON bodies: within limits, and strictly.

mod fields;
mod requests;

use std::time::Duration;

use axum::body::{Body, Bytes as RawBody};
use axum::extract::{FromRequest, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tollgate_api::ErrorCode;
use tollgate_api::limit::BODY_BYTES_MAX;

use super::connections::BodyTimeout;
use super::problem::Problem;

pub(crate) use fields::{Fields, FromFields, read_object};
pub(crate) use requests::{
    given_reason, one_of, read_name, read_nonce, reason_or_none, required_reason,
};

/// The longest that a body may take to arrive (I13) if its listener has no limit of its own.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: FromFields, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        read_object(raw(&read_whole(request, state).await?)?).map(Self)
    }
}

/// A JSON body that may be left out, or be null.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: FromFields + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = read_whole(request, state).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        match raw(&body)? {
            null if null.get() == "null" => Ok(Self(T::default())),
            body => read_object(body).map(Self),
        }
    }
}

pub(crate) async fn read_whole<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<RawBody, Problem> {
    let limit = request.extensions().get().map_or(BODY_TIMEOUT, |BodyTimeout(limit)| *limit);
    read_within(limit, request, state).await
}

/// Reads the body of a form before its handler does, in the time that every other body has.
pub(crate) async fn form_in_time(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match read_whole(Request::from_parts(parts.clone(), body), &()).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(problem) => problem.into_response(),
    }
}

async fn read_within<S: Send + Sync>(
    limit: Duration,
    request: Request,
    state: &S,
) -> Result<RawBody, Problem> {
    let Ok(read) = timeout(limit, RawBody::from_request(request, state)).await else {
        let detail = format!("the body did not arrive within {limit:?}");
        return Err(Problem::new(ErrorCode::RequestTimeout, detail));
    };
    read.map_err(|refused| {
        if refused.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let detail = format!("the body has more than {BODY_BYTES_MAX} bytes");
            return Problem::new(ErrorCode::BodyTooLarge, detail);
        }
        Problem::new(ErrorCode::UnreadableBody, refused.body_text())
    })
}

/// The JSON value that a body is.
pub(crate) fn raw(body: &[u8]) -> Result<&RawValue, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::new(ErrorCode::InvalidJson, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_that_does_not_arrive_is_a_request_timeout() {
        let never = futures_util::stream::pending::<Result<RawBody, std::convert::Infallible>>();
        let request = Request::post("/api/v1/tx").body(Body::from_stream(never)).unwrap();
        let refused = read_within(Duration::from_millis(1), request, &()).await.unwrap_err();
        assert_eq!((refused.code, refused.code.status()), (ErrorCode::RequestTimeout, 408));
    }

    #[tokio::test(start_paused = true)]
    async fn form_that_does_not_arrive_is_refused_after_the_time_for_bodies() {
        let never = futures_util::stream::pending::<Result<RawBody, std::convert::Infallible>>();
        let mut request = Request::post("/login").body(Body::from_stream(never)).unwrap();
        request.extensions_mut().insert(BodyTimeout(Duration::from_secs(3)));
        let form = axum::routing::post(|_: RawBody| async { "read" });
        let router = axum::Router::new().route("/login", form);
        let router = router.route_layer(axum::middleware::from_fn(form_in_time));
        let begun = tokio::time::Instant::now();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(begun.elapsed().as_secs(), 3);
    }
}
