//! Calls over a WebSocket and subscriptions to new heads, with the same faults as calls over HTTP.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{Answer, Forwarder, Lost};

/// The interval at which new heads and faults of connections are looked for.
const POLL: Duration = Duration::from_millis(100);

/// A connection that was silent once stays so, for longer than any client waits.
const SILENT_FOR: Duration = Duration::from_secs(120);

/// The only subscription of a connection.
const SUBSCRIPTION: &str = "0x1";

pub(super) fn is_wanted(request: &Request<Incoming>) -> bool {
    request
        .headers()
        .get(UPGRADE)
        .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Accepts a WebSocket; it is served until one side closes it.
pub(super) async fn accept(
    mut request: Request<Incoming>,
    forwarder: Forwarder,
) -> Result<Answer, Lost> {
    if forwarder.was_silent().await {
        return Err(Lost);
    }
    let key = request.headers().get(SEC_WEBSOCKET_KEY).ok_or(Lost)?;
    let accepted = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgrade.await else { return };
        let stream = TokioIo::new(stream);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        Connection::new(socket, forwarder).serve().await;
    });
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accepted.parse().map_err(|_| Lost)?);
    Ok(answer)
}

struct Connection {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    forwarder: Forwarder,
    is_subscribed: bool,
    /// The hash of the head that was announced last.
    announced: Value,
}

/// A closed connection.
struct Closed;

impl Connection {
    fn new(socket: WebSocketStream<TokioIo<Upgraded>>, forwarder: Forwarder) -> Self {
        Self { socket, forwarder, is_subscribed: false, announced: Value::Null }
    }

    async fn serve(mut self) {
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut poll = interval(POLL);
        loop {
            let faults = self.forwarder.faults();
            if faults.is_down {
                return self.forwarder.strike();
            }
            if faults.is_silent {
                // Nothing is read any more: pings get no answer either.
                self.forwarder.strike();
                return sleep(SILENT_FOR).await;
            }
            let done = tokio::select! {
                message = self.socket.next() => match message {
                    Some(Ok(Message::Text(text))) => self.take(text.as_str(), &answers).await,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => Err(Closed),
                    // Pings are answered by the library.
                    Some(Ok(_)) => self.socket.flush().await.map_err(|_| Closed),
                },
                Some(answer) = answered.recv() => self.send(&answer).await,
                _ = poll.tick(), if self.is_subscribed => self.announce().await,
                // Faults of the connection are looked for.
                () = sleep(POLL) => Ok(()),
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Answers a subscription; carries out a call beside others.
    async fn take(
        &mut self,
        text: &str,
        answers: &mpsc::UnboundedSender<Value>,
    ) -> Result<(), Closed> {
        let call: Value = serde_json::from_str(text).map_err(|_| Closed)?;
        if call["method"] == "eth_subscribe" {
            self.is_subscribed = true;
            let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": SUBSCRIPTION });
            return self.send(&answer).await;
        }
        let (forwarder, answers, body) = (self.forwarder.clone(), answers.clone(), text.to_owned());
        tokio::spawn(async move {
            // A lost call is one without an answer: the connection stays.
            let Ok(answer) = forwarder.answer_body(body.into()).await else { return };
            let status = answer.status();
            let Ok(text) = answer.into_body().collect().await.map(|body| body.to_bytes());
            let answer = match status {
                StatusCode::OK => serde_json::from_slice(&text).unwrap_or_default(),
                _ => refusals(&call, status, &String::from_utf8_lossy(&text)),
            };
            // The connection may have ended meanwhile.
            let _ = answers.send(answer);
        });
        Ok(())
    }

    /// Announces the head if it is a new one.
    async fn announce(&mut self) -> Result<(), Closed> {
        let faults = self.forwarder.faults();
        let params = json!(["latest", false]);
        let call = json!({ "jsonrpc": "2.0", "id": 0, "method": "eth_getBlockByNumber", "params": params });
        let answers = self.forwarder.changed_answers(vec![call], false, &faults).await;
        let mut answers = answers.unwrap_or_default();
        let Some(head) = answers.first_mut().map(|answer| answer["result"].take()) else {
            return Ok(());
        };
        if head.is_null() || head["hash"] == self.announced {
            return Ok(());
        }
        self.announced = head["hash"].clone();
        if faults.is_mute {
            self.forwarder.strike();
            return Ok(());
        }
        let params = json!({ "subscription": SUBSCRIPTION, "result": head });
        self.send(&json!({ "jsonrpc": "2.0", "method": "eth_subscription", "params": params }))
            .await
    }

    async fn send(&mut self, message: &Value) -> Result<(), Closed> {
        self.socket.send(Message::text(message.to_string())).await.map_err(|_| Closed)
    }
}

/// The answer of a gateway that has no status to set: an error for each call.
fn refusals(calls: &Value, status: StatusCode, text: &str) -> Value {
    let code = if status == StatusCode::TOO_MANY_REQUESTS { -32005 } else { -32603 };
    let refusal = |call: &Value| json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": text } });
    match calls.as_array() {
        Some(calls) => calls.iter().map(refusal).collect(),
        None => refusal(calls),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::net::TcpStream;
    use tokio_tungstenite::client_async;
    use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain};

    use super::super::{RpcFaults, RpcProxy};
    use super::*;
    use crate::wait::{until, within};

    async fn setup() -> (RunningDevChain, RpcProxy) {
        let chain = DevChain::start(DevChainOptions::default()).await.unwrap();
        let proxy = RpcProxy::to(&chain.url()).await;
        (chain, proxy)
    }

    struct Client(WebSocketStream<TcpStream>);

    impl Client {
        async fn connect(proxy: &RpcProxy) -> Self {
            let url = proxy.ws_url();
            let stream = TcpStream::connect(url.strip_prefix("ws://").unwrap()).await.unwrap();
            Self(client_async(url, stream).await.unwrap().0)
        }

        async fn send(&mut self, method: &str, params: Value) {
            let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
            self.0.send(Message::text(call.to_string())).await.unwrap();
        }

        async fn receive(&mut self) -> Value {
            let message = within("a message", self.0.next()).await.unwrap().unwrap();
            serde_json::from_str(message.to_text().unwrap()).unwrap()
        }

        async fn ask(&mut self, method: &str, params: Value) -> Value {
            self.send(method, params).await;
            self.receive().await
        }
    }

    async fn hit(proxy: &RpcProxy) {
        until("a fault to hit", || async { (proxy.strikes() > 0).then_some(()) }).await;
    }

    #[tokio::test]
    async fn calls_are_answered_and_new_heads_announced() {
        let (chain, proxy) = setup().await;
        let mut client = Client::connect(&proxy).await;
        assert_eq!(client.ask("eth_blockNumber", json!([])).await["result"], "0x0");
        assert_eq!(client.ask("eth_subscribe", json!(["newHeads"])).await["id"], 7);
        assert_eq!(client.receive().await["params"]["result"]["number"], "0x0");
        chain.view().call("devchain_mine", &json!([])).unwrap();
        assert_eq!(client.receive().await["params"]["result"]["number"], "0x1");
    }

    #[tokio::test]
    async fn mute_connection_answers_calls_and_announces_no_heads() {
        let (_chain, proxy) = setup().await;
        proxy.change(|faults| faults.is_mute = true);
        let mut client = Client::connect(&proxy).await;
        client.ask("eth_subscribe", json!(["newHeads"])).await;
        hit(&proxy).await;
        assert_eq!(client.ask("eth_blockNumber", json!([])).await["result"], "0x0");
    }

    #[tokio::test]
    async fn connection_that_was_silent_stays_silent_and_a_new_one_works() {
        let (_chain, proxy) = setup().await;
        let mut client = Client::connect(&proxy).await;
        client.ask("eth_blockNumber", json!([])).await;
        proxy.change(|faults| faults.is_silent = true);
        client.send("eth_blockNumber", json!([])).await;
        hit(&proxy).await;
        proxy.change(|faults| *faults = RpcFaults::default());
        let mut second = Client::connect(&proxy).await;
        assert_eq!(second.ask("eth_blockNumber", json!([])).await["result"], "0x0");
        client.send("eth_blockNumber", json!([])).await;
        assert!(client.0.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn errors_are_those_of_json_rpc() {
        let (_chain, proxy) = setup().await;
        proxy.change(|faults| faults.quota = Some(0));
        let mut client = Client::connect(&proxy).await;
        let answer = client.ask("eth_blockNumber", json!([])).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32005)));
    }
}
