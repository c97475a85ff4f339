//! Errors as callers see them: `application/problem+json` with a code that stays.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollgate_engine::CreateError;
use tollgate_model::ids::InvalidId;
use tollgate_model::port::StoreError;
use uuid::Uuid;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id of a caller that is passed on.
const REQUEST_ID_MAX: usize = 128;
/// When to come back, in seconds.
const RETRY_AFTER: &str = "1";

/// An error with a stable code.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: String,
    pub(crate) retryable: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retryable: false }
    }

    pub(crate) fn invalid(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    fn later(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(status, code, detail) }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    /// The body, with the caller's name for the request where it is known.
    pub(crate) fn to_json(&self, request_id: Option<&str>) -> serde_json::Value {
        json!({
            "type": format!("errors/{}", self.code),
            "title": self.code.replace('_', " "),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
            "requestId": request_id,
            "retryable": self.retryable,
        })
    }
}

/// The body is written by [`with_request_id`], which knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<InvalidId> for Problem {
    fn from(invalid: InvalidId) -> Self {
        Self::invalid("invalid_field", invalid.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => invalid.into(),
            StoreError::UnknownChain(_)
            | StoreError::UnknownSubmitter(_)
            | StoreError::OtherChain { .. } => {
                Self::invalid("unknown_submitter", error.to_string())
            }
            StoreError::Unavailable(_)
            | StoreError::CommitUnknown(_)
            | StoreError::Fenced(_)
            | StoreError::Unsafe(_) => {
                Self::later(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", error.to_string())
            }
            StoreError::Defect(_) => {
                tracing::error!(%error, "store defect");
                let detail = "a defect; the log has more".to_owned();
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            }
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        match error {
            CreateError::Invalid(invalid) => invalid.into(),
            CreateError::UnknownSubmitter => Self::invalid("unknown_submitter", detail),
            CreateError::NonceMismatch { .. } => Self::invalid("nonce_mismatch", detail),
            CreateError::Reverts(_) => Self::invalid("would_revert", detail),
            CreateError::RequestIdConflict(_) => {
                Self::new(StatusCode::CONFLICT, "request_id_conflict", detail)
            }
            CreateError::NotOwner(_) => Self::later(StatusCode::CONFLICT, "not_owner", detail),
            CreateError::Busy => Self::later(StatusCode::TOO_MANY_REQUESTS, "busy", detail),
            CreateError::Unavailable(_) => {
                Self::later(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            }
        }
    }
}

/// Gives every request an id (the caller's own, if it sent a usable one) and every problem its body.
pub(crate) async fn with_request_id(request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = given.filter(|id| (1..=REQUEST_ID_MAX).contains(&id.len()));
    let id = usable.map_or_else(|| Uuid::now_v7().to_string(), ToOwned::to_owned);
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let body = problem.to_json(Some(&id)).to_string();
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        response = (problem.status, content_type, body).into_response();
        if problem.retryable {
            let after = HeaderValue::from_static(RETRY_AFTER);
            response.headers_mut().insert(header::RETRY_AFTER, after);
        }
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

pub(crate) async fn no_route() -> Problem {
    Problem::not_found("route")
}

pub(crate) async fn no_method() -> Problem {
    let detail = "the route does not take this method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
