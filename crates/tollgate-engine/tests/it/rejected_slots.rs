//! Slots that every endpoint rejects: held, closed by a placeholder, or recycled with proof.

use tollgate_engine::EngineOptions;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::{AlertKind, Checkpoint};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::{Address, Allocated, Failed, Intent, StuckReason, TxState, U256};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{Cluster, PENDING, account, id, options, patient, reason, transfers};

const REJECTED: TxState = TxState::Stuck(StuckReason::Rejected);
const BAD: Address = Address::repeat_byte(0xba);

fn policy(rejected_slot: RejectedSlot) -> EngineOptions {
    EngineOptions { rejected_slot, ..patient() }
}

fn bad() -> Intent {
    Intent { gas: Some(21_000), ..Intent::transfer(BAD, U256::from(666)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_transaction_under_hold_stays_stuck_with_an_alert_and_its_slot() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.reject_calls_to(BAD);
    let engine = cluster.node("a", policy(RejectedSlot::Hold));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    cluster.until(tx, "is rejected", |tx| tx.row.state == REJECTED).await;
    cluster
        .eventually("an alert", async || !cluster.alerts.of(AlertKind::Rejected).is_empty())
        .await;
    let next = transfers(&engine, [10]).await;
    assert_eq!(cluster.record(next[0]).await.nonce.unwrap().get(), 1, "I3: not the same slot");
    let said = cluster.record(tx).await.last_error.unwrap();
    engine.stop().await;
    let before = cluster.alerts.of(AlertKind::Rejected).len();
    let _next_owner = cluster.node("b", policy(RejectedSlot::Hold));
    let is_told = async || cluster.alerts.of(AlertKind::Rejected).len() > before;
    cluster.eventually("an alert of the next owner", is_told).await;
    let alerts = cluster.alerts.of(AlertKind::Rejected);
    assert!(alerts.iter().all(|alert| alert.detail.contains(said.as_str())), "{alerts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_closes_the_slot_and_successors_are_mined() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.reject_calls_to(BAD);
    let engine = cluster.node("a", policy(RejectedSlot::Placeholder));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    let next = transfers(&engine, [10]).await;
    cluster.mine_until_final(&[tx, next[0]]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Failed(Failed::Rejected));
    assert_eq!(cluster.paid(account(1)), [0, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholder_that_equals_the_rejected_intent_is_signed_as_another_attempt() {
    let cluster = Cluster::pipelined().await;
    let own = account(1).address;
    cluster.chain.answer(TxMatch::To(own), AnswerClass::Invalid, 1);
    let engine = cluster.node("a", policy(RejectedSlot::Placeholder));
    let intent = Intent::transfer(own, U256::ZERO);
    let tx = id(engine.create(account(1), None, intent).await.unwrap());
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Failed(Failed::Rejected));
    assert!(cluster.alerts.of(AlertKind::Stuck).is_empty(), "nothing that can't be written");
    let hashes: Vec<_> = cluster.store.attempts(tx).await.unwrap();
    assert_ne!(hashes[0].tx_hash, hashes[1].tx_hash);
    assert_eq!(hashes[0].fees.max_fee, hashes[1].fees.max_fee, "at no higher price");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_after_a_lost_answer_is_no_proof_and_nothing_is_recycled() {
    let cluster = Cluster::pipelined().await;
    // The first try has no clear answer, the second says that it can't be taken.
    cluster.chain.answer(TxMatch::To(BAD), AnswerClass::Transient, 1);
    cluster.chain.answer(TxMatch::To(BAD), AnswerClass::Invalid, usize::MAX);
    let engine = cluster.node("a", policy(RejectedSlot::Recycle));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    cluster.until(tx, "is in the grey zone", |tx| tx.row.state == grey).await;
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    assert_eq!(cluster.record(tx).await.row.state, grey, "I3: it may be with a node");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_after_an_answer_that_nobody_heard_is_no_proof() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.reject_calls_to(BAD);
    // The sender dies with the answer to the first send in its hands.
    cluster.checkpoints.panic_at(Checkpoint::NodeAnswered);
    let resubmit = crate::support::options().resubmit;
    let options = EngineOptions { resubmit, ..policy(RejectedSlot::Recycle) };
    let engine = cluster.node("a", options);
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    cluster.until(tx, "is in the grey zone", |tx| tx.row.state == grey).await;
    assert_eq!(engine.deaths(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_after_a_batch_whose_answer_was_lost_recycle_no_slot_of_it() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.reject_calls_to(BAD);
    let engine = cluster.node("a", policy(RejectedSlot::Recycle));
    // The first one waits to be sent, so that the others are sent together.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::Sending);
    let first = transfers(&engine, [10]).await;
    hold.reached().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(id(engine.create(account(1), None, bad()).await.unwrap()));
    }
    // Callers are answered before the sender has their transactions; a command comes after that.
    engine.operator().resume(account(1), reason("nothing")).await.unwrap();
    cluster.chain.lose_batches(1);
    hold.release();
    // Each of them may be with a node, not only the first without an answer.
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    for tx in ids {
        cluster.until(tx, "was answered", |tx| tx.last_error.is_some()).await;
        assert_eq!(cluster.record(tx).await.row.state, grey, "I3");
    }
    cluster.until(first[0], "was with a node", |tx| tx.row.state == PENDING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_slot_that_is_proven_free_goes_to_the_next_transaction() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.reject_calls_to(BAD);
    let engine = cluster.node("a", policy(RejectedSlot::Recycle));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    cluster.until(tx, "ended", |tx| tx.row.state == TxState::Failed(Failed::Rejected)).await;
    let next = transfers(&engine, [10, 11]).await;
    cluster.mine_until_final(&next).await;
    assert_eq!(cluster.paid(account(1)), [10, 11], "nothing is left empty");
    assert_eq!(cluster.feed().await.len(), 3);
}

/// With the policy that gives slots away, nothing but proof does.
async fn keeps_its_slot(class: AnswerClass) {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(10), class, usize::MAX);
    let rejected_slot = RejectedSlot::Recycle;
    let engine = cluster.node("a", EngineOptions { rejected_slot, ..options() });
    let mut ids = transfers(&engine, [10]).await;
    cluster.until(ids[0], "was refused", |tx| tx.last_error.is_some()).await;
    let hash = cluster.record(ids[0]).await.newest_hash.unwrap();
    let before = cluster.chain.sends(hash);
    cluster
        .eventually("the same bytes are sent again", async || cluster.chain.sends(hash) > before)
        .await;
    ids.extend(transfers(&engine, [11]).await);
    cluster.until(ids[1], "was with a node", |tx| tx.row.state == PENDING).await;
    let nonces = [cluster.record(ids[0]).await.nonce, cluster.record(ids[1]).await.nonce];
    assert_eq!(nonces.map(|nonce| nonce.unwrap().get()), [0, 1], "I3: {class}");
    cluster.chain.answer_truly();
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11], "{class}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_is_never_answered_frees_no_slot() {
    keeps_its_slot(AnswerClass::Unknown).await;
    keeps_its_slot(AnswerClass::Transient).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nodes_fee_cap_frees_no_slot() {
    keeps_its_slot(AnswerClass::FeeTooHigh).await;
}
