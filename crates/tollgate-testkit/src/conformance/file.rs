//! Promises of an embedded database alone: one writer at a time.

use std::time::Duration;

use tollgate_model::port::{Acquisition, StoreError};

use crate::builders::{long_terms, one_slot, submitter};
use crate::child_process::{ChildScenario, DONE, STOPPED, StoreChild};
use crate::store_fixture::{SqliteFixture, StoreFixture};

/// Other nodes are told `Unavailable` while a writer is stopped in mid-transaction.
pub async fn frozen_writer_commits_before_any_takeover(fixture: &SqliteFixture) {
    let fixture: &dyn StoreFixture = fixture;
    let b = fixture.hasty_node("b").await;
    b.register(&[submitter(1)]).await;
    let other = b.own(submitter(2)).await;
    let mut child = StoreChild::start(fixture, 1, ChildScenario::MidBatch, Duration::ZERO);
    let tx_id = child.tx_id().await;
    assert_eq!(child.line().await, STOPPED);
    child.freeze();
    let refused = b.try_write_one(one_slot(other, 0)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "by name: {refused}");
    assert!(refused.is_retryable());
    assert!(!b.has(tx_id).await, "reading goes on");
    fixture.expire_in_flight(submitter(1)).await;
    match b.acquire(submitter(1), &b.id, &long_terms()).await {
        Ok(Acquisition::Granted { .. }) => panic!("I2: a takeover in mid-transaction"),
        Ok(Acquisition::Held(_)) | Err(StoreError::Unavailable(_)) => {}
        Err(error) => panic!("{error}"),
    }
    child.thaw();
    child.go_on().await;
    assert_eq!(child.says("commit").await, "committed", "it had the file to itself");
    assert_eq!(child.line().await, DONE);
    let (lease, cursor) = b.take_over(submitter(1)).await;
    assert_eq!(cursor, 1, "I2: the new owner sees it");
    assert!(b.has(tx_id).await);
    b.write_whole(one_slot(lease, 1)).await;
    let (again, cursor) = b.take_over(submitter(2)).await;
    assert_eq!(cursor, 0, "nothing of the refused batch was written");
    b.write_whole(one_slot(again, 0)).await;
}
