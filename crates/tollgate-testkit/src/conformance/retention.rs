//! Finished transactions that are removed, and what is kept of them.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::port::{
    CreateAnswer, FeedFilter, FinalSlot, KnownRequest, Lease, NewTx, ReturnedNonces,
};
use tollgate_model::{StuckReason, TxEvent, TxId, TxState};

use crate::builders::{
    IntentExt, SectionExt, chain, full_page, intent, nonce, page, request, section, seq, submitter,
    text, tx_id,
};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;
use crate::wait::until;

const ANY_AGE: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3_600);

/// The tables that hold rows of one transaction.
const TABLES: [&str; 8] = [
    "managed_tx",
    "tx_attempt",
    "tx_history",
    "tx_completion",
    "confirmation",
    "tx_receipt",
    "tx_diagnosis",
    "tx_trace",
];

/// Confirmed transactions in the first `count` slots, named order-0, order-1, ….
async fn confirmed(a: &TestNode, lease: Lease, count: u64) -> Vec<NewTx> {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let named = |n: u64| intent().at(n).named(&format!("order-{n}")).paying("10").traced(trace);
    let txs: Vec<_> = (0..count).map(named).collect();
    a.write_whole(section(lease).cursor(0, count).creates(txs.clone())).await;
    for tx in &txs {
        a.confirm(lease, tx.tx_id).await;
    }
    txs
}

fn ids(txs: &[NewTx]) -> Vec<TxId> {
    txs.iter().map(|tx| tx.tx_id).collect()
}

fn known(tx: &NewTx) -> KnownRequest {
    KnownRequest { tx_id: tx.tx_id, payload_digest: tx.payload.digest() }
}

pub async fn removed_transaction_leaves_one_row_and_nothing_else(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 3).await;
    let record = a.record(txs[0].tx_id).await;
    let hash = txs[0].slot.as_ref().unwrap().attempt.tx_hash;
    let finished = a.finished(seq(0), ANY_AGE, full_page()).await.unwrap();
    let told: Vec<_> = finished.iter().map(|tx| (tx.seq.get(), tx.tx_id)).collect();
    assert_eq!(told, [(1, txs[0].tx_id), (2, txs[1].tx_id), (3, txs[2].tx_id)]);
    assert!(finished.iter().map(|tx| tx.is_removable).eq([true, true, false]), "the highest stays");
    assert_eq!(a.finished(seq(1), ANY_AGE, page(1)).await.unwrap(), finished[1..2]);

    let records = a.finished_records(&[ids(&txs), vec![tx_id()]].concat()).await.unwrap();
    assert_eq!(records.len(), 3, "one that is not there is left out");
    for (tx, whole) in txs.iter().zip(&records) {
        assert_eq!(whole.record, a.record(tx.tx_id).await);
        assert_eq!(Ok(&whole.attempts), a.attempts(tx.tx_id).await.as_ref());
        let history = a.history(tx.tx_id, 0, full_page()).await.unwrap();
        assert_eq!((&whole.history, history.len()), (&history, 3));
        assert_eq!(Ok(&whole.confirmations), a.confirmations(tx.tx_id).await.as_ref());
    }

    assert_eq!(a.remove_finished(&ids(&txs), ANY_AGE).await, Ok(2));
    assert_eq!(a.remove_finished(&ids(&txs), ANY_AGE).await, Ok(0), "a repeat changes nothing");
    assert_eq!(a.tx(txs[0].tx_id).await, Ok(None));
    assert_eq!(a.row_versions(&[txs[0].tx_id]).await, Ok(vec![None]));
    assert_eq!(a.tx_ids_by_hash(&[hash]).await, Ok(vec![]));
    for table in TABLES {
        let of_removed = format!("{table} where tx_id = {}", fixture.id(txs[0].tx_id));
        assert_eq!(fixture.count(&of_removed).await, 0, "{table}");
    }
    let removed = a.removed(txs[0].tx_id).await.unwrap().unwrap();
    assert_eq!((removed.tx_id, removed.submitter), (txs[0].tx_id, submitter(1)));
    assert_eq!((removed.state, removed.tx_hash), (TxState::Confirmed, Some(hash)));
    assert_eq!(removed.payload_digest, txs[0].payload.digest());
    assert_eq!(Some(removed.finished_at), record.finished_at);
    assert!(removed.removed_at >= removed.finished_at);
    assert_eq!(removed.request_id, Some(request("order-0")));
    let by_request = a.removed_by_request(submitter(1), &request("order-0")).await;
    assert_eq!(by_request, Ok(Some(removed)));
    assert_eq!(a.removed(txs[2].tx_id).await, Ok(None));
    let FinalSlot { nonce: highest, .. } =
        a.final_slots(submitter(1), full_page()).await.unwrap()[0];
    assert_eq!(highest, nonce(2), "I3: the engine still knows the end of its slots");
}

pub async fn repeat_of_a_removed_request_makes_no_second_transaction(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 2).await;
    assert_eq!(a.remove_finished(&ids(&txs), ANY_AGE).await, Ok(1));
    let asked = [(submitter(1), request("order-0")), (submitter(2), request("order-0"))];
    let found = a.known_requests(&asked).await.unwrap();
    assert_eq!(found, [Some(known(&txs[0])), None], "I7");
    let again = intent().named("order-0").paying("10");
    let other = intent().named("order-0").paying("11");
    let outcome = a.write(section(lease).creates([again.clone(), other])).await;
    let first = known(&txs[0]);
    let answers = vec![CreateAnswer::Duplicate(first), CreateAnswer::Conflict(first)];
    assert_eq!(outcome.answers(), Some((answers, vec![])), "I7");
    assert!(!a.has(again.tx_id).await);
}

/// A node of the version before looks for the request among the present rows alone.
pub async fn row_of_a_removed_request_is_refused_by_the_database_itself(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 2).await;
    assert_eq!(a.remove_finished(&ids(&txs), ANY_AGE).await, Ok(1));
    let copy = |request_id: &str| {
        let id = fixture.id(tx_id());
        let of = fixture.id(txs[1].tx_id);
        format!(
            "insert into managed_tx (tx_id, chain_id, submitter, request_id, payload,
                                     payload_digest, state, version, fencing_token, attempts,
                                     created_at, updated_at)
             select {id}, chain_id, submitter, {request_id}, payload, payload_digest, 10, version,
                    fencing_token, 0, created_at, updated_at
               from managed_tx where tx_id = {of}"
        )
    };
    assert_eq!(fixture.execute(&copy("'order-7'")).await, Ok(1), "the statement itself is right");
    assert_eq!(fixture.execute(&copy("null")).await, Ok(1));
    assert!(fixture.execute(&copy("'order-0'")).await.is_err(), "I7: a second payment");
}

pub async fn open_and_young_transactions_are_not_removed(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 2).await;
    let open = a.created(lease, intent().at(2)).await;
    let queued = a.created(lease, intent()).await;
    let all = [ids(&txs), vec![open.tx_id, queued.tx_id]].concat();
    assert_eq!(a.finished(seq(0), HOUR, full_page()).await, Ok(vec![]));
    assert_eq!(a.remove_finished(&all, HOUR).await, Ok(0), "finished just now");
    assert_eq!(a.remove_finished(&all, ANY_AGE).await, Ok(1), "the first, and only that");
    for tx_id in &all[1..] {
        assert!(a.has(*tx_id).await);
    }
    // One that ended without a slot is no end of anything.
    a.step(lease, queued.tx_id, TxEvent::Withdrawn).await;
    assert_eq!(a.remove_finished(&all, ANY_AGE).await, Ok(1));
    assert!(!a.has(queued.tx_id).await && a.has(open.tx_id).await);
}

pub async fn feed_keeps_its_numbers_and_tells_the_last_one_removed(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let of = FeedFilter { with_stuck: true, ..FeedFilter::finals(chain().chain_id) };
    let before = a.completions(of, seq(0), full_page()).await.unwrap();
    assert_eq!((before.end, before.removed_through), (seq(0), seq(0)), "an empty feed");
    let txs = a.fill(lease, 4).await;
    a.step(lease, txs[0].tx_id, TxEvent::GaveUp(StuckReason::FeeCap)).await;
    for tx in &txs[..3] {
        a.confirm(lease, tx.tx_id).await;
    }
    // 1 stuck, 2 unstuck, 3 to 5 final.
    assert_eq!(a.remove_finished(&[txs[0].tx_id, txs[1].tx_id], ANY_AGE).await, Ok(2));
    a.confirm(lease, txs[3].tx_id).await;
    for (after, wanted) in [(0, &[5, 6][..]), (4, &[5, 6]), (5, &[6])] {
        let found = a.completions(of, seq(after), full_page()).await.unwrap();
        assert_eq!((found.end, found.removed_through), (seq(6), seq(4)), "after {after}");
        let numbers: Vec<_> = found.items.iter().map(|entry| entry.seq.get()).collect();
        assert_eq!(numbers, wanted, "I10: after {after}");
    }
    let end = a.completions(of, seq(6), full_page()).await.unwrap();
    assert_eq!(end.removed_through, seq(4), "also on a page without entries");
    assert_eq!(a.remove_finished(&[txs[2].tx_id], ANY_AGE).await, Ok(1));
    let found = a.completions(of, seq(0), full_page()).await.unwrap();
    assert_eq!(found.removed_through, seq(5));
}

pub async fn nonce_of_a_removed_transaction_is_never_handed_back(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 3).await;
    a.write_whole(section(lease).cursor(3, 5)).await;
    assert_eq!(a.remove_finished(&ids(&txs), ANY_AGE).await, Ok(2));
    let wanted: Vec<_> = (0..5).map(nonce).collect();
    let hand_back = ReturnedNonces { nonces: wanted.clone(), used: true, reason: text("drill") };
    let free = a.return_nonces(&a.id, lease, &hand_back).await.unwrap();
    assert_eq!(free, [3, 4].map(nonce), "I3: 0 and 1 were used, 2 is a transaction's");
    let adopted = a.adopt(&a.id, lease, &wanted[..2], &text("hole")).await;
    assert_eq!(adopted, Ok(vec![]), "I3");
}

pub async fn one_node_at_a_time_holds_the_claim_until_its_term_ends(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    assert_eq!(a.claim_retention(&a.id, HOUR).await, Ok(true));
    assert_eq!(b.claim_retention(&b.id, HOUR).await, Ok(false));
    assert_eq!(a.claim_retention(&a.id, ANY_AGE).await, Ok(true), "renewed, and over at once");
    let take = || async { b.claim_retention(&b.id, HOUR).await.unwrap().then_some(()) };
    until("the end of the claim", take).await;
    assert_eq!(a.claim_retention(&a.id, HOUR).await, Ok(false));
}

pub async fn concurrent_removals_remove_each_transaction_once(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = ids(&confirmed(&a, lease, 30).await);
    let nodes = a.connections(fixture, 4).await;
    let removed = join_all(nodes.iter().map(|node| node.remove_finished(&txs, ANY_AGE))).await;
    // A row that another removal has locked is left for the next pass.
    let removed: u64 = removed.into_iter().map(Result::unwrap).sum();
    let rest = a.remove_finished(&txs, ANY_AGE).await.unwrap();
    assert_eq!(removed + rest, 29);
    assert_eq!(fixture.count("removed_tx").await, 29);
    assert_eq!(fixture.count("managed_tx").await, 1);
}

pub async fn request_is_known_at_every_moment_of_its_removal(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 40).await;
    let asked: Vec<_> =
        (0..txs.len()).map(|n| (submitter(1), request(&format!("order-{n}")))).collect();
    let wanted: Vec<_> = txs.iter().map(|tx| Some(known(tx))).collect();
    let reader = a.connections(fixture, 1).await.remove(0);
    let removal = async {
        for tx in &txs {
            a.remove_finished(&[tx.tx_id], ANY_AGE).await.unwrap();
        }
    };
    let mut removal = std::pin::pin!(removal);
    loop {
        tokio::select! {
            biased;
            found = reader.known_requests(&asked) => assert_eq!(found.unwrap(), wanted, "I7"),
            () = &mut removal => break,
        }
    }
    assert_eq!(reader.known_requests(&asked).await.unwrap(), wanted, "I7");
    assert_eq!(fixture.count("removed_tx").await, 39);
}

pub async fn request_ids_of_removed_transactions_are_forgotten_by_age(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = confirmed(&a, lease, 4).await;
    assert_eq!(a.remove_finished(&ids(&txs), ANY_AGE).await, Ok(3));
    assert_eq!(a.forget_removed(HOUR, full_page()).await, Ok(0));
    assert_eq!(a.forget_removed(ANY_AGE, page(2)).await, Ok(2), "the oldest first");
    assert_eq!(a.removed(txs[0].tx_id).await, Ok(None));
    assert!(a.removed(txs[2].tx_id).await.unwrap().is_some());
    let again = intent().named("order-0").paying("10");
    a.write_whole(section(lease).create(again.clone())).await;
    assert!(a.has(again.tx_id).await, "the request id is free again");
    assert_eq!(a.forget_removed(ANY_AGE, page(2)).await, Ok(1));
}
