//! Nodes that lack what others have: found out by itself, nothing is configured.

use serde_json::json;

use super::support::{Pipeline, account, options};

everywhere! {
    node_without_block_receipts_and_fee_history_suffices,
    node_without_web_socket_suffices,
}

everywhere! {
    in Berlin:
    a_chain_without_a_base_fee_gets_legacy_transactions,
}

async fn node_without_block_receipts_and_fee_history_suffices(pipeline: Pipeline) {
    let endpoint = pipeline.chain.breakable().await;
    endpoint.change(|faults| faults.is_old_node = true);
    run(&pipeline, &[endpoint.url()]).await;
}

async fn a_chain_without_a_base_fee_gets_legacy_transactions(pipeline: Pipeline) {
    let urls = [pipeline.chain.ws_url()];
    run(&pipeline, &urls).await;
    let head = pipeline.chain.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert!(head["baseFeePerGas"].is_null(), "{head}");
    for entry in pipeline.feed().await {
        let attempt = pipeline.store.attempts(entry.tx_id).await.unwrap().remove(0);
        assert!(attempt.raw[0] >= 0xc0, "a legacy transaction is a bare list");
        assert_eq!(attempt.fees.max_priority_fee, None);
    }
}

async fn node_without_web_socket_suffices(pipeline: Pipeline) {
    let endpoint = pipeline.chain.breakable().await;
    // The proxy speaks HTTP only; its address may still be configured as a WebSocket.
    let refused = endpoint.url().replacen("http", "ws", 1);
    run(&pipeline, &[refused, endpoint.url()]).await;
}

async fn run(pipeline: &Pipeline, urls: &[String]) {
    let engine = pipeline.node_over("a", options(), urls).await;
    let sent = pipeline.send(&engine, account(0), 0..40).await;
    pipeline.mine_until_final(&sent).await;
    pipeline.verify(account(0), &sent).await;
    pipeline.verify_never_stuck(&sent).await;
}
