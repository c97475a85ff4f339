//! The error of a call, with everything that the classifier can use.

use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

use crate::classify::RpcAnswer;

/// The longest message that is kept, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Texts of nodes and their libraries for one argument too many.
const TOO_MANY_ARGUMENTS: [&str; 9] = [
    "too many arguments",
    "too many params",
    "too many parameters",
    "too many positional arguments",
    "wrong number of arguments",
    "invalid number of arguments",
    "incorrect number of arguments",
    "invalid number of input parameters",
    "expected no more params",
];

/// The stage at which a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RpcErrorKind {
    /// The node answered with a JSON-RPC error.
    Node,
    /// Something answered, but not JSON-RPC: a proxy's page, an HTTP status.
    NotRpc,
    /// There was no connection: nothing was sent.
    Unreachable,
    /// There is no answer, and the node may have received the call.
    NoAnswer,
    /// An answer that can't be read: cut off, too long, of another shape.
    Unreadable,
    /// No place was free in time: nothing was sent, and the endpoint did not fail.
    Busy,
}

/// A call without a result.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct RpcError {
    /// The stage at which it failed.
    pub kind: RpcErrorKind,
    /// The JSON-RPC error code.
    pub code: Option<i64>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The node's message, or the body where it was no JSON-RPC, or what happened.
    pub message: String,
    /// The error's data, as text.
    pub data: Option<String>,
    /// The `Retry-After` of the answer.
    pub retry_after: Option<Duration>,
}

impl RpcError {
    /// Returns whether nothing was sent, so that the node has received nothing.
    pub(crate) const fn is_unsent(&self) -> bool {
        matches!(self.kind, RpcErrorKind::Unreachable | RpcErrorKind::Busy)
    }

    pub(crate) fn new(kind: RpcErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, code: None, status: None, message, data: None, retry_after: None }
    }

    /// From the `error` member of an answer, whatever its shape.
    pub(super) fn from_node(error: &Value) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let message = error.get("message").map_or_else(|| text(error), text);
        Self {
            code: error.get("code").and_then(number),
            data: error.get("data").filter(|data| !data.is_null()).map(text).map(shortened),
            ..Self::new(RpcErrorKind::Node, shortened(message))
        }
    }

    /// From a body that is no JSON-RPC.
    pub(super) fn from_body(status: u16, body: &[u8]) -> Self {
        let body = &body[..body.len().min(MESSAGE_BYTES_MAX)];
        let message = String::from_utf8_lossy(body).into_owned();
        Self { status: Some(status), ..Self::new(RpcErrorKind::NotRpc, message) }
    }

    /// The parts that the classifier reads.
    pub fn as_answer(&self) -> RpcAnswer<'_> {
        RpcAnswer {
            code: self.code,
            status: self.status,
            message: &self.message,
            data: self.data.as_deref(),
        }
    }

    /// Returns whether the node has no such method, rather than a problem with this call.
    pub fn is_method_missing(&self) -> bool {
        // Code 3 is a revert: the text is the contract's.
        if self.kind != RpcErrorKind::Node || self.code == Some(3) {
            return false;
        }
        let text = self.message.to_ascii_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
        matches!(self.code, Some(-32601 | -32004))
            || says(&["method not found", "unknown method", "unsupported method"])
            || (text.contains("method")
                && says(&["does not exist", "not available", "not supported", "not allowed"]))
    }

    /// Returns whether the node takes fewer arguments than it was given, rather than other ones.
    pub fn is_argument_too_many(&self) -> bool {
        if self.kind != RpcErrorKind::Node || self.code == Some(3) {
            return false;
        }
        let text = self.message.to_ascii_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
        says(&TOO_MANY_ARGUMENTS)
            || (says(&["arguments", "params", "parameters"])
                && says(&["expected 1", "expects 1", "want 1", "wants 1", "takes 1", "requires 1"]))
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        let mut end = MESSAGE_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_nodes_error_is_read_whatever_its_shape() {
        let error =
            RpcError::from_node(&json!({"code": "-32000", "message": "m", "data": {"a": 1}}));
        assert_eq!((error.code, error.message.as_str()), (Some(-32000), "m"));
        assert_eq!(error.data.as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(RpcError::from_node(&json!("busy")).message, "busy");
        assert_eq!(RpcError::from_node(&json!({"x": 1})).message, r#"{"x":1}"#);
        let long = RpcError::from_node(&json!({"message": "é".repeat(10_000)}));
        assert!(long.message.len() <= MESSAGE_BYTES_MAX);
    }

    #[test]
    fn an_argument_too_many_is_told_from_a_wrong_one() {
        let said = |code: i64, message: &str| {
            RpcError::from_node(&json!({"code": code, "message": message})).is_argument_too_many()
        };
        for message in [
            "too many arguments, want at most 1",
            "Too many params",
            "Invalid params: too many parameters",
            "Incorrect number of arguments. Expected 1, got 2",
            "Invalid number of input parameters to RPC method",
            "wrong number of arguments (given 2, expected 1)",
            "Invalid parameters: expected 1 params",
        ] {
            assert!(said(-32602, message), "{message}");
        }
        for message in [
            "invalid argument 0: hex string without 0x prefix",
            "missing value for required argument 1",
            "insufficient funds for transfer",
            "header not found",
        ] {
            assert!(!said(-32602, message), "{message}");
        }
        assert!(!said(3, "execution reverted: too many arguments"), "the contract's words");
    }

    #[test]
    fn a_missing_method_is_told_from_a_missing_block() {
        let said = |code: i64, message: &str| {
            RpcError::from_node(&json!({"code": code, "message": message})).is_method_missing()
        };
        assert!(said(-32601, "x"));
        assert!(said(-32000, "the method eth_getBlockReceipts does not exist/is not available"));
        assert!(said(-32600, "Unsupported method: eth_feeHistory"));
        assert!(!said(-32000, "header not found"));
        assert!(!said(-32000, "block does not exist"));
        assert!(!said(3, "execution reverted: method not allowed"));
    }
}
