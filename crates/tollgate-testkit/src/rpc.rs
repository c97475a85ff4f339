//! The smallest JSON-RPC client that does: what a test asks a chain with, so that nothing of what
//! is tested stands between it and the truth.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wait::within;

/// Posts a body to an `http://` URL on a connection of its own; the body of the answer.
pub async fn post(url: &str, body: &str) -> io::Result<String> {
    let host = url.strip_prefix("http://").expect("an http URL").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
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
