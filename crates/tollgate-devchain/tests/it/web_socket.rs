//! JSON-RPC over a WebSocket, and subscriptions to new heads.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tollgate_devchain::chain::{DroppedTxs, Reorg};
use tollgate_devchain::{DevChain, DevChainOptions, Features};

use crate::support::{PATIENCE, number, result, start};

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(url: &str) -> Self {
        Self(connect_async(url).await.unwrap().0)
    }

    /// The next message; `None` when the other side has closed.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.0.next()).await.unwrap();
            match next {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Option<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.0.send(Message::text(request.to_string())).await.ok()?;
        self.next().await
    }

    async fn subscribe(&mut self) -> Value {
        let answer = self.ask("eth_subscribe", json!(["newHeads"])).await.unwrap();
        answer["result"].clone()
    }

    async fn next_head(&mut self) -> (u64, Value) {
        let event = self.next().await.unwrap();
        assert_eq!(event["method"], "eth_subscription");
        let head = &event["params"]["result"];
        (number(&head["number"]), head["hash"].clone())
    }
}

#[tokio::test]
async fn new_heads_arrive_in_order_and_again_after_a_reorg() {
    let (devchain, _) = start().await;
    let mut socket = Socket::open(&devchain.ws_url()).await;
    let id = socket.subscribe().await;
    let hash = devchain.mine(3).hash.to_string();
    assert_eq!(socket.next_head().await.0, 1);
    assert_eq!(socket.next_head().await.0, 2);
    assert_eq!(socket.next_head().await, (3, json!(hash)));
    let outcome = devchain.reorg(Reorg::new(2, DroppedTxs::Kept)).unwrap();
    assert_eq!(socket.next_head().await, (2, json!(outcome.added[0].hash.to_string())));
    assert_eq!(socket.next_head().await, (3, json!(outcome.added[1].hash.to_string())));

    let gone = socket.ask("eth_unsubscribe", json!([id])).await.unwrap();
    assert_eq!(gone["result"], json!(true));
    devchain.mine(1);
    // No head comes between a question and its answer any more.
    let answer = socket.ask("eth_blockNumber", json!([])).await.unwrap();
    assert_eq!(number(&answer["result"]), 4);
    let again = socket.ask("eth_unsubscribe", json!([id])).await.unwrap();
    assert_eq!(again["result"], json!(false));
    let logs = socket.ask("eth_subscribe", json!(["logs"])).await.unwrap();
    assert_eq!(logs["error"]["code"], -32601);
}

#[tokio::test]
async fn lagging_endpoint_announces_older_heads() {
    let (devchain, _) = start().await;
    let mut socket = Socket::open(&devchain.ws_url()).await;
    result(&devchain.url(), "devchain_setLag", json!([2])).await;
    socket.subscribe().await;
    devchain.mine(3);
    assert_eq!(socket.next_head().await.0, 0);
    assert_eq!(socket.next_head().await.0, 1);
}

#[tokio::test]
async fn subscriptions_can_stop_while_calls_are_answered() {
    let (devchain, _) = start().await;
    let mut socket = Socket::open(&devchain.ws_url()).await;
    socket.subscribe().await;
    result(&devchain.url(), "devchain_muteHeads", json!([true])).await;
    devchain.mine(2);
    let answer = socket.ask("eth_blockNumber", json!([])).await.unwrap();
    assert_eq!(number(&answer["result"]), 2);
    result(&devchain.url(), "devchain_muteHeads", json!([false])).await;
    devchain.mine(1);
    assert_eq!(socket.next_head().await.0, 3);
}

#[tokio::test]
async fn faults_close_a_web_socket_where_http_would_get_a_status() {
    let (devchain, _) = start().await;
    for (method, params) in [
        ("devchain_httpError", json!(["eth_chainId", 503, 1])),
        ("devchain_closeConnection", json!(["eth_chainId", 1])),
        ("devchain_loseAnswer", json!(["eth_chainId", "close", 1])),
    ] {
        let mut socket = Socket::open(&devchain.ws_url()).await;
        result(&devchain.url(), method, params).await;
        assert_eq!(socket.ask("eth_chainId", json!([])).await, None, "{method}");
    }
    let mut socket = Socket::open(&devchain.ws_url()).await;
    socket.subscribe().await;
    result(&devchain.url(), "devchain_closeConnections", json!([])).await;
    assert_eq!(socket.next().await, None);
}

#[tokio::test]
async fn an_endpoint_without_web_sockets_says_not_found() {
    let features = Features { web_socket: false, ..Features::default() };
    let options = DevChainOptions { features, ..DevChainOptions::default() };
    let devchain = DevChain::start(options).await.unwrap();
    let refused = connect_async(devchain.ws_url()).await.unwrap_err();
    assert!(refused.to_string().contains("404"), "{refused}");
    result(&devchain.url(), "devchain_setFeature", json!(["webSocket", true])).await;
    Socket::open(&devchain.ws_url()).await;
}

#[tokio::test]
async fn silent_endpoint_answers_neither_subscriptions_nor_calls_and_announces_no_head() {
    let (devchain, _) = start().await;
    let mut subscribed = Socket::open(&devchain.ws_url()).await;
    subscribed.subscribe().await;
    result(&devchain.url(), "devchain_goSilent", json!([])).await;
    let mut late = Socket::open(&devchain.ws_url()).await;
    let silence = Duration::from_millis(300);
    for (method, params) in
        [("eth_subscribe", json!(["newHeads"])), ("eth_unsubscribe", json!(["0x1"]))]
    {
        let said = tokio::time::timeout(silence, late.ask(method, params)).await;
        assert!(said.is_err(), "{method}: {said:?}");
    }
    devchain.mine(1);
    let said = tokio::time::timeout(silence, subscribed.next()).await;
    assert!(said.is_err(), "{said:?}");
    // A connection that was never asked anything speaks again when the endpoint does.
    result(&devchain.url(), "devchain_goSilent", json!([false])).await;
    devchain.mine(1);
    assert_eq!(subscribed.next_head().await.0, 2);
}
