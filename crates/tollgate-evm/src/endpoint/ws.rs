//! JSON-RPC over a WebSocket, with the subscription to new heads.
//!
//! One task owns the connection: it dials, writes, reads, and dials again with growing pauses. A
//! call that was written when the connection broke is answered "may have been received"; one that
//! was not is answered "nothing was sent". Never repeats a call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tollgate_model::port::chain::BlockRef;

use super::config::{EndpointConfig, Target};
use super::error::{RpcError, RpcErrorKind};
use super::wire::{BlockWire, Incoming, Request};

/// How long a write may take before the connection counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a silent connection is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a connection may say nothing at all.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const REDIAL_MIN: Duration = Duration::from_millis(250);
const REDIAL_MAX: Duration = Duration::from_secs(20);

type Answer = Result<Box<RawValue>, RpcError>;

/// A stream under a WebSocket, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
type Socket = WebSocketStream<Box<dyn Stream>>;

struct Outgoing {
    id: u64,
    text: String,
    answer: oneshot::Sender<Answer>,
}

/// Heads as a subscription gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Announced {
    /// Whether a subscription stands.
    pub(crate) live: bool,
    /// The newest head that it told of.
    pub(crate) head: Option<BlockRef>,
    /// That head's base fee, where it was told.
    pub(crate) base_fee: Option<u128>,
}

pub(super) struct Ws {
    calls: mpsc::Sender<Outgoing>,
    heads: watch::Receiver<Announced>,
    task: AbortHandle,
}

impl Drop for Ws {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ws {
    pub(super) fn new(target: &Target, config: &EndpointConfig) -> Self {
        let (calls, incoming) = mpsc::channel(config.concurrency);
        let (announce, heads) = watch::channel(Announced::default());
        let dialer = Dialer {
            target: target.clone(),
            tls: target.secure.then(tollgate_outbound::client_config),
            connect_timeout: config.connect_timeout,
            message_bytes_max: config.response_bytes_max,
        };
        let task = tokio::spawn(run(dialer, incoming, announce)).abort_handle();
        Self { calls, heads, task }
    }

    pub(super) fn heads(&self) -> watch::Receiver<Announced> {
        self.heads.clone()
    }

    pub(super) async fn call(&self, id: u64, text: String) -> Answer {
        let (answer, wait) = oneshot::channel();
        let gone = || RpcError::new(RpcErrorKind::Unreachable, "the connection's task is gone");
        self.calls.send(Outgoing { id, text, answer }).await.map_err(|_| gone())?;
        wait.await.unwrap_or_else(|_| Err(gone()))
    }
}

struct Dialer {
    target: Target,
    tls: Option<Arc<rustls::ClientConfig>>,
    connect_timeout: Duration,
    message_bytes_max: usize,
}

impl Dialer {
    async fn dial(&self) -> Result<Socket, String> {
        timeout(self.connect_timeout, self.connect())
            .await
            .unwrap_or_else(|_| Err("connecting timed out".to_owned()))
    }

    async fn connect(&self) -> Result<Socket, String> {
        let uri = &self.target.uri;
        let host = uri.host().ok_or("no host")?.trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if self.target.secure { 443 } else { 80 });
        let tcp = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
                let tls = TlsConnector::from(tls.clone()).connect(name, tcp).await;
                Box::new(tls.map_err(|error| error.to_string())?)
            }
        };
        let mut request = uri.into_client_request().map_err(|error| error.to_string())?;
        if let Some(value) = &self.target.authorization {
            request.headers_mut().insert(hyper::header::AUTHORIZATION, value.clone());
        }
        let limits = WebSocketConfig::default()
            .max_message_size(Some(self.message_bytes_max))
            .max_frame_size(Some(self.message_bytes_max));
        tokio_tungstenite::client_async_with_config(request, stream, Some(limits))
            .await
            .map(|(socket, _)| socket)
            .map_err(|error| error.to_string())
    }
}

async fn run(
    dialer: Dialer,
    mut calls: mpsc::Receiver<Outgoing>,
    announce: watch::Sender<Announced>,
) {
    let mut pause = REDIAL_MIN;
    loop {
        let why = match dialer.dial().await {
            Ok(socket) => {
                pause = REDIAL_MIN;
                let mut connection = Connection::new(socket, &announce);
                let why = connection.serve(&mut calls).await;
                connection.end(&why);
                why
            }
            Err(why) => why,
        };
        announce.send_modify(|announced| announced.live = false);
        if !refuse_for(pause, &mut calls, &why).await {
            return;
        }
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

/// Answers calls with "not connected" for a while. False once nobody can call any more.
async fn refuse_for(pause: Duration, calls: &mut mpsc::Receiver<Outgoing>, why: &str) -> bool {
    let until = Instant::now() + pause;
    loop {
        let Ok(call) = tokio::time::timeout_at(until, calls.recv()).await else { return true };
        let Some(call) = call else { return false };
        let error = RpcError::new(RpcErrorKind::Unreachable, format!("not connected: {why}"));
        // Nobody waits any more: that is all right.
        let _ = call.answer.send(Err(error));
    }
}

struct Connection<'a> {
    socket: Socket,
    announce: &'a watch::Sender<Announced>,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    subscription: Option<serde_json::Value>,
    heard: Instant,
}

/// The number of the call that subscribes; calls of endpoints start above it.
const SUBSCRIBE_ID: u64 = 0;

enum Woken {
    Call(Option<Outgoing>),
    Message(Option<Result<Message, WsError>>),
    Quiet,
}

impl<'a> Connection<'a> {
    fn new(socket: Socket, announce: &'a watch::Sender<Announced>) -> Self {
        let (waiting, heard) = (HashMap::new(), Instant::now());
        Self { socket, announce, waiting, subscription: None, heard }
    }

    /// Works until the connection breaks, and says why it did.
    async fn serve(&mut self, calls: &mut mpsc::Receiver<Outgoing>) -> String {
        let params = json!(["newHeads"]);
        let request = Request::new(SUBSCRIBE_ID, "eth_subscribe", &params);
        let subscribe = serde_json::to_string(&request).unwrap_or_default();
        if let Err(why) = self.write(Message::text(subscribe)).await {
            return why;
        }
        loop {
            let woken = tokio::select! {
                call = calls.recv() => Woken::Call(call),
                message = self.socket.next() => Woken::Message(message),
                () = sleep(PING_INTERVAL) => Woken::Quiet,
            };
            let done = match woken {
                Woken::Call(Some(call)) => self.send(call).await,
                Woken::Call(None) => Err("closed".to_owned()),
                Woken::Message(Some(Ok(message))) => self.receive(message),
                Woken::Message(Some(Err(error))) => Err(error.to_string()),
                Woken::Message(None) => Err("closed by the other side".to_owned()),
                Woken::Quiet if self.heard.elapsed() > SILENCE_MAX => Err("silent".to_owned()),
                Woken::Quiet => self.write(Message::Ping(Default::default())).await,
            };
            if let Err(why) = done {
                return why;
            }
        }
    }

    async fn send(&mut self, call: Outgoing) -> Result<(), String> {
        // Callers that gave up (time-out) leave their places behind.
        self.waiting.retain(|_, answer| !answer.is_closed());
        self.waiting.insert(call.id, call.answer);
        self.write(Message::text(call.text)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), String> {
        match timeout(WRITE_TIMEOUT, self.socket.send(message)).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("writing timed out".to_owned()),
        }
    }

    fn receive(&mut self, message: Message) -> Result<(), String> {
        self.heard = Instant::now();
        let text = match &message {
            Message::Text(text) => text.as_str(),
            Message::Close(_) => return Err("closed by the other side".to_owned()),
            // Pings are answered by the library.
            _ => return Ok(()),
        };
        let incoming: Incoming = serde_json::from_str(text)
            .map_err(|error| format!("an answer that can't be read: {error}"))?;
        if let Some(notification) = &incoming.params {
            if self.subscription.as_ref() == Some(&notification.subscription) {
                let result = notification.result.as_deref();
                let header: Option<BlockWire> =
                    result.and_then(|raw| serde_json::from_str(raw.get()).ok());
                if let Some(header) = header.filter(|header| header.at().is_some()) {
                    let (head, base_fee) = (header.at(), header.base_fee());
                    self.announce.send_replace(Announced { live: true, head, base_fee });
                }
            }
            return Ok(());
        }
        let id = match &incoming.id {
            serde_json::Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        match id {
            Some(SUBSCRIBE_ID) => {
                // A node that refuses has no subscriptions: its head is polled instead.
                let given = incoming.result.and_then(|raw| serde_json::from_str(raw.get()).ok());
                self.announce.send_modify(|announced| announced.live = given.is_some());
                self.subscription = given;
            }
            Some(id) => {
                if let Some(answer) = self.waiting.remove(&id) {
                    let _ = answer.send(read(incoming));
                }
            }
            None => {}
        }
        Ok(())
    }

    /// The connection is gone: what was written may have been received.
    fn end(&mut self, why: &str) {
        for (_, answer) in self.waiting.drain() {
            let message = format!("the connection was lost: {why}");
            let _ = answer.send(Err(RpcError::new(RpcErrorKind::NoAnswer, message)));
        }
    }
}

/// What an answer says.
pub(super) fn read(incoming: Incoming) -> Answer {
    match (incoming.error, incoming.result) {
        (Some(error), _) if !error.is_null() => Err(RpcError::from_node(&error)),
        (_, Some(result)) => Ok(result),
        (_, None) => Ok(RawValue::NULL.to_owned()),
    }
}
