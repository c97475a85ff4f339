//! Somebody else has the key.

use std::time::Duration;

use tollgate_engine::{ActError, EngineOptions};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::AlertKind;
use tollgate_model::{Failed, Queued, TxState};
use tollgate_testkit::fake_chain::{Fate, Which};

use super::{PENDING, reason, strict, transfers};
use crate::rig::{Rig, account, options};

const TAKEN: TxState = TxState::Failed(Failed::NonceTaken);
const HELD: TxState = TxState::Queued(Queued::Held);

fn watchful(options: EngineOptions) -> EngineOptions {
    EngineOptions { reconcile_interval: Duration::from_millis(300), ..options }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_goes_on_behind_what_an_outsider_used() {
    let rig = Rig::new().await;
    let engine = rig.node("a", watchful(options()));
    let first = transfers(&engine, [10]).await;
    rig.mine_until_final(&first).await;
    rig.chain.outsider_mines(account(1).address);
    rig.eventually("the cursor follows", async || {
        rig.submitter(account(1)).await.next_nonce.get() == 2
    })
    .await;
    let next = transfers(&engine, [11, 12]).await;
    rig.mine_until_final(&next).await;
    assert_eq!(rig.paid(account(1)), [10, 0, 11, 12], "nothing twice, nothing lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_an_outsider_took_ends_as_nonce_taken_and_the_rest_goes_on() {
    let rig = Rig::new().await;
    rig.chain.hold(Which::Value(10));
    let engine = rig.node("a", watchful(options()));
    let ids = transfers(&engine, [10, 11]).await;
    rig.until(ids[1], "was with a node", |tx| tx.seen.state == PENDING).await;
    let foreign = rig.chain.outsider_mines(account(1).address);
    rig.chain.mine();
    // Mined, but not settled: a reorg may still put ours there.
    rig.eventually("it is seen", async || !rig.alerts.of(AlertKind::NonceTaken).is_empty()).await;
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "I8");
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TAKEN);
    assert_eq!(rig.record(ids[1]).await.seen.state, TxState::Confirmed);
    assert_eq!(rig.alerts.of(AlertKind::NonceTaken).len(), 2, "seen, and then settled");
    let last = rig.history(ids[0]).await.pop().unwrap();
    assert!(last.detail.unwrap().as_str().contains(&foreign.to_string()), "who took it is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_slot_is_called_taken_while_an_endpoint_is_silent() {
    let rig = Rig::new().await;
    rig.chain.set_witnesses(2);
    rig.chain.silence_witness(1, true);
    rig.chain.hold(Which::Value(10));
    let engine = rig.node("a", watchful(options()));
    let ids = transfers(&engine, [10]).await;
    rig.until(ids[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.chain.outsider_mines(account(1).address);
    for _ in 0..8 {
        rig.chain.mine();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "one of two is not enough");
    rig.chain.silence_witness(1, false);
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TAKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_is_protected_within_one_interval_takes_nothing_and_goes_on_when_resumed() {
    let rig = Rig::with_mode(Mode::Strict).await;
    let engine = rig.node("a", watchful(strict()));
    let first = transfers(&engine, [10]).await;
    rig.mine_until_final(&first).await;
    rig.chain.outsider_mines(account(1).address);
    rig.eventually("PROTECT", async || {
        rig.submitter(account(1)).await.status == SubmitterStatus::Protect
    })
    .await;
    rig.eventually("an alert", async || rig.alerts.of(AlertKind::Protect).len() == 1).await;
    let held = transfers(&engine, [11, 12]).await;
    rig.until(held[1], "is held", |tx| tx.seen.state == HELD).await;
    rig.chain.mine();
    assert_eq!(rig.submitter(account(1)).await.next_nonce.get(), 1, "I12: takes nothing");
    engine.resume(account(1), reason("it was me")).await.unwrap();
    rig.mine_until_final(&held).await;
    assert_eq!(rig.paid(account(1)), [10, 0, 11, 12]);
    assert_eq!(rig.submitter(account(1)).await.status_reason.unwrap().as_str(), "it was me");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_submitter_without_work_is_watched_as_well() {
    let rig = Rig::with_mode(Mode::Strict).await;
    let lease_idle = Duration::from_millis(100);
    let engine = rig.node("a", EngineOptions { lease_idle, ..watchful(strict()) });
    rig.chain.outsider_mines(account(2).address);
    rig.eventually("PROTECT", async || {
        rig.submitter(account(2)).await.status == SubmitterStatus::Protect
    })
    .await;
    assert_eq!(rig.submitter(account(1)).await.status, SubmitterStatus::Active);
    drop(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_strict_slot_that_an_outsider_took_protects_and_ends_together() {
    let rig = Rig::with_mode(Mode::Strict).await;
    rig.chain.hold(Which::Value(10));
    let engine = rig.node("a", watchful(strict()));
    let ids = transfers(&engine, [10, 11]).await;
    rig.until(ids[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.chain.outsider_mines(account(1).address);
    rig.mine_until_final(&ids[..1]).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TAKEN);
    assert_eq!(rig.submitter(account(1)).await.status, SubmitterStatus::Protect);
    rig.until(ids[1], "is held", |tx| tx.seen.state == HELD).await;
    engine.resume(account(1), reason("known")).await.unwrap();
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), [0, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_lost_our_past_is_not_resumed() {
    let rig = Rig::with_mode(Mode::Strict).await;
    let engine = rig.node("a", strict());
    let ids = transfers(&engine, [10]).await;
    rig.mine_until_final(&ids).await;
    // Deeper than finality: the chain forgets what was final.
    rig.chain.reorg(rig.chain.height(), Fate::Lost);
    engine.reconcile(account(1)).await.unwrap();
    assert_eq!(rig.submitter(account(1)).await.status, SubmitterStatus::Protect);
    let refused = engine.resume(account(1), reason("try")).await;
    assert!(matches!(refused, Err(ActError::CannotResume(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_is_not_called_foreign_by_nodes_that_lost_its_receipt() {
    let rig = Rig::new().await;
    let engine = rig.node("a", watchful(options()));
    let ids = transfers(&engine, [10]).await;
    rig.until(ids[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    engine.stop().await;
    for _ in 0..5 {
        rig.chain.mine();
    }
    // Settled, and every endpoint says that it has no receipt of ours.
    rig.chain.lose_receipts(true);
    let engine = rig.node("b", watchful(options()));
    for _ in 0..3 {
        engine.reconcile(account(1)).await.unwrap();
    }
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "it is in the block all the same");
    rig.chain.lose_receipts(false);
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TxState::Confirmed);
}
