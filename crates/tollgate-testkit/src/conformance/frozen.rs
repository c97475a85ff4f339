//! A node in a process of its own that is stopped or killed as a whole.

use std::time::Duration;

use crate::builders::{one_slot, submitter};
use crate::child_process::{ChildScenario, DONE, STOPPED, StoreChild};
use crate::store_fixture::StoreFixture;

/// Longer than the test, so that only the child's own end ends its transaction.
const PATIENT: Duration = Duration::from_secs(40);

pub async fn a_node_that_slept_through_its_lease_is_fenced_on_waking(fixture: &dyn StoreFixture) {
    let b = fixture.node("b").await;
    b.register(&[submitter(1)]).await;
    let mut child = StoreChild::start(fixture, 1, ChildScenario::BetweenBatches, PATIENT);
    let tx_id = child.tx_id().await;
    assert_eq!(child.says("commit").await, "committed");
    assert_eq!(child.line().await, STOPPED);
    child.freeze();
    fixture.expire_in_flight(submitter(1)).await;
    let (lease, cursor) = b.take_over(submitter(1)).await;
    assert_eq!(cursor, 1, "what it had committed is there");
    b.write_whole(one_slot(lease, 1)).await;
    child.thaw();
    child.go_on().await;
    for (call, answer) in [
        ("commit", "fenced"),
        ("renew", "0"),
        ("reserve", "fenced"),
        ("settle", "fenced"),
        ("release", "0"),
    ] {
        assert_eq!(child.says(call).await, answer, "I2: {call} after a sleep");
    }
    assert_eq!(child.line().await, DONE);
    assert!(b.has(tx_id).await);
    assert_eq!(b.cursor(submitter(1)).await, 2);
    b.write_whole(one_slot(lease, 2)).await;
}

pub async fn a_node_killed_in_mid_transaction_leaves_nothing_of_it(fixture: &dyn StoreFixture) {
    let b = fixture.node("b").await;
    b.register(&[submitter(1)]).await;
    let mut child = StoreChild::start(fixture, 1, ChildScenario::MidBatch, PATIENT);
    let tx_id = child.tx_id().await;
    assert_eq!(child.line().await, STOPPED);
    child.freeze();
    fixture.expire_in_flight(submitter(1)).await;
    child.kill().await;
    let (lease, cursor) = b.take_over(submitter(1)).await;
    assert_eq!(cursor, 0, "I3: nothing of a batch that was not committed");
    assert!(!b.has(tx_id).await);
    b.write_whole(one_slot(lease, 0)).await;
}
