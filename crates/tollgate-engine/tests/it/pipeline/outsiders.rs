//! Somebody else sends with the key. A slot is called taken only when every endpoint was asked.

use tollgate_engine::EngineOptions;
use tollgate_model::nonce::{Mode, NonceRules, SubmitterStatus};
use tollgate_model::port::AlertKind;
use tollgate_model::{Nonce, Queued, TxState};

use super::check::NONCE_TAKEN;
use super::support::{
    DEAR, FINALITY, MINUTE, MODEST, Pipeline, account, options, patient, signed_by_outsider,
};
use crate::support::reason;

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
    let mined = signed_by_outsider(from, nonce(3), 900, MODEST).await;
    pipeline.chain.send(&mined.raw).await;
    pipeline.chain.mine(1).await;
    pipeline
        .eventually("the cursor follows", async || {
            engine.operator().reconcile(from).await.unwrap();
            pipeline.cursor(from).await == 4
        })
        .await;
    sent.extend(pipeline.send(&engine, from, 10..12).await);
    pipeline.mine_until_final(&sent).await;
    // In no block yet, but a pool has it.
    let pooled = signed_by_outsider(from, nonce(6), 901, MODEST).await;
    pipeline.chain.send(&pooled.raw).await;
    engine.operator().reconcile(from).await.unwrap();
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
    let foreign = signed_by_outsider(from, nonce(1), 900, MODEST).await;
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
    engine.operator().resume(from, reason("it was me")).await.unwrap();
    assert_eq!(status().await, SubmitterStatus::Active);
    sent.extend(held);
    pipeline.mine_until_final(&sent).await;
    let mined = pipeline.verify_beside(from, &sent, &[foreign.tx_hash]).await;
    assert!(mined.iter().map(|tx| tx.value).eq([10, 900, 11, 12]), "in order: {mined:?}");
}

everywhere! {
    slot_taken_by_an_outsider_ends_after_both_endpoints_were_asked,
}

everywhere! {
    used_slots_end_beside_an_endpoint_that_counts_too_little_for_ever,
}

/// All open slots are used by an outsider, so the honest endpoint counts exactly up to the cursor; the other one
/// counts nothing, then and later.
async fn used_slots_end_beside_an_endpoint_that_counts_too_little_for_ever(pipeline: Pipeline) {
    let odd = pipeline.chain.breakable().await;
    odd.change(|faults| faults.nonce_offset = -1_000);
    let urls = [odd.url(), pipeline.chain.url()];
    let watchful = EngineOptions { reconcile_interval: MINUTE, ..options() };
    let engine = pipeline.node_over("a", watchful, &urls).await;
    let from = account(0);
    let mut sent = pipeline.pending(&engine, from, [10, 11, 12]).await;
    let mut outsiders = Vec::new();
    for slot in 0..3 {
        let stranger = signed_by_outsider(from, nonce(slot), 900 + slot, DEAR).await;
        pipeline.chain.send(&stranger.raw).await;
        outsiders.push(stranger.tx_hash);
    }
    pipeline.chain.mine(FINALITY).await;
    pipeline.clock.advance(MINUTE);
    sent.iter_mut().for_each(|sent| sent.ends = NONCE_TAKEN);
    pipeline.mine_until_final(&sent).await;
    sent.extend(pipeline.send(&engine, from, [13]).await);
    pipeline.mine_until_final(&sent).await;
    pipeline.verify_beside(from, &sent, &outsiders).await;
}

/// The number of comparisons while one endpoint can't tell: each time could be the wrong one.
const LOOKS: u32 = 3;

async fn slot_taken_by_an_outsider_ends_after_both_endpoints_were_asked(pipeline: Pipeline) {
    let other = pipeline.chain.breakable().await;
    let urls = [pipeline.chain.url(), other.url()];
    let watchful = EngineOptions { reconcile_interval: MINUTE, ..patient() };
    let engine = pipeline.node_over("a", watchful, &urls).await;
    let from = account(0);
    let mut sent = pipeline.pending(&engine, from, [10, 11]).await;
    let stranger = signed_by_outsider(from, Nonce::MIN, 900, DEAR).await;
    pipeline.chain.send(&stranger.raw).await;
    other.change(|faults| faults.is_down = true);
    pipeline.chain.mine(FINALITY * 3).await;
    let (head, id) = (pipeline.chain.head().await, sent[0].id);
    // Settled for the one that can be asked.
    pipeline.until(sent[1].id, "final", |tx| tx.row.state.is_final()).await;
    for _ in 0..LOOKS {
        engine.operator().reconcile(from).await.unwrap();
        assert!(!pipeline.record(id).await.row.state.is_final(), "I8: the other one is silent");
    }
    other.change(|faults| faults.lag_blocks = head);
    other.change(|faults| faults.is_down = false);
    for _ in 0..LOOKS {
        engine.operator().reconcile(from).await.unwrap();
        assert!(!pipeline.record(id).await.row.state.is_final(), "I8: the other one is behind");
    }
    other.change(|faults| faults.lag_blocks = 0);
    sent[0].ends = NONCE_TAKEN;
    pipeline.mine_until_final(&sent).await;
    pipeline.verify_beside(from, &sent, &[stranger.tx_hash]).await;
    assert!(!pipeline.alerts.of(AlertKind::NonceTaken).is_empty());
    let last = pipeline.history(id).await.pop().unwrap();
    let detail = last.detail.unwrap();
    assert!(detail.as_str().contains(&stranger.tx_hash.to_string()), "who took it: {detail}");
}
