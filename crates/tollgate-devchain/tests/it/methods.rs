//! The methods of the real clients, over HTTP.

use alloy_primitives::{TxKind, U256};
use serde_json::{Value, json};
use tollgate_devchain::chain::BaseFee;
use tollgate_devchain::{DevChainOptions, dev_account, dev_accounts, sign};

use crate::support::{
    NOBODY, account, ask, error, gwei, number, plain, post, post_with, raw, result, send_over,
    start, start_with, until,
};

#[tokio::test]
async fn a_transaction_goes_from_the_pool_into_a_block_with_a_receipt() {
    let (_devchain, url) = start().await;
    let hash = send_over(&url, &raw(0, 0, |_| {})).await.to_string();

    let pooled = result(&url, "eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((pooled["blockHash"].clone(), number(&pooled["nonce"])), (Value::Null, 0));
    assert_eq!(result(&url, "eth_getTransactionReceipt", json!([hash])).await, Value::Null);
    let sender = account(0).address.to_string();
    for (tag, count) in [("latest", 0), ("pending", 1), ("0x0", 0)] {
        let answer = result(&url, "eth_getTransactionCount", json!([sender, tag])).await;
        assert_eq!(number(&answer), count, "{tag}");
    }

    let mined = result(&url, "devchain_mine", json!([])).await;
    let receipt = result(&url, "eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(receipt["blockHash"], mined[0]);
    assert_eq!(number(&receipt["status"]), 1);
    assert_eq!(number(&receipt["gasUsed"]), 21_000);
    assert_eq!(receipt["logs"], json!([]));
    let block = result(&url, "eth_getBlockByHash", json!([mined[0], false])).await;
    assert_eq!(block["transactions"], json!([hash]));
    let full = result(&url, "eth_getBlockByNumber", json!(["latest", true])).await;
    assert_eq!(full["transactions"][0]["hash"], json!(hash));
    let receipts = result(&url, "eth_getBlockReceipts", json!(["0x1"])).await;
    assert_eq!(receipts, json!([receipt]));
    let count = result(&url, "eth_getBlockTransactionCountByNumber", json!(["latest"])).await;
    assert_eq!(number(&count), 1);
    assert_eq!(number(&result(&url, "eth_blockNumber", json!([])).await), 1);
}

#[tokio::test]
async fn simple_methods_are_answered() {
    let (_devchain, url) = start().await;
    assert_eq!(number(&result(&url, "eth_chainId", json!([])).await), 31_337);
    assert_eq!(result(&url, "net_version", json!([])).await, json!("31337"));
    let version = result(&url, "web3_clientVersion", json!([])).await;
    assert!(version.as_str().unwrap().starts_with("Geth/"));
    assert_eq!(result(&url, "eth_syncing", json!([])).await, json!(false));
    assert_eq!(result(&url, "eth_getLogs", json!([{}])).await, json!([]));
    assert_eq!(result(&url, "eth_getCode", json!([NOBODY, "latest"])).await, json!("0x"));
    let balance = result(&url, "eth_getBalance", json!([account(3).address, "latest"])).await;
    assert_eq!(balance, json!("0x21e19e0c9bab2400000"));
    assert_eq!(number(&result(&url, "eth_gasPrice", json!([])).await), 1_875_000_000);
    let tip = result(&url, "eth_maxPriorityFeePerGas", json!([])).await;
    assert_eq!(u128::from(number(&tip)), gwei(1));
    assert_eq!(result(&url, "eth_getBlockByNumber", json!(["0x63", false])).await, Value::Null);
    assert_eq!(result(&url, "eth_getBlockReceipts", json!(["0x63"])).await, Value::Null);
    let beyond = error(&url, "eth_getBalance", json!([NOBODY, "0x63"])).await;
    assert_eq!(beyond, (-32000, "header not found".into()));
    let bad = error(&url, "eth_getBalance", json!(["0x12", "latest"])).await;
    assert_eq!(bad.0, -32602);
}

#[tokio::test]
async fn estimates_and_calls_report_reverts() {
    let (_devchain, url) = start().await;
    let call = json!([{ "from": account(0).address, "to": NOBODY, "data": "0x01" }, "latest"]);
    assert_eq!(number(&result(&url, "eth_estimateGas", call.clone()).await), 21_040);
    assert_eq!(result(&url, "eth_call", call.clone()).await, json!("0x"));
    let revert = json!([NOBODY, "revert", "sold out"]);
    result(&url, "devchain_setBehaviour", revert).await;
    for method in ["eth_call", "eth_estimateGas"] {
        let answer = ask(&url, method, call.clone()).await;
        assert_eq!(answer["error"]["code"], 3);
        assert_eq!(answer["error"]["message"], "execution reverted: sold out");
        assert!(answer["error"]["data"].as_str().unwrap().starts_with("0x08c379a0"));
    }
    assert_eq!(result(&url, "eth_getCode", json!([NOBODY, "latest"])).await, json!("0xfe"));
    result(&url, "devchain_setBehaviour", json!([NOBODY, "burn", 50_000])).await;
    assert_eq!(number(&result(&url, "eth_estimateGas", call.clone()).await), 71_040);
    result(&url, "devchain_setBehaviour", json!([NOBODY, "outOfGas"])).await;
    let refused = error(&url, "eth_estimateGas", call).await;
    assert_eq!(refused, (-32000, "gas required exceeds allowance (60000000)".into()));
}

#[tokio::test]
async fn fee_history_has_one_more_base_fee_than_blocks_and_rewards_by_percentile() {
    let (devchain, url) = start().await;
    for (from, tip) in [(0, 1), (1, 2), (2, 3)] {
        send_over(&url, &raw(from, 0, |tx| tx.max_priority_fee_per_gas = gwei(tip))).await;
    }
    devchain.mine(1);
    let params = json!(["0x5", "latest", [0.0, 50.0, 100.0]]);
    let history = result(&url, "eth_feeHistory", params).await;
    assert_eq!(number(&history["oldestBlock"]), 0);
    assert_eq!(history["baseFeePerGas"].as_array().unwrap().len(), 3);
    assert_eq!(history["gasUsedRatio"], json!([0.0, 0.00105]));
    assert_eq!(history["reward"][0], json!(["0x0", "0x0", "0x0"]));
    let tips: Vec<u64> = history["reward"][1].as_array().unwrap().iter().map(number).collect();
    assert_eq!(tips, [1_000_000_000, 2_000_000_000, 3_000_000_000]);
    let plain = result(&url, "eth_feeHistory", json!([1, "latest"])).await;
    assert!(plain.get("reward").is_none());
}

#[tokio::test]
async fn a_chain_without_a_base_fee_has_no_fee_history() {
    let mut options = DevChainOptions::default();
    options.chain.base_fee = BaseFee::Absent;
    let (_devchain, url) = start_with(options).await;
    let block = result(&url, "eth_getBlockByNumber", json!(["latest", false])).await;
    assert!(block.get("baseFeePerGas").is_none());
    assert_eq!(error(&url, "eth_feeHistory", json!([1, "latest", []])).await.0, -32601);
    assert_eq!(u128::from(number(&result(&url, "eth_gasPrice", json!([])).await)), gwei(1));
    let refused = error(&url, "eth_sendRawTransaction", json!([plain(0, 0).raw])).await;
    assert_eq!(refused, (-32000, "transaction type not supported".into()));
}

#[tokio::test]
async fn pool_content_can_be_read() {
    let (_devchain, url) = start().await;
    send_over(&url, &raw(0, 0, |_| {})).await;
    let gapped = send_over(&url, &raw(0, 7, |_| {})).await;
    let status = result(&url, "txpool_status", json!([])).await;
    assert_eq!(status, json!({ "pending": "0x1", "queued": "0x1" }));
    let content = result(&url, "txpool_content", json!([])).await;
    let sender = account(0).address.to_string();
    assert_eq!(content["queued"][&sender]["7"]["hash"], json!(gapped.to_string()));
    let own = result(&url, "txpool_contentFrom", json!([sender])).await;
    assert_eq!(own["pending"], content["pending"][&sender]);
    let other = result(&url, "txpool_contentFrom", json!([NOBODY])).await;
    assert_eq!(other, json!({ "pending": {}, "queued": {} }));
}

#[tokio::test]
async fn a_batch_is_answered_in_order_each_call_for_itself() {
    let (devchain, url) = start().await;
    let sends: Vec<Value> = (0..100)
        .map(|nonce| {
            let raw = plain(0, nonce).raw.to_string();
            json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [raw] })
        })
        .chain([json!({ "jsonrpc": "2.0", "id": "x", "method": "nothing" })])
        .collect();
    let answers = post(&url, &json!(sends).to_string()).await.unwrap().json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 101);
    for (nonce, answer) in (0..100).zip(answers) {
        assert_eq!(answer["id"], json!(nonce));
        assert_eq!(answer["result"], json!(plain(0, nonce).hash.to_string()));
    }
    assert_eq!(answers[100]["error"]["code"], -32601);
    assert_eq!(devchain.mine(1).txs.len(), 100);
}

#[tokio::test]
async fn malformed_request_gets_an_error() {
    let (devchain, _) = start().await;
    for (body, code) in [("{", -32700), ("[]", -32600), ("7", -32600), ("{\"id\":1}", -32600)] {
        let answer = post(&devchain.url(), body).await.unwrap();
        assert_eq!(answer.json()["error"]["code"], json!(code), "{body}");
    }
    let huge = json!(vec![json!({ "id": 1, "method": "eth_chainId" }); 1_001]).to_string();
    let answer = post(&devchain.url(), &huge).await.unwrap().json();
    assert_eq!(answer["error"]["message"], "batch too large");
}

#[tokio::test]
async fn a_creation_shows_its_address_and_a_failed_call_its_status() {
    let (devchain, url) = start().await;
    result(&url, "devchain_setBehaviour", json!({ "address": NOBODY, "behaviour": "outOfGas" }))
        .await;
    let failed = send_over(&url, &raw(0, 0, |tx| tx.gas_limit = 40_000)).await;
    let created = send_over(
        &url,
        &raw(1, 0, |tx| {
            tx.to = TxKind::Create;
            tx.value = U256::ZERO;
            tx.gas_limit = 100_000;
        }),
    )
    .await;
    devchain.mine(1);
    let receipt = result(&url, "eth_getTransactionReceipt", json!([failed])).await;
    assert_eq!((number(&receipt["status"]), number(&receipt["gasUsed"])), (0, 40_000));
    let receipt = result(&url, "eth_getTransactionReceipt", json!([created])).await;
    let contract = account(1).address.create(0);
    assert_eq!(receipt["contractAddress"], json!(format!("{contract:#x}")));
    assert_eq!(receipt["to"], Value::Null);
    assert_eq!(result(&url, "eth_getCode", json!([contract, "latest"])).await, json!("0xfe"));
}

#[tokio::test]
async fn blocks_come_by_themselves_at_an_interval_until_mining_is_paused() {
    let (_devchain, url) = start().await;
    result(&url, "devchain_setBlockInterval", json!([5])).await;
    let head = || async { number(&result(&url, "eth_blockNumber", json!([])).await) };
    until("three blocks", || async { (head().await >= 3).then_some(()) }).await;
    result(&url, "devchain_pauseMining", json!([])).await;
    // One may be on its way; then there is no further one in the time of many.
    let paused_at = until("stillness", || async {
        let before = head().await;
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        (head().await == before).then_some(before)
    })
    .await;
    result(&url, "devchain_resumeMining", json!([])).await;
    until("one more", || async { (head().await > paused_at).then_some(()) }).await;
    result(&url, "devchain_setBlockInterval", json!([null])).await;
}

#[tokio::test]
async fn dropped_chain_releases_its_port() {
    let (devchain, url) = start().await;
    result(&url, "eth_chainId", json!([])).await;
    drop(devchain);
    until("the port closes", || async { post(&url, "{}").await.is_err().then_some(()) }).await;
}

#[tokio::test]
async fn page_of_another_site_can_not_use_the_chain() {
    let (chain, _) = start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "devchain_mine", "params": [] });
    let body = body.to_string();
    for headers in [
        // What a fetch without a preflight sends.
        "Host: 127.0.0.1\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n",
        // A name that was pointed at this machine.
        "Host: evil.example\r\nOrigin: http://evil.example\r\n",
        "Host: evil.example\r\n",
    ] {
        let answer = post_with(&chain.url(), headers, &body).await.unwrap();
        assert_eq!(answer.status, 403, "{headers}: {answer:?}");
    }
    assert_eq!(chain.snapshot().head().number(), 0, "nothing was mined");
    assert_eq!(post(&chain.url(), &body).await.unwrap().status, 200);
}

#[test]
fn every_dev_address_belongs_to_its_key() {
    assert_eq!(dev_accounts().len(), 20);
    for account in dev_accounts() {
        assert_eq!(sign::address_of(&account.private_key), Ok(account.address));
        assert_eq!(dev_account(account.address), Some(account));
    }
    assert_eq!(dev_account(NOBODY), None);
}
