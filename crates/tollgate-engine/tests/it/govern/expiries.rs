//! `validUntil`: without a slot it ends, with one the policy decides, and no slot is abandoned.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{CreateError, Engine, Policies};
use tollgate_model::port::AlertKind;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};
use tollgate_model::{Failed, Intent, StuckReason, TxId, TxState};
use tollgate_testkit::fake_chain::Which;

use super::{PENDING, patient, transfers, window};
use crate::rig::{Rig, account, id, request, transfer};

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
async fn what_expires_while_it_waits_ends_without_a_nonce() {
    let rig = Rig::new().await;
    let engine = rig.node("a", window(1));
    rig.chain.hold(Which::Value(10));
    let first = transfers(&engine, [10]).await;
    let late = create(&engine, brief(&engine, 11)).await;
    let last = transfers(&engine, [12]).await;
    rig.clock.advance(MINUTE);
    rig.until(late, "ended", |tx| tx.seen.state.is_final()).await;
    let record = rig.record(late).await;
    assert_eq!((record.seen.state, record.nonce), (TxState::Failed(Failed::Cancelled), None));
    rig.chain.release(Which::Value(10));
    rig.mine_until_final(&[first[0], last[0]]).await;
    assert_eq!(rig.paid(account(1)), [10, 12]);
    assert_eq!(rig.feed().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_before_it_begins_is_refused_and_nothing_is_created() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let over = Intent { valid_until: Some(engine.now().unix_micros()), ..transfer(1) };
    let refused = engine.create(account(1), None, over).await;
    assert_eq!(refused, Err(CreateError::Expired));
    assert_eq!(rig.submitter(account(1)).await.next_nonce.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_accepted_in_time_is_answered_also_later() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let intent = brief(&engine, 1);
    let first = engine.create(account(1), request("r"), intent.clone()).await.unwrap();
    rig.mine_until_final(&[first.tx_id()]).await;
    rig.clock.advance(MINUTE);
    let again = engine.create(account(1), request("r"), intent).await.unwrap();
    assert_eq!(again.tx_id(), first.tx_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_slot_it_is_stuck_and_tracked_until_somebody_decides() {
    let rig = Rig::new().await;
    let engine = rig.node("a", crate::rig::options());
    rig.chain.hold(Which::Value(10));
    let tx = create(&engine, brief(&engine, 10)).await;
    let next = transfers(&engine, [11]).await;
    let tracked = |state: TxState| matches!(state, TxState::Tracking(_));
    rig.until(tx, "was with a node", |tx| tracked(tx.seen.state)).await;
    rig.clock.advance(MINUTE);
    let expired = TxState::Stuck(StuckReason::Expired);
    rig.until(tx, "expired", |tx| tx.seen.state == expired).await;
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::Stuck).is_empty()).await;
    let hash = rig.attempts(tx).await[0].tx_hash;
    let sends = rig.chain.sends(hash);
    rig.clock.advance(MINUTE);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(rig.chain.sends(hash), sends, "nobody wants it: it is not sent again by itself");
    // Evidence moves it all the same.
    rig.chain.release(Which::Value(10));
    rig.mine_until_final(&[tx, next[0]]).await;
    assert_eq!(rig.record(tx).await.seen.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_closes_the_slot_of_what_expired() {
    let rig = Rig::new().await;
    let rule = RuleSpec {
        reason: Some("expired".to_owned()),
        action: "cancel".to_owned(),
        ..RuleSpec::default()
    };
    let stuck = Arc::new(StuckRules::parse(&[rule]).unwrap());
    let engine = rig.node_with("a", patient(), Policies { stuck, ..Policies::default() });
    rig.chain.hold(Which::Value(10));
    rig.chain.hold(Which::Value(11));
    let head = transfers(&engine, [10]).await;
    let late = create(&engine, brief(&engine, 11)).await;
    let next = transfers(&engine, [12]).await;
    rig.until(next[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.clock.advance(MINUTE);
    // It is not the head, and the policy is asked about it all the same.
    rig.until(late, "is being cancelled", |tx| tx.attempts == 2).await;
    rig.chain.release(Which::Value(10));
    rig.mine_until_final(&[head[0], late, next[0]]).await;
    assert_eq!(rig.record(late).await.seen.state, TxState::Failed(Failed::Cancelled));
    assert_eq!(rig.paid(account(1)), [10, 0, 12]);
}
