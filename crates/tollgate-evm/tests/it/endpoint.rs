//! One endpoint: results, failures, and their effect on its health.

use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tollgate_evm::endpoint::{BadUrl, Endpoint, EndpointConfig, RpcErrorKind};

use crate::fake::{Behaviour, Node, SendBehaviour, until};

fn endpoint(config: EndpointConfig) -> Endpoint {
    Endpoint::new(config).unwrap()
}

fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[tokio::test]
async fn result_is_returned_and_error_keeps_code_status_text_and_data() {
    let node = Node::start().await;
    for config in [node.http(), node.ws()] {
        let endpoint = endpoint(config);
        let id: String = endpoint.call("eth_chainId", json!([])).await.unwrap();
        assert_eq!(id, "0x7a69");
        let error = json!({"code": -32000, "message": "nonce too low", "data": {"a": 1}});
        node.set().fixed.insert("eth_call", Err(error));
        let error = endpoint.call::<Value>("eth_call", json!([])).await.unwrap_err();
        assert_eq!((error.kind, error.code), (RpcErrorKind::Node, Some(-32000)));
        assert_eq!((&*error.message, error.data.as_deref()), ("nonce too low", Some(r#"{"a":1}"#)));
        assert!(endpoint.health().latency_seconds.is_some());
    }
    let error = endpoint(node.http()).call::<Value>("eth_call", json!([])).await.unwrap_err();
    assert_eq!(error.status, Some(400), "an error in JSON-RPC comes with any status");
}

#[tokio::test]
async fn answer_about_a_transaction_does_not_affect_health() {
    let node = Node::start().await;
    let endpoint = endpoint(node.http());
    let said = [
        "nonce too low",
        "execution reverted: no",
        "insufficient funds for gas * price + value",
        "replacement transaction underpriced",
        "invalid sender",
    ];
    for message in said.repeat(3) {
        node.set().send_behaviour = SendBehaviour::Fails(message);
        let send = endpoint.call::<Value>("eth_sendRawTransaction", json!(["0x00"])).await;
        assert!(send.is_err());
    }
    assert_eq!(endpoint.health().failures, 0);
    assert!(!endpoint.health().is_resting(now()));
}

#[tokio::test]
async fn page_of_a_proxy_is_not_a_node_answer() {
    let node = Node::start().await;
    let endpoint = endpoint(node.http());
    node.set().behaviour = Behaviour::BadGateway;
    for _ in 0..3 {
        let error = endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap_err();
        assert_eq!((error.kind, error.status), (RpcErrorKind::NotRpc, Some(502)));
        assert!(error.message.contains("Bad Gateway"));
    }
    assert!(endpoint.health().is_resting(now()));
    node.set().behaviour = Behaviour::Normal;
    endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap();
    assert!(!endpoint.health().is_resting(now()), "one answer and it is back");
}

#[tokio::test]
async fn a_rate_limit_is_kept_for_as_long_as_the_endpoint_says() {
    let node = Node::start().await;
    let endpoint = endpoint(node.http());
    node.set().behaviour = Behaviour::Limited(7);
    let error = endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap_err();
    assert_eq!((error.status, error.retry_after), (Some(429), Some(Duration::from_secs(7))));
    let health = endpoint.health();
    assert!(health.is_limited(now() + Duration::from_secs(6)));
    assert!(!health.is_limited(now() + Duration::from_secs(8)));
    assert_eq!(health.failures, 0);
}

#[tokio::test]
async fn nothing_sent_is_told_from_no_answer() {
    let node = Node::start().await;
    for config in [node.http(), node.ws()] {
        let endpoint = endpoint(EndpointConfig { timeout: Duration::from_secs(1), ..config });
        endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap();
        node.set().behaviour = Behaviour::Hangs;
        let error = endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap_err();
        assert_eq!(error.kind, RpcErrorKind::NoAnswer);
        node.set().behaviour = Behaviour::Down;
        let error = endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap_err();
        assert_eq!(error.kind, RpcErrorKind::NoAnswer, "{error}");
        node.set().behaviour = Behaviour::Normal;
    }
    // A port that nobody listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for scheme in ["http", "ws", "https", "wss"] {
        let endpoint = endpoint(EndpointConfig::new(format!("{scheme}://127.0.0.1:{port}/")));
        let error = endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap_err();
        assert_eq!(error.kind, RpcErrorKind::Unreachable, "{error}");
        assert_eq!(endpoint.health().failures, 1);
    }
}

#[tokio::test]
async fn answer_above_the_size_limit_is_not_read() {
    let node = Node::start().await;
    node.set().fixed.insert("eth_call", Ok(json!("x".repeat(100_000))));
    let endpoint = endpoint(EndpointConfig { response_bytes_max: 10_000, ..node.http() });
    let error = endpoint.call::<Value>("eth_call", json!([])).await.unwrap_err();
    assert_eq!(error.kind, RpcErrorKind::Unreadable);
    assert!(error.message.contains("longer than 10000 bytes"), "{error}");
}

#[tokio::test]
async fn answer_with_another_id_is_refused() {
    let node = Node::start().await;
    node.set().id_shift = 1;
    let error = endpoint(node.http()).call::<Value>("eth_chainId", json!([])).await.unwrap_err();
    assert_eq!(error.kind, RpcErrorKind::Unreadable);
}

#[tokio::test]
async fn no_more_calls_are_in_flight_than_allowed() {
    let node = Node::start().await;
    let endpoint = endpoint(EndpointConfig { concurrency: 4, ..node.http() });
    let calls = (0..50).map(|_| endpoint.call::<Value>("eth_chainId", json!([])));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert!(node.set().most_in_flight <= 4);

    // Who waits in vain for a place has sent nothing, and it is not the endpoint's fault.
    node.set().behaviour = Behaviour::Hangs;
    let endpoint = self::endpoint(EndpointConfig { concurrency: 1, ..node.impatient() });
    let first = endpoint.call::<Value>("eth_chainId", json!([]));
    let soon = now() + Duration::from_millis(50);
    let second = endpoint.call_until::<Value>("eth_chainId", json!([]), soon);
    let (first, second) = join(first, second).await;
    assert_eq!(first.unwrap_err().kind, RpcErrorKind::NoAnswer);
    assert_eq!(second.unwrap_err().kind, RpcErrorKind::Busy);
    assert_eq!(endpoint.health().failures, 1);
}

#[tokio::test]
async fn send_finds_a_place_though_reads_hang() {
    let node = Node::start().await;
    node.set().behaviour = Behaviour::Hangs;
    let endpoint = endpoint(EndpointConfig { concurrency: 4, ..node.http() });
    let reads = join_all((0..10).map(|_| endpoint.call::<Value>("eth_chainId", json!([]))));
    let send = async {
        until("reads have their places", || async { node.calls_of("eth_chainId") == 3 }).await;
        let send = endpoint.call::<Value>("eth_sendRawTransaction", json!(["0x00"]));
        let sent = until("it is sent", || async { node.calls_of("eth_sendRawTransaction") == 1 });
        tokio::select! {
            answer = send => panic!("it was not sent: {answer:?}"),
            () = sent => {}
        }
    };
    tokio::select! {
        answers = reads => panic!("reads ended first: {answers:?}"),
        () = send => {}
    }
}

#[tokio::test]
async fn a_socket_that_broke_is_dialled_again() {
    let node = Node::start().await;
    let endpoint = endpoint(node.ws());
    endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap();
    node.set().behaviour = Behaviour::Down;
    assert!(endpoint.call::<Value>("eth_chainId", json!([])).await.is_err());
    node.set().behaviour = Behaviour::Normal;
    until("it is back", || async {
        endpoint.call::<Value>("eth_chainId", json!([])).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn socket_that_swallows_every_call_is_dialled_again() {
    let node = Node::start().await;
    let endpoint = endpoint(EndpointConfig { timeout: Duration::from_millis(200), ..node.ws() });
    endpoint.call::<Value>("eth_chainId", json!([])).await.unwrap();
    // The connection stays open, and whatever is written to it is lost from now on.
    node.set().behaviour = Behaviour::Hangs;
    assert!(endpoint.call::<Value>("eth_chainId", json!([])).await.is_err());
    node.set().behaviour = Behaviour::Normal;
    until("it is back", || async {
        endpoint.call::<Value>("eth_chainId", json!([])).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn socket_that_is_closed_at_once_is_dialled_with_growing_pauses() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = endpoint(EndpointConfig::new(format!("ws://127.0.0.1:{port}/")));
    // The first two are closed before, the others after the WebSocket has come about.
    let mut dialled = Vec::new();
    for n in 0..5 {
        let (stream, _) = listener.accept().await.unwrap();
        dialled.push(now());
        if n >= 2 {
            drop(tokio_tungstenite::accept_async(stream).await);
        }
    }
    let pauses: Vec<_> = dialled.windows(2).map(|two| two[1] - two[0]).collect();
    for (pause, least) in pauses.iter().zip([250, 500, 1_000, 2_000]) {
        assert!(*pause >= Duration::from_millis(least), "{pauses:?}");
    }
    drop(endpoint);
}

#[tokio::test]
async fn key_in_a_url_is_never_shown() {
    let node = Node::start().await;
    let config = node.http();
    let key = "key-0123456789";
    assert!(config.url.contains(key));
    let echo = json!({"code": -32000, "message": format!("no such path /{key}")});
    node.set().fixed.insert("eth_call", Err(echo));
    let endpoint = endpoint(config.clone());
    let error = endpoint.call::<Value>("eth_call", json!([])).await.unwrap_err();
    let shown = format!("{config:?} {endpoint:?} {} {error} {error:?}", endpoint.name());
    assert!(!shown.contains(key), "{shown}");
    let bad = Endpoint::new(EndpointConfig::new(format!("ftp://host/{key}"))).unwrap_err();
    assert_eq!(bad, BadUrl::Scheme);
}
