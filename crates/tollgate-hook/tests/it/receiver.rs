//! An HTTP server, byte by byte: so that it can also do what no library would.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes, and the end of the connection.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing, for ever.
    Stall(Vec<u8>),
    /// The end of the connection.
    Close,
}

/// Nothing, for ever.
pub(crate) const fn hang() -> Reply {
    Reply::Stall(Vec::new())
}

/// An answer with a status.
pub(crate) fn status(line: &str, body: &str) -> Reply {
    let length = body.len();
    let text = format!("HTTP/1.1 {line}\r\ncontent-length: {length}\r\n\r\n{body}");
    Reply::Bytes(text.into_bytes())
}

/// A 200.
pub(crate) fn ok(body: &str) -> Reply {
    status("200 OK", body)
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Answers the first request with the first reply, and so on; the last reply is for all the rest.
pub(crate) struct Receiver {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/stuck?key=topsecret", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let notes = heard.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, replies.clone(), notes.clone()));
            }
        });
        Self { url, heard, task }
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, replies: Vec<Reply>, notes: Arc<Mutex<Vec<Heard>>>) {
    let Some(request) = read(&mut stream).await else { return };
    let turn = {
        let mut notes = notes.lock().unwrap();
        notes.push(request);
        notes.len() - 1
    };
    match replies.get(turn).or(replies.last()).cloned().unwrap_or(Reply::Close) {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Reply::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending().await
        }
        Reply::Close => {}
    }
}

async fn read(stream: &mut TcpStream) -> Option<Heard> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = bytes[head + 4..].to_vec();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Heard { line, headers, body })
}
