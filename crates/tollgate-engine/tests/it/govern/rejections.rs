//! What every endpoint rejects: held, closed by a placeholder, or recycled with proof.

use tollgate_engine::EngineOptions;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::{AlertKind, Checkpoint};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::{Address, Allocated, Failed, Intent, StuckReason, TxState, U256};
use tollgate_testkit::fake_chain::Which;

use super::{patient, transfers};
use crate::rig::{Rig, account, id};

const REJECTED: TxState = TxState::Stuck(StuckReason::Rejected);
const BAD: Address = Address::repeat_byte(0xba);

fn policy(rejected_slot: RejectedSlot) -> EngineOptions {
    EngineOptions { rejected_slot, ..patient() }
}

fn bad() -> Intent {
    Intent { gas: Some(21_000), ..Intent::transfer(BAD, U256::from(666)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn held_it_stays_stuck_with_an_alert_and_keeps_its_slot() {
    let rig = Rig::new().await;
    rig.chain.reject_calls_to(BAD);
    let engine = rig.node("a", policy(RejectedSlot::Hold));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    rig.until(tx, "is rejected", |tx| tx.seen.state == REJECTED).await;
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::Rejected).is_empty()).await;
    let next = transfers(&engine, [10]).await;
    assert_eq!(rig.record(next[0]).await.nonce.unwrap().get(), 1, "I3: not the same slot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_closes_the_slot_and_successors_are_mined() {
    let rig = Rig::new().await;
    rig.chain.reject_calls_to(BAD);
    let engine = rig.node("a", policy(RejectedSlot::Placeholder));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    let next = transfers(&engine, [10]).await;
    rig.mine_until_final(&[tx, next[0]]).await;
    assert_eq!(rig.record(tx).await.seen.state, TxState::Failed(Failed::Rejected));
    assert_eq!(rig.paid(account(1)), [0, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_after_a_lost_answer_is_no_proof_and_nothing_is_recycled() {
    let rig = Rig::new().await;
    // The first try has no clear answer, the second says that it can't be taken.
    rig.chain.answer(Which::To(BAD), AnswerClass::Transient, 1);
    rig.chain.answer(Which::To(BAD), AnswerClass::Invalid, usize::MAX);
    let engine = rig.node("a", policy(RejectedSlot::Recycle));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    rig.until(tx, "is in the grey zone", |tx| tx.seen.state == grey).await;
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    assert_eq!(rig.record(tx).await.seen.state, grey, "I3: it may be with a node");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_after_an_answer_that_nobody_heard_is_no_proof() {
    let rig = Rig::new().await;
    rig.chain.reject_calls_to(BAD);
    // The sender dies with the answer to the first send in its hands.
    rig.gate.trap(Checkpoint::NodeAnswered);
    let resubmit = crate::rig::options().resubmit;
    let options = EngineOptions { resubmit, ..policy(RejectedSlot::Recycle) };
    let engine = rig.node("a", options);
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    rig.until(tx, "is in the grey zone", |tx| tx.seen.state == grey).await;
    assert_eq!(engine.deaths(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_proof_the_slot_goes_to_the_next_one() {
    let rig = Rig::new().await;
    rig.chain.reject_calls_to(BAD);
    let engine = rig.node("a", policy(RejectedSlot::Recycle));
    let tx = id(engine.create(account(1), None, bad()).await.unwrap());
    rig.until(tx, "ended", |tx| tx.seen.state == TxState::Failed(Failed::Rejected)).await;
    let next = transfers(&engine, [10, 11]).await;
    rig.mine_until_final(&next).await;
    assert_eq!(rig.paid(account(1)), [10, 11], "nothing is left empty");
    assert_eq!(rig.feed().await.len(), 3);
}
