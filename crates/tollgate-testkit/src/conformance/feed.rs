//! The completions feed (I10) and the outbox.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use tollgate_model::port::{Completion, Lease, SectionOutcome, Seen};
use tollgate_model::transition::Verdict;
use tollgate_model::{Failed, Seq, TxEvent, TxId, TxState};

use crate::make::{
    IntentWords, SectionWords, event, full_page, intent, moved, page, section, seq, submitter,
};
use crate::node::TestNode;
use crate::wait::within;
use crate::world::World;

/// An outcome says what ended, how, and with which hash.
pub async fn a_final_change_writes_its_completion(world: &dyn World) {
    let a = world.node("a").await;
    let lease = a.own(submitter(1)).await;
    let (mined, withdrawn) = (intent().at(0).named("order-1"), intent());
    let both = section(lease).cursor(0, 1).creates([mined.clone(), withdrawn.clone()]);
    a.write_whole(both).await;
    assert_eq!(a.completions(seq(0), full_page()).await.unwrap(), [], "nothing has ended");
    assert_eq!(a.feed_end().await.unwrap(), seq(0));
    a.mine(lease, mined.tx_id, 7).await;
    a.step(lease, mined.tx_id, TxEvent::Finalised(Verdict::Reverted)).await;
    a.step(lease, withdrawn.tx_id, TxEvent::Withdrawn).await;

    let feed = a.completions(seq(0), full_page()).await.unwrap();
    assert_eq!(feed.len(), 2);
    let hash = mined.slot.unwrap().attempt.tx_hash;
    let [first, second] = &feed[..] else { panic!("two: {feed:?}") };
    assert_eq!((first.seq, first.tx_id), (seq(1), mined.tx_id));
    assert_eq!((first.submitter, &first.request_id), (submitter(1), &mined.request_id));
    assert_eq!(first.state, TxState::Failed(Failed::Reverted));
    assert_eq!(first.tx_hash, Some(hash));
    assert_eq!((second.seq, second.tx_id), (seq(2), withdrawn.tx_id));
    assert_eq!((&second.request_id, second.tx_hash), (&None, None));
    assert!(second.at >= first.at);
    assert_eq!(a.completions(seq(1), full_page()).await.unwrap(), feed[1..]);
    assert_eq!(a.completions(seq(0), page(1)).await.unwrap(), feed[..1]);
    assert_eq!(a.completions(Seq::MAX, full_page()).await.unwrap(), []);
    assert_eq!(a.feed_end().await.unwrap(), seq(2));
}

/// Outcomes of one batch follow each other; those of a batch that was not written are not there.
pub async fn the_feed_is_consecutive_over_batches_and_refusals(world: &dyn World) {
    let a = world.node("a").await;
    let mut ended = Vec::new();
    for n in 1..=3 {
        let lease = a.own(submitter(n)).await;
        let txs: Vec<_> = (0..5).map(|_| intent()).collect();
        a.write_whole(section(lease).creates(txs.clone())).await;
        let mut ends = section(lease);
        for tx in &txs {
            let seen = a.record(tx.tx_id).await.seen;
            ends = ends.change(moved(tx.tx_id, seen, TxEvent::Withdrawn));
        }
        // The same outcomes in a section that can't be written leave no number behind.
        let stale = ends.clone().cursor(5, 6).create(intent().at(5));
        assert!(matches!(a.write(stale).await, SectionOutcome::Stale { .. }));
        if let Some(taken) = ended.first() {
            let mut clash = ends.clone().create(intent());
            clash.creates[0].tx_id = *taken;
            assert!(matches!(a.write(clash).await, SectionOutcome::Refused(_)));
        }
        a.write_whole(ends).await;
        ended.extend(txs.iter().map(|tx| tx.tx_id));
    }
    let feed = a.completions(seq(0), full_page()).await.unwrap();
    assert!(feed.iter().map(|entry| entry.seq.get()).eq(1..=15), "I10: {feed:?}");
    assert!(feed.iter().map(|entry| entry.tx_id).eq(ended), "in the order of commits");
}

const WRITERS: u64 = 8;
const COMMITS: usize = 60;
const PER_COMMIT: usize = 7;

/// Readers that remember only the last place they saw miss nothing and see nothing twice, whatever
/// the order of commits is.
pub async fn readers_of_the_feed_miss_nothing_under_concurrent_commits(world: &dyn World) {
    let total = usize::try_from(WRITERS).unwrap() * COMMITS * PER_COMMIT;
    let mut writers = Vec::new();
    for n in 1..=WRITERS {
        let node = world.node(&format!("writer-{n}")).await;
        let lease = node.own(submitter(n)).await;
        writers.push((node, lease));
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for size in [7, 100, 1_000] {
        let node = world.node("reader").await;
        readers.push(tokio::spawn(read_feed(node, size, over.clone())));
    }
    let writing = writers.into_iter().map(|(node, lease)| tokio::spawn(end_many(node, lease)));
    let mut ended: HashSet<TxId> = HashSet::new();
    for ids in join_all(writing).await {
        ended.extend(ids.unwrap());
    }
    over.store(true, Ordering::SeqCst);
    assert_eq!(ended.len(), total);
    for reader in readers {
        let feed = within("a reader of the feed", reader).await.unwrap();
        assert_eq!(feed.len(), total, "I10: a reader missed {}", total - feed.len());
        let seen: HashSet<_> = feed.iter().map(|entry| entry.tx_id).collect();
        assert_eq!(seen, ended, "I10: each outcome once");
    }
}

/// Reads on from the last place until nothing more can come.
async fn read_feed(node: TestNode, size: u32, over: Arc<AtomicBool>) -> Vec<Completion> {
    let mut feed: Vec<Completion> = Vec::new();
    loop {
        // Asked before the page: what was committed by then is in it.
        let last_look = over.load(Ordering::SeqCst);
        let after = feed.last().map_or(seq(0), |entry| entry.seq);
        let next = node.completions(after, page(size)).await.unwrap();
        if last_look && next.is_empty() {
            return feed;
        }
        for entry in next {
            let expected = feed.last().map_or(0, |entry| entry.seq.get()) + 1;
            assert_eq!(entry.seq.get(), expected, "I10: the feed has a gap");
            feed.push(entry);
        }
    }
}

/// Ends many transactions, a few in each commit.
async fn end_many(node: TestNode, lease: Lease) -> Vec<TxId> {
    let txs: Vec<_> = std::iter::repeat_with(intent).take(COMMITS * PER_COMMIT).collect();
    node.write_whole(section(lease).creates(txs.clone())).await;
    for some in txs.chunks(PER_COMMIT) {
        let mut ends = section(lease);
        for tx in some {
            let born = Seen { state: tx.born(), version: 1 };
            ends = ends.change(moved(tx.tx_id, born, TxEvent::Withdrawn));
        }
        node.write_whole(ends).await;
    }
    txs.iter().map(|tx| tx.tx_id).collect()
}

/// Events wait until they were delivered, oldest first, and are then forgotten.
pub async fn the_outbox_keeps_events_until_they_are_forgotten(world: &dyn World) {
    let a = world.node("a").await;
    let lease = a.own(submitter(1)).await;
    for n in 0..5 {
        let mut tx = intent();
        tx.outbox = Some(event(&format!("event-{n}")));
        a.write_whole(section(lease).create(tx)).await;
    }
    let keys = |events: &[tollgate_model::port::OutboxEvent]| {
        events.iter().map(|event| event.key.clone()).collect::<Vec<_>>()
    };
    let first = a.outbox(page(2)).await.unwrap();
    assert_eq!(keys(&first), ["event-0", "event-1"]);
    assert_eq!(a.outbox(page(2)).await.unwrap(), first, "they wait");
    let ids: Vec<_> = first.iter().map(|event| event.id).collect();
    a.forget_outbox(&ids).await.unwrap();
    a.forget_outbox(&ids).await.unwrap();
    a.forget_outbox(&[]).await.unwrap();
    assert_eq!(keys(&a.outbox(full_page()).await.unwrap()), ["event-2", "event-3", "event-4"]);
}
