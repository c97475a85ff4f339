//! Every way an endpoint can fail a call, seen through a real connection.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_devchain::fault::{Fault, FaultRule};

use crate::support::{account, error, number, plain, post, raw, result, send_over, start, until};

fn send_body(raw: &impl ToString) -> String {
    let params = [raw.to_string()];
    json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": params })
        .to_string()
}

const CHAIN_ID: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;

#[tokio::test]
async fn answers_to_one_method_can_be_slow() {
    let (_devchain, url) = start().await;
    result(&url, "devchain_delay", json!(["eth_blockNumber", 80])).await;
    let started = Instant::now();
    result(&url, "eth_blockNumber", json!([])).await;
    assert!(started.elapsed() >= Duration::from_millis(80));
    assert_eq!(result(&url, "devchain_faults", json!([])).await["rules"][0]["fault"]["ms"], 80);
    result(&url, "devchain_delay", json!(["eth_blockNumber", 0])).await;
    assert_eq!(result(&url, "devchain_faults", json!([])).await["rules"], json!([]));
}

#[tokio::test]
async fn an_answer_can_be_lost_after_the_transaction_was_taken() {
    let (devchain, url) = start().await;
    let lose = |how: &'static str| {
        let params = json!({ "method": "eth_sendRawTransaction", "how": how, "times": 1 });
        result(&url, "devchain_loseAnswer", params)
    };
    lose("close").await;
    assert!(post(&url, &send_body(&plain(0, 0).raw)).await.is_err());

    lose("gatewayTimeout").await;
    let answer = post(&url, &send_body(&plain(0, 1).raw)).await.unwrap();
    assert_eq!(answer.status, 504);
    assert!(answer.body.contains("<h1>504 Gateway Timeout</h1>"));

    lose("hang").await;
    let body = send_body(&plain(0, 2).raw);
    let silence = tokio::time::timeout(Duration::from_millis(150), post(&url, &body)).await;
    assert!(silence.is_err(), "{silence:?}");

    // All three are with the node, which says so to who asks again.
    for nonce in 0..3 {
        let again = error(&url, "eth_sendRawTransaction", json!([plain(0, nonce).raw])).await;
        assert_eq!(again.1, "already known");
    }
    assert_eq!(devchain.mine(1).txs.len(), 3);
}

#[tokio::test]
async fn a_connection_can_close_before_anything_is_taken() {
    let (_devchain, url) = start().await;
    result(&url, "devchain_closeConnection", json!(["eth_sendRawTransaction", 1])).await;
    assert!(post(&url, &send_body(&plain(0, 0).raw)).await.is_err());
    send_over(&url, &raw(0, 0, |_| {})).await;
}

#[tokio::test]
async fn a_gateway_can_answer_in_the_nodes_place() {
    let (_devchain, url) = start().await;
    for (status, kind) in [(500, "application/json"), (502, "text/html"), (503, "text/html")] {
        result(&url, "devchain_httpError", json!(["*", status, 1])).await;
        let answer = post(&url, CHAIN_ID).await.unwrap();
        assert_eq!(answer.status, status);
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{}", answer.head);
        assert_eq!(answer.body.contains("<html>"), kind == "text/html");
    }
    let limited = json!({ "status": 429, "times": 1, "retryAfterS": 7 });
    result(&url, "devchain_httpError", limited).await;
    let answer = post(&url, CHAIN_ID).await.unwrap();
    assert!(answer.status == 429 && answer.head.contains("retry-after: 7"), "{}", answer.head);
    assert_eq!(answer.json()["error"]["code"], -32005);
    assert_eq!(post(&url, CHAIN_ID).await.unwrap().status, 200);
    assert_eq!(error(&url, "devchain_httpError", json!(["*", 200])).await.0, -32602);
}

#[tokio::test]
async fn any_error_can_replace_the_answer() {
    let (_devchain, url) = start().await;
    let odd = json!(["eth_*", -32603, "header not found", 2]);
    result(&url, "devchain_rpcError", odd).await;
    for _ in 0..2 {
        let said = error(&url, "eth_blockNumber", json!([])).await;
        assert_eq!(said, (-32603, "header not found".into()));
    }
    result(&url, "eth_blockNumber", json!([])).await;
}

#[tokio::test]
async fn a_rate_limit_holds_for_each_second() {
    let (_devchain, url) = start().await;
    result(&url, "devchain_rateLimit", json!([2])).await;
    let limited = until("too many", || async {
        Some(post(&url, CHAIN_ID).await.unwrap()).filter(|answer| answer.status == 429)
    });
    assert!(limited.await.head.contains("retry-after: 1"));
    result(&url, "devchain_rateLimit", json!([null])).await;
    for _ in 0..6 {
        assert_eq!(post(&url, CHAIN_ID).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn connections_can_be_refused_for_a_while() {
    let (devchain, url) = start().await;
    result(&url, "devchain_refuseConnections", json!([500])).await;
    // Who is still in the queue of the closing port is reset; who comes later is refused.
    let refused = || async {
        let refused = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        post(&url, CHAIN_ID).await.err().filter(refused)
    };
    until("refused", refused).await;
    until("open again", || async { post(&url, CHAIN_ID).await.ok() }).await;
    devchain.view().refuse_connections(true);
    until("refused", refused).await;
    devchain.view().call("devchain_clearFaults", &json!([])).unwrap();
    until("open again", || async { post(&url, CHAIN_ID).await.ok() }).await;
}

#[tokio::test]
async fn a_lagging_endpoint_answers_from_blocks_ago() {
    let (devchain, url) = start().await;
    let sender = account(0).address;
    let hash = send_over(&url, &raw(0, 0, |_| {})).await;
    devchain.mine(3);
    send_over(&url, &raw(0, 1, |_| {})).await;
    result(&url, "devchain_setLag", json!([3])).await;
    assert_eq!(number(&result(&url, "eth_blockNumber", json!([])).await), 0);
    assert_eq!(result(&url, "eth_getBlockByNumber", json!(["0x1", false])).await, Value::Null);
    assert_eq!(result(&url, "eth_getTransactionReceipt", json!([hash])).await, Value::Null);
    for tag in ["latest", "pending"] {
        let count = result(&url, "eth_getTransactionCount", json!([sender, tag])).await;
        assert_eq!(number(&count), 0, "{tag}");
    }
    result(&url, "devchain_setLag", json!([2])).await;
    let count = result(&url, "eth_getTransactionCount", json!([sender, "pending"])).await;
    assert_eq!(number(&count), 2);
    let history = result(&url, "eth_feeHistory", json!([1, "latest", []])).await;
    assert_eq!(number(&history["oldestBlock"]), 1);
    result(&url, "devchain_setLag", json!([0])).await;
    assert_eq!(number(&result(&url, "eth_blockNumber", json!([])).await), 3);
}

#[tokio::test]
async fn endpoint_can_report_false_nonces() {
    let (_devchain, url) = start().await;
    let count = || async {
        let params = json!([account(0).address, "pending"]);
        number(&result(&url, "eth_getTransactionCount", params).await)
    };
    result(&url, "devchain_setNonceOffset", json!([5])).await;
    assert_eq!(count().await, 5);
    result(&url, "devchain_setNonceOffset", json!([-5])).await;
    assert_eq!(count().await, 0);
    assert_eq!(error(&url, "devchain_setNonceOffset", json!(["x"])).await.0, -32602);
}

#[tokio::test]
async fn a_transaction_can_be_taken_and_then_forgotten() {
    let (devchain, url) = start().await;
    result(&url, "devchain_forgetNext", json!([1])).await;
    let hash = send_over(&url, &raw(0, 0, |_| {})).await;
    assert_eq!(result(&url, "eth_getTransactionByHash", json!([hash])).await, Value::Null);
    assert_eq!(devchain.mine(1).txs.len(), 0);
    send_over(&url, &raw(0, 0, |_| {})).await;
    assert_eq!(devchain.mine(1).txs.len(), 1);
}

#[tokio::test]
async fn features_can_be_missing_in_each_clients_words() {
    let (_devchain, url) = start().await;
    for (feature, method) in [
        ("blockReceipts", "eth_getBlockReceipts"),
        ("feeHistory", "eth_feeHistory"),
        ("txpool", "txpool_status"),
    ] {
        result(&url, "devchain_setFeature", json!([feature, false])).await;
        for (dialect, text) in [
            ("geth", format!("the method {method} does not exist/is not available")),
            ("nethermind", format!("The method '{method}' is not supported.")),
            ("besu", "Method not found".into()),
        ] {
            result(&url, "devchain_setDialect", json!([dialect])).await;
            assert_eq!(error(&url, method, json!(["0x0"])).await, (-32601, text));
        }
        result(&url, "devchain_setFeature", json!([feature, true])).await;
        result(&url, method, json!(["0x0", "latest"])).await;
    }
    assert_eq!(error(&url, "devchain_setFeature", json!(["magic", true])).await.0, -32602);
}

#[tokio::test]
async fn an_endpoint_can_say_that_it_syncs_and_be_cleared_of_all_faults() {
    let (devchain, url) = start().await;
    result(&url, "devchain_setSyncing", json!([true])).await;
    assert!(result(&url, "eth_syncing", json!([])).await["highestBlock"].is_string());
    result(&url, "devchain_setLag", json!([9])).await;
    let rule = FaultRule::always("eth_chainId", Fault::Close);
    assert!(devchain.view().fail(rule));
    assert!(post(&url, CHAIN_ID).await.is_err());
    result(&url, "devchain_clearFaults", json!([])).await;
    assert_eq!(result(&url, "eth_syncing", json!([])).await, json!(false));
    assert_eq!(post(&url, CHAIN_ID).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_fault_within_a_batch_stops_what_comes_after_it() {
    let (_devchain, url) = start().await;
    let call = |id: u64, raw: &dyn ToString| {
        let params = [raw.to_string()];
        json!({ "id": id, "method": "eth_sendRawTransaction", "params": params })
    };
    let rule =
        json!({ "method": "eth_call", "fault": { "kind": "http", "status": 503 }, "times": 1 });
    result(&url, "devchain_fail", rule).await;
    let batch = json!([
        call(0, &plain(0, 0).raw),
        { "id": 1, "method": "eth_call", "params": [{}] },
        call(2, &plain(0, 1).raw),
    ]);
    assert_eq!(post(&url, &batch.to_string()).await.unwrap().status, 503);
    let status = result(&url, "txpool_status", json!([])).await;
    assert_eq!(number(&status["pending"]), 1);
}

#[tokio::test]
async fn open_connections_can_be_cut() {
    use tokio::io::AsyncReadExt;
    let (devchain, _) = start().await;
    let host = devchain.url().strip_prefix("http://").unwrap().to_owned();
    let mut idle = tokio::net::TcpStream::connect(host).await.unwrap();
    // A call on another connection shows that the idle one has been taken by then.
    result(&devchain.url(), "eth_chainId", json!([])).await;
    devchain.view().close_connections();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(crate::support::PATIENCE, idle.read_to_end(&mut rest));
    assert!(read.await.unwrap().is_err() || rest.is_empty());
    until("new ones are welcome", || async { post(&devchain.url(), CHAIN_ID).await.ok() }).await;
}
