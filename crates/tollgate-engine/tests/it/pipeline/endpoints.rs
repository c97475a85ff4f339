//! Endpoints that fail, lag, lose answers, or lack what others have.

use serde_json::json;
use tollgate_model::Nonce;
use tollgate_testkit::rpc_proxy::RpcFaults;

use super::support::{MODEST, Pipeline, Sent, account, options, signed_by_outsider};

everywhere! {
    an_endpoint_that_goes_down_holds_nothing_up,
    an_endpoint_that_falls_behind_takes_nothing_back,
    an_endpoint_whose_counts_are_too_high_opens_no_gap,
    an_endpoint_whose_counts_are_too_low_gives_no_nonce_twice,
    endpoint_that_counts_too_little_gives_no_used_nonce_to_a_new_account,
    endpoint_that_counts_too_much_opens_no_hole_for_a_new_account,
}

/// Nobody listens here: the port is reserved.
const DEAD: &str = "http://127.0.0.1:1";

async fn an_endpoint_that_goes_down_holds_nothing_up(pipeline: Pipeline) {
    let (a, b) = (pipeline.chain.breakable().await, pipeline.chain.breakable().await);
    let urls = [DEAD.to_owned(), a.url(), b.url()];
    let engine = pipeline.node_over("a", options(), &urls).await;
    let mut sent = Vec::new();
    for (round, (a_is_down, b_is_down)) in
        (0..).zip([(false, false), (true, false), (false, true), (false, false)])
    {
        a.change(|faults| faults.is_down = a_is_down);
        b.change(|faults| faults.is_down = b_is_down);
        sent.extend(work(&pipeline, &engine, round).await);
    }
    pipeline.verify(account(0), &sent).await;
    pipeline.verify_never_back(&sent).await;
}

async fn an_endpoint_that_falls_behind_takes_nothing_back(pipeline: Pipeline) {
    let lags = [8, 0, 12].map(|lag_blocks| RpcFaults { lag_blocks, ..RpcFaults::default() });
    beside_a_good_one(pipeline, lags).await;
}

async fn an_endpoint_whose_counts_are_too_high_opens_no_gap(pipeline: Pipeline) {
    beside_a_good_one(pipeline, [1_000, 0, 1].map(wrong_counts)).await;
}

async fn an_endpoint_whose_counts_are_too_low_gives_no_nonce_twice(pipeline: Pipeline) {
    beside_a_good_one(pipeline, [-1, 0, -1_000].map(wrong_counts)).await;
}

/// The account's key was used before, and the database is new: only the endpoints tell where its nonces
/// begin. One of two counts less, or nothing at all.
async fn endpoint_that_counts_too_little_gives_no_used_nonce_to_a_new_account(pipeline: Pipeline) {
    let odd = pipeline.chain.breakable().await;
    let urls = [odd.url(), pipeline.chain.url()];
    for (account, offset) in [(account(0), -5), (account(1), -1_000)] {
        let mut outsiders = Vec::new();
        for nonce in 0..7 {
            let foreign =
                signed_by_outsider(account, Nonce::new(nonce).unwrap(), 900, MODEST).await;
            pipeline.chain.send(&foreign.raw).await;
            outsiders.push(foreign.tx_hash);
        }
        pipeline.chain.mine(3).await;
        odd.change(|faults| *faults = wrong_counts(offset));
        let engine = pipeline.node_over("a", options(), &urls).await;
        let sent = pipeline.send(&engine, account, 0..8).await;
        pipeline.mine_until_final(&sent).await;
        pipeline.verify_beside(account, &sent, &outsiders).await;
        engine.stop().await;
    }
}

/// One of two endpoints counts three transactions that no block has, for an account that nobody has used, and
/// for one that was used before.
async fn endpoint_that_counts_too_much_opens_no_hole_for_a_new_account(pipeline: Pipeline) {
    pipeline.chain.mine(3).await;
    let odd = pipeline.chain.breakable().await;
    odd.change(|faults| *faults = wrong_counts(3));
    let urls = [odd.url(), pipeline.chain.url()];
    let foreign = signed_by_outsider(account(1), Nonce::MIN, 900, MODEST).await;
    pipeline.chain.send(&foreign.raw).await;
    pipeline.chain.mine(3).await;
    let engine = pipeline.node_over("a", options(), &urls).await;
    for (account, outsiders) in [(account(0), vec![]), (account(1), vec![foreign.tx_hash])] {
        let sent = pipeline.send(&engine, account, 0..4).await;
        pipeline.mine_until_final(&sent).await;
        pipeline.verify_beside(account, &sent, &outsiders).await;
    }
    engine.stop().await;
}

fn wrong_counts(nonce_offset: i64) -> RpcFaults {
    RpcFaults { nonce_offset, ..RpcFaults::default() }
}

/// Works through all faults of one endpoint, with a new node in each: it has nothing but the
/// endpoints' word to start from.
async fn beside_a_good_one(pipeline: Pipeline, rounds: [RpcFaults; 3]) {
    pipeline.chain.mine(20).await;
    let odd = pipeline.chain.breakable().await;
    let urls = [odd.url(), pipeline.chain.url()];
    let mut sent = Vec::new();
    for (round, fault) in (0..).zip(rounds) {
        let engine = pipeline.node_over("a", options(), &urls).await;
        sent.extend(work(&pipeline, &engine, 2 * round).await);
        odd.change(|faults| *faults = fault);
        sent.extend(work(&pipeline, &engine, 2 * round + 1).await);
        engine.stop().await;
    }
    pipeline.verify(account(0), &sent).await;
    pipeline.verify_never_back(&sent).await;
}

async fn work(pipeline: &Pipeline, engine: &tollgate_engine::Engine, round: u64) -> Vec<Sent> {
    let before = pipeline.store.submitter(account(0)).await.unwrap();
    let before = before.map_or(0, |record| record.next_nonce.get());
    let sent = pipeline.send(engine, account(0), round * 8..(round + 1) * 8).await;
    pipeline.mine_until_final(&sent).await;
    assert_eq!(pipeline.cursor(account(0)).await, before + 8, "I4: the cursor");
    sent
}

everywhere! {
    an_answer_that_is_lost_after_the_node_took_it_makes_no_second_transaction,
    send_without_an_answer_is_found_in_its_block_by_hash,
}

async fn an_answer_that_is_lost_after_the_node_took_it_makes_no_second_transaction(
    pipeline: Pipeline,
) {
    lose_answers(pipeline, 3).await;
}

async fn send_without_an_answer_is_found_in_its_block_by_hash(pipeline: Pipeline) {
    lose_answers(pipeline, u32::MAX).await;
}

async fn lose_answers(pipeline: Pipeline, times: u32) {
    let endpoint = pipeline.chain.breakable().await;
    endpoint.change(|faults| faults.lost_sends = times);
    let engine = pipeline.node_over("a", options(), &[endpoint.url()]).await;
    let sent = pipeline.send(&engine, account(0), 0..12).await;
    pipeline.finish(account(0), &sent).await;
    pipeline.verify_never_stuck(&sent).await;
}

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
    pipeline.finish(account(0), &sent).await;
    pipeline.verify_never_stuck(&sent).await;
}
