//! Counts that one endpoint alone tells, cursors that are too far ahead, and how people heal them.

use tollgate_engine::{
    ActError, Engine, EngineOptions, Fill, Filled, ReservationLimits, ReserveError, Unserved,
};
use tollgate_model::fill::{FillWith, NonceRange, NoncesRefused};
use tollgate_model::nonce::NonceRules;
use tollgate_model::port::{AlertKind, Page};
use tollgate_model::{Nonce, Text, TxId};

use crate::support::{Cluster, account, options, transfer, transfers};

fn open(window: u32) -> EngineOptions {
    let nonces = NonceRules { window, ..options().nonces };
    EngineOptions { nonces, reservations: Some(ReservationLimits::default()), ..options() }
}

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

fn fill(first: u64, last: u64, with: FillWith) -> Fill {
    Fill { range: NonceRange { first: nonce(first), last: nonce(last) }, with, used: false }
}

async fn nonce_of(cluster: &Cluster, id: TxId) -> Option<u64> {
    cluster.record(id).await.nonce.map(Nonce::get)
}

async fn doubted(cluster: &Cluster) {
    let told = async || !cluster.alerts.of(AlertKind::CountDoubted).is_empty();
    cluster.eventually("the count is told", told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_count_of_one_endpoint_does_not_move_the_cursor_far() {
    let (cluster, engine) = Cluster::with_node(open(64)).await;
    let of = account(1);
    cluster.chain.claim_pending(of.address, Some(100_000));
    let waits = engine.create(of, None, transfer(10)).await.unwrap().tx_id();
    doubted(&cluster).await;
    assert_eq!(nonce_of(&cluster, waits).await, None, "I16");
    let refused = engine.reservations().reserve(of, None).await;
    assert!(
        matches!(refused, Err(ReserveError::Unserved(Unserved::Unavailable(_)))),
        "I16: {refused:?}"
    );
    assert_eq!(cluster.submitter(of).await.next_nonce, Nonce::MIN, "I16");
    // The truth comes back by itself, and so does the account.
    cluster.chain.claim_pending(of.address, None);
    cluster.mine_until_final(&[waits]).await;
    assert_eq!(nonce_of(&cluster, waits).await, Some(0));
    assert_eq!(cluster.paid(of), [10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_count_of_one_endpoint_is_believed_within_the_window() {
    let (cluster, engine) = Cluster::with_node(open(64)).await;
    cluster.chain.claim_pending(account(1).address, Some(64));
    let ids = transfers(&engine, [10]).await;
    assert_eq!(nonce_of(&cluster, ids[0]).await, Some(64));
}

/// An account whose cursor a person has moved far ahead of the chain, with two transactions there.
async fn far_ahead(cluster: &Cluster, window: u32, to: u64) -> (Engine, Vec<TxId>) {
    let engine = cluster.node("a", open(window));
    let of = account(1);
    cluster.chain.claim_pending(of.address, Some(to));
    let mut ids = transfers(&engine, [10]).await;
    doubted(cluster).await;
    let why = || Text::lossy("the explorer says so");
    let beyond = engine.operator().advance(of, nonce(to + 1), why()).await;
    let (counted, told) = (nonce(to), nonce(to));
    assert_eq!(beyond, Err(ActError::Nonces(NoncesRefused::BeyondCounts { counted, told })));
    engine.operator().advance(of, nonce(to), why()).await.unwrap();
    let back = engine.operator().advance(of, nonce(1), why()).await;
    assert!(
        matches!(back, Err(ActError::Nonces(NoncesRefused::NotForward { .. }))),
        "I4: {back:?}"
    );
    cluster.until(ids[0], "has a slot", |tx| tx.nonce == Some(nonce(to))).await;
    ids.extend(transfers(&engine, [11]).await);
    cluster.chain.claim_pending(of.address, None);
    let page = Page::new(Page::MAX).unwrap();
    let entries = cluster.store.submitter_history(of, 0, page).await.unwrap();
    let detail = entries.iter().find(|entry| entry.event == "cursor_moved").unwrap();
    let words = format!("from 0 to {to}: the explorer says so");
    assert_eq!(detail.detail.as_ref().map(Text::as_str), Some(words.as_str()));
    (engine, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn cursor_far_ahead_of_the_chain_is_repaired_by_placeholders_in_a_range() {
    let cluster = Cluster::pipelined().await;
    let (engine, ids) = far_ahead(&cluster, 8, 40).await;
    let of = account(1);
    let filled =
        engine.operator().fill(of, fill(0, 39, FillWith::Placeholder), Text::lossy("drill")).await;
    let all = Filled { handed_back: 40, taken: 0, counted: 0, free: 40 };
    assert_eq!(filled, Ok(all));
    cluster.mine_until_final(&ids).await;
    let mut paid = vec![0; 40];
    paid.extend([10, 11]);
    assert_eq!(cluster.paid(of), paid);
    assert_eq!(cluster.submitter(of).await.next_nonce, nonce(42), "I4");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_that_are_handed_back_go_to_the_next_transactions_though_the_window_is_full() {
    let cluster = Cluster::pipelined().await;
    let (engine, mut ids) = far_ahead(&cluster, 2, 10).await;
    let of = account(1);
    let filled = engine.operator().fill(of, fill(0, 9, FillWith::Next), Text::lossy("drill")).await;
    assert_eq!(filled.map(|filled| filled.handed_back), Ok(10));
    ids.extend(transfers(&engine, 20..30).await);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(of), [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_are_continued_by_the_next_owner() {
    let cluster = Cluster::pipelined().await;
    let (a, ids) = far_ahead(&cluster, 4, 12).await;
    a.operator()
        .fill(account(1), fill(0, 11, FillWith::Placeholder), Text::lossy("drill"))
        .await
        .unwrap();
    a.stop().await;
    let _b = cluster.node("b", open(4));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)).len(), 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_back_is_limited_to_unused_nonces_below_the_cursor() {
    let (cluster, engine) = Cluster::with_node(open(64)).await;
    let of = account(1);
    let ids = transfers(&engine, [10]).await;
    engine.reservations().reserve(of, None).await.unwrap();
    let ask = |fill| engine.operator().fill(of, fill, Text::lossy("drill"));
    let cursor = nonce(2);
    let above = ask(fill(0, 2, FillWith::Next)).await;
    assert_eq!(above, Err(ActError::Nonces(NoncesRefused::AboveCursor { cursor })));
    cluster.eventually("it is pooled", async || cluster.chain.pooled() == 1).await;
    let none = Filled { handed_back: 0, taken: 1, counted: 1, free: 0 };
    assert_eq!(ask(fill(0, 1, FillWith::Next)).await, Ok(none), "I3");
    let paid_for = Fill { used: true, ..fill(0, 1, FillWith::Next) };
    assert_eq!(ask(paid_for).await, Ok(none), "I3: a caller holds it until its time is over");
    cluster.mine_until_final(&ids).await;
}
