//! Nonces that the chain waits for and nothing of ours is in: seen against the mined count, told,
//! and filled where the policy allows it.

use std::time::Duration;

use tollgate_engine::{ActError, EngineOptions, Fill};
use tollgate_model::fill::{FillWith, NonceRange, NoncesRefused};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::AlertKind;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::stuck::StuckThresholds;
use tollgate_model::{Nonce, TxId, TxState};
use tollgate_testkit::fake_chain::Reorged;

use crate::support::{
    Cluster, PENDING, account, mine_blocks, patient, reason, strict, transfers, window,
};

const MINUTE: Duration = Duration::from_secs(60);

fn policy(rejected_slot: RejectedSlot, base: EngineOptions) -> EngineOptions {
    let stuck = StuckThresholds { head_after: MINUTE, ..base.stuck };
    EngineOptions { rejected_slot, stuck, ..base }
}

/// An outsider's transaction is counted as pending, one of ours goes behind it, and then the
/// outsider's vanishes.
async fn with_a_hole(options: EngineOptions) -> (Cluster, tollgate_engine::Engine, Vec<TxId>) {
    let cluster = Cluster::pipelined().await;
    let (hash, _) = cluster.chain.outsider_sends(account(1).address, 0, 10_000_000_000);
    let engine = cluster.node("a", options);
    let ids = transfers(&engine, [10]).await;
    assert_eq!(cluster.record(ids[0]).await.nonce.unwrap().get(), 1);
    cluster.until(ids[0], "was with a node", |tx| tx.row.state == PENDING).await;
    assert!(cluster.chain.evict(hash));
    (cluster, engine, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_below_the_mined_count_raises_an_alert() {
    let (cluster, engine, _) = with_a_hole(policy(RejectedSlot::Hold, patient())).await;
    let found = engine.operator().reconcile(account(1)).await.unwrap();
    assert!(found.steps.iter().any(|step| step.contains("hole at nonce 0")), "{found:?}");
    cluster.clock.advance(MINUTE);
    engine.operator().reconcile(account(1)).await.unwrap();
    assert_eq!(cluster.alerts.of(AlertKind::Hole).len(), 1, "told once");
    assert_eq!(cluster.chain.pooled(), 1, "and left as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_is_closed_by_a_placeholder_where_the_policy_says_so() {
    let (cluster, engine, ids) = with_a_hole(policy(RejectedSlot::Placeholder, patient())).await;
    engine.operator().reconcile(account(1)).await.unwrap();
    assert_eq!(cluster.chain.pooled(), 1, "not at once: whoever left it may come back");
    cluster.clock.advance(MINUTE);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.paid(account(1)), [0, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_is_filled_by_the_next_queued_transaction() {
    let options = policy(RejectedSlot::Recycle, window(1));
    let (cluster, engine, mut ids) = with_a_hole(options).await;
    ids.extend(transfers(&engine, [11]).await);
    engine.operator().reconcile(account(1)).await.unwrap();
    cluster.clock.advance(MINUTE);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [11, 10], "the window was full, and it had its way");
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_that_an_outsider_fills_meanwhile_is_not_overwritten() {
    let (cluster, engine, ids) = with_a_hole(policy(RejectedSlot::Placeholder, patient())).await;
    engine.operator().reconcile(account(1)).await.unwrap();
    cluster.chain.outsider_sends(account(1).address, 0, 10_000_000_000);
    cluster.clock.advance(MINUTE);
    engine.operator().reconcile(account(1)).await.unwrap();
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.feed().await.len(), 1, "no placeholder was made");
}

/// Nodes that take over one after the other, each before its own patience would have run out.
#[tokio::test(flavor = "multi_thread")]
async fn age_of_a_hole_goes_on_over_takeovers() {
    let options = || policy(RejectedSlot::Placeholder, patient());
    let (rig, mut engine, ids) = with_a_hole(options()).await;
    for _ in 0..2 {
        let stored = async || !rig.store.waits(account(1)).await.unwrap().is_empty();
        engine.operator().reconcile(account(1)).await.unwrap();
        rig.eventually("its age is stored", stored).await;
        rig.clock.advance(MINUTE * 2 / 3);
        engine.stop().await;
        drop(engine);
        engine = rig.node("heir", options());
    }
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), [0, 10]);
}

/// A range of one nonce, to be filled by placeholders.
fn only(nonce: Nonce, with: FillWith) -> Fill {
    Fill { range: NonceRange { first: nonce, last: nonce }, with, used: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn fill_on_a_paused_account_makes_placeholders_at_once_and_refuses_to_wait_for_the_next() {
    let (cluster, engine, mut ids) = with_a_hole(policy(RejectedSlot::Hold, patient())).await;
    let of = account(1);
    engine.operator().pause(of, reason("audit")).await.unwrap();
    let held = transfers(&engine, [11]).await;
    let by_next =
        engine.operator().fill(of, only(Nonce::MIN, FillWith::Next), reason("drill")).await;
    let refused = NoncesRefused::NotActive(SubmitterStatus::Paused);
    assert_eq!(by_next, Err(ActError::Nonces(refused)), "it says what to do");
    let filled =
        engine.operator().fill(of, only(Nonce::MIN, FillWith::Placeholder), reason("drill")).await;
    assert_eq!(filled.map(|filled| filled.handed_back), Ok(1));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(of), [0, 10]);
    assert_eq!(cluster.record(held[0]).await.nonce, None, "what waits is still held");
    engine.operator().resume(of, reason("done")).await.unwrap();
    ids.extend(held);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(of), [0, 10, 11]);
}

/// An outsider's transaction that an operator has accepted leaves the chain below an open slot.
#[tokio::test(flavor = "multi_thread")]
async fn hole_of_a_strict_account_with_open_work_is_filled_by_an_operators_placeholder() {
    let reconcile_interval = Duration::from_millis(300);
    let options = EngineOptions { reconcile_interval, ..strict() };
    let (cluster, engine) = Cluster::strict_with_node(options).await;
    let of = account(1);
    cluster.chain.outsider_mines(of.address);
    mine_blocks(&cluster, 3);
    let status = async || cluster.submitter(of).await.status;
    cluster.eventually("PROTECT", async || status().await == SubmitterStatus::Protect).await;
    engine.operator().resume(of, reason("it was me")).await.unwrap();
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[0], "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.chain.reorg(cluster.chain.height(), Reorged::Dropped);
    let found = engine.operator().reconcile(of).await.unwrap();
    assert!(found.steps.iter().any(|step| step.contains("hole at nonce 0")), "{found:?}");
    let by_next =
        engine.operator().fill(of, only(Nonce::MIN, FillWith::Next), reason("drill")).await;
    assert_eq!(by_next, Err(ActError::Nonces(NoncesRefused::Strict)), "I12");
    let filled =
        engine.operator().fill(of, only(Nonce::MIN, FillWith::Placeholder), reason("drill")).await;
    assert_eq!(filled.map(|filled| filled.handed_back), Ok(1));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(of), [0, 10, 11], "I12: without a gap, in order");
}
