//! A node on the list that answers as a test tells it, over a real socket.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tollgate_model::port::LiveNode;
use tollgate_model::{NodeId, Submitter, Text};
use tollgate_testkit::wait;
use uuid::Uuid;

use super::seats::{Room, Seat, beat};

/// Ports that are tried: each is preferred for one of five accounts in 31 of 32 cases.
const PORTS_MAX: u32 = 32;

/// The reply to a request that was read to its end.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// The connection is closed without a word.
    HangUp,
    /// The connection is closed in the middle of an answer.
    BreakOff,
    /// An answer: status, further headers, body.
    Answer(u16, &'static str, Value),
}

pub(super) struct StubPeer {
    entry: LiveNode,
    heard: Arc<Mutex<Vec<String>>>,
    tasks: [JoinHandle<()>; 2],
}

impl StubPeer {
    /// One that is preferred to a node for an account, which is returned with it. Nobody owns the
    /// account: whoever is asked for it could take it.
    pub(super) async fn preferred_to(seat: &Seat, room: &Room, reply: Reply) -> (Self, Submitter) {
        for _ in 0..PORTS_MAX {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let entry = LiveNode {
                node: NodeId::new("stub", Uuid::now_v7()).unwrap(),
                advertise_url: Text::lossy(&url),
                serves: None,
                ..seat.entry.clone()
            };
            let nodes = [entry.clone(), seat.entry.clone()];
            let Some(of) = room.preferring_first(&nodes).first().copied() else { continue };
            let heard = Arc::new(Mutex::new(Vec::new()));
            let tasks = [
                tokio::spawn(serve(listener, reply, heard.clone())),
                beat(room.store.clone(), entry.clone()),
            ];
            wait::until("the node to know the stub", || async {
                seat.engine.is_live(&entry.node).then_some(())
            })
            .await;
            return (Self { entry, heard, tasks }, of);
        }
        panic!("no port was preferred for any account")
    }

    /// The bodies of the requests that it has read.
    pub(super) async fn heard(&self) -> Vec<String> {
        self.heard.lock().await.clone()
    }

    pub(super) fn url(&self) -> &str {
        self.entry.advertise_url.as_str()
    }
}

impl Drop for StubPeer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn serve(listener: TcpListener, reply: Reply, heard: Arc<Mutex<Vec<String>>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Some(body) = read(&mut stream).await else { continue };
        heard.lock().await.push(body);
        let answer = match &reply {
            Reply::HangUp => continue,
            Reply::BreakOff => {
                let head = "HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\n";
                format!("{head}content-length: 1000\r\n\r\n{{\"txId\":")
            }
            Reply::Answer(status, headers, body) => {
                let (kind, body) = ("application/problem+json", body.to_string());
                format!(
                    "HTTP/1.1 {status} Stub\r\ncontent-type: {kind}\r\n{headers}connection: close\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

/// The body of one request, read to its end.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let (mut read, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
            });
            if body.len() >= length.unwrap_or(0_usize) {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut part).await.ok()? {
            0 => return None,
            count => read.extend_from_slice(&part[..count]),
        }
    }
}
