//! An account that can't pay: held, told, and by itself mined after somebody has paid in.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{EngineOptions, Policies};
use tollgate_model::answer::AnswerClass;
use tollgate_model::bump::BumpRules;
use tollgate_model::port::{AlertKind, TxRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Allocated, StuckReason, TxState, U256};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{Cluster, account, options, patient, pending, transfers};

const ETHER: u64 = 1_000_000_000_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn account_without_funds_is_held_with_an_alert_and_mined_in_order_after_funding() {
    let cluster = Cluster::pipelined().await;
    let address = account(1).address;
    let engine = cluster.node("a", options());
    let values: Vec<u64> = (0..5).map(|n| ETHER + n).collect();
    // After they are taken, most of the money goes elsewhere.
    cluster.chain.answer(TxMatch::Any, AnswerClass::InsufficientFunds, 5);
    let ids = transfers(&engine, values.clone()).await;
    cluster.chain.set_balance(address, U256::from(2 * ETHER + ETHER / 2));
    cluster
        .eventually("an alert", async || {
            cluster.chain.mine();
            !cluster.alerts.of(AlertKind::InsufficientFunds).is_empty()
        })
        .await;
    let unfinished = cluster.record(ids[4]).await;
    assert!(!unfinished.row.state.is_final(), "{unfinished:?}");
    cluster.chain.set_balance(address, U256::from(ETHER) * U256::from(100));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), values, "in order");
    for id in ids {
        assert_eq!(cluster.record(id).await.row.state, TxState::Confirmed);
    }
}

/// Longer than `grey_zone.timeout`.
const LONG: Duration = Duration::from_secs(700);
const UNFUNDED: TxState = TxState::Allocated(Allocated::InsufficientFunds);

#[tokio::test(flavor = "multi_thread")]
async fn lack_of_funds_is_shown_as_such_after_a_takeover() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Any, AnswerClass::InsufficientFunds, usize::MAX);
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    cluster.until(ids[0], "is held", |tx| tx.row.state == UNFUNDED).await;
    let hash = cluster.attempts(ids[0]).await[0].tx_hash;
    engine.stop().await;
    drop(engine);
    cluster.clock.advance(LONG);
    let heir = cluster.node("b", patient());
    cluster.eventually("the new owner sends it", async || cluster.chain.sends(hash) >= 2).await;
    cluster
        .eventually("its answer is heard", async || {
            cluster.alerts.of(AlertKind::InsufficientFunds).len() == 2
        })
        .await;
    heir.operator().reconcile(account(1)).await.unwrap();
    assert_eq!(cluster.record(ids[0]).await.row.state, UNFUNDED);
    cluster.chain.answer_truly();
    cluster.clock.advance(Duration::from_secs(3_600 * 24));
    cluster.mine_until_final(&ids).await;
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    let history = cluster.history(ids[0]).await;
    let was_doubted = |to: TxState| to == grey || matches!(to, TxState::Stuck(_));
    assert!(!history.iter().any(|entry| was_doubted(entry.to)), "{history:?}");
}

const TIMEOUT: Duration = Duration::from_secs(60);
const STUCK_FOR_FUNDS: TxState = TxState::Stuck(StuckReason::InsufficientFunds);

fn impatient() -> EngineOptions {
    let resubmit = ResubmitRules { timeout: Some(TIMEOUT), ..patient().resubmit };
    EngineOptions { resubmit, ..patient() }
}

#[tokio::test(flavor = "multi_thread")]
async fn funds_that_vanish_after_a_node_took_it_are_the_shown_cause_and_it_goes_on_after_funding() {
    let cluster = Cluster::pipelined().await;
    let address = account(1).address;
    cluster.chain.hold(TxMatch::Any);
    let engine = cluster.node("a", impatient());
    let ids = pending(&cluster, &engine, [ETHER]).await;
    cluster.chain.set_balance(address, U256::from(ETHER / 2));
    cluster.chain.forget_pool();
    cluster.clock.advance(TIMEOUT);
    cluster.until(ids[0], "was stuck for funds", |tx| tx.row.state == STUCK_FOR_FUNDS).await;
    let told = cluster.record(ids[0]).await.last_error.expect("the cause");
    assert!(told.as_str().contains("insufficient funds"), "{told:?}");
    assert!(!cluster.alerts.of(AlertKind::InsufficientFunds).is_empty());
    cluster.chain.set_balance(address, U256::from(ETHER) * U256::from(100));
    cluster.chain.release(TxMatch::Any);
    cluster.clock.advance(Duration::from_secs(2 * 3_600));
    cluster.mine_until_final(&ids).await;
    let record = cluster.record(ids[0]).await;
    assert_eq!(record.row.state, TxState::Confirmed);
    assert_eq!((record.last_error, record.next_resubmit_at), (None, None), "out of date");
}

#[tokio::test(flavor = "multi_thread")]
async fn base_fee_above_the_newest_offer_is_shown_on_the_transaction_until_it_comes_down() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.set_base_fee(100);
    cluster.chain.hold(TxMatch::Any);
    let bump = Arc::new(BumpRules { enabled: false, ..BumpRules::default() });
    let policies = Policies { bump, ..Policies::default() };
    let resubmit = ResubmitRules { timeout: Some(3 * TIMEOUT), ..patient().resubmit };
    let options = EngineOptions { resubmit, ..patient() };
    let engine = cluster.node_with("a", options, policies);
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.set_base_fee(100_000_000_000);
    cluster.clock.advance(3 * TIMEOUT);
    let is_told = |tx: &TxRecord| {
        tx.last_error.as_ref().is_some_and(|told| told.as_str().contains("price too low"))
    };
    cluster.until(ids[0], "told of the base fee", is_told).await;
    assert!(!cluster.alerts.of(AlertKind::FeeCap).is_empty());
    // A node that has it already says nothing new: the pauses go on.
    let resubmits = cluster.record(ids[0]).await.resubmits;
    for _ in 0..4 {
        cluster.clock.advance(std::time::Duration::from_millis(600));
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    }
    let resent = cluster.record(ids[0]).await.resubmits - resubmits;
    assert!(resent <= 1, "{resent} resends within some seconds");
    cluster.chain.set_base_fee(100);
    cluster.clock.advance(TIMEOUT);
    cluster.until(ids[0], "had nothing in its way", |tx| tx.last_error.is_none()).await;
}
