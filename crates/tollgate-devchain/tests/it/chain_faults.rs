//! The effects of `devchain_*` methods on the chain, over HTTP.

use alloy_primitives::U256;
use serde_json::{Value, json};

use crate::support::{NOBODY, account, error, gwei, number, plain, raw, result, send_over, start};

#[tokio::test]
async fn blocks_can_be_mined_many_at_once_and_at_a_given_time() {
    let (_devchain, url) = start().await;
    let hashes = result(&url, "devchain_mine", json!([3])).await;
    assert_eq!(hashes.as_array().unwrap().len(), 3);
    let timed = json!({ "blocks": 1, "timestamp": 2_000_000_000 });
    result(&url, "devchain_mine", timed).await;
    let head = result(&url, "eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(number(&head["timestamp"]), 2_000_000_000);
    assert_eq!(number(&head["number"]), 4);
}

#[tokio::test]
async fn a_reorg_takes_receipts_away_and_gives_them_back_elsewhere() {
    let (devchain, url) = start().await;
    let hash = send_over(&url, &raw(0, 0, |_| {})).await.to_string();
    devchain.mine(2);
    let receipt = || async { result(&url, "eth_getTransactionReceipt", json!([hash])).await };
    let first = receipt().await;
    let reorg = json!({ "depth": 2, "transactions": "returned" });
    let outcome = result(&url, "devchain_reorg", reorg).await;
    assert_eq!(outcome["dropped"][0], first["blockHash"]);
    assert_eq!(outcome["added"].as_array().unwrap().len(), 2);
    assert_eq!(receipt().await, Value::Null);
    devchain.mine(1);
    let second = receipt().await;
    assert_eq!((number(&first["blockNumber"]), number(&second["blockNumber"])), (1, 3));
    let moved = json!({ "depth": 1, "transactions": "moved", "blocks": 1 });
    result(&url, "devchain_reorg", moved).await;
    assert_ne!(receipt().await["blockHash"], second["blockHash"]);
    let dropped = json!({ "depth": 1, "transactions": "dropped", "blocks": 0 });
    let outcome = result(&url, "devchain_reorg", dropped).await;
    assert_eq!(outcome["lost"], json!([hash]));
    assert_eq!(number(&result(&url, "eth_blockNumber", json!([])).await), 2);
    assert_eq!(result(&url, "eth_getTransactionByHash", json!([hash])).await, Value::Null);
}

#[tokio::test]
async fn reorg_beyond_finality_needs_an_explicit_parameter() {
    let (devchain, url) = start().await;
    devchain.mine(70);
    let finalized = result(&url, "eth_getBlockByNumber", json!(["finalized", false])).await;
    assert_eq!(number(&finalized["number"]), 6);
    let safe = result(&url, "eth_getBlockByNumber", json!(["safe", false])).await;
    assert_eq!(number(&safe["number"]), 38);
    let refused = error(&url, "devchain_reorg", json!({ "depth": 40 })).await;
    assert!(refused.1.contains("block 31 is safe"), "{refused:?}");
    let deep = json!({ "depth": 66, "beyond": "safe" });
    assert!(error(&url, "devchain_reorg", deep).await.1.contains("is finalized"));
    let deep = json!({ "depth": 66, "beyond": "finalized" });
    result(&url, "devchain_reorg", deep).await;
    let other = result(&url, "eth_getBlockByNumber", json!(["0x6", false])).await;
    assert_ne!(other["hash"], finalized["hash"]);
}

#[tokio::test]
async fn transactions_can_be_thrown_out_of_the_pool() {
    let (devchain, url) = start().await;
    let hash = send_over(&url, &raw(0, 0, |_| {})).await;
    send_over(&url, &raw(1, 0, |_| {})).await;
    assert_eq!(result(&url, "devchain_dropTx", json!([hash])).await, json!(true));
    assert_eq!(result(&url, "devchain_dropTx", json!([hash])).await, json!(false));
    let gone = result(&url, "devchain_evict", json!([100])).await;
    assert_eq!(gone.as_array().unwrap().len(), 1);
    assert_eq!(devchain.mine(1).txs.len(), 0);
    assert_eq!(result(&url, "devchain_evict", json!({ "percent": 0 })).await, json!([]));
}

#[tokio::test]
async fn foreign_transaction_consumes_a_nonce() {
    let (_devchain, url) = start().await;
    let sender = account(0).address;
    let ours = send_over(&url, &raw(0, 0, |_| {})).await;
    let foreign = result(&url, "devchain_foreignTx", json!([sender])).await;
    let receipt = result(&url, "eth_getTransactionReceipt", json!([foreign])).await;
    assert_eq!(number(&receipt["status"]), 1);
    assert_eq!(result(&url, "eth_getTransactionByHash", json!([ours])).await, Value::Null);
    let again = error(&url, "eth_sendRawTransaction", json!([plain(0, 0).raw])).await;
    assert_eq!(again.1, "nonce too low: next nonce 1, tx nonce 0");
    // A later nonce waits in the pool; a used one is refused, as is a key nobody has.
    let later = result(&url, "devchain_foreignTx", json!([sender, 3])).await;
    let pooled = result(&url, "eth_getTransactionByHash", json!([later])).await;
    assert_eq!((pooled["blockHash"].clone(), number(&pooled["nonce"])), (Value::Null, 3));
    assert!(error(&url, "devchain_foreignTx", json!([sender, 0])).await.1.contains("too low"));
    assert_eq!(error(&url, "devchain_foreignTx", json!([NOBODY])).await.0, -32602);

    // In the pool, it takes the place of what is there, if that pays less.
    let cheap = raw(0, 1, |tx| tx.max_fee_per_gas = gwei(10));
    let ours = send_over(&url, &cheap).await.to_string();
    let rival = result(&url, "devchain_foreignTx", json!([sender, 1, true])).await;
    assert_eq!(result(&url, "eth_getTransactionByHash", json!([ours])).await, Value::Null);
    let pool = result(&url, "txpool_contentFrom", json!([sender])).await;
    assert_eq!(pool["pending"]["1"]["hash"], rival);
    assert_eq!(pool["queued"]["3"]["hash"], later);
}

#[tokio::test]
async fn balances_base_fees_and_pool_limits_can_be_set() {
    let (devchain, url) = start().await;
    let sender = account(0).address;
    result(&url, "devchain_setBalance", json!([sender, "0x10"])).await;
    assert_eq!(result(&url, "eth_getBalance", json!([sender, "latest"])).await, json!("0x10"));
    let poor = error(&url, "eth_sendRawTransaction", json!([plain(0, 0).raw])).await.1;
    assert!(poor.starts_with("insufficient funds for gas * price + value: balance 16"), "{poor}");

    result(&url, "devchain_setBaseFee", json!([700_000_000_000_u64])).await;
    send_over(&url, &raw(1, 0, |_| {})).await;
    let block = devchain.mine(1);
    assert_eq!((block.txs.len(), block.header.base_fee_per_gas), (0, Some(700_000_000_000)));

    let limits = json!({ "perSender": 1, "minTipWei": 5, "feeCapWei": "1", "nonceGap": 0 });
    result(&url, "devchain_setPoolLimits", limits).await;
    let capped = error(&url, "eth_sendRawTransaction", json!([plain(1, 1).raw])).await.1;
    assert_eq!(capped, "tx fee (0.00 ether) exceeds the configured cap (0.00 ether)");
    let cap = json!({ "feeCapWei": U256::MAX.to_string() });
    result(&url, "devchain_setPoolLimits", cap).await;
    let full = error(&url, "eth_sendRawTransaction", json!([plain(1, 1).raw])).await.1;
    assert_eq!(full, "account limit exceeded: pooled 1 txs");
    let gapped = error(&url, "eth_sendRawTransaction", json!([plain(2, 2).raw])).await.1;
    assert_eq!(gapped, "nonce too high: tx nonce 2, gapped nonce 0");
}

#[tokio::test]
async fn dev_accounts_are_listed() {
    let (devchain, _) = start().await;
    let accounts = result(&devchain.url(), "devchain_accounts", json!([])).await;
    assert_eq!(accounts[0]["address"], json!(account(0).address.to_string()));
    assert_eq!(accounts[0]["privateKey"], json!(account(0).private_key.to_string()));
    assert_eq!(error(&devchain.url(), "devchain_nothing", json!([])).await.0, -32601);
}
