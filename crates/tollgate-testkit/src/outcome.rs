//! The outcome of a run of node processes, read from the completion feed and the chain's own blocks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::http::ask;
use crate::rpc;

/// All entries of a node's completion feed so far; `None` if the node does not answer.
pub async fn feed(port: u16) -> Option<Vec<Value>> {
    let (mut after, mut all) = (0, Vec::new());
    loop {
        let path = format!("/api/v1/tx/completions?after={after}&limit=500");
        let page = ask(port, "GET", &path, "").await.ok()?.body;
        let items = page["items"].as_array()?;
        let Some(last) = items.last() else { return Some(all) };
        after = last["seq"].as_u64()?;
        all.extend(items.iter().cloned());
    }
}

/// All transactions of a chain, in the order of its blocks. No account's nonces have a gap.
pub async fn mined(rpc_url: &str) -> Vec<Value> {
    let head = rpc::number(&rpc::call(rpc_url, "eth_blockNumber", json!([])).await);
    let (mut mined, mut counts) = (Vec::new(), BTreeMap::<String, u64>::new());
    for number in 1..=head {
        let block = json!([format!("{number:#x}"), true]);
        let block = rpc::call(rpc_url, "eth_getBlockByNumber", block).await;
        for tx in block["transactions"].as_array().unwrap() {
            let count = counts.entry(tx["from"].as_str().unwrap().to_lowercase()).or_default();
            assert_eq!(rpc::number(&tx["nonce"]), *count, "no gap, none twice: {tx}");
            *count += 1;
            mined.push(tx.clone());
        }
    }
    mined
}

/// The values of all transactions of a chain, in the order of its blocks.
pub async fn paid(rpc_url: &str) -> Vec<u64> {
    mined(rpc_url).await.iter().map(|tx| rpc::number(&tx["value"])).collect()
}

/// Checks that each accepted transaction is confirmed in the feed once and on the chain once, and
/// that there is no other. `accepted` has the values by transaction id.
pub async fn check(rpc_url: &str, feed: &[Value], accepted: &BTreeMap<String, u64>) {
    let mut ended: Vec<&str> = feed.iter().filter_map(|entry| entry["txId"].as_str()).collect();
    ended.sort_unstable();
    let known: Vec<&str> = accepted.keys().map(String::as_str).collect();
    assert_eq!(ended, known, "each in the feed once, and nothing else");
    assert!(feed.iter().all(|entry| entry["state"] == "CONFIRMED"), "{feed:?}");
    let mut paid = paid(rpc_url).await;
    paid.sort_unstable();
    let mut expected: Vec<u64> = accepted.values().copied().collect();
    expected.sort_unstable();
    assert_eq!(paid, expected, "each on the chain once");
}
