//! Promises of a database server alone: many writers at once, sessions that it ends, crashes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::TxEvent;
use tollgate_model::port::{Checkpoint, FeedFilter, FeedStore, FencedBatch, StoreError, TxStore};
use tollgate_postgres::PgStore;

use crate::builders::{
    CHAIN, IntentExt, SectionExt, chain_id, full_page, intent, long_terms, one_slot, section, seq,
    submitter,
};
use crate::child_process::{ChildScenario, STOPPED, StoreChild};
use crate::node::is_committed;
use crate::pause_points::PausePoints;
use crate::pg_proxy::PgProxy;
use crate::store_fixture::{NodeOptions, PgFixture, StoreFixture};
use crate::wait::{until, within};

pub async fn a_renewal_does_not_wait_for_a_batch_of_the_same_lease(fixture: &PgFixture) {
    let fixture: &dyn StoreFixture = fixture;
    let (a, lease) = fixture.owner().await;
    for at in [Checkpoint::BatchGuarded, Checkpoint::BatchWritten] {
        let cursor = a.cursor(submitter(1)).await;
        let batch = a.hold_batch(at, one_slot(lease, cursor)).await;
        let kept = within("the renewal", a.renew(&a.id, &[lease], &long_terms())).await.unwrap();
        assert_eq!(kept, [lease]);
        assert!(!batch.task.is_finished(), "the renewal did not wait for the batch");
        assert!(batch.lands().await);
    }
}

/// The server ends the session, so that a stopped writer does not block takeovers for ever.
pub async fn a_frozen_writers_session_is_ended_and_nothing_of_it_lands(fixture: &PgFixture) {
    let fixture: &dyn StoreFixture = fixture;
    let b = fixture.hasty_node("b").await;
    b.register(&[submitter(1)]).await;
    let idle_limit = Duration::from_millis(1_500);
    let mut child = StoreChild::start(fixture, 1, ChildScenario::MidBatch, idle_limit);
    let tx_id = child.tx_id().await;
    assert_eq!(child.line().await, STOPPED);
    child.freeze();
    fixture.expire_in_flight(submitter(1)).await;
    let (lease, cursor) = b.take_over(submitter(1)).await;
    assert_eq!(cursor, 0, "I2: the frozen batch did not commit");
    b.write_whole(one_slot(lease, 0)).await;
    child.thaw();
    child.go_on().await;
    let answer = child.says("commit").await;
    let told = ["unavailable", "fenced", "unknown"].contains(&answer.as_str());
    assert!(told, "I2: a batch of a session that was ended was {answer}");
    assert!(!b.has(tx_id).await, "I2: a write landed after the takeover");
    b.write_whole(one_slot(lease, 1)).await;
}

/// I10: the commit hangs after its completions were numbered, while others commit theirs.
pub async fn a_reader_of_the_feed_misses_nothing_of_a_commit_that_hangs(fixture: &PgFixture) {
    let hang = fixture.hang_commits("tx_completion", submitter(1)).await;
    let fixture: &dyn StoreFixture = fixture;
    let (a, b) = (fixture.node("a").await, fixture.hasty_node("b").await);
    let mut ends = Vec::new();
    for (node, n) in [(&a, 1), (&b, 2)] {
        let lease = node.own(submitter(n)).await;
        let tx = node.created(lease, intent()).await;
        ends.push(section(lease).change(node.change(tx.tx_id, TxEvent::Withdrawn).await));
    }
    let slow = a.write_aside(ends[0].clone());
    fixture.somebody_waits_for_a_lock().await;
    let early = b.try_write_one(ends[1].clone()).await;
    let mut feed = b.feed(seq(0), full_page()).await;
    hang.release().await;
    assert!(is_committed(&within("the slow commit", slow).await.unwrap().unwrap()));
    if let Err(error) = early {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        b.write_whole(ends[1].clone()).await;
    }
    let after = feed.last().map_or(seq(0), |entry| entry.seq);
    feed.extend(b.feed(after, full_page()).await);
    let seqs: Vec<_> = feed.iter().map(|entry| entry.seq.get()).collect();
    assert_eq!(seqs, [1, 2], "I10: a reader missed an outcome");
}

/// I10: the commit hangs after its events were written, while others commit theirs.
pub async fn a_reader_of_events_misses_nothing_of_a_commit_that_hangs(fixture: &PgFixture) {
    let hang = fixture.hang_commits("managed_tx", submitter(1)).await;
    let fixture: &dyn StoreFixture = fixture;
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let (slow_lease, lease) = (a.own(submitter(1)).await, b.own(submitter(2)).await);
    let (late, early) = (intent(), intent());
    let slow = a.write_aside(section(slow_lease).create(late.clone()));
    fixture.somebody_waits_for_a_lock().await;
    b.write_whole(section(lease).create(early.clone())).await;
    b.number_events(full_page()).await.unwrap();
    let first = b.events(seq(0), full_page()).await.unwrap();
    hang.release().await;
    assert!(is_committed(&within("the slow commit", slow).await.unwrap().unwrap()));
    b.number_events(full_page()).await.unwrap();
    // The planted mistake writes the numbers and leaves the counter alone.
    let seen = first.items.last().map_or(first.next, |event| event.seq);
    let second = b.events(seen, full_page()).await.unwrap();
    let read = first.items.iter().chain(&second.items);
    let read: Vec<_> = read.filter_map(|it| it.event.tx.as_ref().map(|tx| tx.tx_id)).collect();
    assert_eq!(read, [early.tx_id, late.tx_id], "I10: a reader missed an event");
}

pub async fn a_commit_lost_in_a_crash_is_unknown_and_settled_as_absent(fixture: &PgFixture) {
    let hang = fixture.hang_commits("managed_tx", submitter(1)).await;
    let shared: &dyn StoreFixture = fixture;
    let (a, lease) = shared.owner().await;
    let tx = intent().at(0);
    let flying = a.write_aside(section(lease).cursor(0, 1).create(tx.clone()));
    shared.somebody_waits_for_a_lock().await;
    fixture.crash_and_restart().await;
    drop(hang);
    let error = within("the batch", flying).await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::CommitUnknown(_)), "I6: the commit was sent: {error}");
    let settled = until("the store to find its server again", || async {
        match a.settle(&a.id, lease, &[tx.tx_id]).await {
            Err(StoreError::Unavailable(_)) => None,
            settled => Some(settled.unwrap()),
        }
    })
    .await;
    assert_eq!((settled.rows, settled.submitter.next_nonce.get()), (vec![None], 0));
}

pub async fn a_commit_whose_answer_was_lost_is_unknown_and_settled_as_there(fixture: &PgFixture) {
    let (a, lease) = (fixture as &dyn StoreFixture).owner().await;
    let checkpoints = PausePoints::new();
    let (proxy, store) = proxied(fixture, NodeOptions::PATIENT, checkpoints.clone()).await;
    let tx = intent().at(0);
    let batch = vec![section(lease).cursor(0, 1).create(tx.clone())];
    let batch = FencedBatch::new(a.id.clone(), batch).unwrap();
    let mut hold = checkpoints.pause_at(Checkpoint::BatchWritten);
    let flying = tokio::spawn(async move { store.commit(&batch).await });
    hold.reached().await;
    proxy.lose_answers();
    hold.release();
    until("the commit", || async { a.has(tx.tx_id).await.then_some(()) }).await;
    proxy.cut();
    let error = within("the batch", flying).await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::CommitUnknown(_)), "I6: the answer was lost: {error}");
    let settled = a.settle(&a.id, lease, &[tx.tx_id]).await.unwrap();
    assert!(settled.rows[0].is_some(), "I6: it is durable");
    assert_eq!(settled.submitter.next_nonce.get(), 1);
}

pub async fn a_commit_that_numbered_outcomes_and_lost_its_answers_is_unknown(fixture: &PgFixture) {
    let (a, lease) = (fixture as &dyn StoreFixture).owner().await;
    let tx = a.created(lease, intent()).await;
    let end = section(lease).change(a.change(tx.tx_id, TxEvent::Withdrawn).await);
    let (proxy, store) = proxied(fixture, NodeOptions::PATIENT, PausePoints::new()).await;
    proxy.cut_after(&["tx_completion"], 1);
    let batch = FencedBatch::new(a.id.clone(), vec![end]).unwrap();
    let error = within("the batch", store.commit(&batch)).await.unwrap_err();
    assert_eq!(proxy.statement_cuts(), 1);
    assert!(matches!(error, StoreError::CommitUnknown(_)), "I6: the answers were lost: {error}");
    let settled = a.settle(&a.id, lease, &[tx.tx_id]).await.unwrap();
    assert!(settled.rows[0].unwrap().state.is_final(), "I6: it is durable");
}

/// All idle connections are closed at once: nobody waits for each in turn.
pub async fn a_silent_server_is_given_up_and_found_again(fixture: &PgFixture) {
    let (proxy, store) = proxied(fixture, NodeOptions::HASTY, PausePoints::new()).await;
    let read_often =
        || {
            join_all((0..4).map(|_| {
                store.completions(FeedFilter::finals(chain_id(CHAIN)), seq(0), full_page())
            }))
        };
    for read in read_often().await {
        read.unwrap();
    }
    proxy.black_hole();
    let error = within(
        "a read",
        store.completions(FeedFilter::finals(chain_id(CHAIN)), seq(0), full_page()),
    )
    .await
    .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("no answer within"), "{error}");
    let error = within(
        "a read",
        store.completions(FeedFilter::finals(chain_id(CHAIN)), seq(0), full_page()),
    )
    .await
    .unwrap_err();
    assert!(error.to_string().contains("no connection within"), "it is not asked again: {error}");
    proxy.restore();
    for read in read_often().await {
        read.unwrap();
    }
}

/// A store behind a proxy, with this limit on its statements.
async fn proxied(
    fixture: &PgFixture,
    statement_timeout: Duration,
    checkpoints: Arc<PausePoints>,
) -> (PgProxy, PgStore) {
    let proxy = PgProxy::to(&fixture.url()).await;
    let mut options = fixture.options(NodeOptions { checkpoints, ..NodeOptions::default() });
    options.url = proxy.url().to_owned();
    options.session.statement_timeout = statement_timeout;
    let store = PgStore::open(options).await.unwrap();
    (proxy, store)
}
