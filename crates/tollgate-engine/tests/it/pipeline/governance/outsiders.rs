//! Somebody else sends with the key.

use tollgate_engine::EngineOptions;
use tollgate_model::nonce::{Mode, NonceRules, SubmitterStatus};
use tollgate_model::port::AlertKind;
use tollgate_model::{Nonce, Queued, TxState};

use super::super::outsider::{MODEST, signed};
use super::super::support::{FINALITY, Pipeline, account, options};
use super::MINUTE;
use crate::govern::reason;

everywhere! {
    pipelined_goes_on_behind_what_an_outsider_mined_or_pooled_and_reuses_nothing,
    strict_is_protected_after_one_interval_takes_nothing_and_goes_on_when_resumed,
}

const HELD: TxState = TxState::Queued(Queued::Held);

fn nonce(nonce: u64) -> Nonce {
    Nonce::new(nonce).unwrap()
}

async fn pipelined_goes_on_behind_what_an_outsider_mined_or_pooled_and_reuses_nothing(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", options()).await;
    let from = account(0);
    let mut sent = pipeline.send(&engine, from, 0..3).await;
    pipeline.mine_until_final(&sent).await;
    let mined = signed(from, nonce(3), 900, MODEST).await;
    pipeline.chain.send(&mined.raw).await;
    pipeline.chain.mine(1).await;
    pipeline
        .eventually("the cursor follows", async || {
            engine.reconcile(from).await.unwrap();
            pipeline.cursor(from).await == 4
        })
        .await;
    sent.extend(pipeline.send(&engine, from, 10..12).await);
    pipeline.mine_until_final(&sent).await;
    // In no block yet, but a pool has it.
    let pooled = signed(from, nonce(6), 901, MODEST).await;
    pipeline.chain.send(&pooled.raw).await;
    engine.reconcile(from).await.unwrap();
    sent.extend(pipeline.send(&engine, from, 20..22).await);
    pipeline.mine_until_final(&sent).await;
    let outsiders = [mined.tx_hash, pooled.tx_hash];
    pipeline.verify_beside(from, &sent, &outsiders).await;
    pipeline.verify_never_stuck(&sent).await;
}

async fn strict_is_protected_after_one_interval_takes_nothing_and_goes_on_when_resumed(
    pipeline: Pipeline,
) {
    let nonces = NonceRules { mode: Mode::Strict, ..options().nonces };
    let engine_options = EngineOptions { nonces, reconcile_interval: MINUTE, ..options() };
    let engine = pipeline.node("a", engine_options).await;
    let from = account(0);
    let mut sent = pipeline.send(&engine, from, [10]).await;
    pipeline.mine_until_final(&sent).await;
    let foreign = signed(from, nonce(1), 900, MODEST).await;
    pipeline.chain.send(&foreign.raw).await;
    pipeline.chain.mine(FINALITY).await;
    let status = async || pipeline.store.submitter(from).await.unwrap().unwrap().status;
    let head = pipeline.chain.head().await;
    pipeline
        .eventually("the block is seen", async || {
            engine.view().head().is_some_and(|seen| seen.number >= head)
        })
        .await;
    pipeline.clock.advance(MINUTE);
    pipeline.eventually("PROTECT", async || status().await == SubmitterStatus::Protect).await;
    assert_eq!(pipeline.alerts.of(AlertKind::Protect).len(), 1);
    let held = [
        pipeline.send(&engine, from, [11]).await.remove(0),
        pipeline.send(&engine, from, [12]).await.remove(0),
    ];
    for held in &held {
        pipeline.until(held.id, "held", |tx| tx.row.state == HELD).await;
    }
    pipeline.chain.mine(8).await;
    let other = pipeline.send(&engine, account(1), [5]).await;
    pipeline.mine_until_final(&other).await;
    assert_eq!(pipeline.cursor(from).await, 1, "I12: takes nothing");
    assert_eq!(pipeline.chain.mined(from.address).await.len(), 2, "I12: sends nothing");
    engine.resume(from, reason("it was me")).await.unwrap();
    assert_eq!(status().await, SubmitterStatus::Active);
    sent.extend(held);
    pipeline.mine_until_final(&sent).await;
    let mined = pipeline.verify_beside(from, &sent, &[foreign.tx_hash]).await;
    assert!(mined.iter().map(|tx| tx.value).eq([10, 900, 11, 12]), "in order: {mined:?}");
}
