//! More for what is too cheap: by itself, or because somebody wants it.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{ActError, Action, EngineOptions, Policies};
use tollgate_model::answer::AnswerClass;
use tollgate_model::bump::{BumpRules, Cap, ClosingPrice};
use tollgate_model::fees::FeeCaps;
use tollgate_model::port::policy::{NewCall, Replacement};
use tollgate_model::port::{Alert, AlertKind, AttemptKind};
use tollgate_model::refusal::RefusalKind;
use tollgate_model::stuck::Forbidden;
use tollgate_model::{Address, Bytes, GasPrice, Intent, TxState, U256};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{
    Cluster, PENDING, account, act, id, patient, pending, sign, transfer, transfers,
};

const GWEI: u128 = 1_000_000_000;

fn bumping() -> Policies {
    let min_interval = Duration::from_millis(200);
    let bump = BumpRules { enabled: true, min_interval, ..BumpRules::default() };
    Policies { bump: Arc::new(bump), ..Policies::default() }
}

async fn cheap_cluster() -> Cluster {
    let cluster = Cluster::pipelined().await;
    cluster.chain.set_base_fee(10 * GWEI);
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn underpriced_transaction_is_bumped_and_mined() {
    let cluster = cheap_cluster().await;
    let engine = cluster.node_with("a", patient(), bumping());
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[1], "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.chain.set_base_fee(60 * GWEI);
    cluster.until(ids[0], "offered more", |tx| tx.attempts > 1).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.paid(account(1)), [10, 11]);
    let attempts = cluster.attempts(ids[0]).await;
    assert!(attempts.iter().skip(1).all(|attempt| attempt.kind == AttemptKind::Bump));
}

#[tokio::test(flavor = "multi_thread")]
async fn older_attempt_mined_after_a_bump_ends_the_transaction_once() {
    let cluster = cheap_cluster().await;
    let engine = cluster.node("a", patient());
    let ids = pending(&cluster, &engine, [10]).await;
    // The pool keeps the older one.
    cluster.chain.answer(TxMatch::Any, AnswerClass::ReplacementUnderpriced, 1);
    let newer = sign(&cluster, &engine, ids[0], Action::SpeedUp).await;
    cluster
        .eventually("what became of the newer one is written down", async || {
            cluster.history(ids[0]).await.iter().any(|entry| entry.event == "answer_unclear")
        })
        .await;
    cluster.mine_until_final(&ids).await;
    let record = cluster.record(ids[0]).await;
    let attempts = cluster.attempts(ids[0]).await;
    assert_eq!(record.row.state, TxState::Confirmed);
    assert_eq!(attempts[1].tx_hash, newer);
    assert_eq!(record.mined.unwrap().tx_hash, attempts[0].tx_hash, "the hash that was mined");
    assert_eq!(cluster.paid(account(1)), [10]);
    assert_eq!(cluster.feed().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_cap_holds_a_bump_with_an_alert_until_the_market_falls() {
    let cluster = cheap_cluster().await;
    let max_fee_per_gas = Some(GasPrice::from_wei(30 * GWEI).unwrap());
    let fee_caps = FeeCaps { max_fee_per_gas, max_tx_fee: None };
    let resubmit = crate::support::options().resubmit;
    let options = EngineOptions { fee_caps, resubmit, ..patient() };
    let engine = cluster.node_with("a", options, bumping());
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[1], "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.chain.set_base_fee(90 * GWEI);
    let names_the_cap =
        |alert: &Alert| alert.detail.contains("chain.max_fee_per_gas allows 30000000000 wei");
    cluster
        .eventually("an alert", async || {
            cluster.alerts.of(AlertKind::FeeCap).iter().any(names_the_cap)
        })
        .await;
    cluster.chain.mine();
    let offered = |attempts: &[tollgate_model::port::Attempt]| {
        attempts.iter().map(|attempt| attempt.fees.max_fee.wei()).max().unwrap()
    };
    assert!(offered(&cluster.attempts(ids[0]).await) <= 30 * GWEI);
    assert!(!cluster.record(ids[0]).await.row.state.is_final());
    cluster.chain.set_base_fee(5 * GWEI);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11], "neither failed nor jammed");
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_transaction_is_not_bumped_where_price_is_not_the_cause() {
    let cluster = cheap_cluster().await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node_with("a", patient(), bumping());
    let ids = pending(&cluster, &engine, [10]).await;
    for _ in 0..8 {
        cluster.chain.mine();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(cluster.record(ids[0]).await.attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_beyond_the_callers_cap_is_signed_unless_closing_may_exceed_it() {
    let cluster = cheap_cluster().await;
    let engine = cluster.node("a", patient());
    let cap = GasPrice::from_wei(12 * GWEI).unwrap();
    let capped = Intent { max_fee_per_gas: Some(cap), ..transfer(10) };
    let tx = id(engine.create(account(1), None, capped).await.unwrap());
    cluster.until(tx, "was with a node", |tx| tx.row.state == PENDING).await;
    for action in [Action::SpeedUp, Action::Cancel] {
        let refused = act(&engine, tx, action).await;
        let Err(ActError::AboveCap(reached)) = refused else { panic!("{refused:?}") };
        assert_eq!((reached.cap, reached.allows), (Cap::Callers, cap), "I16");
        assert!(reached.needed > cap.wei());
    }
    assert_eq!(cluster.record(tx).await.attempts, 1, "nothing was signed");
    engine.stop().await;
    let closing_price = ClosingPrice::MayExceedCallersCap;
    let engine = cluster.node("b", EngineOptions { closing_price, ..patient() });
    let refused = act(&engine, tx, Action::SpeedUp).await;
    assert!(matches!(refused, Err(ActError::AboveCap(_))), "the intent keeps to it: {refused:?}");
    sign(&cluster, &engine, tx, Action::Cancel).await;
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.paid(account(1)), [0]);
}

fn another_call() -> Replacement {
    let (to, value) = (Some(Address::repeat_byte(0xdd)), U256::from(77));
    let call = NewCall { to, value, data: Bytes::new(), gas: None };
    Replacement { call: Some(call), ..Replacement::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_call_stands_in_its_place_only_where_the_caller_allows_it() {
    let cluster = cheap_cluster().await;
    let engine = cluster.node("a", patient());
    let fixed = transfers(&engine, [10]).await[0];
    let free = Intent { replaceable: true, ..transfer(11) };
    let free = id(engine.create(account(1), None, free).await.unwrap());
    cluster.until(free, "was with a node", |tx| tx.row.state == PENDING).await;
    let refused = act(&engine, fixed, Action::Replace(another_call())).await;
    assert_eq!(refused, Err(ActError::Forbidden(Forbidden::PayloadFixed)));
    sign(&cluster, &engine, free, Action::Replace(another_call())).await;
    // More for it is more for what stands there now, not for what stood there first.
    sign(&cluster, &engine, free, Action::SpeedUp).await;
    cluster.mine_until_final(&[fixed, free]).await;
    assert_eq!(cluster.paid(account(1)), [10, 77]);
    assert_eq!(cluster.record(free).await.row.state, TxState::Confirmed);
    let history = cluster.history(free).await;
    let details = history.iter().filter_map(|entry| entry.detail.as_ref());
    let details: Vec<_> = details.map(|detail| detail.as_str()).collect();
    let tells = |words: &str| details.iter().any(|detail| detail.contains(words));
    assert!(tells("\"value\":\"11\"") && tells("\"value\":\"77\""), "{details:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_call_that_the_account_can_not_pay_is_refused_and_leaves_nothing() {
    let cluster = cheap_cluster().await;
    let engine = cluster.node("a", patient());
    const HALF_ETHER: u64 = 500_000_000_000_000_000;
    let other = transfers(&engine, [HALF_ETHER]).await[0];
    let free = Intent { replaceable: true, ..transfer(11) };
    let free = id(engine.create(account(1), None, free).await.unwrap());
    cluster.until(free, "was with a node", |tx| tx.row.state == PENDING).await;
    // The second call and its fee could be paid, but not beside the other slot.
    let ether = U256::from(2 * HALF_ETHER);
    cluster.chain.set_balance(account(1).address, ether);
    let call = |value| {
        let to = Some(Address::repeat_byte(0xdd));
        let call = NewCall { to, value, data: Bytes::new(), gas: Some(30_000) };
        Action::Replace(Replacement { call: Some(call), ..Replacement::default() })
    };
    for value in [ether, U256::from(HALF_ETHER + HALF_ETHER / 10)] {
        let refused = act(&engine, free, call(value)).await;
        let poor = |why: &ActError| matches!(why, ActError::Refused(why) if why.kind == RefusalKind::InsufficientFunds);
        assert!(refused.as_ref().is_err_and(poor), "{value}: {refused:?}");
    }
    assert_eq!(cluster.attempts(free).await.len(), 1, "nothing is signed");
    sign(&cluster, &engine, free, call(U256::from(77))).await;
    cluster.mine_until_final(&[other, free]).await;
    assert_eq!(cluster.paid(account(1)), [HALF_ETHER, 77]);
}

#[tokio::test(flavor = "multi_thread")]
async fn demanded_price_is_signed_as_it_is_or_refused_with_the_minimum() {
    let cluster = cheap_cluster().await;
    let engine = cluster.node("a", patient());
    let ids = pending(&cluster, &engine, [10]).await;
    let first = cluster.attempts(ids[0]).await[0].fees;
    let at = |wei: u128| Replacement {
        max_fee_per_gas: Some(GasPrice::from_wei(wei).unwrap()),
        ..Replacement::default()
    };
    act(&engine, ids[0], Action::Replace(at(100 * GWEI))).await.unwrap();
    let refused = act(&engine, ids[0], Action::Replace(at(GWEI))).await;
    let Err(ActError::FeeTooLow(least)) = refused else { panic!("{refused:?}") };
    assert_eq!(least.max_fee, 110 * GWEI, "what a pool would take");
    // Below what a bump would offer by itself, and enough.
    act(&engine, ids[0], Action::Replace(at(least.max_fee))).await.unwrap();
    let attempts = cluster.attempts(ids[0]).await;
    let signed: Vec<_> = attempts.iter().map(|attempt| attempt.fees.max_fee.wei()).collect();
    assert_eq!(signed, [first.max_fee.wei(), 100 * GWEI, 110 * GWEI]);
}
