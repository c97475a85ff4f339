//! A minimal HTTP client: one request on a connection of its own.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Response<B = Value> {
    pub status: u16,
    /// The status line and all headers, in lower case.
    pub head: String,
    pub body: B,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub enum NoResponse {
    /// Nobody listens: what a load balancer sends on to the next node.
    Refused,
    /// Somebody listened.
    Broken(io::Error),
}

impl NoResponse {
    fn cut_off() -> Self {
        Self::Broken(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Returns whether an answer is as long as it says.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

/// Asks on loopback; the answer must be JSON, or none at all (204).
pub async fn ask(port: u16, method: &str, path: &str, body: &str) -> Result<Response, NoResponse> {
    let said = request(&format!("127.0.0.1:{port}"), method, path, body).await?;
    let text = if said.status == 204 { "null" } else { &said.body };
    let body = serde_json::from_str(text).map_err(|_| NoResponse::cut_off())?;
    Ok(Response { status: said.status, head: said.head, body })
}

/// Asks a host for a path that begins with a slash.
pub async fn request(
    host: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Result<Response<String>, NoResponse> {
    let stream = TcpStream::connect(host).await;
    let mut stream = stream.map_err(|_| NoResponse::Refused)?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        // Some servers leave the connection open although they were asked to close it.
        while !is_whole(&answer) && stream.read_buf(&mut answer).await? > 0 {}
        Ok(())
    };
    exchange.await.map_err(NoResponse::Broken)?;
    let text = String::from_utf8(answer).map_err(|_| NoResponse::cut_off())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(NoResponse::cut_off)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(NoResponse::cut_off)?;
    Ok(Response { status, head: head.to_lowercase(), body: body.to_owned() })
}
