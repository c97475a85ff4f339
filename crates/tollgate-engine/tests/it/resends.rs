//! Resends: when, in which order, and never before they were claimed.

use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::port::Checkpoint;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Tracking, TxState};
use tollgate_testkit::fake_chain::TxMatch;
use tollgate_testkit::wait::until;

use crate::support::{Cluster, account, options, patient, pending, transfer, transfers};

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_is_claimed_before_it_is_sent() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let id = engine.create(account(1), None, transfer(1)).await.unwrap().tx_id();
    let pending = TxState::Tracking(Tracking::Pending);
    cluster.until(id, "was with a node", |tx| tx.row.state == pending).await;
    let hash = cluster.record(id).await.newest_hash.unwrap();
    assert_eq!(cluster.chain.sends(hash), 1);

    // The claim is written and not committed: long enough for a send that did not wait.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::BatchWritten);
    cluster.chain.forget_pool();
    hold.reached().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(cluster.chain.sends(hash), 1, "I11: sent before it was claimed");
    hold.release();
    until("the resend", || async { (cluster.chain.sends(hash) > 1).then_some(()) }).await;
    assert!(cluster.record(id).await.resubmits >= 1, "and the claim says so");
    cluster.mine_until_final(&[id]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_predecessor_is_sent_again_soon_and_then_what_stands_behind_it() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.refuse_gaps();
    // Nothing is resent for its age within this test.
    let patient = EngineOptions {
        resubmit: ResubmitRules {
            interval: Duration::from_secs(3_600),
            ..ResubmitRules::default()
        },
        ..options()
    };
    let engine = cluster.node("a", patient);
    let first = engine.create(account(1), None, transfer(1)).await.unwrap().tx_id();
    let pending = TxState::Tracking(Tracking::Pending);
    cluster.until(first, "was with a node", |tx| tx.row.state == pending).await;
    cluster.chain.forget_pool();
    let second = engine.create(account(1), None, transfer(2)).await.unwrap().tx_id();
    cluster.mine_until_final(&[first, second]).await;
    assert_eq!(cluster.paid(account(1)), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_for_a_gap_resends_only_the_missing_transaction() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.refuse_gaps();
    cluster.chain.answer(TxMatch::Nonce(0), AnswerClass::InsufficientFunds, usize::MAX);
    let engine = cluster.node("a", options());
    let ids = transfers(&engine, 0..40).await;
    let mut hashes = Vec::new();
    for id in &ids {
        cluster.until(*id, "was refused", |tx| tx.last_error.is_some()).await;
        hashes.push(cluster.record(*id).await.newest_hash.unwrap());
    }
    let sends = || hashes.iter().map(|hash| cluster.chain.sends(*hash)).collect::<Vec<_>>();
    let rows = async || {
        let mut rows = 0;
        for id in &ids[1..] {
            rows += cluster.history(*id).await.len();
        }
        rows
    };
    let (sends_before, rows_before) = (sends(), rows().await);
    cluster
        .eventually("the missing one was sent again and again", async || {
            cluster.clock.advance(Duration::from_secs(400));
            cluster.chain.sends(hashes[0]) >= sends_before[0] + 5
        })
        .await;
    assert_eq!(sends()[1..], sends_before[1..], "what is behind it waits for it");
    assert_eq!(rows().await, rows_before);

    // Somebody pays in: all of them go out behind it.
    cluster.chain.answer_truly();
    let waits = async || {
        cluster.clock.advance(Duration::from_secs(400));
        cluster.chain.pooled() == 40
    };
    cluster.eventually("all are with a node", waits).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_transaction_is_resent_with_growing_pauses() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.refuse_gaps();
    cluster.chain.answer(TxMatch::Nonce(0), AnswerClass::Accepted, usize::MAX);
    let engine = cluster.node("a", patient());
    // Taken and swallowed each time.
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[1], "was refused", |tx| tx.last_error.is_some()).await;
    let hash = cluster.record(ids[0]).await.newest_hash.unwrap();
    let before = cluster.chain.sends(hash);
    let mut waited = Vec::new();
    for resends in 1..=6 {
        let mut seconds = 0;
        cluster
            .eventually("the next resend", async || {
                if cluster.chain.sends(hash) >= before + resends {
                    return true;
                }
                cluster.clock.advance(Duration::from_secs(1));
                seconds += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
                false
            })
            .await;
        waited.push(seconds);
    }
    assert!(waited[5] >= 16, "each pause is twice the one before: {waited:?}");
    cluster.chain.answer_truly();
    cluster
        .eventually("both are with a node", async || {
            cluster.clock.advance(Duration::from_secs(100));
            cluster.chain.pooled() == 2
        })
        .await;
    cluster.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_missing_from_the_pool_is_found_among_present_ones() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.refuse_gaps();
    let engine = cluster.node("a", patient());
    let mut ids = pending(&cluster, &engine, [10, 11, 12]).await;
    assert!(cluster.chain.evict(cluster.record(ids[1]).await.newest_hash.unwrap()));
    ids.extend(transfers(&engine, [13]).await);
    cluster.eventually("all are with a node", async || cluster.chain.pooled() == 4).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_fails_resets_nothing_while_others_are_in_flight() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut values = Vec::new();
    let mut ids = Vec::new();
    let fails = |class: &AnswerClass| {
        action_for(*class) != AnswerAction::Track && !class.may_lead_to_rejection()
    };
    for (n, class) in (0..).zip(AnswerClass::ALL.into_iter().filter(fails)) {
        cluster.chain.answer(TxMatch::Value(100 + n), class, 1);
        for value in [n, 100 + n] {
            values.push(value);
            ids.push(engine.create(account(1), None, transfer(value)).await.unwrap().tx_id());
        }
        let failed = *ids.last().unwrap();
        let hash = cluster.record(failed).await.newest_hash.unwrap();
        cluster.eventually("the send failed", async || cluster.chain.sends(hash) > 0).await;
    }
    assert!(ids.len() > 20, "there are many ways to fail");
    for (nonce, id) in (0..).zip(&ids) {
        assert_eq!(
            cluster.record(*id).await.nonce.unwrap().get(),
            nonce,
            "I4: none twice, none left out"
        );
    }
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), values);
}
