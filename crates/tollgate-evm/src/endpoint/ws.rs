//! JSON-RPC over a WebSocket, with the subscription to new heads.
//!
//! One task owns the connection: it connects, writes, reads, and reconnects with growing pauses, also if
//! the node sends nothing any more or answers no calls, however busy the connection is. A call that was
//! written when the connection broke fails as "may have been received", any other as "nothing was
//! sent". Never repeats a call.

mod dial;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tollgate_model::port::chain::BlockRef;

use self::dial::{Dialer, Socket};
use super::config::{EndpointConfig, Target};
use super::error::{RpcError, RpcErrorKind};
use super::json::{BlockJson, Incoming, Request};

/// The longest time for a write before the connection counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which a silent connection is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// The longest silence of a connection before it is closed.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The connection is closed after this many call time-outs without any answer.
const UNANSWERED_TIMEOUTS: u32 = 2;
/// The pause before the first reconnect; it doubles until a message is received.
const REDIAL_MIN: Duration = Duration::from_millis(250);
const REDIAL_MAX: Duration = Duration::from_secs(20);

type Answer = Result<Box<RawValue>, RpcError>;

struct Outgoing {
    id: u64,
    text: String,
    answer: oneshot::Sender<Answer>,
}

/// The heads of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Announced {
    /// There is a subscription.
    pub(crate) live: bool,
    /// The newest announced head.
    pub(crate) head: Option<BlockRef>,
    /// That head's base fee, if it was announced.
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
        let dialer = Dialer::new(target, config);
        let unanswered_max = config.timeout * UNANSWERED_TIMEOUTS;
        let task = tokio::spawn(run(dialer, unanswered_max, incoming, announce)).abort_handle();
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

/// Connects again and again until nobody can call any more.
async fn run(
    dialer: Dialer,
    unanswered_max: Duration,
    mut calls: mpsc::Receiver<Outgoing>,
    announce: watch::Sender<Announced>,
) {
    let mut pause = REDIAL_MIN;
    loop {
        let why = match dialer.dial().await {
            Ok(socket) => {
                let mut connection = Connection::new(socket, &announce, unanswered_max);
                let why = connection.serve(&mut calls).await;
                connection.end(&why);
                // A node that accepts connections and sends nothing is as good as unreachable.
                if connection.heard.is_some() {
                    pause = REDIAL_MIN;
                }
                why
            }
            Err(error) => error.to_string(),
        };
        announce.send_modify(|announced| announced.live = false);
        if !refuse_for(pause, &mut calls, &why).await {
            return;
        }
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

/// Fails calls with "not connected" for a while. False once there are no more callers.
async fn refuse_for(pause: Duration, calls: &mut mpsc::Receiver<Outgoing>, why: &str) -> bool {
    let until = Instant::now() + pause;
    loop {
        let Ok(call) = tokio::time::timeout_at(until, calls.recv()).await else { return true };
        let Some(call) = call else { return false };
        let error = RpcError::new(RpcErrorKind::Unreachable, format!("not connected: {why}"));
        // The caller may have stopped waiting.
        let _ = call.answer.send(Err(error));
    }
}

struct Connection<'a> {
    socket: Socket,
    announce: &'a watch::Sender<Announced>,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    subscription: Option<serde_json::Value>,
    begun: Instant,
    /// When the last message was received.
    heard: Option<Instant>,
    pinged: Option<Instant>,
    /// Since when calls wait without any answer.
    unanswered: Option<Instant>,
    /// The longest such time before the connection is closed.
    unanswered_max: Duration,
}

/// The id of the subscription call; ids of other calls are higher.
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

    /// Works until the connection breaks; returns why it did.
    async fn serve(&mut self, calls: &mut mpsc::Receiver<Outgoing>) -> String {
        let params = json!(["newHeads"]);
        let request = Request::new(SUBSCRIBE_ID, "eth_subscribe", &params);
        let subscribe = serde_json::to_string(&request).unwrap_or_default();
        self.unanswered = Some(self.begun);
        if let Err(why) = self.write(Message::text(subscribe)).await {
            return why;
        }
        loop {
            // Checked before each wait, so that a busy connection is checked as well.
            if let Err(why) = self.check().await {
                return why;
            }
            let next_check = self.next_check();
            let woken = tokio::select! {
                call = calls.recv() => Woken::Call(call),
                message = self.socket.next() => Woken::Message(message),
                () = sleep_until(next_check) => Woken::Nothing,
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

    /// When the node was last known to be connected.
    fn last_seen(&self) -> Instant {
        self.heard.unwrap_or(self.begun)
    }

    fn next_check(&self) -> Instant {
        let ping = self.pinged.unwrap_or(self.last_seen()).max(self.last_seen()) + PING_INTERVAL;
        let silent = self.last_seen() + SILENCE_MAX;
        let unanswered = self.unanswered.map(|since| since + self.unanswered_max);
        unanswered.into_iter().fold(ping.min(silent), Instant::min)
    }

    /// Pings a silent node, and gives up on one that does not react.
    async fn check(&mut self) -> Result<(), String> {
        let now = Instant::now();
        if now >= self.last_seen() + SILENCE_MAX {
            return Err("nothing was heard for too long".to_owned());
        }
        if self.unanswered.is_some_and(|since| now >= since + self.unanswered_max) {
            return Err("no call was answered for too long".to_owned());
        }
        if now < self.next_check() {
            return Ok(());
        }
        self.pinged = Some(now);
        self.write(Message::Ping(Default::default())).await
    }

    async fn send(&mut self, call: Outgoing) -> Result<(), String> {
        // Callers that timed out leave their entries behind.
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
                let header: Option<BlockJson> =
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
            // The head of a node without subscriptions is polled.
            let given = incoming.result.and_then(|raw| serde_json::from_str(raw.get()).ok());
            self.announce.send_modify(|announced| announced.live = given.is_some());
            self.subscription = given;
        }
        Ok(())
    }

    /// Fails the calls that were written: they may have been received.
    fn end(&mut self, why: &str) {
        for (_, answer) in self.waiting.drain() {
            let message = format!("the connection was lost: {why}");
            let _ = answer.send(Err(RpcError::new(RpcErrorKind::NoAnswer, message)));
        }
    }
}

/// The result or the error of an answer.
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
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::dial::Stream;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn socket(stream: DuplexStream) -> Socket {
        let stream: Box<dyn Stream> = Box::new(stream);
        WebSocketStream::from_raw_socket(stream, Role::Client, None).await
    }

    /// Makes a call each second; its caller waits for five.
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

    /// The behaviour of the node.
    #[derive(Clone, Copy, PartialEq)]
    enum Peer {
        /// Reacts to nothing.
        Swallows,
        /// Answers pings, and no call.
        Pongs,
        /// Answers calls.
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

    /// Returns how long a connection lasts, and why it ended; `None` if it lasts for an hour.
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
