//! Reads answers, and what they tell about the health of their endpoint.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tollgate_model::answer::AnswerClass;

use super::json::Incoming;
use super::{RpcError, RpcErrorKind};
use crate::classify::classify;

/// The evidence of an answer about the health of its endpoint.
pub(super) enum HealthSign {
    Well,
    Limited(Option<Duration>),
    Ill,
    None,
}

pub(super) fn health_sign(error: &RpcError) -> HealthSign {
    match error.kind {
        RpcErrorKind::Busy => HealthSign::None,
        // A node that refuses a request works, unless the answer is about the node itself.
        RpcErrorKind::Node | RpcErrorKind::NotRpc => match classify(&error.as_answer()) {
            AnswerClass::RateLimited => HealthSign::Limited(error.retry_after),
            AnswerClass::Transient => HealthSign::Ill,
            _ if error.kind == RpcErrorKind::NotRpc => HealthSign::Ill,
            _ => HealthSign::Well,
        },
        RpcErrorKind::Unreachable | RpcErrorKind::NoAnswer | RpcErrorKind::Unreadable => {
            HealthSign::Ill
        }
    }
}

pub(super) const fn kind_name(kind: RpcErrorKind) -> &'static str {
    match kind {
        RpcErrorKind::Node => "node_error",
        RpcErrorKind::NotRpc => "not_rpc",
        RpcErrorKind::Unreachable => "unreachable",
        RpcErrorKind::NoAnswer => "no_answer",
        RpcErrorKind::Unreadable => "unreadable",
        RpcErrorKind::Busy => "busy",
    }
}

/// The JSON of a result, or the error of a call.
pub(super) type Answer = Result<Box<RawValue>, RpcError>;

/// Parses a result.
pub(super) fn read_as<T: DeserializeOwned>(raw: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let message = format!("an answer of another shape: {error}");
        RpcError::new(RpcErrorKind::Unreadable, message)
    })
}

/// Reads the body of an HTTP answer. JSON-RPC errors come with any status.
pub(super) fn read_body(id: u64, status: u16, body: &[u8]) -> Result<Box<RawValue>, RpcError> {
    let Ok(incoming) = serde_json::from_slice::<Incoming>(body) else {
        return Err(RpcError::from_body(status, body));
    };
    if !incoming.answers(id) {
        return Err(RpcError::new(RpcErrorKind::Unreadable, "the answer to another call"));
    }
    let is_error = incoming.error.as_ref().is_some_and(|error| !error.is_null());
    if !is_error && !(200..300).contains(&status) {
        return Err(RpcError::from_body(status, body));
    }
    super::ws::read(incoming).map_err(|error| RpcError { status: Some(status), ..error })
}
