//! `notBefore`: durable at once, no nonce before its time, and nobody waits for it.

use std::time::Duration;

use tollgate_engine::{Action, CreateError, Engine};
use tollgate_model::schedule::{BadSchedule, NOT_BEFORE_AHEAD_MAX};
use tollgate_model::{Failed, Intent, Queued, TxId, TxState};

use crate::support::{Cluster, account, act, id, patient, strict, transfer, transfers, window};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A transfer that is due in an hour.
fn later(engine: &Engine, value: u64) -> Intent {
    Intent { not_before: Some(engine.now().after(HOUR).unix_micros()), ..transfer(value) }
}

async fn create(engine: &Engine, intent: Intent) -> TxId {
    id(engine.create(account(1), None, intent).await.unwrap())
}

async fn assert_waits(cluster: &Cluster, tx: TxId) {
    let record = cluster.record(tx).await;
    let waits = (TxState::Queued(Queued::Waiting), None);
    assert_eq!((record.row.state, record.nonce), waits);
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_transaction_is_overtaken_and_sent_when_it_is_due() {
    let (cluster, engine) = Cluster::with_node(window(1)).await;
    let scheduled = create(&engine, later(&engine, 10)).await;
    let others = transfers(&engine, [11, 12]).await;
    cluster.mine_until_final(&others).await;
    assert_waits(&cluster, scheduled).await;
    cluster.clock.advance(HOUR - MINUTE);
    let last = transfers(&engine, [13]).await;
    cluster.mine_until_final(&last).await;
    assert_waits(&cluster, scheduled).await;
    cluster.clock.advance(MINUTE);
    cluster.mine_until_final(&[scheduled]).await;
    assert_eq!(cluster.paid(account(1)), [11, 12, 13, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_submitter_goes_on_beside_a_scheduled_transaction() {
    let (cluster, engine) = Cluster::strict_with_node(strict()).await;
    let scheduled = create(&engine, later(&engine, 10)).await;
    let others = transfers(&engine, [11, 12]).await;
    cluster.mine_until_final(&others).await;
    assert_waits(&cluster, scheduled).await;
    cluster.clock.advance(HOUR);
    cluster.mine_until_final(&[scheduled]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_transaction_is_sent_by_the_node_that_takes_over() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let scheduled = create(&engine, later(&engine, 10)).await;
    engine.stop().await;
    // Nobody asks the new node for anything: open work alone makes it take over.
    let _heir = cluster.node("b", patient());
    let owner = async || cluster.store.owners(&[account(1)]).await.unwrap()[0].is_some();
    cluster.eventually("an owner", owner).await;
    assert_waits(&cluster, scheduled).await;
    cluster.clock.advance(HOUR);
    cluster.mine_until_final(&[scheduled]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_scheduled_transaction_ends_it_without_a_nonce() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let scheduled = create(&engine, later(&engine, 10)).await;
    act(&engine, scheduled, Action::Cancel).await.unwrap();
    let record = cluster.record(scheduled).await;
    assert_eq!((record.row.state, record.nonce), (TxState::Failed(Failed::Cancelled), None));
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_that_is_not_before_the_expiry_or_too_far_ahead_is_refused() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let start = later(&engine, 1);
    let expiring = Intent { valid_until: start.not_before, ..start };
    let ahead = engine.now().after(NOT_BEFORE_AHEAD_MAX + HOUR).unix_micros();
    let far = Intent { not_before: Some(ahead), ..transfer(1) };
    for (intent, why) in [(expiring, BadSchedule::NotBeforeExpiry), (far, BadSchedule::TooFarAhead)]
    {
        let refused = engine.create(account(1), None, intent.clone()).await;
        assert_eq!(refused, Err(CreateError::BadSchedule(why)));
        assert!(engine.simulate(account(1), None, intent).await.is_err());
    }
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 0);
}
