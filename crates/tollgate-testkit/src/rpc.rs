//! A minimal JSON-RPC client, so that a test reads a chain without any code under test.

use std::io;

use serde_json::{Value, json};

use crate::http::{self, NoResponse};
use crate::wait::within;

/// Posts a body to an `http://` URL on a connection of its own; the body of the answer.
pub async fn post(url: &str, body: &str) -> io::Result<String> {
    request("POST", url, body).await.map(|(_, body)| body)
}

/// Makes a request on a connection of its own; status and body of the answer.
pub async fn request(method: &str, url: &str, body: &str) -> io::Result<(u16, String)> {
    let place = url.strip_prefix("http://").expect("an http URL");
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    match http::request(host, method, &format!("/{path}"), body).await {
        Ok(said) => Ok((said.status, said.body)),
        Err(NoResponse::Refused) => Err(io::ErrorKind::ConnectionRefused.into()),
        Err(NoResponse::Broken(error)) => Err(error),
    }
}

/// The result of a call that must work.
pub async fn call(url: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = within(method, post(url, &body.to_string())).await;
    let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
    let mut answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
    answer["result"].take()
}

/// A quantity: `0x` and hex digits.
pub fn number(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let digits = digits.unwrap_or_else(|| panic!("not a quantity: {value}"));
    u64::from_str_radix(digits, 16).unwrap()
}
