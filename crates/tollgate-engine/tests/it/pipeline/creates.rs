//! Many creates at once: every intent once, every nonce once.

use futures_util::future::join_all;
use serde_json::json;
use tollgate_engine::{CreateError, Created, EngineOptions, Simulated, Unserved};
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::NonceRules;
use tollgate_model::refusal::RefusalKind;
use tollgate_testkit::rpc::number;

use super::chains::ChainKind;
use super::support::{Pipeline, Sent, StoreKind, account, options, transfer};
use crate::support::request;

everywhere! {
    a_thousand_concurrent_creates_have_the_nonces_0_to_999_and_each_payload_once,
    a_request_that_is_made_a_hundred_times_is_one_transaction,
    a_repeat_is_the_same_transaction_whatever_the_chain_says_by_then,
}

async fn a_thousand_concurrent_creates_have_the_nonces_0_to_999_and_each_payload_once(
    pipeline: Pipeline,
) {
    let nonces = NonceRules { window: 250, ..options().nonces };
    let engine = pipeline.node("a", EngineOptions { nonces, ..options() }).await;
    let sent = pipeline.send(&engine, account(0), 0..1_000).await;
    pipeline.finish(account(0), &sent).await;
}

/// The clock is sped up: each block is mined as soon as the window is in the pool, instead of 12 s after
/// the block before it.
#[tokio::test(flavor = "multi_thread")]
async fn defaults_carry_five_a_second_with_blocks_of_12_s_and_20_confirmations() {
    const BLOCKS: u64 = 10;
    const PER_BLOCK: u64 = 5 * 12;
    let pipeline = Pipeline::on(StoreKind::Sqlite, ChainKind::Devchain).await;
    let finality = FinalityRule::Confirmations(20);
    let defaults = EngineOptions { finality, ..EngineOptions::default() };
    let engine = pipeline.node("a", defaults).await;
    let sent = pipeline.send(&engine, account(0), 0..BLOCKS * PER_BLOCK).await;
    let count = async |tag: &str| {
        let params = json!([account(0).address.to_string(), tag]);
        number(&pipeline.chain.call("eth_getTransactionCount", params).await)
    };
    for block in 1..=BLOCKS {
        let enough = async || count("pending").await >= block * PER_BLOCK;
        pipeline.eventually("the window is in the pool", enough).await;
        pipeline.chain.mine(1).await;
    }
    assert!(count("latest").await >= BLOCKS * PER_BLOCK, "all are mined");
    assert!(pipeline.feed().await.is_empty(), "none of them is final yet");
    pipeline.finish(account(0), &sent).await;
}

async fn a_request_that_is_made_a_hundred_times_is_one_transaction(pipeline: Pipeline) {
    let engine = pipeline.node("a", options()).await;
    let creates = (0..100).map(|_| engine.create(account(0), request("order"), transfer(5)));
    let answers: Vec<_> = join_all(creates).await.into_iter().map(Result::unwrap).collect();
    let new = answers.iter().filter(|answer| matches!(answer, Created::New(_))).count();
    assert_eq!(new, 1, "one made it, the others were told of it");
    let sent = [Sent::new(answers[0].tx_id(), 5)];
    assert!(answers.iter().all(|answer| answer.tx_id() == sent[0].id));
    let other = engine.create(account(0), request("order"), transfer(6)).await;
    let Err(CreateError::RequestIdConflict(known)) = other else { panic!("{other:?}") };
    assert_eq!(known.tx_id, sent[0].id);
    pipeline.mine_until_final(&sent).await;
    let late = engine.create(account(0), request("order"), transfer(5)).await;
    assert_eq!(late, Ok(Created::Known(sent[0].id)), "it is known after its end too");
    pipeline.verify(account(0), &sent).await;
}

async fn a_repeat_is_the_same_transaction_whatever_the_chain_says_by_then(pipeline: Pipeline) {
    let endpoint = pipeline.chain.breakable().await;
    let engine = pipeline.node_over("a", options(), &[endpoint.url()]).await;
    let other = pipeline.node_over("b", options(), &[endpoint.url()]).await;
    let created = engine.create(account(0), request("order"), transfer(5)).await.unwrap();
    let known = Ok(Created::Known(created.tx_id()));
    let sent = [Sent::new(created.tx_id(), 5)];
    pipeline.mine_until_final(&sent).await;

    let target = transfer(5).to.unwrap();
    pipeline.chain.revert_calls_to(target, "out of stock").await;
    let new = engine.create(account(0), request("another"), transfer(5)).await;
    let Err(CreateError::Refused(why)) = new else { panic!("it would revert now: {new:?}") };
    assert_eq!(why.kind, RefusalKind::WouldRevert);
    assert_eq!(engine.create(account(0), request("order"), transfer(5)).await, known);
    assert_eq!(other.create(account(0), request("order"), transfer(5)).await, known);

    endpoint.change(|faults| faults.is_down = true);
    let new = engine.create(account(0), request("another"), transfer(5)).await;
    assert!(
        matches!(new, Err(CreateError::Unserved(Unserved::Unavailable(_)))),
        "nobody can estimate it: {new:?}"
    );
    for node in [&engine, &other] {
        assert_eq!(node.create(account(0), request("order"), transfer(5)).await, known);
        let simulated = node.simulate(account(0), request("order"), transfer(5)).await;
        assert_eq!(simulated, Ok(Simulated::Known(created.tx_id())));
        let conflict = node.create(account(0), request("order"), transfer(6)).await;
        assert!(matches!(conflict, Err(CreateError::RequestIdConflict(_))), "{conflict:?}");
        let conflict = node.simulate(account(0), request("order"), transfer(6)).await;
        assert!(matches!(conflict, Err(CreateError::RequestIdConflict(_))), "{conflict:?}");
    }
    pipeline.verify(account(0), &sent).await;
}
