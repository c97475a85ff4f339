//! Commits with unknown outcome: what `settle` finds under the fence.

use tollgate_model::port::{Checkpoint, Lease, RowVersion, Section, Settled, StoreError};
use tollgate_model::{TxEvent, TxId};

use crate::builders::{IntentExt, SectionExt, intent, moved, section, submitter, tx_id};
use crate::node::TestNode;
use crate::store_fixture::{NodeOptions, StoreFixture};

pub async fn settle_reports_which_transactions_exist(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let (first, second) = (intent().at(0), intent());
    let written = section(lease).cursor(0, 1).create(first.clone()).create(second.clone());
    a.write_whole(written).await;
    let asked = [second.tx_id, tx_id(), first.tx_id];
    let Settled { submitter: record, rows } = a.settle(&a.id, lease, &asked).await.unwrap();
    assert_eq!(record, a.known(submitter(1)).await);
    let row = [a.record(second.tx_id).await.row, a.record(first.tx_id).await.row];
    assert_eq!(rows, [Some(row[0]), None, Some(row[1])]);
}

pub async fn commit_whose_answer_was_lost_is_found(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = intent().at(0);
    let other = a.again(fixture, NodeOptions::PATIENT).await;
    let created = section(lease).cursor(0, 1).create(tx.clone());
    let deaf = a.hold_batch(Checkpoint::BatchCommitted, created).await;
    let settled = other.settle(&a.id, lease, &[tx.tx_id]).await.unwrap();
    assert!(settled.rows[0].is_some(), "I6: it is durable");
    assert_eq!(settled.submitter.next_nonce.get(), 1);
    assert!(deaf.lands().await);
}

/// I6: a row is reported only once the commit in flight has happened or is impossible.
async fn settles_what_is_true(
    fixture: &dyn StoreFixture,
    (a, lease): (TestNode, Lease),
    (flying, tx_id): (Section, TxId),
    (before, after): (Option<RowVersion>, Option<RowVersion>),
) {
    let hasty = a.again(fixture, NodeOptions::HASTY).await;
    let flying = a.hold_batch(Checkpoint::BatchWritten, flying).await;
    let early = hasty.settle(&a.id, lease, &[tx_id]).await;
    let truth = if flying.lands().await { after } else { before };
    match early {
        Ok(settled) => assert_eq!(settled.rows, [truth], "I6: what was settled changed"),
        Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
    }
    let settled = a.settle(&a.id, lease, &[tx_id]).await.unwrap();
    assert_eq!((settled.rows, settled.submitter), (vec![truth], a.known(lease.submitter).await));
}

pub async fn a_create_in_flight_is_not_called_absent(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = intent().at(0);
    let after = RowVersion { state: tx.initial_state(), version: 1 };
    let flying = (section(lease).cursor(0, 1).create(tx.clone()), tx.tx_id);
    settles_what_is_true(fixture, (a, lease), flying, (None, Some(after))).await;
}

pub async fn a_change_in_flight_is_not_called_undone(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx_id = a.created(lease, intent()).await.tx_id;
    let before = a.record(tx_id).await.row;
    let change = moved(tx_id, before, TxEvent::Held);
    let rows = (Some(before), Some(change.applied()));
    settles_what_is_true(fixture, (a, lease), (section(lease).change(change), tx_id), rows).await;
}
