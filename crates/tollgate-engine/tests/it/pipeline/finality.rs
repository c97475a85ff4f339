//! Final at the threshold and not before (I8): a revert, and the tags of the chain.

use serde_json::json;
use tollgate_engine::EngineOptions;
use tollgate_model::finality::FinalityRule;
use tollgate_model::{Address, Bytes, Failed, Intent, TxState, U256, Wei};
use tollgate_testkit::rpc::number;

use super::chains::SAFE_DISTANCE;
use super::support::{FINALITY, Pipeline, Sent, account, is_mined, is_pending, options};
use crate::support::id;

everywhere! {
    a_revert_fails_with_its_reason_at_the_threshold_and_not_before,
    deployment_has_its_contract_and_fee_as_the_chain_has_them,
    the_safe_block_settles_what_it_has_reached_and_nothing_above,
    the_finalized_block_settles_what_it_has_reached_and_nothing_above,
}

async fn a_revert_fails_with_its_reason_at_the_threshold_and_not_before(pipeline: Pipeline) {
    let engine = pipeline.node("a", options()).await;
    let target = Address::repeat_byte(0xbb);
    pipeline.chain.revert_calls_to(target, "out of stock").await;
    // With a limit of its own: an estimate would refuse it before it had a nonce.
    let call = Intent { gas: Some(60_000), ..Intent::transfer(target, U256::from(7)) };
    let created = engine.create(account(0), None, call).await.unwrap();
    let reverts = Sent { ends: TxState::Failed(Failed::Reverted), ..Sent::new(id(created), 7) };
    pipeline.until(reverts.id, "with a node", is_pending).await;
    pipeline.chain.mine(1).await;
    pipeline.until(reverts.id, "mined", is_mined).await;
    let mut sent = vec![reverts];
    for deeper in 2..FINALITY {
        pipeline.chain.mine(1).await;
        sent.push(pipeline.caught_up(&engine, account(0), 100 + deeper).await);
        assert!(is_mined(&pipeline.record(reverts.id).await), "{deeper} of {FINALITY}");
    }
    pipeline.chain.mine(1).await;
    pipeline.until(reverts.id, "final", |record| record.row.state.is_final()).await;
    let mined = pipeline.record(reverts.id).await.mined.unwrap();
    assert!(!mined.succeeded);
    assert_eq!(mined.revert_reason.unwrap().as_str(), "out of stock");
    pipeline.finish(account(0), &sent).await;
}

async fn deployment_has_its_contract_and_fee_as_the_chain_has_them(pipeline: Pipeline) {
    let engine = pipeline.node("a", options()).await;
    // Returns one byte of code: STOP.
    let data = Bytes::from_static(&[0x60, 0x00, 0x60, 0x00, 0x53, 0x60, 0x01, 0x60, 0x00, 0xf3]);
    let deploy = Intent { to: None, data, ..Intent::transfer(Address::ZERO, U256::ZERO) };
    let tx = id(engine.create(account(0), None, deploy).await.unwrap());
    pipeline.mine_until(tx, "final", |record| record.row.state.is_final()).await;
    let record = pipeline.record(tx).await;
    assert_eq!(record.row.state, TxState::Confirmed);
    let mined = record.mined.unwrap();
    let hash = mined.tx_hash.to_string();
    let receipt = pipeline.chain.call("eth_getTransactionReceipt", json!([hash])).await;
    let contract = mined.details.contract_address.unwrap();
    assert_eq!(json!(contract.to_string().to_lowercase()), receipt["contractAddress"]);
    assert_eq!(contract, account(0).address.create(0), "by the account and its nonce");
    let index = mined.details.transaction_index.map(u64::from);
    assert_eq!(index, Some(number(&receipt["transactionIndex"])));
    let price = number(&receipt["effectiveGasPrice"]);
    assert_eq!(mined.details.effective_gas_price.unwrap().wei(), u128::from(price));
    let fee = U256::from(price) * U256::from(mined.gas_used);
    assert_eq!(mined.fee(), Some(Wei(fee)));
}

async fn the_safe_block_settles_what_it_has_reached_and_nothing_above(pipeline: Pipeline) {
    by_tag(pipeline, FinalityRule::Safe, "safe").await;
}

async fn the_finalized_block_settles_what_it_has_reached_and_nothing_above(pipeline: Pipeline) {
    by_tag(pipeline, FinalityRule::Finalized, "finalized").await;
}

async fn by_tag(pipeline: Pipeline, finality: FinalityRule, tag: &str) {
    // Past the first blocks, where every tag stands at block 0.
    pipeline.chain.mine(SAFE_DISTANCE * 3).await;
    let engine = pipeline.node("a", EngineOptions { finality, ..options() }).await;
    let mut sent = pipeline.send(&engine, account(0), [1]).await;
    let first = sent[0].id;
    pipeline.until(first, "with a node", is_pending).await;
    pipeline.chain.mine(1).await;
    pipeline.until(first, "mined", is_mined).await;
    let block = pipeline.record(first).await.mined.unwrap().block_number;
    let mut looks = 0;
    while tagged(&pipeline, tag).await < block {
        looks += 1;
        sent.push(pipeline.caught_up(&engine, account(0), 100 + looks).await);
        assert!(is_mined(&pipeline.record(first).await), "{tag} is below {block}");
        pipeline.chain.mine(1).await;
    }
    assert!(looks >= SAFE_DISTANCE, "the tag was behind for {looks} blocks");
    pipeline.until(first, "final", |record| record.row.state.is_final()).await;
    pipeline.finish(account(0), &sent).await;
}

async fn tagged(pipeline: &Pipeline, tag: &str) -> u64 {
    let block = pipeline.chain.call("eth_getBlockByNumber", json!([tag, false])).await;
    number(&block["number"])
}
