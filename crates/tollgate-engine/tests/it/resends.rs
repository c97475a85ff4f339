//! What is sent again: when, in which order, and never before it was claimed.

use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::port::Checkpoint;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Tracking, TxState};
use tollgate_testkit::fake_chain::Which;
use tollgate_testkit::wait::until;

use crate::govern::{PENDING, patient, transfers};
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
async fn refused_for_a_gap_only_the_missing_one_is_sent_again() {
    let rig = Rig::new().await;
    rig.chain.refuse_gaps();
    rig.chain.answer(Which::Nonce(0), AnswerClass::InsufficientFunds, usize::MAX);
    let engine = rig.node("a", options());
    let ids = transfers(&engine, 0..40).await;
    let mut hashes = Vec::new();
    for id in &ids {
        rig.until(*id, "was refused", |tx| tx.last_error.is_some()).await;
        hashes.push(rig.record(*id).await.newest_hash.unwrap());
    }
    let sends = || hashes.iter().map(|hash| rig.chain.sends(*hash)).collect::<Vec<_>>();
    let rows = async || {
        let mut rows = 0;
        for id in &ids[1..] {
            rows += rig.history(*id).await.len();
        }
        rows
    };
    let (sends_before, rows_before) = (sends(), rows().await);
    rig.eventually("the missing one was sent again and again", async || {
        rig.clock.advance(Duration::from_secs(400));
        rig.chain.sends(hashes[0]) >= sends_before[0] + 5
    })
    .await;
    assert_eq!(sends()[1..], sends_before[1..], "what is behind it waits for it");
    assert_eq!(rows().await, rows_before);

    // Somebody pays in: all of them go out behind it.
    rig.chain.answer_truly();
    let waits = async || {
        rig.clock.advance(Duration::from_secs(400));
        rig.chain.pooled() == 40
    };
    rig.eventually("all are with a node", waits).await;
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_one_is_sent_again_with_growing_pauses() {
    let rig = Rig::new().await;
    rig.chain.refuse_gaps();
    rig.chain.answer(Which::Nonce(0), AnswerClass::Accepted, usize::MAX);
    let engine = rig.node("a", patient());
    // Taken and swallowed each time.
    let ids = transfers(&engine, [10, 11]).await;
    rig.until(ids[1], "was refused", |tx| tx.last_error.is_some()).await;
    let hash = rig.record(ids[0]).await.newest_hash.unwrap();
    let before = rig.chain.sends(hash);
    let mut waited = Vec::new();
    for resends in 1..=6 {
        let mut seconds = 0;
        rig.eventually("the next resend", async || {
            if rig.chain.sends(hash) >= before + resends {
                return true;
            }
            rig.clock.advance(Duration::from_secs(1));
            seconds += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
            false
        })
        .await;
        waited.push(seconds);
    }
    assert!(waited[5] >= 16, "each pause is twice the one before: {waited:?}");
    rig.chain.answer_truly();
    rig.eventually("both are with a node", async || {
        rig.clock.advance(Duration::from_secs(100));
        rig.chain.pooled() == 2
    })
    .await;
    rig.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_missing_among_those_that_are_there_is_found() {
    let rig = Rig::new().await;
    rig.chain.refuse_gaps();
    let engine = rig.node("a", patient());
    let mut ids = transfers(&engine, [10, 11, 12]).await;
    for id in &ids {
        rig.until(*id, "was with a node", |tx| tx.seen.state == PENDING).await;
    }
    assert!(rig.chain.evict(rig.record(ids[1]).await.newest_hash.unwrap()));
    ids.extend(transfers(&engine, [13]).await);
    rig.eventually("all are with a node", async || rig.chain.pooled() == 4).await;
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), [10, 11, 12, 13]);
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
