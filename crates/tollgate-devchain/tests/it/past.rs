//! Historical accounts and balances, over HTTP.

use alloy_primitives::U256;
use serde_json::{Value, json};
use tollgate_devchain::Dialect;

use crate::support::{account, error, gwei, number, raw, result, send_over, start};

#[tokio::test]
async fn a_count_can_be_asked_at_any_block_by_number_tag_and_hash() {
    let (devchain, url) = start().await;
    let sender = account(0).address;
    for nonce in 0..3 {
        send_over(&url, &raw(0, nonce, |_| {})).await;
        devchain.mine(1);
    }
    let second = result(&url, "eth_getBlockByNumber", json!(["0x2", true])).await;
    assert_eq!(number(&second["transactions"][0]["nonce"]), 1);
    let from = second["transactions"][0]["from"].as_str().unwrap();
    assert_eq!(from.to_lowercase(), sender.to_string().to_lowercase());
    let asked: [(Value, u64); 7] = [
        (json!("earliest"), 0),
        (json!("0x1"), 1),
        (second["hash"].clone(), 2),
        (json!({ "blockHash": second["hash"] }), 2),
        (json!({ "blockNumber": "0x2" }), 2),
        (json!("latest"), 3),
        (json!("pending"), 3),
    ];
    for (block, count) in asked {
        let answer = result(&url, "eth_getTransactionCount", json!([sender, block])).await;
        assert_eq!(number(&answer), count, "{block}");
    }
    let beyond = error(&url, "eth_getTransactionCount", json!([sender, "0x4"])).await;
    assert_eq!(beyond, (-32000, "header not found".into()));
}

#[tokio::test]
async fn a_node_without_an_archive_has_old_blocks_and_no_old_states() {
    let (devchain, url) = start().await;
    let sender = account(0).address;
    send_over(&url, &raw(0, 0, |_| {})).await;
    devchain.mine(10);
    result(&url, "devchain_setStates", json!([3])).await;
    let count = |block: u64| json!([sender, format!("{block:#x}")]);
    for method in ["eth_getTransactionCount", "eth_getBalance", "eth_getCode"] {
        assert_ne!(result(&url, method, count(7)).await, json!("0x0"), "{method}");
        let (code, message) = error(&url, method, count(6)).await;
        assert_eq!(code, -32000, "{method}");
        assert!(message.starts_with("missing trie node 0000"), "{message}");
    }
    assert!(result(&url, "eth_getBlockByNumber", json!(["0x1", true])).await.is_object());
    let said = [
        (Dialect::Nethermind, "No state available for block 6"),
        (Dialect::Erigon, "old data not available due to pruning"),
        (Dialect::Reth, "state at block #6 is pruned"),
    ];
    for (dialect, message) in said {
        result(&url, "devchain_setDialect", json!([dialect])).await;
        assert_eq!(error(&url, "eth_getTransactionCount", count(6)).await.1, message);
    }
    result(&url, "devchain_setDialect", json!([Dialect::Besu])).await;
    let unavailable = (-32000, "World state unavailable".to_owned());
    assert_eq!(error(&url, "eth_getCode", count(6)).await, unavailable);
    assert_eq!(number(&result(&url, "eth_getTransactionCount", count(6)).await), 0);
    result(&url, "devchain_clearFaults", json!([])).await;
    result(&url, "eth_getTransactionCount", count(0)).await;
}

#[tokio::test]
async fn account_without_funds_is_refused_until_funded() {
    let (devchain, url) = start().await;
    let sender = account(0).address;
    let set = async |wei: u128| {
        result(&url, "devchain_setBalance", json!([sender, wei.to_string()])).await;
    };
    let cost = gwei(100) * 21_000 + 1;
    set(cost - 1).await;
    let transfer = raw(0, 0, |_| {});
    let refused = error(&url, "eth_sendRawTransaction", json!([transfer])).await;
    assert!(refused.1.starts_with("insufficient funds"), "{refused:?}");
    set(cost).await;
    let hash = send_over(&url, &transfer).await.to_string();
    set(0).await;
    devchain.mine(1);
    let gone = result(&url, "eth_getTransactionByHash", json!([hash])).await;
    assert_eq!(gone, Value::Null, "what can't be paid for any more is let go");
    set(cost).await;
    send_over(&url, &transfer).await;
    devchain.mine(1);
    let receipt = result(&url, "eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(number(&receipt["status"]), 1);
}

#[tokio::test]
async fn underpriced_transaction_waits_until_replaced_at_a_higher_fee() {
    let (devchain, url) = start().await;
    let (cheap, behind) = (raw(0, 0, |_| {}), raw(0, 1, |tx| tx.max_fee_per_gas = gwei(900)));
    let cheap = send_over(&url, &cheap).await.to_string();
    let behind = send_over(&url, &behind).await.to_string();
    result(&url, "devchain_setBaseFee", json!([gwei(500) as u64])).await;
    devchain.mine(1);
    let status = result(&url, "txpool_status", json!([])).await;
    assert_eq!((number(&status["pending"]), number(&status["queued"])), (2, 0));
    let dearer = |fee: u64, tip_gwei_tenths: u64| {
        raw(0, 0, move |tx| {
            tx.max_fee_per_gas = gwei(fee);
            tx.max_priority_fee_per_gas = gwei(tip_gwei_tenths) / 10;
            tx.value = U256::from(2);
        })
    };
    for (fee, tip) in [(109, 11), (600, 10)] {
        let refused = error(&url, "eth_sendRawTransaction", json!([dearer(fee, tip)])).await;
        assert_eq!(refused.1, "replacement transaction underpriced", "{fee} {tip}");
    }
    let bumped = send_over(&url, &dearer(600, 11)).await.to_string();
    devchain.mine(1);
    let mined = async |hash: &str| {
        !result(&url, "eth_getTransactionReceipt", json!([hash])).await.is_null()
    };
    assert!(mined(&bumped).await && mined(&behind).await && !mined(&cheap).await);
}
