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
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{Cluster, PENDING, account, act, id, options, patient, transfer, transfers};

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
async fn stuck_line(cluster: &Cluster, engine: &Engine) -> Vec<TxId> {
    cluster.chain.hold(TxMatch::Value(1_000));
    let ids = transfers(engine, 1_000..1_051).await;
    for id in &ids {
        cluster.until(*id, "was with a node", |tx| tx.row.state == PENDING).await;
    }
    ids
}

/// Everybody ends, and another submitter was not delayed meanwhile.
async fn resolved_by(action: StuckAction, kind: AttemptKind, end: TxState, paid: u64) {
    let cluster = Cluster::pipelined().await;
    let policy = Always::new(action);
    let asked = policy.asked.clone();
    let engine = cluster.node_with("a", watchful(), policies(policy));
    let ids = stuck_line(&cluster, &engine).await;
    let other = id(engine.create(account(2), None, transfer(5)).await.unwrap());
    cluster.until(other, "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.mine_until_final(&[other]).await;
    assert_eq!(cluster.record(ids[0]).await.mined, None, "it is stuck, and delays only its own");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "not before the threshold");
    cluster.clock.advance(MINUTE);
    cluster.eventually("the policy acted", async || cluster.attempts(ids[0]).await.len() > 1).await;
    if end == TxState::Confirmed {
        cluster.chain.release(TxMatch::Value(1_000));
    }
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, end);
    assert_eq!(cluster.attempts(ids[0]).await[1].kind, kind);
    let expected: Vec<u64> = std::iter::once(paid).chain(1_001..1_051).collect();
    assert_eq!(cluster.paid(account(1)), expected);
    assert!(asked.load(Ordering::SeqCst) >= 1);
    let history = cluster.history(ids[0]).await;
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
    let cluster = Cluster::pipelined().await;
    let policy = Always::new(StuckAction::Cancel);
    let asked = policy.asked.clone();
    let engine = cluster.node_with("a", watchful(), policies(policy));
    let stuck = id(engine.create(account(1), None, transfer(7)).await.unwrap());
    cluster.until(stuck, "was with a node", |tx| tx.row.state == PENDING).await;
    for question in 1..=4 {
        cluster.clock.advance(2 * MINUTE);
        let is_asked = async || asked.load(Ordering::SeqCst) >= question;
        cluster.eventually("the policy was asked", is_asked).await;
        let entries = async || {
            let history = cluster.history(stuck).await;
            history.iter().filter(|entry| entry.event == "cancel").count() >= question
        };
        cluster.eventually("its answer was carried out", entries).await;
    }
    let kinds: Vec<_> = cluster.attempts(stuck).await.iter().map(|attempt| attempt.kind).collect();
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
    let cluster = Cluster::pipelined().await;
    let engine = cluster.node_with("a", watchful(), policies(Always::new(StuckAction::Resubmit)));
    let ids = stuck_line(&cluster, &engine).await;
    let hash = cluster.attempts(ids[0]).await[0].tx_hash;
    cluster.chain.release(TxMatch::Value(1_000));
    assert!(cluster.chain.evict(hash));
    cluster.clock.advance(MINUTE);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)).len(), 51);
    assert_eq!(cluster.record(ids[0]).await.attempts, 1, "the same bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_policy_raises_an_alert_and_keeps_tracking() {
    let (cluster, engine) = Cluster::with_node(watchful()).await;
    let ids = stuck_line(&cluster, &engine).await;
    cluster.clock.advance(MINUTE);
    cluster.eventually("an alert", async || !cluster.alerts.of(AlertKind::Stuck).is_empty()).await;
    cluster
        .eventually("a decision is on record", async || {
            cluster.history(ids[0]).await.iter().any(|entry| entry.event == "decided")
        })
        .await;
    // Asked again and again, written down once, said once.
    for _ in 0..3 {
        cluster.clock.advance(MINUTE);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let decided = |entry: &&tollgate_model::port::HistoryEntry| entry.event == "decided";
    assert_eq!(cluster.history(ids[0]).await.iter().filter(decided).count(), 1);
    assert_eq!(cluster.alerts.of(AlertKind::Stuck).len(), 1);
    assert_eq!(cluster.attempts(ids[0]).await.len(), 1);
    cluster.chain.release(TxMatch::Value(1_000));
    cluster.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_configuration_decide() {
    let cluster = Cluster::pipelined().await;
    let spec = |action: &str| RuleSpec {
        trigger: Some("head_stuck".to_owned()),
        depth_at_least: Some(50),
        action: action.to_owned(),
        ..RuleSpec::default()
    };
    let rules = StuckRules::parse(&[spec("cancel"), spec("noop")]).unwrap();
    let engine = cluster.node_with("a", watchful(), policies(rules));
    let ids = stuck_line(&cluster, &engine).await;
    cluster.clock.advance(MINUTE);
    cluster.until(ids[0], "is being cancelled", |tx| tx.attempts == 2).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Failed(Failed::Cancelled));
    let history = cluster.history(ids[0]).await;
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
async fn policy_that_panics_decides_nothing_and_raises_an_alert() {
    let cluster = Cluster::pipelined().await;
    let engine = cluster.node_with("a", watchful(), policies(Dies));
    let ids = stuck_line(&cluster, &engine).await;
    cluster.clock.advance(MINUTE);
    cluster.eventually("an alert", async || !cluster.alerts.of(AlertKind::Policy).is_empty()).await;
    cluster.chain.release(TxMatch::Value(1_000));
    cluster.mine_until_final(&ids).await;
    assert_eq!(engine.deaths(), 0, "the worker lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_policy_delays_nothing_and_its_late_answer_is_harmless() {
    let cluster = Cluster::pipelined().await;
    let pause = Duration::from_millis(2_500);
    let policy = Always { pause, ..Always::new(StuckAction::Cancel) };
    let asked = policy.asked.clone();
    let engine = cluster.node_with("a", watchful(), policies(policy));
    let ids = stuck_line(&cluster, &engine).await;
    cluster.clock.advance(MINUTE);
    cluster.eventually("asked", async || asked.load(Ordering::SeqCst) == 1).await;
    // While it thinks, the submitter takes and sends new work, and the head is mined after all.
    let late = transfers(&engine, [2_000]).await;
    cluster.chain.release(TxMatch::Value(1_000));
    cluster
        .until(ids[0], "is mined", |tx| {
            cluster.chain.mine();
            tx.mined.is_some()
        })
        .await;
    tokio::time::sleep(pause).await;
    cluster.mine_until_final(&[ids.as_slice(), &late].concat()).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.record(ids[0]).await.attempts, 1, "nothing was signed for what is mined");
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
async fn policy_answer_to_an_outdated_question_is_ignored() {
    let cluster = Cluster::pipelined().await;
    let policy = Arc::new(Numbered::default());
    let stuck = Policies { stuck: policy.clone(), ..Policies::default() };
    let engine = cluster.node_with("a", watchful(), stuck);
    let ids = stuck_line(&cluster, &engine).await;
    cluster.clock.advance(MINUTE);
    cluster.eventually("asked", async || policy.asked.load(Ordering::SeqCst) == 1).await;
    // The worker dies with its question open; the one that is started again asks anew.
    cluster.checkpoints.panic_at(Checkpoint::SlotsChosen);
    assert!(engine.create(account(1), None, transfer(1)).await.is_err());
    cluster.eventually("it is started again", async || engine.deaths() == 1).await;
    cluster
        .eventually("asked again", async || {
            cluster.clock.advance(MINUTE);
            policy.asked.load(Ordering::SeqCst) == 2
        })
        .await;
    policy.answered.send_modify(|answered| answered.push(0));
    act(&engine, ids[1], Action::Resubmit).await.unwrap();
    assert_eq!(cluster.attempts(ids[0]).await.len(), 1, "nobody waits for that answer");
    policy.answered.send_modify(|answered| answered.push(1));
    cluster.until(ids[0], "offers more", |tx| tx.attempts == 2).await;
    let history = cluster.history(ids[0]).await;
    let entry = history.iter().find(|entry| entry.event == "replace").unwrap();
    assert!(entry.detail.as_ref().unwrap().as_str().contains("answer 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_can_have_the_policy_asked_at_once() {
    let cluster = Cluster::pipelined().await;
    let engine = cluster.node_with("a", patient(), policies(Always::new(StuckAction::Cancel)));
    let ids = stuck_line(&cluster, &engine).await;
    assert_eq!(act(&engine, ids[3], Action::AskPolicy).await, Ok(Acted::UnderWay));
    cluster.until(ids[3], "is being cancelled", |tx| tx.attempts == 2).await;
    let history = cluster.history(ids[3]).await;
    let entry = history.iter().find(|entry| entry.event == "cancel").unwrap();
    assert!(entry.detail.as_ref().unwrap().as_str().contains(Trigger::OperatorAsked.name()));
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_or_old_backlog_is_put_to_the_policy() {
    for deep in [true, false] {
        let cluster = Cluster::pipelined().await;
        let stuck = StuckThresholds {
            backlog_depth: deep.then_some(50),
            backlog_age: (!deep).then_some(MINUTE),
            ..StuckThresholds::default()
        };
        let options = EngineOptions { stuck, ..patient() };
        let engine = cluster.node_with("a", options, policies(Always::new(StuckAction::Noop)));
        let ids = stuck_line(&cluster, &engine).await;
        cluster.clock.advance(MINUTE);
        cluster
            .eventually("an alert", async || !cluster.alerts.of(AlertKind::Backlog).is_empty())
            .await;
        let word = if deep { Trigger::BacklogDeep.name() } else { Trigger::BacklogOld.name() };
        cluster
            .eventually("a decision is on record", async || {
                let history = cluster.history(ids[0]).await;
                let decided = history.iter().find(|entry| entry.event == "decided");
                decided.is_some_and(|entry| entry.detail.as_ref().unwrap().as_str().contains(word))
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_that_bring_nothing_mark_the_head_stuck_and_evidence_still_moves_it() {
    let cluster = Cluster::pipelined().await;
    let resubmit = ResubmitRules {
        interval: Duration::from_millis(200),
        interval_max: Duration::from_millis(200),
        max_attempts: 2,
        ..options().resubmit
    };
    let engine = cluster.node("a", EngineOptions { resubmit, ..options() });
    cluster.chain.hold(TxMatch::Value(10));
    let ids = transfers(&engine, [10, 11]).await;
    let stuck = TxState::Stuck(StuckReason::ResubmitsExhausted);
    cluster.until(ids[0], "is stuck", |tx| tx.row.state == stuck).await;
    assert!(!matches!(cluster.record(ids[1]).await.row.state, TxState::Stuck(_)), "only the head");
    cluster.eventually("an alert", async || !cluster.alerts.of(AlertKind::Stuck).is_empty()).await;
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn overall_timeout_marks_stuck_and_never_drops() {
    let cluster = Cluster::pipelined().await;
    let timeout = Some(MINUTE);
    let resubmit = ResubmitRules { timeout, ..patient().resubmit };
    let engine = cluster.node("a", EngineOptions { resubmit, ..patient() });
    cluster.chain.hold(TxMatch::Value(10));
    let ids = transfers(&engine, [10]).await;
    cluster.until(ids[0], "is with a node", |tx| tx.row.state == PENDING).await;
    let stuck = TxState::Stuck(StuckReason::TimedOut);
    // Patience counts from when the worker has noted the answer, a moment after it is stored.
    let is_stuck = async || {
        cluster.clock.advance(MINUTE);
        cluster.record(ids[0]).await.row.state == stuck
    };
    cluster.eventually("it is stuck", is_stuck).await;
    // An operator has it sent again, which alone solves nothing; what the chain shows still moves it.
    assert_eq!(act(&engine, ids[0], Action::Resubmit).await, Ok(Acted::Resent));
    assert_eq!(cluster.record(ids[0]).await.row.state, stuck);
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10]);
}
