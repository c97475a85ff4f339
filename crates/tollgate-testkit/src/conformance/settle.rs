//! Commits whose answer was lost: what a fresh look under the fence must find.

use tollgate_model::TxEvent;
use tollgate_model::port::{Checkpoint, Settled, StoreError};

use crate::builders::{IntentExt, SectionExt, intent, moved, section, submitter, tx_id};
use crate::node::is_committed;
use crate::store_fixture::{NodeOptions, StoreFixture};
use crate::wait::within;

/// What is asked for is answered, in order, and what is not there is `None`.
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

/// A commit whose caller never heard of it is found.
pub async fn commit_whose_answer_was_lost_is_found(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = intent().at(0);
    let other = a.again(fixture, NodeOptions::PATIENT).await;
    let mut hold = a.checkpoints.pause_at(Checkpoint::BatchCommitted);
    let deaf = a.write_aside(section(lease).cursor(0, 1).create(tx.clone()));
    hold.reached().await;
    let settled = other.settle(&a.id, lease, &[tx.tx_id]).await.unwrap();
    assert!(settled.rows[0].is_some(), "I6: it is durable");
    assert_eq!(settled.submitter.next_nonce.get(), 1);
    hold.release();
    assert!(is_committed(&within("the batch", deaf).await.unwrap().unwrap()));
}

/// "It is not there" is only said once it can't come any more: here for a create.
pub async fn a_create_in_flight_is_not_called_absent(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = intent().at(0);
    let hasty = a.again(fixture, NodeOptions::HASTY).await;
    let mut hold = a.checkpoints.pause_at(Checkpoint::BatchWritten);
    let flying = a.write_aside(section(lease).cursor(0, 1).create(tx.clone()));
    hold.reached().await;
    let early = hasty.settle(&a.id, lease, &[tx.tx_id]).await;
    hold.release();
    let landed = within("the batch", flying).await.unwrap();
    let landed = landed.as_ref().is_ok_and(is_committed);
    match early {
        Ok(settled) => {
            let said = settled.rows[0].is_some();
            assert_eq!(said, landed, "I6: what was settled changed afterwards");
        }
        Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
    }
    let settled = a.settle(&a.id, lease, &[tx.tx_id]).await.unwrap();
    assert_eq!(settled.rows[0].is_some(), landed);
    assert_eq!(settled.submitter.next_nonce.get(), u64::from(landed));
}

pub async fn a_change_in_flight_is_not_called_undone(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = intent();
    a.write_whole(section(lease).create(tx.clone())).await;
    let before = a.record(tx.tx_id).await.row;
    let change = moved(tx.tx_id, before, TxEvent::Held);
    let after = change.applied();
    let hasty = a.again(fixture, NodeOptions::HASTY).await;
    let mut hold = a.checkpoints.pause_at(Checkpoint::BatchWritten);
    let flying = a.write_aside(section(lease).change(change));
    hold.reached().await;
    let early = hasty.settle(&a.id, lease, &[tx.tx_id]).await;
    hold.release();
    let landed = within("the batch", flying).await.unwrap();
    let landed = landed.as_ref().is_ok_and(is_committed);
    let truth = Some(if landed { after } else { before });
    match early {
        Ok(settled) => assert_eq!(settled.rows[0], truth, "I6: what was settled changed"),
        Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
    }
    assert_eq!(a.settle(&a.id, lease, &[tx.tx_id]).await.unwrap().rows[0], truth);
}
