//! What is sent again: when, in which order, and never before it was claimed.

use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::port::Checkpoint;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Tracking, TxState};
use tollgate_testkit::fake_chain::Which;
use tollgate_testkit::wait::until;

use crate::rig::{Rig, account, options, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_is_claimed_before_it_is_sent() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    let id = engine.create(account(1), None, transfer(1)).await.unwrap().tx_id();
    let pending = TxState::Tracking(Tracking::Pending);
    rig.until(id, "was with a node", |tx| tx.seen.state == pending).await;
    let hash = rig.record(id).await.newest_hash.unwrap();
    assert_eq!(rig.chain.sends(hash), 1);

    // The claim is written and not committed: long enough for a send that did not wait.
    let mut hold = rig.gate.arm(Checkpoint::BatchWritten);
    rig.chain.forget_pool();
    hold.reached().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.chain.sends(hash), 1, "I11: sent before it was claimed");
    hold.release();
    until("the resend", || async { (rig.chain.sends(hash) > 1).then_some(()) }).await;
    assert!(rig.record(id).await.resubmits >= 1, "and the claim says so");
    rig.mine_until_final(&[id]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_predecessor_is_sent_again_soon_and_then_what_stands_behind_it() {
    let rig = Rig::new().await;
    rig.chain.refuse_gaps();
    // Nothing is resent for its age within this test.
    let patient = EngineOptions {
        resubmit: ResubmitRules {
            interval: Duration::from_secs(3_600),
            ..ResubmitRules::default()
        },
        ..options()
    };
    let engine = rig.node("a", patient);
    let first = engine.create(account(1), None, transfer(1)).await.unwrap().tx_id();
    let pending = TxState::Tracking(Tracking::Pending);
    rig.until(first, "was with a node", |tx| tx.seen.state == pending).await;
    rig.chain.forget_pool();
    let second = engine.create(account(1), None, transfer(2)).await.unwrap().tx_id();
    rig.mine_until_final(&[first, second]).await;
    assert_eq!(rig.paid(account(1)), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_fails_resets_nothing_while_others_are_in_flight() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    let mut values = Vec::new();
    let mut ids = Vec::new();
    let fails = |class: &AnswerClass| {
        action_for(*class) != AnswerAction::Track && !class.may_lead_to_rejection()
    };
    for (n, class) in (0..).zip(AnswerClass::ALL.into_iter().filter(fails)) {
        rig.chain.answer(Which::Value(100 + n), class, 1);
        for value in [n, 100 + n] {
            values.push(value);
            ids.push(engine.create(account(1), None, transfer(value)).await.unwrap().tx_id());
        }
        let failed = *ids.last().unwrap();
        let hash = rig.record(failed).await.newest_hash.unwrap();
        rig.eventually("the send failed", async || rig.chain.sends(hash) > 0).await;
    }
    assert!(ids.len() > 20, "there are many ways to fail");
    for (nonce, id) in (0..).zip(&ids) {
        assert_eq!(
            rig.record(*id).await.nonce.unwrap().get(),
            nonce,
            "I4: none twice, none left out"
        );
    }
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), values);
}
