//! Pause and resume.

use tollgate_engine::PauseOutcome;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::{Queued, TxState};

use crate::support::{Cluster, PENDING, account, id, patient, reason, transfer, transfers, window};

const HELD: TxState = TxState::Queued(Queued::Held);
const WAITING: TxState = TxState::Queued(Queued::Waiting);

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_submitter_takes_work_and_opens_no_slot_until_it_is_resumed() {
    let (cluster, engine) = Cluster::with_node(window(1)).await;
    let ids = transfers(&engine, [10, 11]).await;
    assert_eq!(cluster.record(ids[1]).await.row.state, WAITING);
    let paused = engine.operator().pause(account(1), reason("audit")).await.unwrap();
    let (was, is) = (SubmitterStatus::Active, SubmitterStatus::Paused);
    assert_eq!(paused, PauseOutcome { was, is });
    assert_eq!(cluster.record(ids[1]).await.row.state, HELD, "what waited is held");
    let new = transfers(&engine, [12]).await;
    assert_eq!(cluster.record(new[0]).await.row.state, HELD);
    // What has a slot goes on.
    cluster.mine_until_final(&ids[..1]).await;
    assert_eq!(cluster.record(ids[1]).await.row.state, HELD);
    let other = id(engine.create(account(2), None, transfer(5)).await.unwrap());
    cluster.until(other, "was with a node", |tx| tx.row.state == PENDING).await;
    let resumed = engine.operator().resume(account(1), reason("done")).await.unwrap();
    assert_eq!(resumed, PauseOutcome { was: is, is: was });
    cluster.mine_until_final(&[ids[1], new[0]]).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_survives_the_death_of_the_node() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    engine.operator().pause(account(1), reason("audit")).await.unwrap();
    let held = transfers(&engine, [10]).await;
    engine.stop().await;
    let next = cluster.node("b", patient());
    let more = transfers(&next, [11]).await;
    assert_eq!(cluster.record(held[0]).await.row.state, HELD);
    assert_eq!(cluster.record(more[0]).await.row.state, HELD);
    assert_eq!(cluster.submitter(account(1)).await.status_reason.unwrap().as_str(), "audit");
    next.operator().resume(account(1), reason("done")).await.unwrap();
    cluster.mine_until_final(&[held[0], more[0]]).await;
    assert_eq!(cluster.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_and_resuming_twice_changes_nothing() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let active = SubmitterStatus::Active;
    let resumed = engine.operator().resume(account(1), reason("why not")).await.unwrap();
    assert_eq!(resumed, PauseOutcome { was: active, is: active });
    engine.operator().pause(account(1), reason("one")).await.unwrap();
    engine.operator().pause(account(1), reason("two")).await.unwrap();
    assert_eq!(cluster.submitter(account(1)).await.status_reason.unwrap().as_str(), "one");
}
