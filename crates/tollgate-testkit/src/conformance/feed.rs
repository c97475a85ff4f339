//! The completions feed (I10).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use tollgate_model::port::{
    ChainRegistration, Completion, FeedFilter, FeedKind, Lease, RowVersion, SectionOutcome,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{ChainId, Failed, Seq, StuckReason, TxEvent, TxId, TxState};

use crate::builders::{
    IntentExt, SectionExt, chain, chain_id, full_page, intent, moved, on_other_chain, other_chain,
    page, section, seq, submitter,
};
use crate::node::{TestNode, is_committed};
use crate::store_fixture::StoreFixture;
use crate::wait::within;

pub async fn a_final_change_writes_its_completion(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let (mined, withdrawn) = (intent().at(0).named("order-1"), intent());
    let both = section(lease).cursor(0, 1).creates([mined.clone(), withdrawn.clone()]);
    a.write_whole(both).await;
    assert_eq!(a.feed(seq(0), full_page()).await, [], "nothing has ended");
    assert_eq!(a.feed_end(FeedFilter::finals(chain().chain_id)).await.unwrap(), seq(0));
    a.mine(lease, mined.tx_id, 7).await;
    a.step(lease, mined.tx_id, TxEvent::Finalised(FinalOutcome::Reverted)).await;
    a.step(lease, withdrawn.tx_id, TxEvent::Withdrawn).await;

    let feed = a.feed(seq(0), full_page()).await;
    assert_eq!(feed.len(), 2);
    let hash = mined.slot.unwrap().attempt.tx_hash;
    let [first, second] = &feed[..] else { panic!("two: {feed:?}") };
    assert_eq!((first.seq, first.tx_id), (seq(1), mined.tx_id));
    assert_eq!((first.submitter, &first.request_id), (submitter(1), &mined.request_id));
    assert_eq!(first.state, TxState::Failed(Failed::Reverted));
    assert_eq!(first.tx_hash, Some(hash));
    assert_eq!((second.seq, second.tx_id), (seq(2), withdrawn.tx_id));
    assert_eq!((&second.request_id, second.tx_hash), (&None, None));
    let stored = a.record(mined.tx_id).await;
    assert_eq!((&first.payload, &first.mined), (&Some(stored.payload), &stored.mined));
    assert!(second.payload.is_some() && second.mined.is_none());
    assert!(second.at >= first.at);
    assert_eq!(a.feed(seq(1), full_page()).await, feed[1..]);
    assert_eq!(a.feed(seq(0), page(1)).await, feed[..1]);
    assert_eq!(a.feed(Seq::MAX, full_page()).await, []);
    assert_eq!(a.feed_end(FeedFilter::finals(chain().chain_id)).await.unwrap(), seq(2));
}

pub async fn the_feed_is_consecutive_over_batches_and_refusals(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let mut ended = Vec::new();
    for n in 1..=3 {
        let lease = a.own(submitter(n)).await;
        let txs: Vec<_> = (0..5).map(|_| intent()).collect();
        a.write_whole(section(lease).creates(txs.clone())).await;
        let mut ends = section(lease);
        for tx in &txs {
            ends = ends.change(a.change(tx.tx_id, TxEvent::Withdrawn).await);
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
    let feed = a.feed(seq(0), full_page()).await;
    assert!(feed.iter().map(|entry| entry.seq.get()).eq(1..=15), "I10: {feed:?}");
    assert!(feed.iter().map(|entry| entry.tx_id).eq(ended), "in the order of commits");
}

/// The state of each entry and its number, of one chain or of all.
async fn entries(node: &TestNode, of: FeedFilter) -> Vec<(u64, FeedKind)> {
    let found = node.completions(of, seq(0), full_page()).await.unwrap();
    let last = found.items.last().map_or(0, |entry| entry.seq.get());
    assert_eq!(node.feed_end(of).await.unwrap().get(), last);
    found.items.iter().map(|it| (it.seq.get(), FeedKind::of_state(it.state))).collect()
}

pub async fn stuck_transactions_are_in_the_feed_for_readers_that_want_them(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let tx = a.fill(lease, 1).await.remove(0).tx_id;
    a.step(lease, tx, TxEvent::GaveUp(StuckReason::FeeCap)).await;
    let stale = a.change(tx, TxEvent::NodeAccepted).await;
    a.mine(lease, tx, 7).await;
    // I1: a change of a row that has moved writes no entry.
    assert!(is_committed(&a.write(section(lease).change(stale)).await));
    a.step(lease, tx, TxEvent::Finalised(FinalOutcome::Executed)).await;
    a.register_on(&other_chain(), &[on_other_chain(1)]).await;
    let there = a.lease(on_other_chain(1)).await;
    let other = a.fill(there, 1).await.remove(0).tx_id;
    a.step(there, other, TxEvent::GaveUp(StuckReason::FeeCap)).await;

    let finals = FeedFilter::finals(chain().chain_id);
    assert_eq!(entries(&a, finals).await, [(3, FeedKind::Final)]);
    let all = FeedFilter { with_stuck: true, ..finals };
    let here = [(1, FeedKind::Stuck), (2, FeedKind::Unstuck), (3, FeedKind::Final)];
    assert_eq!(entries(&a, all).await, here, "I10: in the order of commits, without a gap");
    let everything = FeedFilter { chain_id: None, with_stuck: true };
    let both = [&here[..], &[(4, FeedKind::Stuck)]].concat();
    assert_eq!(entries(&a, everything).await, both, "of all chains");
    let page_of_two = a.completions(everything, seq(1), page(2)).await.unwrap();
    assert!(page_of_two.items.iter().map(|it| it.seq.get()).eq([2, 3]));
    let ended = FeedFilter { with_stuck: false, ..everything };
    let found = a.completions(ended, seq(0), full_page()).await.unwrap();
    assert_eq!((found.items.len(), found.end), (1, seq(4)));
    assert_eq!(a.completions(ended, seq(3), full_page()).await.unwrap().items, []);
}

/// I10: no transaction ends without its completion.
pub async fn a_change_whose_completion_has_no_number_is_refused_and_not_written(
    fixture: &dyn StoreFixture,
) {
    let a = fixture.node("a").await;
    let (lease, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let tx = a.created(lease, intent()).await;
    assert_eq!(fixture.execute("delete from completion_counter").await, Ok(1));
    let row = a.record(tx.tx_id).await.row;
    let end = section(lease).change(moved(tx.tx_id, row, TxEvent::Withdrawn));
    let outcomes = a.write_all(vec![end, section(other).create(intent())]).await;
    assert!(matches!(outcomes[0], SectionOutcome::Refused(_)), "{outcomes:?}");
    assert!(is_committed(&outcomes[1]), "I14: {outcomes:?}");
    assert_eq!(a.record(tx.tx_id).await.row, row, "I10: refused, and written all the same");
}

const WRITERS: u64 = 8;
const COMMITS: usize = 60;
const PER_COMMIT: usize = 7;

/// Readers remember only the last number that they saw.
pub async fn readers_of_the_feed_miss_nothing_under_concurrent_commits(fixture: &dyn StoreFixture) {
    let total = usize::try_from(WRITERS).unwrap() * COMMITS * PER_COMMIT;
    let mut writers = Vec::new();
    for n in 1..=WRITERS {
        let node = fixture.node(&format!("writer-{n}")).await;
        // Every second one on another chain: the feed's numbers are the database's.
        let lease = match n % 2 {
            0 => {
                node.register_on(&other_chain(), &[on_other_chain(n)]).await;
                node.lease(on_other_chain(n)).await
            }
            _ => node.own(submitter(n)).await,
        };
        writers.push((node, lease));
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for (chain, size) in [(chain(), 7), (other_chain(), 100), (chain(), 1_000)] {
        let (node, over) = (fixture.node("reader").await, over.clone());
        readers.push(tokio::spawn(read_feed(node, chain.chain_id, size, over)));
    }
    let writing = writers.into_iter().map(|(node, lease)| tokio::spawn(end_many(node, lease)));
    let mut ended: HashMap<ChainId, HashSet<TxId>> = HashMap::new();
    for done in join_all(writing).await {
        let (lease, ids) = done.unwrap();
        ended.entry(lease.submitter.chain_id).or_default().extend(ids);
    }
    over.store(true, Ordering::SeqCst);
    assert_eq!(ended.values().map(HashSet::len).sum::<usize>(), total);
    let mut seqs = BTreeSet::new();
    for reader in readers {
        let (of, feed) = within("a reader of the feed", reader).await.unwrap();
        let missed = ended[&of].len() - feed.len();
        assert_eq!(missed, 0, "I10: a reader missed {missed}");
        let row: HashSet<_> = feed.iter().map(|entry| entry.tx_id).collect();
        assert_eq!(row, ended[&of], "I10: each outcome once, and only those of its chain");
        seqs.extend(feed.iter().map(|entry| entry.seq.get()));
    }
    assert!(seqs.into_iter().eq(1..=total as u64), "I10: the numbers of all chains have no gap");
}

/// Reads one chain's completions by the last number alone, until no more can follow.
async fn read_feed(
    node: TestNode,
    of: ChainId,
    size: u32,
    over: Arc<AtomicBool>,
) -> (ChainId, Vec<Completion>) {
    let (mut feed, mut after): (Vec<Completion>, Seq) = (Vec::new(), seq(0));
    loop {
        // Asked before the page: what was committed by then is in it.
        let last_look = over.load(Ordering::SeqCst);
        let found = node.completions(FeedFilter::finals(of), after, page(size)).await.unwrap();
        if last_look && found.items.is_empty() {
            return (of, feed);
        }
        for entry in &found.items {
            assert!(entry.seq > after, "I10: the feed went back");
        }
        let next = found.next(after, page(size));
        assert!(next >= after, "a reader never goes back");
        (after, feed) = (next, [feed, found.items].concat());
    }
}

/// A node lists the completions of its own chain. A reader skips those of other chains once.
pub async fn a_page_holds_one_chains_completions_and_leads_past_those_of_others(
    fixture: &dyn StoreFixture,
) {
    let a = fixture.node("a").await;
    let here = a.own(submitter(1)).await;
    a.register_on(&other_chain(), &[on_other_chain(1)]).await;
    let there = a.lease(on_other_chain(1)).await;
    // 1 and 4 are here, 2, 3 and 5 there.
    for lease in [here, there, there, here, there] {
        let tx = a.created(lease, intent()).await;
        a.step(lease, tx.tx_id, TxEvent::Withdrawn).await;
    }
    let look = async |of: ChainRegistration, after: u64, size: u32| {
        let found =
            a.completions(FeedFilter::finals(of.chain_id), seq(after), page(size)).await.unwrap();
        let ours = found.items.iter().all(|one| one.submitter.chain_id == of.chain_id);
        assert!(ours, "of its chain alone: {found:?}");
        let next = found.next(seq(after), page(size)).get();
        (found.items.iter().map(|one| one.seq.get()).collect::<Vec<_>>(), next)
    };
    assert_eq!(look(chain(), 0, 10).await, (vec![1, 4], 5), "and on behind the last of all");
    assert_eq!(look(chain(), 0, 2).await, (vec![1, 4], 4), "a full page may have more behind it");
    assert_eq!(look(chain(), 0, 1).await, (vec![1], 1));
    assert_eq!(look(chain(), 1, 1).await, (vec![4], 4));
    assert_eq!(look(chain(), 4, 1).await, (vec![], 5), "nothing, and 5 is not looked at again");
    assert_eq!(look(chain(), 5, 1).await, (vec![], 5));
    assert_eq!(look(other_chain(), 0, 10).await, (vec![2, 3, 5], 5));
    assert_eq!(look(chain(), 99, 10).await, (vec![], 99), "never back");
    let nobody = ChainRegistration { chain_id: chain_id(6), ..chain() };
    assert_eq!(look(nobody, 0, 10).await, (vec![], 5));
}

/// Ends many transactions, a few in each commit.
async fn end_many(node: TestNode, lease: Lease) -> (Lease, Vec<TxId>) {
    let txs: Vec<_> = std::iter::repeat_with(intent).take(COMMITS * PER_COMMIT).collect();
    node.write_whole(section(lease).creates(txs.clone())).await;
    for some in txs.chunks(PER_COMMIT) {
        let mut ends = section(lease);
        for tx in some {
            let initial_state = RowVersion { state: tx.initial_state(), version: 1 };
            ends = ends.change(moved(tx.tx_id, initial_state, TxEvent::Withdrawn));
        }
        node.write_whole(ends).await;
    }
    (lease, txs.iter().map(|tx| tx.tx_id).collect())
}
