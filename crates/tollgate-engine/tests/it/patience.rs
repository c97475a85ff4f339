//! Waits and their limits, and claims before sends.

use std::time::Duration;

use tollgate_engine::{Acted, Action, EngineOptions};
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::{Checkpoint, TxRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{StuckReason, TxState};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{Cluster, PENDING, account, act, options, patient, pending, transfers};

const SECOND: Duration = Duration::from_secs(1);
const TIMED_OUT: TxState = TxState::Stuck(StuckReason::TimedOut);
const ETHER: u64 = 1_000_000_000_000_000_000;

fn impatient() -> EngineOptions {
    let resubmit = ResubmitRules { timeout: Some(60 * SECOND), ..patient().resubmit };
    EngineOptions { resubmit, ..patient() }
}

/// Long enough for two ticks of a worker that has nothing else to do.
async fn two_ticks() {
    tokio::time::sleep(Duration::from_millis(1_200)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_with_the_next_begins_when_it_becomes_the_head() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    cluster.chain.hold(TxMatch::Value(11));
    let engine = cluster.node("a", impatient());
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[1], "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.clock.advance(60 * SECOND);
    cluster.until(ids[0], "timed out", |tx| tx.row.state == TIMED_OUT).await;
    cluster.chain.release(TxMatch::Value(10));
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    two_ticks().await;
    assert_eq!(cluster.record(ids[1]).await.row.state, PENDING, "it stood in line until now");
    cluster.clock.advance(60 * SECOND);
    cluster.until(ids[1], "timed out", |tx| tx.row.state == TIMED_OUT).await;
}

/// All endpoints are away for longer than `timeout.transaction`.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_that_timed_out_in_an_outage_is_sent_again_when_it_is_over() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::Transient, usize::MAX);
    let engine = cluster.node("a", impatient());
    let ids = transfers(&engine, [10]).await;
    cluster.clock.advance(60 * SECOND);
    cluster.until(ids[0], "timed out", |tx| tx.row.state == TIMED_OUT).await;
    cluster.chain.answer_truly();
    cluster.clock.advance(impatient().resubmit.interval * 2);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10], "I15: by itself");
}

/// A node had accepted it, and its pool was lost while the time ran out.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_that_a_pool_lost_before_it_timed_out_is_sent_again() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", impatient());
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.forget_pool();
    cluster.chain.release(TxMatch::Value(10));
    cluster.clock.advance(60 * SECOND);
    cluster.until(ids[0], "timed out", |tx| tx.row.state == TIMED_OUT).await;
    cluster.clock.advance(impatient().resubmit.interval * 2);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10], "I15: by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_restarts_after_an_operator_action() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", impatient());
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.clock.advance(40 * SECOND);
    assert_eq!(act(&engine, ids[0], Action::Resubmit).await, Ok(Acted::Resent));
    cluster.clock.advance(40 * SECOND);
    two_ticks().await;
    assert_eq!(cluster.record(ids[0]).await.row.state, PENDING);
    cluster.clock.advance(40 * SECOND);
    cluster.until(ids[0], "timed out", |tx| tx.row.state == TIMED_OUT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_one_hold_retries_the_others_at_once() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let values: Vec<u64> = (0..4).map(|n| ETHER + n).collect();
    for value in &values[1..] {
        cluster.chain.answer(TxMatch::Value(*value), AnswerClass::InsufficientFunds, 1);
    }
    let ids = transfers(&engine, values.clone()).await;
    for id in &ids[1..] {
        cluster.until(*id, "was refused", |tx| tx.last_error.is_some()).await;
    }
    // Nothing is due for an hour; somebody has one of them sent.
    act(&engine, ids[1], Action::Resubmit).await.unwrap();
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), values);
}

#[tokio::test(flavor = "multi_thread")]
async fn action_is_durable_before_it_is_sent() {
    for action in [Action::Resubmit, Action::Cancel, Action::SpeedUp] {
        let cluster = Cluster::pipelined().await;
        let engine = cluster.node("a", patient());
        let ids = transfers(&engine, [10]).await;
        cluster.until(ids[0], "was with a node", |tx| tx.row.state == PENDING).await;
        let before = cluster.chain.all_sends();
        let mut hold = cluster.checkpoints.pause_at(Checkpoint::BatchWritten);
        let (worker, tx, wanted) = (engine.clone(), ids[0], action.clone());
        let acts = tokio::spawn(async move { act(&worker, tx, wanted).await });
        hold.reached().await;
        // Long enough for a send that did not wait.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(cluster.chain.all_sends(), before, "I11: {action:?} was sent before its claim");
        hold.release();
        acts.await.unwrap().unwrap();
        cluster.eventually("it is sent", async || cluster.chain.all_sends() > before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_known_to_a_node_by_hash_leaves_the_grey_zone() {
    let cluster = Cluster::pipelined().await;
    // Everything is taken, and no answer ever comes.
    cluster.chain.lose_answers(usize::MAX);
    let engine = cluster.node("a", options());
    let ids = transfers(&engine, [10]).await;
    cluster
        .until(ids[0], "is known to be with a node", |tx| {
            matches!(tx.row.state, TxState::Tracking(_))
        })
        .await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10]);
}

/// Nodes that take over one after the other, each before its own patience would have run out.
#[tokio::test(flavor = "multi_thread")]
async fn patience_with_the_head_goes_on_over_takeovers() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let mut engine = cluster.node("a", impatient());
    let tx = pending(&cluster, &engine, [10]).await[0];
    for takeover in 1..=4 {
        cluster.clock.advance(25 * SECOND);
        engine.stop().await;
        drop(engine);
        engine = cluster.node("heir", impatient());
        // A new owner sends what it finds, unless it is out of patience.
        let is_taken_over = |tx: &TxRecord| tx.resubmits >= takeover || tx.row.state == TIMED_OUT;
        cluster.until(tx, "was taken over", is_taken_over).await;
    }
    cluster.until(tx, "timed out", |tx| tx.row.state == TIMED_OUT).await;
}

/// A takeover sends what it finds, but uses up no try and begins no pause anew.
#[tokio::test(flavor = "multi_thread")]
async fn resends_run_out_under_owners_that_change_often() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let resubmit = ResubmitRules {
        interval: 40 * SECOND,
        backoff_percent: 100,
        jitter_percent: 0,
        max_attempts: 2,
        ..ResubmitRules::default()
    };
    let options = EngineOptions { resubmit, ..options() };
    let mut engine = cluster.node("a", options.clone());
    let tx = pending(&cluster, &engine, [10]).await[0];
    let is_stuck = |state: TxState| state == TxState::Stuck(StuckReason::ResubmitsExhausted);
    for takeover in 1..=6 {
        cluster.clock.advance(25 * SECOND);
        engine.stop().await;
        drop(engine);
        engine = cluster.node("heir", options.clone());
        let sent = |tx: &TxRecord| tx.resubmits >= takeover || is_stuck(tx.row.state);
        cluster.until(tx, "was taken over", sent).await;
        let state = cluster.record(tx).await.row.state;
        assert!(takeover > 3 || !is_stuck(state), "two tries and their pauses take longer");
    }
    let state = cluster.record(tx).await.row.state;
    assert!(is_stuck(state), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_transaction_that_a_node_already_knows_stays_stuck_until_it_is_mined() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", impatient());
    let tx = pending(&cluster, &engine, [10]).await[0];
    cluster.clock.advance(60 * SECOND);
    cluster.until(tx, "timed out", |tx| tx.row.state == TIMED_OUT).await;
    let hash = cluster.attempts(tx).await[0].tx_hash;
    assert_eq!(act(&engine, tx, Action::Resubmit).await, Ok(Acted::Resent));
    cluster.eventually("it is sent again", async || cluster.chain.sends(hash) == 2).await;
    two_ticks().await;
    assert_eq!(cluster.record(tx).await.row.state, TIMED_OUT, "nothing was solved");
    // A node that did not have it any more, and takes it, is news.
    cluster.chain.forget_pool();
    assert_eq!(act(&engine, tx, Action::Resubmit).await, Ok(Acted::Resent));
    cluster.until(tx, "is tracked", |tx| matches!(tx.row.state, TxState::Tracking(_))).await;
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Confirmed);
}
