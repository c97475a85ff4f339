//! One endpoint of two says what is not so, or never says it: the other one is the measure.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_devchain::chain::MAIN_POOL;
use tollgate_devchain::{LocalAnswer, LocalChain, RunningDevChain, RunningView, ViewOptions};

use crate::support::{account, ask, chain, number, post, raw, result, send_over, start};

/// A chain with its honest endpoint, and a second endpoint.
async fn two() -> (RunningDevChain, RunningView) {
    let (devchain, _) = start().await;
    let second = devchain.second_view(ViewOptions::default()).await.unwrap();
    (devchain, second)
}

async fn mined(devchain: &RunningDevChain, nonce: u64) -> Value {
    let hash = send_over(&devchain.url(), &raw(0, nonce, |_| {})).await;
    devchain.mine(1);
    json!([hash.to_string()])
}

#[tokio::test]
async fn pruned_receipts_are_gone_at_one_endpoint_while_blocks_stay() {
    let (devchain, second) = two().await;
    let old = mined(&devchain, 0).await;
    devchain.mine(3);
    let new = mined(&devchain, 1).await;
    result(&second.url(), "devchain_setReceipts", json!([2])).await;
    for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash"] {
        assert_eq!(result(&second.url(), method, old.clone()).await, Value::Null, "{method}");
        assert!(result(&second.url(), method, new.clone()).await.is_object(), "{method}");
        assert!(result(&devchain.url(), method, old.clone()).await.is_object(), "{method}");
    }
    let block = result(&second.url(), "eth_getBlockByNumber", json!(["0x1", false])).await;
    assert_eq!(block["transactions"], old);
    let receipts = result(&second.url(), "eth_getBlockReceipts", json!(["0x1"])).await;
    assert_eq!(receipts, Value::Null);
    result(&second.url(), "devchain_clearFaults", json!([])).await;
    let receipt = result(&second.url(), "eth_getTransactionReceipt", old).await;
    assert!(receipt.is_object());
}

#[tokio::test]
async fn lacked_receipts_and_blocks_are_never_there_at_one_endpoint() {
    let (devchain, second) = two().await;
    result(&second.url(), "devchain_lackReceipts", json!([2])).await;
    result(&second.url(), "devchain_lackBlocks", json!([2])).await;
    let mut lacked = 0;
    for nonce in 0..12 {
        let hash = mined(&devchain, nonce).await;
        let receipt = result(&second.url(), "eth_getTransactionReceipt", hash.clone()).await;
        let block = json!([format!("{:#x}", nonce + 1)]);
        let all = result(&second.url(), "eth_getBlockReceipts", block).await;
        assert_eq!(receipt.is_null(), all == json!([]), "the two ways to a receipt agree");
        lacked += u32::from(receipt.is_null());
        assert!(result(&devchain.url(), "eth_getTransactionReceipt", hash).await.is_object());
    }
    assert!((1..12).contains(&lacked), "{lacked}");
    devchain.mine(1);
    for block in 0..13_u64 {
        let params = json!([format!("{block:#x}"), false]);
        let seen = result(&second.url(), "eth_getBlockByNumber", params.clone()).await;
        assert_eq!(seen.is_null(), block % 2 == 1, "{block}");
        assert!(result(&devchain.url(), "eth_getBlockByNumber", params).await.is_object());
    }
}

#[tokio::test]
async fn head_ahead_is_announced_in_blocks_that_cannot_be_had() {
    let (devchain, second) = two().await;
    devchain.mine(4);
    result(&second.url(), "devchain_setHeadAhead", json!([500])).await;
    assert_eq!(number(&result(&second.url(), "eth_blockNumber", json!([])).await), 504);
    let head = result(&second.url(), "eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(number(&head["number"]), 504);
    for ahead in ["0x1f8", "0x5"] {
        let block = result(&second.url(), "eth_getBlockByNumber", json!([ahead, false])).await;
        assert_eq!(block, Value::Null, "{ahead}");
    }
    let real = result(&second.url(), "eth_getBlockByNumber", json!(["0x4", false])).await;
    assert_eq!(number(&real["number"]), 4);
    assert_eq!(number(&result(&devchain.url(), "eth_blockNumber", json!([])).await), 4);
}

#[tokio::test]
async fn tags_at_head_name_the_head_of_this_endpoint() {
    let (devchain, second) = two().await;
    devchain.mine(40);
    let tagged = async |url: &str, tag: &str| {
        let block = result(url, "eth_getBlockByNumber", json!([tag, false])).await;
        number(&block["number"])
    };
    result(&second.url(), "devchain_setTagsAtHead", json!([])).await;
    for tag in ["safe", "finalized"] {
        assert_eq!(tagged(&second.url(), tag).await, 40, "{tag}");
        assert!(tagged(&devchain.url(), tag).await < 40, "{tag}");
    }
    result(&second.url(), "devchain_setHeadAhead", json!([500])).await;
    assert_eq!(tagged(&second.url(), "finalized").await, 540);
    result(&second.url(), "devchain_setTagsAtHead", json!([false])).await;
    assert!(tagged(&second.url(), "finalized").await < 40);
}

#[tokio::test]
async fn counts_fees_and_estimates_lie_at_one_endpoint_only() {
    let (devchain, second) = two().await;
    let sender = account(0).address;
    mined(&devchain, 0).await;
    result(&second.url(), "devchain_setPendingOffset", json!([100_000])).await;
    result(&second.url(), "devchain_setFeeFactor", json!([1_000])).await;
    result(&second.url(), "devchain_setEstimate", json!(["0xffffffffffffffff"])).await;
    let pending = json!([sender, "pending"]);
    let count = async |url: &str, params: &Value| {
        number(&result(url, "eth_getTransactionCount", params.clone()).await)
    };
    assert_eq!(count(&second.url(), &pending).await, 100_001);
    assert_eq!(count(&second.url(), &json!([sender, "latest"])).await, 1);
    assert_eq!(count(&devchain.url(), &pending).await, 1);
    for method in ["eth_gasPrice", "eth_maxPriorityFeePerGas"] {
        let honest = number(&result(&devchain.url(), method, json!([])).await);
        let told = number(&result(&second.url(), method, json!([])).await);
        assert_eq!(told, honest * 1_000, "{method}");
    }
    let history = json!([1, "latest", [50.0]]);
    let honest = result(&devchain.url(), "eth_feeHistory", history.clone()).await;
    let told = result(&second.url(), "eth_feeHistory", history).await;
    for field in ["/baseFeePerGas/0", "/reward/0/0"] {
        let (honest, told) = (honest.pointer(field).unwrap(), told.pointer(field).unwrap());
        assert_eq!(number(told), number(honest) * 1_000, "{field}");
    }
    let call = json!([{ "from": sender, "to": sender }]);
    let gas = result(&second.url(), "eth_estimateGas", call).await;
    assert_eq!(gas, json!("0xffffffffffffffff"));
}

#[tokio::test]
async fn balancer_answers_from_two_nodes_behind_one_url() {
    let (devchain, second) = two().await;
    devchain.mine(10);
    result(&second.url(), "devchain_setBalancer", json!([3, 0.5])).await;
    let mut heads = std::collections::BTreeSet::new();
    for _ in 0..40 {
        heads.insert(number(&result(&second.url(), "eth_blockNumber", json!([])).await));
    }
    assert_eq!(heads.into_iter().collect::<Vec<_>>(), [7, 10]);
}

#[tokio::test]
async fn swallowed_transactions_are_known_and_never_mined() {
    let (devchain, second) = two().await;
    result(&second.url(), "devchain_swallow", json!([])).await;
    let transfer = raw(0, 0, |_| {});
    let hash = json!([send_over(&second.url(), &transfer).await.to_string()]);
    devchain.mine(3);
    let known = result(&second.url(), "eth_getTransactionByHash", hash.clone()).await;
    assert_eq!(known["blockNumber"], Value::Null);
    let again = ask(&second.url(), "eth_sendRawTransaction", json!([transfer])).await;
    assert_eq!(again["error"]["message"], "already known");
    let elsewhere = result(&devchain.url(), "eth_getTransactionByHash", hash.clone()).await;
    assert_eq!(elsewhere, Value::Null);
    send_over(&devchain.url(), &transfer).await;
    devchain.mine(1);
    assert!(result(&devchain.url(), "eth_getTransactionReceipt", hash).await.is_object());
}

#[tokio::test]
async fn silent_endpoint_accepts_calls_and_never_answers() {
    let (devchain, second) = two().await;
    result(&second.url(), "devchain_goSilent", json!([])).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
    let url = second.url();
    let asked = tokio::time::timeout(Duration::from_millis(300), post(&url, call)).await;
    assert!(asked.is_err(), "{asked:?}");
    result(&devchain.url(), "eth_blockNumber", json!([])).await;
    result(&second.url(), "devchain_goSilent", json!([false])).await;
    result(&second.url(), "eth_blockNumber", json!([])).await;
}

#[tokio::test]
async fn local_endpoint_answers_with_the_same_faults_and_no_socket() {
    let local = LocalChain::new(chain(|_| {}));
    let view = local.view(MAIN_POOL, 1);
    local.lock().mine(0);
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
    let said = |status: u16, retry_after_s: Option<u64>, body: &str| LocalAnswer::Said {
        status,
        retry_after_s,
        body: body.to_owned(),
    };
    let head = r#"{"id":1,"jsonrpc":"2.0","result":"0x1"}"#;
    assert_eq!(view.post(call).await, said(200, None, head));
    view.call("devchain_rateLimit", &json!([0])).unwrap();
    let LocalAnswer::Said { status, retry_after_s, .. } = view.post(call).await else {
        panic!("a quota is answered");
    };
    assert_eq!((status, retry_after_s), (429, Some(1)));
    view.call("devchain_clearFaults", &json!([])).unwrap();
    view.call("devchain_closeConnection", &json!(["*", 1])).unwrap();
    assert_eq!(view.post(call).await, LocalAnswer::Closed);
    view.call("devchain_goSilent", &json!([])).unwrap();
    assert_eq!(view.post(call).await, LocalAnswer::Silence);
}
