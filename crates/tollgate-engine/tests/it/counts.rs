//! Counts that one endpoint alone tells, counts that are too low, cursors that are too far ahead, and how people heal them.

use std::time::Duration;

use tollgate_engine::{
    ActError, Engine, EngineOptions, Fill, Filled, ReservationLimits, ReserveError, Unserved,
};
use tollgate_model::fill::{FillWith, NonceRange, NoncesRefused};
use tollgate_model::nonce::NonceRules;
use tollgate_model::port::chain::{AccountCounts, CountSupport};
use tollgate_model::port::{AlertKind, Page};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::stuck::StuckThresholds;
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

#[tokio::test(flavor = "multi_thread")]
async fn count_above_the_cursor_that_only_one_of_two_endpoints_reports_is_awaited_briefly() {
    let (cluster, engine) = Cluster::with_node(open(64)).await;
    let of = account(1);
    let first = transfers(&engine, [10]).await;
    cluster.mine_until_final(&first).await;
    // A new owner has no count yet.
    engine.stop().await;
    let support = CountSupport::Open;
    let agreed = AccountCounts::confirmed(nonce(1), nonce(1));
    let disputed = AccountCounts { highest: nonce(5), support, ..agreed };
    cluster.chain.script_counts(of.address, Some(disputed));
    let engine = cluster.node("b", open(64));
    let next = transfers(&engine, [11]).await;
    cluster.eventually("a proof is wanted", async || cluster.chain.proofs_wanted() > 0).await;
    assert_eq!(nonce_of(&cluster, next[0]).await, None, "the slot may be used");
    cluster.clock.advance(Duration::from_secs(15));
    cluster.until(next[0], "has a slot", |tx| tx.nonce == Some(nonce(1))).await;
}

/// An account with final slots, whose endpoints count too little after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn low_count_of_a_used_account_makes_no_hole_of_its_final_slots() {
    let stuck = StuckThresholds { head_after: Duration::ZERO, ..open(64).stuck };
    let rejected_slot = RejectedSlot::Recycle;
    let options = || EngineOptions { stuck, rejected_slot, ..open(64) };
    let (cluster, engine) = Cluster::with_node(options()).await;
    let of = account(1);
    let used = transfers(&engine, [10, 11]).await;
    cluster.mine_until_final(&used).await;
    engine.stop().await;
    cluster.chain.script_counts(of.address, Some(AccountCounts::confirmed(nonce(0), nonce(0))));
    let engine = cluster.node("b", options());
    let next = transfers(&engine, [12, 13]).await;
    let found = engine.operator().reconcile(of).await.unwrap();
    let lacks = "no endpoint counts the transactions below nonce 2, which are final here";
    assert_eq!(found.steps, [lacks], "no hole");
    assert_eq!(
        [nonce_of(&cluster, next[0]).await, nonce_of(&cluster, next[1]).await],
        [Some(2), Some(3)]
    );
    cluster.mine_until_final(&next).await;
    assert_eq!(cluster.paid(of), [10, 11, 12, 13], "I3");
    assert!(cluster.alerts.of(AlertKind::Hole).is_empty());
}

/// The account was used before Tollgate had it, and nothing of its own is final: one endpoint tells the truth.
#[tokio::test(flavor = "multi_thread")]
async fn nonce_that_one_endpoint_calls_mined_is_proven_before_it_is_called_a_hole() {
    let stuck = StuckThresholds { head_after: Duration::ZERO, ..open(64).stuck };
    let (cluster, engine) = Cluster::with_node(EngineOptions { stuck, ..open(64) }).await;
    let of = account(1);
    cluster.chain.outsider_mines(of.address);
    let ids = transfers(&engine, [10]).await;
    assert_eq!(nonce_of(&cluster, ids[0]).await, Some(1));
    let truth = AccountCounts::confirmed(nonce(1), nonce(1));
    let support = CountSupport::Open;
    let disputed = AccountCounts { mined: nonce(0), pending: nonce(0), support, ..truth };
    cluster.chain.script_counts(of.address, Some(disputed));
    let found = engine.operator().reconcile(of).await.unwrap();
    assert_eq!(found.steps, [""; 0], "no hole");
    assert!(cluster.chain.proofs_wanted() > 0);
    let contradicted =
        AccountCounts { highest: nonce(0), support: CountSupport::Overdue, ..disputed };
    cluster.chain.script_counts(of.address, Some(contradicted));
    let found = engine.operator().reconcile(of).await.unwrap();
    assert_eq!(found.steps, ["hole at nonce 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lone_mined_count_above_the_cursor_moves_it_only_once_it_is_proven() {
    let (cluster, engine) = Cluster::with_node(open(64)).await;
    let of = account(1);
    let ids = transfers(&engine, [10]).await;
    cluster.mine_until_final(&ids).await;
    let known = AccountCounts::confirmed(nonce(1), nonce(1));
    let (mined, pending, support) = (nonce(4), nonce(4), CountSupport::Open);
    let lone = AccountCounts { mined, pending, highest: mined, support, ..known };
    cluster.chain.script_counts(of.address, Some(lone));
    engine.stop().await;
    let engine = cluster.node("b", open(64));
    let waits = engine.create(of, None, transfer(11)).await.unwrap().tx_id();
    cluster.eventually("a proof is wanted", async || cluster.chain.proofs_wanted() > 1).await;
    assert_eq!(nonce_of(&cluster, waits).await, None, "I16");
    cluster.chain.script_counts(of.address, None);
    cluster.mine_until_final(&[waits]).await;
    assert_eq!(cluster.paid(of), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn final_slots_that_no_endpoint_counts_raise_an_alert_after_a_while() {
    let (cluster, engine) = Cluster::with_node(open(64)).await;
    let of = account(1);
    let ids = transfers(&engine, [10]).await;
    cluster.mine_until_final(&ids).await;
    cluster.chain.script_counts(of.address, Some(AccountCounts::confirmed(nonce(0), nonce(0))));
    let found = engine.operator().reconcile(of).await.unwrap();
    assert!(found.steps[0].contains("no endpoint counts"), "{found:?}");
    assert!(cluster.alerts.of(AlertKind::CountDoubted).is_empty(), "lag");
    cluster.clock.advance(open(64).receipt_alert_after);
    engine.operator().reconcile(of).await.unwrap();
    let told = cluster.alerts.of(AlertKind::CountDoubted);
    assert!(told[0].detail.contains("all nonces below 1 are final"), "{told:?}");
}
