//! JSON-RPC over HTTP POST, single and batch, with the faults of the endpoint.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use crate::error::RpcError;
use crate::fault::{Fault, Loss};
use crate::local::LocalAnswer;

/// Calls in a batch, at most (geth's limit).
const BATCH_MAX: usize = 1_000;

/// The longest silence before the connection closes.
pub(super) const HANG_MAX: Duration = Duration::from_secs(600);

/// Marks a response that must not be written: the connection closes instead.
#[derive(Clone, Copy)]
pub(super) struct CloseConnection;

#[derive(Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    id: Value,
    pub(super) method: String,
    #[serde(default)]
    params: Value,
}

/// The reply to an HTTP request.
pub(super) enum Reply {
    Json(Value),
    /// No answer: close.
    Close,
    /// No answer, and the connection stays open.
    Hang,
    /// An HTTP status instead.
    Status(u16, Option<u64>),
}

pub(super) async fn post(endpoint: Arc<Endpoint>, body: Bytes) -> Response<Body> {
    match reply_to(&endpoint, &body).await {
        Reply::Json(answer) => json_response(&answer),
        Reply::Status(status, retry_after_s) => status_response(status, retry_after_s),
        Reply::Close => close_response(),
        Reply::Hang => {
            tokio::time::sleep(HANG_MAX).await;
            close_response()
        }
    }
}

/// Answers the body of a POST without a socket: the same faults, and times of the same clock.
pub(crate) async fn post_locally(endpoint: &Endpoint, body: &[u8]) -> LocalAnswer {
    match reply_to(endpoint, body).await {
        Reply::Json(answer) => {
            let body = answer.to_string();
            LocalAnswer::Said { status: 200, retry_after_s: None, body }
        }
        Reply::Status(status, retry_after_s) => {
            let body = words_of(status_of(status)).0;
            LocalAnswer::Said { status, retry_after_s, body }
        }
        Reply::Close => LocalAnswer::Closed,
        Reply::Hang => LocalAnswer::Silence,
    }
}

/// Answers a request, single or batch.
pub(super) async fn reply_to(endpoint: &Endpoint, body: &[u8]) -> Reply {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return Reply::Json(failed(&Value::Null, &RpcError::new(-32700, "parse error")));
    };
    match value {
        Value::Array(batch) if batch.len() > BATCH_MAX => {
            Reply::Json(failed(&Value::Null, &RpcError::new(-32600, "batch too large")))
        }
        Value::Array(batch) if !batch.is_empty() => {
            let mut answers = Vec::with_capacity(batch.len());
            let mut lost = None;
            for call in batch {
                match answer(endpoint, call).await {
                    (Reply::Json(answer), loss) => {
                        answers.push(answer);
                        lost = lost.or(loss);
                    }
                    // What came before it in the batch has been carried out; the rest is not.
                    (other, _) => return other,
                }
            }
            lose(Reply::Json(Value::Array(answers)), lost)
        }
        single => {
            let (reply, loss) = answer(endpoint, single).await;
            lose(reply, loss)
        }
    }
}

fn lose(reply: Reply, loss: Option<Loss>) -> Reply {
    match loss {
        None => reply,
        Some(Loss::Close) => Reply::Close,
        Some(Loss::Hang) => Reply::Hang,
        Some(Loss::GatewayTimeout) => Reply::Status(504, None),
    }
}

/// One call: its verdict, then the call, then its answer and whether that is to be lost.
async fn answer(endpoint: &Endpoint, call: Value) -> (Reply, Option<Loss>) {
    let Ok(request) = serde_json::from_value::<Request>(call) else {
        let error = RpcError::new(-32600, "invalid request");
        return (Reply::Json(failed(&Value::Null, &error)), None);
    };
    let verdict = endpoint.judge(&request.method);
    if verdict.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(verdict.delay_ms)).await;
    }
    if verdict.is_silent {
        return (Reply::Hang, None);
    }
    match &verdict.instead {
        Some(Fault::Close) => return (Reply::Close, None),
        Some(Fault::Http { status, retry_after_s }) => {
            return (Reply::Status(*status, *retry_after_s), None);
        }
        _ => {}
    }
    let result = match verdict.rpc_error() {
        Some(error) => Err(error),
        None => endpoint.call_as(&request.method, &request.params, &verdict),
    };
    let answer = match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": request.id, "result": result }),
        Err(error) => failed(&request.id, &error),
    };
    (Reply::Json(answer), verdict.loss)
}

pub(super) fn failed(id: &Value, error: &RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

fn json_response(answer: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The body of a gateway in front of a node: an HTML page, or almost nothing.
fn words_of(status: StatusCode) -> (String, &'static str) {
    let reason = status.canonical_reason().unwrap_or("Error");
    let is_json = matches!(status.as_u16(), 429 | 500);
    let body = match status.as_u16() {
        429 => failed(&Value::Null, &RpcError::new(-32005, "rate limit exceeded")).to_string(),
        500 => failed(&Value::Null, &RpcError::new(-32603, "Internal error")).to_string(),
        code => format!(
            "<html>\r\n<head><title>{code} {reason}</title></head>\r\n<body>\r\n\
             <center><h1>{code} {reason}</h1></center>\r\n</body>\r\n</html>\r\n"
        ),
    };
    (body, if is_json { "application/json" } else { "text/html" })
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn status_response(status: u16, retry_after_s: Option<u64>) -> Response<Body> {
    let status = status_of(status);
    let (body, kind) = words_of(status);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn close_response() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(CloseConnection);
    response
}
