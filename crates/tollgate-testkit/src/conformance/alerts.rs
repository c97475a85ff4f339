//! Alerts: one is open at a time, and each sink is told once by whichever node (I11).

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::alert::{AlertLevel, AlertSubject};
use tollgate_model::port::{
    AlertKind, AlertNotice, AlertPhase, AlertReport, NoticeClaim, NoticeOutcome,
};
use tollgate_model::{Submitter, Text, Timestamp};
use uuid::Uuid;

use crate::builders::{full_page, page, submitter};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;

const CLAIM: NoticeClaim =
    NoticeClaim { batch_max: 10, per_minute: 1_000, term: Duration::from_secs(3_600) };

fn report(by: &TestNode, kind: AlertKind, of: Submitter, detail: &str) -> AlertReport {
    AlertReport {
        alert_id: Uuid::now_v7(),
        kind,
        subject: AlertSubject::account(of),
        level: AlertLevel::Warning,
        detail: Text::lossy(detail),
        node: by.id.clone(),
    }
}

fn sinks(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn resolve(by: &TestNode, alert_id: Uuid) -> bool {
    by.resolve_alert(alert_id, Timestamp::from_unix_micros(i64::MAX / 2)).await.unwrap()
}

async fn claimed(by: &TestNode, sink: &str) -> Vec<AlertNotice> {
    by.claim_notices(&by.id, sink, CLAIM).await.unwrap()
}

async fn settle(by: &TestNode, sink: &str, notices: &[AlertNotice], outcome: &NoticeOutcome) {
    let notices: Vec<_> = notices.iter().map(|it| (it.alert.alert_id, it.phase)).collect();
    by.settle_notices(&by.id, sink, &notices, outcome).await.unwrap();
}

fn told(notices: &[AlertNotice]) -> Vec<(Uuid, AlertPhase)> {
    notices.iter().map(|notice| (notice.alert.alert_id, notice.phase)).collect()
}

pub async fn open_alert_is_raised_once_and_counts_its_reports(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let first = report(&a, AlertKind::Stuck, submitter(1), "first");
    assert_eq!(a.report_alert(&first, &sinks(&["ops"])).await, Ok(true));
    let again = AlertReport {
        level: AlertLevel::Critical,
        ..report(&b, AlertKind::Stuck, submitter(1), "second")
    };
    assert_eq!(b.report_alert(&again, &sinks(&["ops"])).await, Ok(false));
    let other = report(&a, AlertKind::Hole, submitter(1), "another kind");
    assert_eq!(a.report_alert(&other, &[]).await, Ok(true));
    let elsewhere = report(&a, AlertKind::Stuck, submitter(2), "another account");
    assert_eq!(a.report_alert(&elsewhere, &[]).await, Ok(true));

    let open = b.alerts(true, full_page()).await.unwrap();
    let ids: Vec<Uuid> = open.iter().map(|alert| alert.alert_id).collect();
    assert_eq!(ids, [elsewhere.alert_id, other.alert_id, first.alert_id], "newest first");
    let stored = &open[2];
    assert_eq!((stored.kind, &stored.subject), (AlertKind::Stuck, &first.subject));
    assert_eq!((stored.detail.as_str(), stored.times), ("second", 2));
    assert_eq!((stored.level, stored.node.as_str()), (AlertLevel::Critical, a.id.name()));
    assert!(stored.resolved_at.is_none() && stored.seen_at >= stored.raised_at);
    assert_eq!(claimed(&b, "ops").await.len(), 1, "one notice");
    assert_eq!(a.alerts(true, page(1)).await.unwrap().len(), 1);
}

pub async fn concurrent_reports_raise_one_alert(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let reports: Vec<_> =
        (0..20).map(|_| report(&a, AlertKind::Protect, submitter(1), "x")).collect();
    let ops = sinks(&["ops"]);
    let raised = join_all(reports.iter().map(|report| a.report_alert(report, &ops))).await;
    assert_eq!(raised.into_iter().filter(|new| *new == Ok(true)).count(), 1);
    assert_eq!(a.alerts(true, full_page()).await.unwrap()[0].times, 20);
    assert_eq!(claimed(&a, "ops").await.len(), 1);
}

/// I11.
pub async fn notice_is_claimed_by_one_node_until_its_term_ends(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    for account in 1..=20 {
        let report = report(&a, AlertKind::Stuck, submitter(account), "");
        a.report_alert(&report, &sinks(&["ops"])).await.unwrap();
    }
    let nodes = [&a, &b, &a, &b, &a, &b];
    let claims = join_all(nodes.map(|node| claimed(node, "ops"))).await;
    let mut all: Vec<_> = claims.iter().flat_map(|notices| told(notices)).collect();
    assert_eq!(all.len(), 20);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 20, "I11: each notice went to one claim");

    let report = report(&a, AlertKind::Hole, submitter(1), "");
    a.report_alert(&report, &sinks(&["ops"])).await.unwrap();
    let short = NoticeClaim { term: Duration::ZERO, ..CLAIM };
    let first = a.claim_notices(&a.id, "ops", short).await.unwrap();
    assert_eq!((first.len(), first[0].tries), (1, 0));
    let second = b.claim_notices(&b.id, "ops", short).await.unwrap();
    assert_eq!((told(&second), second[0].tries), (told(&first), 1), "the node before was too slow");
    // What the slow node says about it now does not count.
    settle(&a, "ops", &first, &NoticeOutcome::Delivered).await;
    assert_eq!(claimed(&a, "ops").await.len(), 1);
}

pub async fn resolved_alert_is_told_once_to_those_that_were_told_of_it(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let report = report(&a, AlertKind::Hole, submitter(1), "");
    a.report_alert(&report, &sinks(&["told", "untold", "failed"])).await.unwrap();
    let told_of = claimed(&a, "told").await;
    settle(&a, "told", &told_of, &NoticeOutcome::Delivered).await;
    let failed = claimed(&a, "failed").await;
    let gone = NoticeOutcome::GivenUp { error: Text::lossy("404") };
    settle(&a, "failed", &failed, &gone).await;

    let seen_at = a.alerts(true, full_page()).await.unwrap()[0].seen_at;
    let before = seen_at.before(Duration::from_secs(1));
    assert_eq!(a.resolve_alert(report.alert_id, before).await, Ok(false), "seen meanwhile");
    assert_eq!(a.resolve_alert(report.alert_id, seen_at).await, Ok(true));
    assert!(!resolve(&b, report.alert_id).await, "once");
    assert_eq!(told(&claimed(&b, "told").await), [(report.alert_id, AlertPhase::Resolved)]);
    assert_eq!(claimed(&b, "untold").await, [], "nobody was told that it was raised");
    assert_eq!(claimed(&b, "failed").await, []);
    assert_eq!(a.alerts(true, full_page()).await.unwrap(), []);
    assert!(a.alerts(false, full_page()).await.unwrap()[0].resolved_at.is_some());

    let anew = AlertReport { alert_id: Uuid::now_v7(), ..report };
    assert_eq!(a.report_alert(&anew, &[]).await, Ok(true), "the next one is a new alert");
}

pub async fn notice_of_a_resolved_alert_waits_for_the_one_that_it_was_raised(
    fixture: &dyn StoreFixture,
) {
    let a = fixture.node("a").await;
    let report = report(&a, AlertKind::Hole, submitter(1), "");
    a.report_alert(&report, &sinks(&["ops"])).await.unwrap();
    let first = claimed(&a, "ops").await;
    assert!(resolve(&a, report.alert_id).await);
    assert_eq!(claimed(&a, "ops").await, [], "the first is on its way");
    let error = Text::lossy("timeout");
    let later = NoticeOutcome::Retry { after: Duration::ZERO, error: error.clone() };
    settle(&a, "ops", &first, &later).await;
    let retried = claimed(&a, "ops").await;
    assert_eq!((told(&retried), retried[0].tries), (told(&first), 1));
    settle(&a, "ops", &retried, &NoticeOutcome::Delivered).await;
    assert_eq!(told(&claimed(&a, "ops").await), [(report.alert_id, AlertPhase::Resolved)]);

    // A sink that could never be told of it is not told that it is over.
    let second = AlertReport { alert_id: Uuid::now_v7(), ..report };
    a.report_alert(&second, &sinks(&["ops"])).await.unwrap();
    let raised = claimed(&a, "ops").await;
    assert!(resolve(&a, second.alert_id).await);
    settle(&a, "ops", &raised, &NoticeOutcome::GivenUp { error }).await;
    assert_eq!(claimed(&a, "ops").await, []);
}

/// I13.
pub async fn messages_to_a_sink_are_limited_over_all_nodes(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    for account in 1..=9 {
        let report = report(&a, AlertKind::Stuck, submitter(account), "");
        a.report_alert(&report, &sinks(&["ops", "other"])).await.unwrap();
    }
    let few = NoticeClaim { batch_max: 2, per_minute: 3, ..CLAIM };
    // A look that finds nothing counts nothing.
    assert_eq!(a.claim_notices(&a.id, "empty", few).await.unwrap(), []);
    let mut sizes = Vec::new();
    for node in [&a, &b, &a, &b, &a] {
        sizes.push(node.claim_notices(&node.id, "ops", few).await.unwrap().len());
    }
    assert_eq!(sizes, [2, 2, 2, 0, 0]);
    assert_eq!(b.claim_notices(&b.id, "other", few).await.unwrap().len(), 2);
}

pub async fn resolved_alerts_are_forgotten_with_their_notices(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let open = report(&a, AlertKind::Stuck, submitter(1), "");
    a.report_alert(&open, &sinks(&["ops"])).await.unwrap();
    let mut over = Vec::new();
    for account in 2..=4 {
        let report = report(&a, AlertKind::Stuck, submitter(account), "");
        a.report_alert(&report, &sinks(&["ops"])).await.unwrap();
        over.push(report.alert_id);
    }
    claimed(&a, "ops").await;
    for alert_id in over {
        assert!(resolve(&a, alert_id).await);
    }
    assert_eq!(a.forget_alerts(Duration::from_secs(3_600), full_page()).await, Ok(0));
    assert_eq!(a.forget_alerts(Duration::ZERO, page(2)).await, Ok(2));
    assert_eq!(a.forget_alerts(Duration::ZERO, full_page()).await, Ok(1));
    assert_eq!(a.alerts(false, full_page()).await.unwrap().len(), 1, "open ones stay");
    assert_eq!(fixture.count("alert_notice").await, 1);
}

pub async fn one_node_at_a_time_looks_after_alerts(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let (long, none) = (Duration::from_secs(3_600), Duration::ZERO);
    assert_eq!(a.claim_alert_watch(&a.id, long).await, Ok(true));
    assert_eq!(b.claim_alert_watch(&b.id, long).await, Ok(false));
    assert_eq!(a.claim_alert_watch(&a.id, none).await, Ok(true), "it lets go");
    assert_eq!(b.claim_alert_watch(&b.id, long).await, Ok(true));
}

pub async fn clock_of_the_database_and_counts_of_reservations_are_read(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (first, second) = (a.database_time().await.unwrap(), a.database_time().await.unwrap());
    assert!(second >= first && first > Timestamp::EPOCH);
    assert_eq!(a.reserved_counts(&[submitter(2), submitter(1)]).await, Ok(vec![0, 0]));
    assert_eq!(a.reserved_counts(&[]).await, Ok(vec![]));
}
