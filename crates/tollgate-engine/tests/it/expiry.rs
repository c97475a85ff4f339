//! `validUntil`: without a slot it ends, with one the policy decides, and no slot is abandoned.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{CreateError, Engine, Policies};
use tollgate_model::port::AlertKind;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};
use tollgate_model::{Failed, Intent, StuckReason, TxId, TxState};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{
    Cluster, account, id, patient, pending, request, transfer, transfers, window,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A transfer that is valid for a minute.
fn brief(engine: &Engine, value: u64) -> Intent {
    let valid_until = Some(engine.now().after(MINUTE).unix_micros());
    Intent { valid_until, ..transfer(value) }
}

async fn create(engine: &Engine, intent: Intent) -> TxId {
    id(engine.create(account(1), None, intent).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_transaction_that_expires_ends_without_a_nonce() {
    let (cluster, engine) = Cluster::with_node(window(1)).await;
    cluster.chain.hold(TxMatch::Value(10));
    let first = transfers(&engine, [10]).await;
    let late = create(&engine, brief(&engine, 11)).await;
    let last = transfers(&engine, [12]).await;
    cluster.clock.advance(MINUTE);
    cluster.until(late, "ended", |tx| tx.row.state.is_final()).await;
    let record = cluster.record(late).await;
    assert_eq!((record.row.state, record.nonce), (TxState::Failed(Failed::Cancelled), None));
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&[first[0], last[0]]).await;
    assert_eq!(cluster.paid(account(1)), [10, 12]);
    assert_eq!(cluster.feed().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_has_expired_is_refused_and_leaves_nothing() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let over = Intent { valid_until: Some(engine.now().unix_micros()), ..transfer(1) };
    let refused = engine.create(account(1), None, over).await;
    assert_eq!(refused, Err(CreateError::Expired));
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_accepted_in_time_is_answered_also_later() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let intent = brief(&engine, 1);
    let first = engine.create(account(1), request("r"), intent.clone()).await.unwrap();
    cluster.mine_until_final(&[first.tx_id()]).await;
    cluster.clock.advance(MINUTE);
    let again = engine.create(account(1), request("r"), intent).await.unwrap();
    assert_eq!(again.tx_id(), first.tx_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_transaction_with_a_slot_is_stuck_and_tracked() {
    let (cluster, engine) = Cluster::with_node(crate::support::options()).await;
    cluster.chain.hold(TxMatch::Value(10));
    let tx = create(&engine, brief(&engine, 10)).await;
    let next = transfers(&engine, [11]).await;
    let tracked = |state: TxState| matches!(state, TxState::Tracking(_));
    cluster.until(tx, "was with a node", |tx| tracked(tx.row.state)).await;
    cluster.clock.advance(MINUTE);
    let expired = TxState::Stuck(StuckReason::Expired);
    cluster.until(tx, "expired", |tx| tx.row.state == expired).await;
    cluster.eventually("an alert", async || !cluster.alerts.of(AlertKind::Stuck).is_empty()).await;
    let hash = cluster.attempts(tx).await[0].tx_hash;
    let sends = cluster.chain.sends(hash);
    cluster.clock.advance(MINUTE);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(cluster.chain.sends(hash), sends, "nobody wants it: it is not sent again by itself");
    // Evidence moves it all the same.
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&[tx, next[0]]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_closes_the_slot_of_an_expired_transaction() {
    let cluster = Cluster::pipelined().await;
    let rule = RuleSpec {
        reason: Some("expired".to_owned()),
        action: "cancel".to_owned(),
        ..RuleSpec::default()
    };
    let stuck = Arc::new(StuckRules::parse(&[rule]).unwrap());
    let engine = cluster.node_with("a", patient(), Policies { stuck, ..Policies::default() });
    cluster.chain.hold(TxMatch::Value(10));
    cluster.chain.hold(TxMatch::Value(11));
    let head = transfers(&engine, [10]).await;
    let late = create(&engine, brief(&engine, 11)).await;
    let next = pending(&cluster, &engine, [12]).await;
    cluster.clock.advance(MINUTE);
    // It is not the head, and the policy is asked about it all the same.
    cluster.until(late, "is being cancelled", |tx| tx.attempts == 2).await;
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&[head[0], late, next[0]]).await;
    assert_eq!(cluster.record(late).await.row.state, TxState::Failed(Failed::Cancelled));
    assert_eq!(cluster.paid(account(1)), [10, 0, 12]);
}
