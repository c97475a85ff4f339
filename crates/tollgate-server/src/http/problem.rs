//! Errors as callers see them: `application/problem+json` with a code that stays.

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_engine::CreateError;
use tollgate_model::ids::InvalidId;
use tollgate_model::port::StoreError;
use utoipa::ToSchema;

use super::code::Code;
use super::schema;

/// An error with a stable code.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

/// What went wrong, in the form of RFC 9457.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemBody {
    /// `errors/` and the code: where the page about it is, below `/docs/`.
    r#type: String,
    /// What the code means, in a few words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What to switch on. A code never changes its meaning.
    #[schema(value_type = schema::ErrorCode)]
    code: &'static str,
    /// What was wrong this time, for people.
    detail: String,
    /// The request's id, as in the header `x-request-id`; null for an item of a batch.
    #[schema(required)]
    request_id: Option<String>,
    /// Whether the same call can succeed later; the answer has `Retry-After` then.
    retryable: bool,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what}"))
    }

    /// A defect of ours. What it was goes to the log, not to callers.
    pub(crate) fn defect() -> Self {
        Self::new(Code::Internal, "a defect; the log has more")
    }

    /// The body, with the name of the request where it is known.
    pub(crate) fn body(&self, request_id: Option<&str>) -> ProblemBody {
        ProblemBody {
            r#type: format!("errors/{}", self.code.word()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            code: self.code.word(),
            detail: self.detail.clone(),
            request_id: request_id.map(ToOwned::to_owned),
            retryable: self.code.is_retryable(),
        }
    }
}

/// The body is written by [`super::guard::with_request_id`], which knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<InvalidId> for Problem {
    fn from(invalid: InvalidId) -> Self {
        Self::new(Code::InvalidField, invalid.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => invalid.into(),
            StoreError::UnknownChain(_)
            | StoreError::UnknownSubmitter(_)
            | StoreError::OtherChain { .. } => Self::new(Code::UnknownSubmitter, error.to_string()),
            StoreError::Unavailable(_)
            | StoreError::CommitUnknown(_)
            | StoreError::Fenced(_)
            | StoreError::Unsafe(_) => Self::new(Code::StoreUnavailable, error.to_string()),
            StoreError::Defect(_) => {
                tracing::error!(%error, "store defect");
                Self::defect()
            }
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        let code = match error {
            CreateError::Invalid(invalid) => return invalid.into(),
            CreateError::UnknownSubmitter => Code::UnknownSubmitter,
            CreateError::NonceMismatch { .. } => Code::NonceMismatch,
            CreateError::Reverts(_) => Code::WouldRevert,
            CreateError::RequestIdConflict(_) => Code::RequestIdConflict,
            CreateError::NotOwner(_) => Code::NotOwner,
            CreateError::Busy => Code::Busy,
            CreateError::Unavailable(_) => Code::Unavailable,
        };
        Self::new(code, detail)
    }
}
