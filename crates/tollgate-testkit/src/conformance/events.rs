//! The log of events (I10), and the sinks that receive it (I11).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::event::{EventKind, EventKinds, NumberedEvent};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{
    DeadLetter, FencedBatch, Lease, SectionOutcome, StatusChange, UpdateAnswer,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{Seq, TxEvent, TxId};

use crate::builders::{
    IntentExt, SectionExt, full_page, intent, moved, page, section, seq, submitter, text,
};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;
use crate::wait::{until, within};

const TERM: Duration = Duration::from_secs(600);

/// Numbers everything, and reads all of it.
async fn read_all(node: &TestNode) -> Vec<NumberedEvent> {
    while node.number_events(full_page()).await.unwrap() > 0 {}
    let (mut all, mut after) = (Vec::new(), seq(0));
    loop {
        let found = node.events(after, full_page()).await.unwrap();
        let is_end = found.next == found.end;
        (after, all) = (found.next, [all, found.items].concat());
        if is_end {
            return all;
        }
    }
}

fn kinds(events: &[NumberedEvent]) -> Vec<EventKind> {
    events.iter().map(|it| it.event.kind).collect()
}

pub async fn events_are_numbered_in_the_order_of_their_changes(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().at(0).named("order-1")).await;
    assert_eq!(a.events(seq(0), full_page()).await.unwrap().items, [], "not numbered yet");
    a.mine(lease, tx.tx_id, 7).await;
    a.step(lease, tx.tx_id, TxEvent::Finalised(FinalOutcome::Executed)).await;
    let mut pause = section(lease);
    let (from, to) = (SubmitterStatus::Active, SubmitterStatus::Paused);
    pause.status = Some(StatusChange { from, to, reason: text("maintenance") });
    a.write_whole(pause).await;

    let events = read_all(&a).await;
    let expected = [
        EventKind::TxAccepted,
        EventKind::TxSubmitted,
        EventKind::TxReceiptUpdated,
        EventKind::TxConfirmed,
        EventKind::SubmitterPaused,
    ];
    assert_eq!(kinds(&events), expected);
    assert!(events.iter().map(|it| it.seq.get()).eq(1..=5), "I10: {events:?}");
    let record = a.record(tx.tx_id).await;
    let [accepted, submitted, mined, confirmed, paused] = &events[..] else { panic!("five") };
    for event in [accepted, submitted, mined, confirmed] {
        let about = event.event.tx.as_ref().unwrap();
        assert_eq!((about.tx_id, &about.request_id), (tx.tx_id, &tx.request_id));
        assert_eq!(event.event.submitter, submitter(1));
    }
    let end = confirmed.event.tx.as_ref().unwrap();
    let receipt = record.mined.unwrap();
    assert_eq!((end.version, end.state), (record.row.version, record.row.state));
    assert_eq!(end.tx_hash, Some(receipt.tx_hash));
    assert_eq!(end.block, Some((receipt.block_number, receipt.block_hash)));
    assert_eq!(confirmed.id(), format!("{}.{}.TxConfirmed", tx.tx_id, end.version));
    assert_eq!(paused.event.reason, Some(text("maintenance")));
    let ids: HashSet<_> = events.iter().map(NumberedEvent::id).collect();
    assert_eq!(ids.len(), events.len(), "each id once");
    assert_eq!(read_all(&a).await, events, "ids and numbers stay");
}

pub async fn changes_that_are_not_written_leave_no_event(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().named("order")).await;
    let row = a.record(tx.tx_id).await.row;
    // Stale: the cursor is elsewhere. Refused: the id is taken. Lost: the row has moved.
    assert!(matches!(
        a.write(section(lease).cursor(9, 10).create(intent().at(9))).await,
        SectionOutcome::Stale { .. }
    ));
    let mut clash = section(lease).create(intent()).create(intent());
    clash.creates[1].tx_id = tx.tx_id;
    assert!(matches!(a.write(clash).await, SectionOutcome::Refused(_)));
    a.write(section(lease).create(intent().named("order"))).await;
    a.write_whole(section(lease).change(moved(tx.tx_id, row, TxEvent::Held))).await;
    let lost = a.write(section(lease).change(moved(tx.tx_id, row, TxEvent::Withdrawn))).await;
    assert_eq!(lost.answers(), Some((vec![], vec![UpdateAnswer::Lost])));
    let events = read_all(&a).await;
    assert_eq!(kinds(&events), [EventKind::TxAccepted], "{events:?}");
    assert_eq!(events[0].event.tx.as_ref().unwrap().tx_id, tx.tx_id);
}

pub async fn kinds_that_are_not_wanted_are_not_written(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let write = async |kinds, section| {
        let batch = FencedBatch::new(a.id.clone(), vec![section]).unwrap().with_events(kinds);
        a.commit(&batch).await.unwrap();
    };
    let tx = intent();
    write(EventKinds::NONE, section(lease).create(intent())).await;
    let failed = EventKinds::NONE.with(EventKind::TxFailed);
    write(failed, section(lease).create(tx.clone())).await;
    assert_eq!(fixture.count("outbox").await, 0, "no row without an event");
    let end = a.change(tx.tx_id, TxEvent::Withdrawn).await;
    write(failed, section(lease).change(end)).await;
    assert_eq!(kinds(&read_all(&a).await), [EventKind::TxFailed]);
}

const WRITERS: u64 = 6;
const COMMITS: usize = 40;
const PER_COMMIT: usize = 3;

/// Readers remember only the last number that they saw, and each of them numbers what it finds.
pub async fn readers_of_events_miss_nothing_under_concurrent_commits(fixture: &dyn StoreFixture) {
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for n in 1..=WRITERS {
        let node = fixture.node(&format!("writer-{n}")).await;
        let lease = node.own(submitter(n)).await;
        writers.push((node, lease));
    }
    let mut readers = Vec::new();
    for size in [2, 50, 1_000] {
        let (node, over) = (fixture.node("reader").await, over.clone());
        readers.push(tokio::spawn(follow(node, size, over)));
    }
    let writing = writers.into_iter().map(|(node, lease)| tokio::spawn(write_many(node, lease)));
    let mut written = Vec::new();
    for done in join_all(writing).await {
        written.extend(done.unwrap());
    }
    over.store(true, Ordering::SeqCst);
    let expected: HashSet<TxId> = written.into_iter().collect();
    for reader in readers {
        let events = within("a reader of events", reader).await.unwrap();
        let seqs = events.iter().map(|it| it.seq.get());
        assert!(seqs.eq(1..=expected.len() as u64), "I10: the numbers have no gap");
        let read = events.iter().filter_map(|it| it.event.tx.as_ref().map(|tx| tx.tx_id));
        assert_eq!(read.collect::<HashSet<_>>(), expected, "I10: a reader missed an event");
    }
}

async fn follow(node: TestNode, size: u32, over: Arc<AtomicBool>) -> Vec<NumberedEvent> {
    let (mut read, mut after) = (Vec::new(), seq(0));
    loop {
        let is_last = over.load(Ordering::SeqCst);
        let numbered = node.number_events(page(7)).await.unwrap();
        let found = node.events(after, page(size)).await.unwrap();
        if is_last && numbered == 0 && found.next == after {
            return read;
        }
        assert!(found.items.iter().all(|it| it.seq > after), "I10: the log went back");
        (after, read) = (found.next, [read, found.items].concat());
    }
}

async fn write_many(node: TestNode, lease: Lease) -> Vec<TxId> {
    let mut written = Vec::new();
    for _ in 0..COMMITS {
        let txs: Vec<_> = std::iter::repeat_with(intent).take(PER_COMMIT).collect();
        written.extend(txs.iter().map(|tx| tx.tx_id));
        node.write_whole(section(lease).creates(txs)).await;
    }
    written
}

pub async fn page_of_events_begins_and_ends_inside_batches(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    for size in [4, 1, 5] {
        let txs: Vec<_> = std::iter::repeat_with(intent).take(size).collect();
        a.write_whole(section(lease).creates(txs)).await;
    }
    read_all(&a).await;
    for (after, size, first, last) in
        [(0, 3, 1, 3), (2, 4, 3, 6), (4, 1, 5, 5), (5, 100, 6, 10), (3, 1, 4, 4)]
    {
        let found = a.events(seq(after), page(size)).await.unwrap();
        let seqs: Vec<_> = found.items.iter().map(|it| it.seq.get()).collect();
        assert_eq!(seqs, (first..=last).collect::<Vec<_>>(), "{size} after {after}");
        assert_eq!((found.next, found.end), (seq(last), seq(10)));
    }
    let beyond = a.events(seq(10), page(5)).await.unwrap();
    assert_eq!((beyond.items.len(), beyond.next), (0, seq(10)));
    let ahead = a.events(Seq::MAX, page(5)).await.unwrap();
    assert_eq!((ahead.items.len(), ahead.next, ahead.end), (0, Seq::MAX, seq(10)));
}

pub async fn removed_events_are_told_and_numbers_go_on(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    for _ in 0..4 {
        a.write_whole(section(lease).creates([intent(), intent()])).await;
    }
    assert_eq!(a.remove_events(Duration::ZERO, 0, full_page()).await.unwrap(), 0, "no number yet");
    read_all(&a).await;
    assert_eq!(a.remove_events(TERM, 100, full_page()).await.unwrap(), 0, "young and few");
    assert_eq!(a.remove_events(TERM, 5, full_page()).await.unwrap(), 1, "5 stay behind");
    let bounds = a.event_bounds().await.unwrap();
    assert_eq!((bounds.removed_through, bounds.end), (seq(2), seq(8)));
    let found = a.events(seq(0), full_page()).await.unwrap();
    assert_eq!((found.removed_through, found.items[0].seq), (seq(2), seq(3)));
    assert_eq!(a.remove_events(Duration::ZERO, 100, page(2)).await.unwrap(), 2, "by age");
    assert_eq!(a.remove_events(Duration::ZERO, 100, full_page()).await.unwrap(), 1);
    assert_eq!(fixture.count("outbox").await, 0);
    a.write_whole(section(lease).create(intent())).await;
    assert_eq!(read_all(&a).await[0].seq, seq(9), "I10: numbers are not used again");
    assert_eq!(a.event_bounds().await.unwrap().removed_through, seq(8));
}

pub async fn sink_is_held_by_one_node_until_its_term_ends(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let b = fixture.node("b").await;
    a.write_whole(section(lease).creates([intent(), intent()])).await;
    read_all(&a).await;
    let first = a.claim_sink("webhook", &a.id, TERM).await.unwrap().unwrap();
    assert_eq!(first.acknowledged, seq(2), "a new sink begins at the end");
    assert_eq!(b.claim_sink("webhook", &b.id, TERM).await.unwrap(), None, "I11");
    assert!(b.claim_sink("other", &b.id, TERM).await.unwrap().is_some(), "each by itself");
    let anew = a.claim_sink("webhook", &a.id, TERM).await.unwrap().unwrap();
    assert!(anew.token > first.token, "the holder goes on without waiting for its own term");
    assert!(!a.acknowledge_events("webhook", first.token, seq(9), TERM).await.unwrap(), "I11");
    assert!(a.acknowledge_events("webhook", anew.token, seq(5), TERM).await.unwrap());
    assert!(a.acknowledge_events("webhook", anew.token, seq(4), Duration::ZERO).await.unwrap());
    let second =
        until("the term to end", || async { b.claim_sink("webhook", &b.id, TERM).await.unwrap() })
            .await;
    assert_eq!(second.acknowledged, seq(5), "never back");
    assert!(second.token > anew.token);
    let late = a.acknowledge_events("webhook", anew.token, seq(9), TERM).await.unwrap();
    assert!(!late, "I11: an old claim acknowledges nothing");
}

pub async fn rewound_sink_fences_its_holder(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    assert!(!a.rewind_sink("webhook", seq(1)).await.unwrap(), "there is no such sink");
    let claim = a.claim_sink("webhook", &a.id, TERM).await.unwrap().unwrap();
    assert!(a.acknowledge_events("webhook", claim.token, seq(7), TERM).await.unwrap());
    assert!(a.rewind_sink("webhook", seq(3)).await.unwrap());
    assert!(!a.acknowledge_events("webhook", claim.token, seq(8), TERM).await.unwrap());
    let again =
        until("the claim", || async { a.claim_sink("webhook", &a.id, TERM).await.unwrap() }).await;
    assert_eq!(again.acknowledged, seq(3));
}

pub async fn dead_letters_are_kept_until_they_are_delivered(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(section(lease).creates([intent().named("é"), intent(), intent()])).await;
    let events = read_all(&a).await;
    let mut letters = Vec::new();
    for event in events {
        let last_error = "HTTP 400".to_owned();
        let letter = DeadLetter { event, attempts: 8, last_error, is_due: false };
        a.put_dead_letter("webhook", &letter).await.unwrap();
        letters.push(letter);
    }
    a.remove_events(Duration::ZERO, 0, full_page()).await.unwrap();
    let list = async |is_due| a.dead_letters("webhook", seq(0), is_due, full_page()).await.unwrap();
    assert_eq!(list(false).await, letters, "they outlive the log");
    assert_eq!(list(true).await, []);
    assert_eq!(a.dead_letters("webhook", seq(1), false, page(1)).await.unwrap(), letters[1..2]);
    assert_eq!(a.dead_letters("other", seq(0), false, full_page()).await.unwrap(), []);
    assert_eq!(a.retry_dead_letters("webhook", seq(2), seq(3)).await.unwrap(), 2);
    let due = list(true).await;
    assert_eq!(due.iter().map(|it| it.event.seq.get()).collect::<Vec<_>>(), [2, 3]);
    a.delete_dead_letter("webhook", seq(2)).await.unwrap();
    let again = DeadLetter { attempts: 9, ..due[1].clone() };
    a.put_dead_letter("webhook", &again).await.unwrap();
    assert_eq!(list(true).await, [], "a further failure waits for the operator again");
    let left = list(false).await;
    assert_eq!(left.iter().map(|it| it.attempts).collect::<Vec<_>>(), [8, 9]);
    a.put_dead_letter("other", &left[0]).await.unwrap();
    assert_eq!(a.forget_dead_letters(3, full_page()).await.unwrap(), 0);
    assert_eq!(a.forget_dead_letters(1, full_page()).await.unwrap(), 2, "I13: of all sinks");
    assert_eq!(list(false).await, left[1..], "the newest is kept");
}
