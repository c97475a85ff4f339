//! A head that no block takes, with twenty behind it: seen, resolved by rules, and in nobody
//! else's way (I14).

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Engine, EngineOptions, Policies};
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::port::{AlertKind, Attempt, AttemptKind, TxRecord};
use tollgate_model::stuck::StuckThresholds;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};

use super::support::{
    DEAR_BASE_FEE, MINUTE, POLL_INTERVAL, Pipeline, Sent, Setup, account, patient,
};

everywhere! {
    a_lost_head_among_twenty_is_sent_again_by_a_rule,
    a_lost_head_among_twenty_is_cancelled_by_a_rule,
    a_head_among_twenty_that_is_too_cheap_is_replaced_by_a_rule,
}

/// The number of transactions behind the head.
const BEHIND: u64 = 20;

/// Only this rule moves what stands still for a minute.
fn ruled_by(rule: RuleSpec) -> Setup {
    let stuck = StuckThresholds {
        head_after: MINUTE,
        ask_interval: MINUTE,
        backlog_depth: None,
        backlog_age: None,
    };
    let options = EngineOptions { stuck, diagnose: Some(POLL_INTERVAL), ..patient() };
    let policies =
        Policies { stuck: Arc::new(StuckRules::parse(&[rule]).unwrap()), ..Policies::default() };
    Setup { policies, fee_cache: Some(Duration::ZERO), ..options.into() }
}

fn head_stuck(action: &str) -> RuleSpec {
    let (trigger, action) = (Some("head_stuck".to_owned()), action.to_owned());
    RuleSpec { trigger, action, ..RuleSpec::default() }
}

/// The first attempts of those behind the head.
async fn behind(pipeline: &Pipeline, sent: &[Sent]) -> Vec<Attempt> {
    let mut behind = Vec::new();
    for sent in &sent[1..] {
        behind.push(pipeline.attempts(sent.id).await.remove(0));
    }
    behind
}

/// A head that its pool lost, and those behind it, which are still there.
async fn lost(pipeline: &Pipeline, engine: &Engine) -> Vec<Sent> {
    let sent = pipeline.pending(engine, account(0), 1_000..=1_000 + BEHIND).await;
    let hash = pipeline.attempts(sent[0].id).await[0].tx_hash;
    pipeline.chain.forget(hash).await;
    pipeline.chain.remember(&behind(pipeline, &sent).await).await;
    // What a pool counted is believed until the next block.
    let lost = |tx: &TxRecord| {
        tx.diagnosis.as_ref().is_some_and(|said| said.as_str() == Diagnosis::ProbablyLost.name())
    };
    pipeline.mine_until(sent[0].id, "diagnosed", lost).await;
    sent
}

/// Nobody of this line is mined, and nobody was asked about it.
async fn stands_still(pipeline: &Pipeline) {
    assert_eq!(pipeline.chain.mined(account(0).address).await.len(), 0, "the line stands still");
    assert_eq!(pipeline.alerts.of(AlertKind::Stuck), []);
}

/// A minute passes, and the rule is carried out.
async fn decided(pipeline: &Pipeline, head: Sent, action: &str) {
    pipeline.clock.advance(MINUTE);
    let done = async || {
        let history = pipeline.history(head.id).await;
        history.into_iter().find(|entry| entry.event == action)
    };
    pipeline.eventually("the rule decides", async || done().await.is_some()).await;
    let detail = done().await.unwrap().detail.unwrap();
    let words: serde_json::Value = serde_json::from_str(detail.as_str()).unwrap();
    assert_eq!(words["by"], "policy");
    assert_eq!(words["trigger"], "head_stuck");
    assert_eq!(words["reason"], "stuck.rules[0]");
    let told = pipeline.alerts.of(AlertKind::Stuck);
    assert_eq!(told[0].tx_id, Some(head.id), "it was seen: {told:?}");
}

async fn a_lost_head_among_twenty_is_sent_again_by_a_rule(pipeline: Pipeline) {
    let diagnosis = Some("probably_lost".to_owned());
    let rule = RuleSpec { diagnosis, ..head_stuck("resubmit") };
    let engine = pipeline.node("a", ruled_by(rule)).await;
    let sent = lost(&pipeline, &engine).await;
    let other = pipeline.send(&engine, account(1), 0..3).await;
    pipeline.finish(account(1), &other).await;
    stands_still(&pipeline).await;
    decided(&pipeline, sent[0], "resubmit").await;
    pipeline.finish(account(0), &sent).await;
    assert_eq!(pipeline.record(sent[0].id).await.attempts, 1, "the same bytes");
}

async fn a_lost_head_among_twenty_is_cancelled_by_a_rule(pipeline: Pipeline) {
    let rule = RuleSpec { depth_at_least: Some(BEHIND), ..head_stuck("cancel") };
    let engine = pipeline.node("a", ruled_by(rule)).await;
    let mut sent = lost(&pipeline, &engine).await;
    let other = pipeline.send(&engine, account(1), 0..3).await;
    pipeline.finish(account(1), &other).await;
    stands_still(&pipeline).await;
    decided(&pipeline, sent[0], "cancel").await;
    sent[0] = sent[0].cancelled();
    pipeline.finish(account(0), &sent).await;
}

async fn a_head_among_twenty_that_is_too_cheap_is_replaced_by_a_rule(pipeline: Pipeline) {
    let engine = pipeline.node("a", ruled_by(head_stuck("replace"))).await;
    let mut sent = pipeline.pending(&engine, account(0), [1_000]).await;
    pipeline.chain.set_base_fee(DEAR_BASE_FEE).await;
    sent.extend(pipeline.pending(&engine, account(0), 1_001..=1_000 + BEHIND).await);
    let other = pipeline.send(&engine, account(1), 0..3).await;
    pipeline.mine_dear_until_final(&other).await;
    pipeline.verify(account(1), &other).await;
    stands_still(&pipeline).await;
    pipeline.chain.remember(&behind(&pipeline, &sent).await).await;
    decided(&pipeline, sent[0], "replace").await;
    pipeline.mine_dear_until_final(&sent).await;
    pipeline.verify(account(0), &sent).await;
    let attempts = pipeline.attempts(sent[0].id).await;
    assert_eq!(attempts[1].kind, AttemptKind::Bump);
    let mined = pipeline.record(sent[0].id).await.mined.unwrap().tx_hash;
    assert_eq!(mined, attempts[1].tx_hash);
}
