//! JSON-RPC over a WebSocket, with the subscription to new heads.
//!
//! One task owns the connection: it dials, writes, reads, and dials again with growing pauses, also if
//! the other side says nothing any more or answers no calls, however busy the connection is. A call
//! that was written when the connection broke is answered "may have been received"; one that was not
//! is answered "nothing was sent". Never repeats a call.

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
use tokio::time::{Instant, sleep_until, timeout};
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
/// After how long a silent connection is asked whether it is there, and how often.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a connection may say nothing at all.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// For so many time-outs of a call no call at all may go unanswered.
const UNANSWERED_TIMEOUTS: u32 = 2;
/// The pause before the first redial; it doubles until something is heard.
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
            tls: target.secure.then(tollgate_http::client_config),
            connect_timeout: config.connect_timeout,
            message_bytes_max: config.response_bytes_max,
            unanswered_max: config.timeout * UNANSWERED_TIMEOUTS,
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
    unanswered_max: Duration,
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
                let mut connection = Connection::new(socket, &announce, dialer.unanswered_max);
                let why = connection.serve(&mut calls).await;
                connection.end(&why);
                // One that takes connections and says nothing is no better than one that does not.
                if connection.heard.is_some() {
                    pause = REDIAL_MIN;
                }
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
    begun: Instant,
    /// When anything was last heard.
    heard: Option<Instant>,
    pinged: Option<Instant>,
    /// Since when calls wait of which none was answered.
    unanswered: Option<Instant>,
    /// For how long that may be so.
    unanswered_max: Duration,
}

/// The number of the call that subscribes; calls of endpoints start above it.
const SUBSCRIBE_ID: u64 = 0;

enum Woken {
    Call(Option<Outgoing>),
    Message(Option<Result<Message, WsError>>),
    Nothing,
}

impl<'a> Connection<'a> {
    fn new(
        socket: Socket,
        announce: &'a watch::Sender<Announced>,
        unanswered_max: Duration,
    ) -> Self {
        Self {
            socket,
            announce,
            waiting: HashMap::new(),
            subscription: None,
            begun: Instant::now(),
            heard: None,
            pinged: None,
            unanswered: None,
            unanswered_max,
        }
    }

    /// Works until the connection breaks, and says why it did.
    async fn serve(&mut self, calls: &mut mpsc::Receiver<Outgoing>) -> String {
        let params = json!(["newHeads"]);
        let request = Request::new(SUBSCRIBE_ID, "eth_subscribe", &params);
        let subscribe = serde_json::to_string(&request).unwrap_or_default();
        self.unanswered = Some(self.begun);
        if let Err(why) = self.write(Message::text(subscribe)).await {
            return why;
        }
        loop {
            // Before each wait, and by fixed times: a connection that is never at rest is looked at as
            // well.
            if let Err(why) = self.look_after().await {
                return why;
            }
            let next_look = self.next_look();
            let woken = tokio::select! {
                call = calls.recv() => Woken::Call(call),
                message = self.socket.next() => Woken::Message(message),
                () = sleep_until(next_look) => Woken::Nothing,
            };
            let done = match woken {
                Woken::Call(Some(call)) => self.send(call).await,
                Woken::Call(None) => Err("closed".to_owned()),
                Woken::Message(Some(Ok(message))) => self.receive(message),
                Woken::Message(Some(Err(error))) => Err(error.to_string()),
                Woken::Message(None) => Err("closed by the other side".to_owned()),
                Woken::Nothing => Ok(()),
            };
            if let Err(why) = done {
                return why;
            }
        }
    }

    /// When the other side was last known to be there.
    fn there(&self) -> Instant {
        self.heard.unwrap_or(self.begun)
    }

    fn next_look(&self) -> Instant {
        let ping = self.pinged.unwrap_or(self.there()).max(self.there()) + PING_INTERVAL;
        let silent = self.there() + SILENCE_MAX;
        let unanswered = self.unanswered.map(|since| since + self.unanswered_max);
        unanswered.into_iter().fold(ping.min(silent), Instant::min)
    }

    /// Asks whether the other side is there, and gives up on one that is not.
    async fn look_after(&mut self) -> Result<(), String> {
        let now = Instant::now();
        if now >= self.there() + SILENCE_MAX {
            return Err("nothing was heard for too long".to_owned());
        }
        if self.unanswered.is_some_and(|since| now >= since + self.unanswered_max) {
            return Err("no call was answered for too long".to_owned());
        }
        if now < self.next_look() {
            return Ok(());
        }
        self.pinged = Some(now);
        self.write(Message::Ping(Default::default())).await
    }

    async fn send(&mut self, call: Outgoing) -> Result<(), String> {
        // Callers that gave up (time-out) leave their places behind.
        self.waiting.retain(|_, answer| !answer.is_closed());
        self.waiting.insert(call.id, call.answer);
        self.unanswered.get_or_insert_with(Instant::now);
        self.write(Message::text(call.text)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), String> {
        match timeout(WRITE_TIMEOUT, self.socket.send(message)).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("writing timed out".to_owned()),
        }
    }

    fn receive(&mut self, message: Message) -> Result<(), String> {
        if matches!(message, Message::Close(_)) {
            return Err("closed by the other side".to_owned());
        }
        let now = Instant::now();
        self.heard = Some(now);
        let text = match &message {
            Message::Text(text) => text.as_str(),
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
        if let Some(id) = id {
            let answer = self.waiting.remove(&id);
            self.waiting.retain(|_, answer| !answer.is_closed());
            self.unanswered = (!self.waiting.is_empty()).then_some(now);
            if let Some(answer) = answer {
                let _ = answer.send(read(incoming));
                return Ok(());
            }
        }
        if id == Some(SUBSCRIBE_ID) {
            // A node that refuses has no subscriptions: its head is polled instead.
            let given = incoming.result.and_then(|raw| serde_json::from_str(raw.get()).ok());
            self.announce.send_modify(|announced| announced.live = given.is_some());
            self.subscription = given;
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

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn socket(stream: DuplexStream) -> Socket {
        let stream: Box<dyn Stream> = Box::new(stream);
        WebSocketStream::from_raw_socket(stream, Role::Client, None).await
    }

    /// A call each second, whose caller waits for five.
    async fn call_for_ever(calls: mpsc::Sender<Outgoing>) {
        for id in 1.. {
            let (answer, wait) = oneshot::channel();
            if calls.send(Outgoing { id, text: format!(r#"{{"id":{id}}}"#), answer }).await.is_err()
            {
                return;
            }
            tokio::spawn(timeout(5 * SECOND, wait));
            tokio::time::sleep(SECOND).await;
        }
    }

    /// What the other side of a connection does with what it is told.
    #[derive(Clone, Copy, PartialEq)]
    enum Peer {
        /// Nothing at all.
        Swallows,
        /// It answers pings, and no call.
        Pongs,
        /// It answers calls.
        Answers,
    }

    async fn serve_peer(peer: Peer, stream: DuplexStream) {
        if peer == Peer::Swallows {
            let _stream = stream;
            return std::future::pending().await;
        }
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else {
                let _ = socket.flush().await;
                continue;
            };
            let call: serde_json::Value = serde_json::from_str(&text).unwrap();
            if peer == Peer::Answers {
                let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": null});
                socket.send(Message::text(answer.to_string())).await.unwrap();
            }
        }
    }

    /// How long a connection lasts, and why it ended; `None` if it lasts for an hour.
    async fn lasts(
        peer: Peer,
        calls_made: bool,
        unanswered_max: Duration,
    ) -> Option<(u64, String)> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let peer = tokio::spawn(serve_peer(peer, theirs));
        let (sender, mut calls) = mpsc::channel(32);
        let _kept = sender.clone();
        let caller = calls_made.then(|| tokio::spawn(call_for_ever(sender)));
        let (announce, _heads) = watch::channel(Announced::default());
        let mut connection = Connection::new(socket(ours).await, &announce, unanswered_max);
        let begun = Instant::now();
        let ended = timeout(3_600 * SECOND, connection.serve(&mut calls)).await;
        peer.abort();
        if let Some(caller) = caller {
            caller.abort();
        }
        ended.ok().map(|why| (begun.elapsed().as_secs(), why))
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connection_ends_though_calls_are_made_all_the_time() {
        for calls_made in [true, false] {
            let ended = lasts(Peer::Swallows, calls_made, 3_600 * SECOND).await;
            let (after, why) = ended.expect("it ends");
            assert_eq!((after, &*why), (45, "nothing was heard for too long"), "{calls_made}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_answers_pings_and_no_calls_ends() {
        let ended = lasts(Peer::Pongs, true, 10 * SECOND).await;
        assert_eq!(ended, Some((10, "no call was answered for too long".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_answers_lasts_whether_calls_are_made_or_not() {
        for calls_made in [true, false] {
            assert_eq!(lasts(Peer::Answers, calls_made, 10 * SECOND).await, None, "{calls_made}");
        }
    }
}
