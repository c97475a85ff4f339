//! Errors as callers see them: `application/problem+json` with a code that stays.

mod from_errors;

use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tollgate_api::{ErrorCode, Invalid, Problem as ProblemBody};
use tollgate_model::port::{Owner, RemovedTx};
use tollgate_model::{ChainId, Seq};

/// An error with a stable code, on its way to the caller.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: ErrorCode,
    /// The body of the answer, without the trace id.
    pub(crate) body: Box<ProblemBody>,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, body: Box::new(ProblemBody::new(code, detail)) }
    }

    /// Names the field, parameter or header that it is about.
    pub(crate) fn about(mut self, field: impl Into<String>) -> Self {
        self.body.field = Some(field.into());
        self
    }

    /// A field that can't be used: the detail names it, the value and what is allowed.
    pub(crate) fn of_field(code: ErrorCode, field: &str, what: impl Display) -> Self {
        Self::new(code, format!("{field}: {what}")).about(field)
    }

    /// A required field that is not there.
    pub(crate) fn missing(field: &str) -> Self {
        Self::new(ErrorCode::MissingField, format!("{field} is missing")).about(field)
    }

    /// A field that names another chain than the node's.
    pub(crate) fn wrong_chain(field: &str, asked: impl Display, own: ChainId) -> Self {
        let what = format!("{asked} is another chain than this node's, {own}");
        Self::of_field(ErrorCode::WrongChain, field, what)
    }

    /// Nothing has the name that this field gives.
    pub(crate) fn not_found(what: &str, field: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("{field}: there is no such {what}")).about(field)
    }

    /// The transaction that this field names was removed from the database.
    pub(crate) fn tx_removed(removed: &RemovedTx, field: &str) -> Self {
        let body = tollgate_api::RemovedTx::from(removed);
        let what = format!("the transaction was removed from the database at {}", body.removed_at);
        let mut problem = Self::of_field(ErrorCode::TxRemoved, field, what);
        problem.body.removed = Some(body);
        problem
    }

    /// A cursor of the feed below which entries were removed.
    pub(crate) fn cursor_removed(after: Seq, removed_through: Seq) -> Self {
        let what = format!(
            "{after} is before the oldest entry of the feed: those up to {removed_through} were \
             removed; after={removed_through} reads on from there"
        );
        let mut problem = Self::of_field(ErrorCode::CursorRemoved, "after", what);
        problem.body.oldest = Some(removed_through.get() + 1);
        problem
    }

    /// Another node owns the submitter.
    fn not_owner(owner: Option<Owner>, detail: String) -> Self {
        let detail = match &owner {
            Some(Owner { node, remaining, .. }) => format!(
                "node {node} owns the submitter; if that node is gone, its lease ends within {} s, and \
                 another node takes over",
                remaining.as_secs() + 1
            ),
            None => detail,
        };
        let mut problem = Self::new(ErrorCode::NotOwner, detail);
        problem.body.owner = owner.and_then(|owner| owner.advertise_url);
        problem
    }

    /// No node takes new work.
    pub(crate) fn draining() -> Self {
        Self::new(ErrorCode::Draining, "the node is shutting down, and no other node is known")
    }

    /// Another node received the request and did not answer: it may have done it.
    pub(crate) fn no_answer_from_owner(why: impl Display) -> Self {
        let detail = format!(
            "the owner of the submitter received the request and may have done it, but gave no \
             answer: {why}"
        );
        Self::new(ErrorCode::Unavailable, detail)
    }

    /// The owner was not reached, and this node does not serve the account.
    pub(crate) fn owner_unreached(url: &str) -> Self {
        let detail = format!("the owner of the submitter was not reached at {url}");
        let mut problem = Self::new(ErrorCode::NotOwner, detail);
        problem.body.owner = Some(url.to_owned());
        problem
    }

    /// I13: the limit of requests that are being forwarded to one node is reached.
    pub(crate) fn too_many_forwarded() -> Self {
        let detail = "too many requests are being forwarded to the owner of the submitter";
        Self::new(ErrorCode::Unavailable, detail)
    }

    /// A defect of Tollgate. What it was goes to the log, not to callers.
    pub(crate) fn defect() -> Self {
        Self::new(ErrorCode::Internal, "a defect of Tollgate; the node's log has more")
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body of the answer.
    pub(crate) fn with_trace_id(self, trace_id: &str) -> ProblemBody {
        ProblemBody { trace_id: trace_id.to_owned(), ..*self.body }
    }
}

/// The body is written by [`super::middleware::with_trace_id`], which knows the trace id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::new(invalid.code, invalid.to_string()).about(invalid.field)
    }
}
