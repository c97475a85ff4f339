//! Two endpoints onto one chain that do not agree.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_devchain::{Dialect, RunningDevChain, RunningView, ViewOptions};

use crate::support::{account, error, number, plain, raw, result, send_over, start, until};

async fn pair(options: ViewOptions) -> (RunningDevChain, RunningView) {
    let (devchain, _) = start().await;
    // The first endpoint keeps to itself what it is sent.
    devchain.view().call("devchain_setGossip", &json!([null])).unwrap();
    let second = devchain.second_view(options).await.unwrap();
    (devchain, second)
}

async fn knows(url: &str, hash: impl ToString) -> bool {
    let found = result(url, "eth_getTransactionByHash", json!([hash.to_string()])).await;
    found != Value::Null
}

#[tokio::test]
async fn one_backend_knows_a_transaction_that_the_other_does_not() {
    let silent = ViewOptions { gossip_delay: None, ..ViewOptions::default() };
    let (devchain, second) = pair(silent).await;
    let to_first = send_over(&devchain.url(), &raw(0, 0, |_| {})).await;
    let to_second = send_over(&second.url(), &raw(1, 0, |_| {})).await;
    assert!(knows(&devchain.url(), to_first).await && !knows(&second.url(), to_first).await);
    assert!(knows(&second.url(), to_second).await && !knows(&devchain.url(), to_second).await);
    let pending = json!([account(1).address, "pending"]);
    assert_eq!(
        number(&result(&devchain.url(), "eth_getTransactionCount", pending.clone()).await),
        0
    );
    assert_eq!(number(&result(&second.url(), "eth_getTransactionCount", pending).await), 1);
    // Producers hear of both; a block is the same for everybody.
    assert_eq!(devchain.mine(1).txs.len(), 2);
    assert!(knows(&devchain.url(), to_second).await && knows(&second.url(), to_first).await);
}

#[tokio::test]
async fn gossip_arrives_late() {
    let slow =
        ViewOptions { gossip_delay: Some(Duration::from_millis(80)), ..ViewOptions::default() };
    let (devchain, second) = pair(slow).await;
    let hash = send_over(&second.url(), &raw(0, 0, |_| {})).await;
    assert!(!knows(&devchain.url(), hash).await);
    until("gossip", || async { knows(&devchain.url(), hash).await.then_some(()) }).await;
}

#[tokio::test]
async fn gossip_is_immediate_by_default() {
    let (devchain, _) = start().await;
    let second = devchain.second_view(ViewOptions::default()).await.unwrap();
    let there = send_over(&second.url(), &raw(0, 0, |_| {})).await;
    let back = send_over(&devchain.url(), &raw(1, 0, |_| {})).await;
    assert!(knows(&devchain.url(), there).await && knows(&second.url(), back).await);
}

#[tokio::test]
async fn black_hole_endpoint_accepts_transactions_that_are_never_mined() {
    let hole = ViewOptions { gossip_delay: None, is_mined_from: false, ..ViewOptions::default() };
    let (devchain, second) = pair(hole).await;
    let hash = send_over(&second.url(), &raw(0, 0, |_| {})).await;
    assert_eq!(devchain.mine(2).txs.len(), 0);
    assert!(knows(&second.url(), hash).await);
    result(&second.url(), "devchain_setMinedFrom", json!([true])).await;
    assert_eq!(devchain.mine(1).txs.len(), 1);
}

#[tokio::test]
async fn each_endpoint_has_faults_and_a_dialect_of_its_own() {
    let besu = ViewOptions { dialect: Dialect::Besu, ..ViewOptions::default() };
    let (devchain, second) = pair(besu).await;
    devchain.mine(5);
    result(&second.url(), "devchain_setLag", json!([4])).await;
    assert_eq!(number(&result(&second.url(), "eth_blockNumber", json!([])).await), 1);
    assert_eq!(number(&result(&devchain.url(), "eth_blockNumber", json!([])).await), 5);
    result(&second.url(), "devchain_rpcError", json!(["eth_chainId", -1, "no", null])).await;
    assert_eq!(error(&second.url(), "eth_chainId", json!([])).await, (-1, "no".into()));
    result(&devchain.url(), "eth_chainId", json!([])).await;
    send_over(&second.url(), &raw(0, 0, |_| {})).await;
    let again = json!([plain(0, 0).raw]);
    let (besu, geth) = (
        error(&second.url(), "eth_sendRawTransaction", again.clone()).await.1,
        error(&devchain.url(), "eth_sendRawTransaction", again).await.1,
    );
    assert_eq!((besu.as_str(), geth.as_str()), ("Known transaction", "already known"));
}

#[tokio::test]
async fn of_two_backends_with_rivals_for_a_nonce_the_better_paid_one_is_mined() {
    let silent = ViewOptions { gossip_delay: None, ..ViewOptions::default() };
    let (devchain, second) = pair(silent).await;
    let cheap = send_over(&devchain.url(), &raw(0, 0, |_| {})).await;
    let dear = send_over(&second.url(), &raw(0, 0, |tx| tx.max_priority_fee_per_gas *= 3)).await;
    let block = devchain.mine(1);
    assert_eq!(block.txs.iter().map(|tx| tx.hash).collect::<Vec<_>>(), [dear]);
    assert!(!knows(&devchain.url(), cheap).await);
}
