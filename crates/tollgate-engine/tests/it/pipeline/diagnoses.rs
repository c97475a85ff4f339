//! Diagnoses from the pools, on the record of a transaction.

use tollgate_engine::{Acted, Action, EngineOptions};
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::port::TxRecord;
use tollgate_model::{Nonce, TxId};

use super::chains::TestChain;
use super::support::{DEAR, POLL_INTERVAL, Pipeline, account, patient, signed_by_outsider};
use crate::support::act;

everywhere! {
    transaction_dropped_by_a_pool_is_diagnosed_lost_until_it_is_resent,
    transaction_replaced_by_an_outsider_is_diagnosed_where_pools_show_it,
}

fn curious() -> EngineOptions {
    EngineOptions { diagnose: Some(POLL_INTERVAL), ..patient() }
}

fn says(tx: &TxRecord, what: Diagnosis) -> bool {
    tx.diagnosis.as_ref().is_some_and(|said| said.as_str() == what.to_string())
}

async fn in_pool(pipeline: &Pipeline, id: TxId) {
    pipeline.until(id, "in a pool", |tx| says(tx, Diagnosis::InPool)).await;
}

async fn transaction_dropped_by_a_pool_is_diagnosed_lost_until_it_is_resent(pipeline: Pipeline) {
    let engine = pipeline.node("a", curious()).await;
    let sent = pipeline.pending(&engine, account(0), [10]).await;
    let id = sent[0].id;
    in_pool(&pipeline, id).await;
    let hash = pipeline.attempts(id).await[0].tx_hash;
    pipeline.chain.forget(hash).await;
    // What a pool counted is believed until the next block.
    pipeline.mine_until(id, "lost", |tx| says(tx, Diagnosis::ProbablyLost)).await;
    assert_eq!(act(&engine, id, Action::Resubmit).await, Ok(Acted::Resent));
    in_pool(&pipeline, id).await;
    pipeline.finish(account(0), &sent).await;
    assert_eq!(pipeline.record(id).await.attempts, 1, "advice only: nothing was signed");
}

async fn transaction_replaced_by_an_outsider_is_diagnosed_where_pools_show_it(pipeline: Pipeline) {
    let engine = pipeline.node("a", curious()).await;
    let id = pipeline.pending(&engine, account(0), [10]).await[0].id;
    in_pool(&pipeline, id).await;
    let stranger = signed_by_outsider(account(0), Nonce::MIN, 900, DEAR).await;
    pipeline.chain.send(&stranger.raw).await;
    let what = match &pipeline.chain {
        TestChain::Devchain(_) => Diagnosis::ReplacedByAnother { hash: stranger.tx_hash },
        // It counts the slot, and does not show with what.
        TestChain::Anvil(_) => Diagnosis::Unknown,
    };
    pipeline.until(id, "replaced", |tx| says(tx, what)).await;
}
