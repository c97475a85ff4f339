//! A receiver: an HTTP server that judges each request by a function and keeps it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A status, a header line or nothing, and a body.
pub(crate) type Answer = (u16, &'static str, String);
type Judge = dyn Fn(&Received) -> Option<Answer> + Send + Sync;

pub(crate) struct Receiver {
    pub(crate) url: String,
    requests: Mutex<mpsc::UnboundedReceiver<Received>>,
}

impl Receiver {
    /// `None` as an answer: the connection is held without one.
    pub(crate) async fn start(
        judge: impl Fn(&Received) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (keep, requests) = mpsc::unbounded_channel();
        let judge: Arc<Judge> = Arc::new(judge);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, keep.clone(), judge.clone()));
            }
        });
        Self { url, requests: Mutex::new(requests) }
    }

    /// The next request that came.
    pub(crate) async fn next(&self) -> Received {
        let next = tokio::time::timeout(Duration::from_secs(120), async {
            self.requests.lock().await.recv().await
        });
        next.await.expect("a request").unwrap()
    }

    /// The requests that have come and were not taken yet.
    pub(crate) async fn rest(&self) -> Vec<Received> {
        let mut requests = self.requests.lock().await;
        std::iter::from_fn(|| requests.try_recv().ok()).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    keep: mpsc::UnboundedSender<Received>,
    judge: Arc<Judge>,
) -> Option<()> {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8(read[..head].to_vec()).unwrap();
        let mut lines = text.lines();
        let target = lines.next()?.split(' ').nth(1)?.to_owned();
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length: usize = headers.get("content-length")?.parse().ok()?;
        while read.len() < head + length {
            stream.read_buf(&mut read).await.ok()?;
        }
        let body = read[head..head + length].to_vec();
        read.drain(..head + length);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_encoding::percent_decode_str(value).decode_utf8().ok()?;
            Some((name.to_owned(), value.into_owned()))
        };
        let query = query.split('&').filter_map(pair).collect();
        let received = Received { path: path.to_owned(), query, headers, body };
        let answer = judge(&received);
        keep.send(received).ok()?;
        let Some((status, header, body)) = answer else {
            std::future::pending::<()>().await;
            return None;
        };
        let gap = if header.is_empty() { "" } else { "\r\n" };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} X\r\ncontent-length: {length}{gap}{header}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}
