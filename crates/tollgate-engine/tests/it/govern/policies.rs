//! Somebody has to decide: when they are asked, what is done, and that it is done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tollgate_engine::{Acted, Action, Engine, EngineOptions, Policies};
use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use tollgate_model::port::{AlertKind, AttemptKind, Checkpoint};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};
use tollgate_model::stuck::{StuckThresholds, Trigger};
use tollgate_model::{Failed, StuckReason, Text, TxId, TxState};
use tollgate_testkit::fake_chain::Which;

use super::{PENDING, act, patient, transfers};
use crate::rig::{Rig, account, id, options, transfer};

const MINUTE: Duration = Duration::from_secs(60);

fn watchful() -> EngineOptions {
    let stuck = StuckThresholds {
        head_after: MINUTE,
        ask_interval: MINUTE,
        backlog_age: None,
        ..StuckThresholds::default()
    };
    EngineOptions { stuck, ..patient() }
}

fn policies(stuck: impl StuckPolicy + 'static) -> Policies {
    Policies { stuck: Arc::new(stuck), ..Policies::default() }
}

/// Answers the same to every question, and counts them.
struct Always {
    action: StuckAction,
    asked: Arc<AtomicUsize>,
    pause: Duration,
}

impl Always {
    fn new(action: StuckAction) -> Self {
        Self { action, asked: Arc::default(), pause: Duration::ZERO }
    }
}

#[async_trait]
impl StuckPolicy for Always {
    async fn decide(&self, context: &StuckContext) -> StuckDecision {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.pause).await;
        assert_eq!(context.tx.submitter, account(1), "nobody else is stuck");
        let fields = Some(Text::lossy(r#"{"ticket":"T-7"}"#));
        StuckDecision { fields, ..StuckDecision::new(self.action, "because") }
    }
}

/// A head that no block takes, with fifty behind it.
async fn stuck_line(rig: &Rig, engine: &Engine) -> Vec<TxId> {
    rig.chain.hold(Which::Value(1_000));
    let ids = transfers(engine, 1_000..1_051).await;
    for id in &ids {
        rig.until(*id, "was with a node", |tx| tx.seen.state == PENDING).await;
    }
    ids
}

/// Everybody ends, and another submitter was not delayed meanwhile.
async fn resolved_by(action: StuckAction, kind: AttemptKind, end: TxState, paid: u64) {
    let rig = Rig::new().await;
    let policy = Always::new(action);
    let asked = policy.asked.clone();
    let engine = rig.node_with("a", watchful(), policies(policy));
    let ids = stuck_line(&rig, &engine).await;
    let other = id(engine.create(account(2), None, transfer(5)).await.unwrap());
    rig.until(other, "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.mine_until_final(&[other]).await;
    assert_eq!(rig.record(ids[0]).await.mined, None, "it is stuck, and delays only its own");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "not before the threshold");
    rig.clock.advance(MINUTE);
    rig.eventually("the policy acted", async || rig.attempts(ids[0]).await.len() > 1).await;
    if end == TxState::Confirmed {
        rig.chain.release(Which::Value(1_000));
    }
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, end);
    assert_eq!(rig.attempts(ids[0]).await[1].kind, kind);
    let expected: Vec<u64> = std::iter::once(paid).chain(1_001..1_051).collect();
    assert_eq!(rig.paid(account(1)), expected);
    assert!(asked.load(Ordering::SeqCst) >= 1);
    let history = rig.history(ids[0]).await;
    let entry = history.iter().find(|entry| entry.event == action.name()).unwrap();
    let words: serde_json::Value =
        serde_json::from_str(entry.detail.as_ref().unwrap().as_str()).unwrap();
    assert_eq!(words["by"], "policy");
    assert_eq!(words["trigger"], "head_stuck");
    assert_eq!(words["reason"], "because");
    assert_eq!(words["fields"]["ticket"], "T-7", "the policy's own words");
}

/// I16: a chain that stands still is no reason to pay more for the same cancellation each minute.
#[tokio::test(flavor = "multi_thread")]
async fn policy_that_cancels_again_raises_no_price_that_pays_the_market() {
    let rig = Rig::new().await;
    let policy = Always::new(StuckAction::Cancel);
    let asked = policy.asked.clone();
    let engine = rig.node_with("a", watchful(), policies(policy));
    let stuck = id(engine.create(account(1), None, transfer(7)).await.unwrap());
    rig.until(stuck, "was with a node", |tx| tx.seen.state == PENDING).await;
    for question in 1..=4 {
        rig.clock.advance(2 * MINUTE);
        let is_asked = async || asked.load(Ordering::SeqCst) >= question;
        rig.eventually("the policy was asked", is_asked).await;
        let entries = async || {
            let history = rig.history(stuck).await;
            history.iter().filter(|entry| entry.event == "cancel").count() >= question
        };
        rig.eventually("its answer was carried out", entries).await;
    }
    let kinds: Vec<_> = rig.attempts(stuck).await.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [AttemptKind::Intent, AttemptKind::Cancellation]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_head_among_fifty_is_resolved_by_replace() {
    resolved_by(StuckAction::Replace, AttemptKind::Bump, TxState::Confirmed, 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_head_among_fifty_is_resolved_by_cancel() {
    let end = TxState::Failed(Failed::Cancelled);
    resolved_by(StuckAction::Cancel, AttemptKind::Cancellation, end, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_head_among_fifty_is_resolved_by_placeholder() {
    let end = TxState::Failed(Failed::Rejected);
    resolved_by(StuckAction::Placeholder, AttemptKind::Placeholder, end, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_head_among_fifty_is_resolved_by_resubmit() {
    let rig = Rig::new().await;
    let engine = rig.node_with("a", watchful(), policies(Always::new(StuckAction::Resubmit)));
    let ids = stuck_line(&rig, &engine).await;
    let hash = rig.attempts(ids[0]).await[0].tx_hash;
    rig.chain.release(Which::Value(1_000));
    assert!(rig.chain.evict(hash));
    rig.clock.advance(MINUTE);
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)).len(), 51);
    assert_eq!(rig.record(ids[0]).await.attempts, 1, "the same bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_nothing_is_done_but_an_alert_and_it_stays_tracked() {
    let rig = Rig::new().await;
    let engine = rig.node("a", watchful());
    let ids = stuck_line(&rig, &engine).await;
    rig.clock.advance(MINUTE);
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::Stuck).is_empty()).await;
    rig.eventually("a decision is on record", async || {
        rig.history(ids[0]).await.iter().any(|entry| entry.event == "decided")
    })
    .await;
    // Asked again and again, written down once, said once.
    for _ in 0..3 {
        rig.clock.advance(MINUTE);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let decided = |entry: &&tollgate_model::port::HistoryEntry| entry.event == "decided";
    assert_eq!(rig.history(ids[0]).await.iter().filter(decided).count(), 1);
    assert_eq!(rig.alerts.of(AlertKind::Stuck).len(), 1);
    assert_eq!(rig.attempts(ids[0]).await.len(), 1);
    rig.chain.release(Which::Value(1_000));
    rig.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_configuration_decide() {
    let rig = Rig::new().await;
    let spec = |action: &str| RuleSpec {
        trigger: Some("head_stuck".to_owned()),
        depth_at_least: Some(50),
        action: action.to_owned(),
        ..RuleSpec::default()
    };
    let rules = StuckRules::parse(&[spec("cancel"), spec("noop")]).unwrap();
    let engine = rig.node_with("a", watchful(), policies(rules));
    let ids = stuck_line(&rig, &engine).await;
    rig.clock.advance(MINUTE);
    rig.until(ids[0], "is being cancelled", |tx| tx.attempts == 2).await;
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TxState::Failed(Failed::Cancelled));
    let history = rig.history(ids[0]).await;
    let entry = history.iter().find(|entry| entry.event == "cancel").unwrap();
    assert!(entry.detail.as_ref().unwrap().as_str().contains("stuck.rules[0]"));
}

/// Dies of a defect.
struct Dies;

#[async_trait]
impl StuckPolicy for Dies {
    async fn decide(&self, _context: &StuckContext) -> StuckDecision {
        panic!("a defect of the policy")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_dies_has_decided_nothing_and_somebody_is_told() {
    let rig = Rig::new().await;
    let engine = rig.node_with("a", watchful(), policies(Dies));
    let ids = stuck_line(&rig, &engine).await;
    rig.clock.advance(MINUTE);
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::Policy).is_empty()).await;
    rig.chain.release(Which::Value(1_000));
    rig.mine_until_final(&ids).await;
    assert_eq!(engine.deaths(), 0, "the worker lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_policy_delays_nothing_and_its_late_answer_is_harmless() {
    let rig = Rig::new().await;
    let pause = Duration::from_millis(2_500);
    let policy = Always { pause, ..Always::new(StuckAction::Cancel) };
    let asked = policy.asked.clone();
    let engine = rig.node_with("a", watchful(), policies(policy));
    let ids = stuck_line(&rig, &engine).await;
    rig.clock.advance(MINUTE);
    rig.eventually("asked", async || asked.load(Ordering::SeqCst) == 1).await;
    // While it thinks, the submitter takes and sends new work, and the head is mined after all.
    let late = transfers(&engine, [2_000]).await;
    rig.chain.release(Which::Value(1_000));
    rig.until(ids[0], "is mined", |tx| {
        rig.chain.mine();
        tx.mined.is_some()
    })
    .await;
    tokio::time::sleep(pause).await;
    rig.mine_until_final(&[ids.as_slice(), &late].concat()).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TxState::Confirmed);
    assert_eq!(rig.record(ids[0]).await.attempts, 1, "nothing was signed for what is mined");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one question at a time");
}

/// Answers a question only when the test says so.
#[derive(Default)]
struct Numbered {
    asked: AtomicUsize,
    answered: watch::Sender<Vec<usize>>,
}

#[async_trait]
impl StuckPolicy for Numbered {
    async fn decide(&self, _context: &StuckContext) -> StuckDecision {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answered = self.answered.subscribe();
        answered.wait_for(|answered| answered.contains(&number)).await.unwrap();
        StuckDecision::new(StuckAction::Replace, &format!("answer {number}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_of_before_is_nobodys() {
    let rig = Rig::new().await;
    let policy = Arc::new(Numbered::default());
    let stuck = Policies { stuck: policy.clone(), ..Policies::default() };
    let engine = rig.node_with("a", watchful(), stuck);
    let ids = stuck_line(&rig, &engine).await;
    rig.clock.advance(MINUTE);
    rig.eventually("asked", async || policy.asked.load(Ordering::SeqCst) == 1).await;
    // The worker dies with its question open; the one that is started again asks anew.
    rig.gate.trap(Checkpoint::SlotsChosen);
    assert!(engine.create(account(1), None, transfer(1)).await.is_err());
    rig.eventually("it is started again", async || engine.deaths() == 1).await;
    rig.eventually("asked again", async || {
        rig.clock.advance(MINUTE);
        policy.asked.load(Ordering::SeqCst) == 2
    })
    .await;
    policy.answered.send_modify(|answered| answered.push(0));
    act(&engine, ids[1], Action::Resubmit).await.unwrap();
    assert_eq!(rig.attempts(ids[0]).await.len(), 1, "nobody waits for that answer");
    policy.answered.send_modify(|answered| answered.push(1));
    rig.until(ids[0], "offers more", |tx| tx.attempts == 2).await;
    let history = rig.history(ids[0]).await;
    let entry = history.iter().find(|entry| entry.event == "replace").unwrap();
    assert!(entry.detail.as_ref().unwrap().as_str().contains("answer 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_has_the_policy_asked_at_once() {
    let rig = Rig::new().await;
    let engine = rig.node_with("a", patient(), policies(Always::new(StuckAction::Cancel)));
    let ids = stuck_line(&rig, &engine).await;
    assert_eq!(act(&engine, ids[3], Action::AskPolicy).await, Ok(Acted::UnderWay));
    rig.until(ids[3], "is being cancelled", |tx| tx.attempts == 2).await;
    let history = rig.history(ids[3]).await;
    let entry = history.iter().find(|entry| entry.event == "cancel").unwrap();
    assert!(entry.detail.as_ref().unwrap().as_str().contains(Trigger::OperatorAsked.name()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_is_deep_or_old_is_asked_about() {
    for deep in [true, false] {
        let rig = Rig::new().await;
        let stuck = StuckThresholds {
            backlog_depth: deep.then_some(50),
            backlog_age: (!deep).then_some(MINUTE),
            ..StuckThresholds::default()
        };
        let options = EngineOptions { stuck, ..patient() };
        let engine = rig.node_with("a", options, policies(Always::new(StuckAction::Noop)));
        let ids = stuck_line(&rig, &engine).await;
        rig.clock.advance(MINUTE);
        rig.eventually("an alert", async || !rig.alerts.of(AlertKind::Backlog).is_empty()).await;
        let word = if deep { Trigger::BacklogDeep.name() } else { Trigger::BacklogOld.name() };
        rig.eventually("a decision is on record", async || {
            let history = rig.history(ids[0]).await;
            let decided = history.iter().find(|entry| entry.event == "decided");
            decided.is_some_and(|entry| entry.detail.as_ref().unwrap().as_str().contains(word))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_that_bring_nothing_mark_the_head_stuck_and_evidence_still_moves_it() {
    let rig = Rig::new().await;
    let resubmit = ResubmitRules {
        interval: Duration::from_millis(200),
        interval_max: Duration::from_millis(200),
        max_attempts: 2,
        ..options().resubmit
    };
    let engine = rig.node("a", EngineOptions { resubmit, ..options() });
    rig.chain.hold(Which::Value(10));
    let ids = transfers(&engine, [10, 11]).await;
    let stuck = TxState::Stuck(StuckReason::ResubmitsExhausted);
    rig.until(ids[0], "is stuck", |tx| tx.seen.state == stuck).await;
    assert!(!matches!(rig.record(ids[1]).await.seen.state, TxState::Stuck(_)), "only the head");
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::Stuck).is_empty()).await;
    rig.chain.release(Which::Value(10));
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.record(ids[0]).await.seen.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overall_time_out_marks_and_never_drops() {
    let rig = Rig::new().await;
    let timeout = Some(MINUTE);
    let resubmit = ResubmitRules { timeout, ..patient().resubmit };
    let engine = rig.node("a", EngineOptions { resubmit, ..patient() });
    rig.chain.hold(Which::Value(10));
    let ids = transfers(&engine, [10]).await;
    rig.until(ids[0], "is with a node", |tx| tx.seen.state == PENDING).await;
    let stuck = TxState::Stuck(StuckReason::TimedOut);
    // Patience counts from when the worker has noted the answer, a moment after it is stored.
    let is_stuck = async || {
        rig.clock.advance(MINUTE);
        rig.record(ids[0]).await.seen.state == stuck
    };
    rig.eventually("it is stuck", is_stuck).await;
    // A person has it sent again: it is waited for anew.
    assert_eq!(act(&engine, ids[0], Action::Resubmit).await, Ok(Acted::Resent));
    rig.until(ids[0], "is with a node", |tx| tx.seen.state == PENDING).await;
    rig.chain.release(Which::Value(10));
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), [10]);
}
