//! The audit trail of submitters: who changed its status or mode or moved its cursor, when, and why.

use tollgate_model::TxEvent;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    Lease, ModeChange, Reserve, Section, SectionOutcome, StatusChange, SubmitterEntry,
};

use crate::builders::{
    IntentExt, SectionExt, full_page, intent, nonce, one_slot, reserve, section, submitter, text,
};
use crate::node::{TestNode, all_pages, is_committed};
use crate::store_fixture::StoreFixture;

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

pub async fn every_change_of_a_submitters_status_is_on_record(fixture: &dyn StoreFixture) {
    use SubmitterStatus::{Active, Paused, Protect};
    let (a, b, lease) = fixture.owner_and_other().await;
    a.write_whole(status(lease, Active, Paused, "maintenance")).await;
    a.write_whole(status(lease, Paused, Active, "done")).await;
    fixture.expire(submitter(1)).await;
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

/// Allocations are not recorded here: they are on record with their transactions.
pub async fn a_cursor_that_moves_without_opening_slots_is_on_record(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(one_slot(lease, 0)).await;
    let ask = |floor: u64| Reserve { floor: nonce(floor), ..reserve(lease) };
    assert!(a.reserve(&a.id, &ask(0)).await.unwrap().is_some());
    assert_eq!(words(&a).await, [], "allocations");
    a.write_whole(section(lease).cursor(2, 5)).await;
    a.write_whole(section(lease).cursor(5, 9).create(intent().at(8))).await;
    assert!(a.reserve(&a.id, &ask(11)).await.unwrap().is_some());
    let moved = |detail| word("cursor_moved", detail);
    let expected = [moved("from 2 to 5"), moved("from 5 to 8"), moved("from 9 to 11")];
    assert_eq!(words(&a).await, expected);
}

pub async fn unwritten_changes_are_not_on_record(fixture: &dyn StoreFixture) {
    use SubmitterStatus::{Active, Paused};
    let (a, b, lease) = fixture.owner_and_other().await;
    assert!(!is_committed(&a.write(status(lease, Paused, Active, "it is not")).await));
    assert!(!is_committed(&a.write(section(lease).cursor(3, 5)).await));
    fixture.expire(submitter(1)).await;
    b.lease(submitter(1)).await;
    assert!(!is_committed(&a.write(status(lease, Active, Paused, "too late")).await));
    assert_eq!(words(&a).await, [], "I2");
}

pub async fn a_submitters_record_is_read_in_pages(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    for n in 0..7 {
        a.write_whole(section(lease).cursor(n, n + 1)).await;
    }
    let read = all_pages(3, async |last: Option<&SubmitterEntry>, page| {
        a.submitter_history(submitter(1), last.map_or(0, |entry| entry.number), page).await
    });
    let read = read.await;
    assert_eq!((read.len(), read), (7, entries(&a).await));
}

fn mode(lease: Lease, from: Mode, to: Mode) -> Section {
    let mut section = section(lease);
    section.mode = Some(ModeChange { from, to, reason: text("the bridge needs it") });
    section
}

pub async fn a_change_of_mode_is_fenced_compared_and_on_record(fixture: &dyn StoreFixture) {
    use Mode::{Pipelined, Strict};
    let (a, b, lease) = fixture.owner_and_other().await;
    let stale = a.write(mode(lease, Strict, Pipelined)).await;
    assert!(matches!(stale, SectionOutcome::Stale { .. }), "{stale:?}");
    a.write_whole(mode(lease, Pipelined, Strict).cursor(0, 3)).await;
    let record = a.known(submitter(1)).await;
    assert_eq!((record.mode, record.next_nonce), (Strict, nonce(3)));
    let changed = word("mode_changed", "from pipelined to strict: the bridge needs it");
    assert_eq!(words(&a).await, [changed, word("cursor_moved", "from 0 to 3")]);
    let entry = &entries(&a).await[0];
    assert_eq!((&entry.node, entry.token), (&a.id, lease.token));

    fixture.expire(submitter(1)).await;
    b.lease(submitter(1)).await;
    let late = a.write(mode(lease, Strict, Pipelined)).await;
    assert_eq!(late, SectionOutcome::Fenced, "I2");
    assert_eq!(a.known(submitter(1)).await.mode, Strict);
    assert_eq!(entries(&a).await.len(), 2, "nothing was changed, and nothing is on record");
}

/// I12: slots of one mode are never finished by the rules of the other.
pub async fn a_mode_does_not_change_while_anything_is_open_or_reserved(fixture: &dyn StoreFixture) {
    use Mode::{Pipelined, Strict};
    let (a, lease) = fixture.owner().await;
    let refused = async |why: &str| {
        let outcome = a.write(mode(lease, Pipelined, Strict)).await;
        assert!(matches!(outcome, SectionOutcome::Refused(_)), "{why}: {outcome:?}");
        assert_eq!(a.known(submitter(1)).await.mode, Pipelined, "{why}");
    };
    let tx = a.created(lease, intent()).await;
    refused("a transaction waits for a slot").await;
    a.step(lease, tx.tx_id, TxEvent::Withdrawn).await;
    let held = a.reserve(&a.id, &reserve(lease)).await.unwrap().unwrap();
    refused("a caller holds a nonce").await;
    let why = text("not needed");
    let back = a.reservation_recyclable(&a.id, lease, held.nonce, held.owner_token, &why).await;
    assert!(back.unwrap().is_some());
    let neighbour = a.own(submitter(2)).await;
    a.write_whole(section(neighbour).create(intent())).await;
    a.write_whole(mode(lease, Pipelined, Strict)).await;
    assert_eq!(a.known(submitter(1)).await.mode, Strict, "another's work is no obstacle");
}
