//! A slot is called taken only when every endpoint was asked.

use tollgate_engine::EngineOptions;
use tollgate_model::Nonce;
use tollgate_model::port::AlertKind;

use super::super::check::NONCE_TAKEN;
use super::super::outsider::{DEAR, signed};
use super::super::support::{FINALITY, Pipeline, account};
use super::{MINUTE, patient};

everywhere! {
    slot_taken_by_an_outsider_ends_after_both_endpoints_were_asked,
}

/// How often it is compared while one endpoint can't tell: each time could be the wrong one.
const LOOKS: u32 = 3;

async fn slot_taken_by_an_outsider_ends_after_both_endpoints_were_asked(pipeline: Pipeline) {
    let other = pipeline.chain.breakable().await;
    let urls = [pipeline.chain.url(), other.url()];
    let watchful = EngineOptions { reconcile_interval: MINUTE, ..patient() };
    let engine = pipeline.node_over("a", watchful, &urls).await;
    let from = account(0);
    let mut sent = pipeline.pending(&engine, from, [10, 11]).await;
    let stranger = signed(from, Nonce::MIN, 900, DEAR).await;
    pipeline.chain.send(&stranger.raw).await;
    other.change(|faults| faults.is_down = true);
    pipeline.chain.mine(FINALITY * 3).await;
    let (head, id) = (pipeline.chain.head().await, sent[0].id);
    // Settled for the one that can be asked.
    pipeline.until(sent[1].id, "final", |tx| tx.row.state.is_final()).await;
    for _ in 0..LOOKS {
        engine.reconcile(from).await.unwrap();
        assert!(!pipeline.record(id).await.row.state.is_final(), "I8: the other one is silent");
    }
    other.change(|faults| faults.lag_blocks = head);
    other.change(|faults| faults.is_down = false);
    for _ in 0..LOOKS {
        engine.reconcile(from).await.unwrap();
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
