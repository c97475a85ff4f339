//! The audit trail of submitters: who changed its status or moved its cursor, when, and why.

use std::time::Duration;

use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{Lease, Reserve, Section, StatusChange, SubmitterEntry};
use uuid::Uuid;

use crate::make::{
    IntentWords, SectionWords, full_page, intent, nonce, one_slot, page, section, submitter, text,
};
use crate::node::{TestNode, is_committed};
use crate::world::World;

fn status(lease: Lease, from: SubmitterStatus, to: SubmitterStatus, reason: &str) -> Section {
    let mut section = section(lease);
    section.status = Some(StatusChange { from, to, reason: text(reason) });
    section
}

async fn entries(node: &TestNode) -> Vec<SubmitterEntry> {
    node.submitter_history(submitter(1), 0, full_page()).await.unwrap()
}

async fn words(node: &TestNode) -> Vec<(String, String)> {
    let detail = |entry: &SubmitterEntry| entry.detail.clone().unwrap().as_str().to_owned();
    entries(node).await.iter().map(|entry| (entry.event.clone(), detail(entry))).collect()
}

fn word(event: &str, detail: &str) -> (String, String) {
    (event.to_owned(), detail.to_owned())
}

/// Node, token, time and reason, in the order in which it happened.
pub async fn every_change_of_a_submitters_status_is_on_record(world: &dyn World) {
    use SubmitterStatus::{Active, Paused, Protect};
    let (a, b) = (world.node("a").await, world.node("b").await);
    let lease = a.own(submitter(1)).await;
    a.write_whole(status(lease, Active, Paused, "maintenance")).await;
    a.write_whole(status(lease, Paused, Active, "done")).await;
    world.expire(submitter(1)).await;
    let taken = b.lease(submitter(1)).await;
    b.write_whole(status(taken, Active, Protect, "drift")).await;
    let expected =
        [word("paused", "maintenance"), word("resumed", "done"), word("protected", "drift")];
    assert_eq!(words(&a).await, expected);
    let all = entries(&a).await;
    let writers: Vec<_> = all.iter().map(|entry| (&entry.node, entry.token)).collect();
    assert_eq!(writers, [(&a.id, lease.token), (&a.id, lease.token), (&b.id, taken.token)]);
    assert!(all.windows(2).all(|two| two[0].number < two[1].number && two[0].at <= two[1].at));
    assert_eq!(a.submitter_history(submitter(2), 0, full_page()).await.unwrap(), []);
}

/// An allocation is not: it is on record with its transaction.
pub async fn a_cursor_that_moves_without_opening_slots_is_on_record(world: &dyn World) {
    let a = world.node("a").await;
    let lease = a.own(submitter(1)).await;
    a.write_whole(one_slot(lease, 0)).await;
    let ask = |floor: u64| Reserve {
        lease,
        owner_token: Uuid::new_v4(),
        hold: Duration::from_secs(600),
        floor: nonce(floor),
        outstanding_max: 10,
    };
    assert!(a.reserve(&a.id, &ask(0)).await.unwrap().is_some());
    assert_eq!(words(&a).await, [], "allocations");
    a.write_whole(section(lease).cursor(2, 5)).await;
    a.write_whole(section(lease).cursor(5, 9).create(intent().at(8))).await;
    assert!(a.reserve(&a.id, &ask(11)).await.unwrap().is_some());
    let moved = |detail| word("cursor_moved", detail);
    let expected = [moved("from 2 to 5"), moved("from 5 to 8"), moved("from 9 to 11")];
    assert_eq!(words(&a).await, expected);
}

/// With the change, or not at all.
pub async fn what_was_not_written_is_not_on_record(world: &dyn World) {
    use SubmitterStatus::{Active, Paused};
    let (a, b) = (world.node("a").await, world.node("b").await);
    let lease = a.own(submitter(1)).await;
    assert!(!is_committed(&a.write(status(lease, Paused, Active, "it is not")).await));
    assert!(!is_committed(&a.write(section(lease).cursor(3, 5)).await));
    world.expire(submitter(1)).await;
    b.lease(submitter(1)).await;
    assert!(!is_committed(&a.write(status(lease, Active, Paused, "too late")).await));
    assert_eq!(words(&a).await, [], "I2");
}

/// Oldest first, after a number.
pub async fn a_submitters_record_is_read_in_pages(world: &dyn World) {
    let a = world.node("a").await;
    let lease = a.own(submitter(1)).await;
    for n in 0..7 {
        a.write_whole(section(lease).cursor(n, n + 1)).await;
    }
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let next = a.submitter_history(submitter(1), after, page(3)).await.unwrap();
        let Some(last) = next.last() else { break };
        after = last.number;
        read.extend(next);
    }
    assert_eq!((read.len(), read), (7, entries(&a).await));
}
