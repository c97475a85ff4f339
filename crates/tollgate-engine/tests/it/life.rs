//! One node: the way to finality, and what may happen on it.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use tollgate_engine::{CreateError, Created, EngineOptions};
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::Checkpoint;
use tollgate_model::{Address, Failed, Intent, Tracking, TxState, U256};

use crate::support::{Cluster, account, id, mine_blocks, options, request, transfer};
use tollgate_testkit::fake_chain::Reorged;
use tollgate_testkit::wait;

fn is_mined(state: TxState) -> bool {
    state == TxState::Tracking(Tracking::Mined)
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_are_mined_once_each_without_a_gap() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let creates = (0..300).map(|n| engine.create(account(1), None, transfer(n)));
    let ids: Vec<_> =
        join_all(creates).await.into_iter().map(|created| id(created.unwrap())).collect();
    cluster.mine_until_final(&ids).await;
    let mut paid = cluster.paid(account(1));
    paid.sort_unstable();
    assert!(paid.into_iter().eq(0..300), "each payload once");
    let feed = cluster.feed().await;
    assert_eq!(feed.len(), 300);
    assert!(feed.iter().all(|entry| entry.state == TxState::Confirmed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_made_a_hundred_times_is_one_transaction() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let creates = (0..100).map(|_| engine.create(account(1), request("order"), transfer(5)));
    let answers: Vec<_> = join_all(creates).await.into_iter().map(Result::unwrap).collect();
    let new = answers.iter().filter(|answer| matches!(answer, Created::New(_))).count();
    assert_eq!(new, 1);
    assert!(answers.iter().all(|answer| answer.tx_id() == answers[0].tx_id()));
    let other = engine.create(account(1), request("order"), transfer(6)).await;
    assert!(matches!(other, Err(CreateError::RequestIdConflict(_))), "{other:?}");
    let cursor = cluster.store.submitter(account(1)).await.unwrap().unwrap().next_nonce;
    assert_eq!(cursor.get(), 1, "duplicates and conflicts use no nonce");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_and_nobody_is_answered_before_the_commit() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::BatchWritten);
    let create = tokio::spawn(async move { engine.create(account(1), None, transfer(1)).await });
    hold.reached().await;
    // Signed and written, about to commit: long enough for a send that did not wait.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(cluster.chain.pooled(), 0, "I5: sent before it was durable");
    assert!(!create.is_finished(), "I6: answered before it was durable");
    hold.release();
    let tx = id(create.await.unwrap().unwrap());
    cluster.until(tx, "sent", |tx| matches!(tx.row.state, TxState::Tracking(_))).await;
    assert_eq!(cluster.chain.pooled(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_of_a_request_is_not_answered_before_the_commit() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let intent = Intent { gas: Some(21_000), ..transfer(1) };
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::BatchWritten);
    let ahead = engine.clone();
    let ahead = tokio::spawn(async move { ahead.create(account(1), None, transfer(2)).await });
    hold.reached().await;
    // Nothing is left to prepare: one poll puts each into the queue, so that they are one batch.
    let mut first = Box::pin(engine.create(account(1), request("r"), intent.clone()));
    let mut double = Box::pin(engine.create(account(1), request("r"), intent));
    assert!(poll!(&mut first).is_pending() && poll!(&mut double).is_pending());
    let mut held = cluster.checkpoints.pause_at(Checkpoint::BatchWritten);
    hold.release();
    held.reached().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answered = poll!(&mut first).is_ready() || poll!(&mut double).is_ready();
    assert!(!answered, "I6: answered before it was durable");
    held.release();
    assert_eq!(id(first.await.unwrap()), id(double.await.unwrap()));
    ahead.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_beyond_the_window_wait_without_a_nonce() {
    let cluster = Cluster::pipelined().await;
    let nonces = NonceRules { window: 4, ..EngineOptions::default().nonces };
    let engine = cluster.node("a", EngineOptions { nonces, ..options() });
    let creates = (0..20).map(|n| engine.create(account(1), None, transfer(n)));
    let ids: Vec<_> = join_all(creates).await.into_iter().map(|c| id(c.unwrap())).collect();
    let cursor = cluster.store.submitter(account(1)).await.unwrap().unwrap().next_nonce;
    assert_eq!(cursor.get(), 4, "only the window has nonces");
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)).len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn mined_transactions_leave_the_window_and_count_against_the_bound_of_unfinal_ones() {
    let cluster = Cluster::pipelined().await;
    let nonces = NonceRules { window: 2, unfinal_max: 5, ..options().nonces };
    let finality = FinalityRule::Confirmations(1_000);
    let engine = cluster.node("a", EngineOptions { nonces, finality, ..options() });
    let creates = (0..20).map(|n| engine.create(account(1), None, transfer(n)));
    join_all(creates).await.into_iter().for_each(|created| drop(created.unwrap()));
    // Nothing becomes final in this test. The fourth block holds nothing.
    for mined in [2, 4, 5, 5] {
        wait::until("the window to be sent", || async {
            let cursor = cluster.store.submitter(account(1)).await.unwrap().unwrap().next_nonce;
            let sent = cluster.paid(account(1)).len() + cluster.chain.pooled();
            (cursor.get() == mined && sent as u64 == mined).then_some(())
        })
        .await;
        cluster.chain.mine();
    }
    assert_eq!(cluster.paid(account(1)).len(), 5, "none beyond the bound");
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_has_one_open_slot_at_a_time() {
    let cluster = Cluster::with_mode(Mode::Strict).await;
    let nonces = NonceRules { mode: Mode::Strict, ..EngineOptions::default().nonces };
    let engine = cluster.node("a", EngineOptions { nonces, ..options() });
    let creates = (0..5).map(|n| engine.create(account(1), None, transfer(n)));
    let ids: Vec<_> = join_all(creates).await.into_iter().map(|c| id(c.unwrap())).collect();
    assert!(cluster.chain.pooled() <= 1);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)).len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn submitter_keeps_its_mode_whatever_the_nodes_default() {
    for (own, others, open) in
        [(Mode::Strict, Mode::Pipelined, 1), (Mode::Pipelined, Mode::Strict, 5)]
    {
        let cluster = Cluster::with_mode(own).await;
        let nonces = NonceRules { mode: others, ..EngineOptions::default().nonces };
        let engine = cluster.node("a", EngineOptions { nonces, ..options() });
        let creates = (0..5).map(|n| engine.create(account(1), None, transfer(n)));
        let ids: Vec<_> = join_all(creates).await.into_iter().map(|c| id(c.unwrap())).collect();
        let cursor = cluster.store.submitter(account(1)).await.unwrap().unwrap().next_nonce;
        assert_eq!(cursor.get(), open, "I12: {own:?} at a node for {others:?}");
        cluster.mine_until_final(&ids).await;
        assert_eq!(cluster.paid(account(1)).len(), 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_after_the_node_took_it_makes_no_second_transaction() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    cluster.chain.lose_answers(3);
    let creates = (0..6).map(|n| engine.create(account(1), None, transfer(n)));
    let ids: Vec<_> = join_all(creates).await.into_iter().map(|c| id(c.unwrap())).collect();
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)).len(), 6);
    assert!(cluster.feed().await.iter().all(|entry| entry.state == TxState::Confirmed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_is_final_only_at_the_threshold() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let target = Address::repeat_byte(0xbb);
    cluster.chain.revert_calls_to(target);
    let call = Intent { gas: Some(50_000), ..Intent::transfer(target, U256::ZERO) };
    let tx = id(engine.create(account(1), None, call).await.unwrap());
    cluster.until(tx, "sent", |tx| matches!(tx.row.state, TxState::Tracking(_))).await;
    cluster.chain.mine();
    cluster.until(tx, "mined", |tx| is_mined(tx.row.state)).await;
    cluster.chain.mine();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(is_mined(cluster.record(tx).await.row.state), "two of three confirmations");
    cluster.chain.mine();
    cluster.until(tx, "final", |tx| tx.row.state.is_final()).await;
    let record = cluster.record(tx).await;
    assert_eq!(record.row.state, TxState::Failed(Failed::Reverted));
    assert_eq!(record.mined.unwrap().revert_reason.unwrap().as_str(), "no");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorg_takes_a_transaction_back_and_it_ends_once() {
    for fate in [Reorged::Remined, Reorged::Pooled, Reorged::Dropped] {
        for depth in 1..=2 {
            let cluster = Cluster::pipelined().await;
            let engine = cluster.node("a", options());
            let tx = id(engine.create(account(1), None, transfer(1)).await.unwrap());
            cluster.until(tx, "sent", |tx| matches!(tx.row.state, TxState::Tracking(_))).await;
            mine_blocks(&cluster, depth);
            cluster.until(tx, "mined", |tx| is_mined(tx.row.state)).await;
            let before = cluster.record(tx).await.mined.unwrap();
            cluster.chain.reorg(depth, fate);
            cluster.until(tx, "moved", |tx| tx.mined.as_ref() != Some(&before)).await;
            cluster.mine_until_final(&[tx]).await;
            assert_eq!(cluster.paid(account(1)), [1], "{fate:?} {depth}");
            let feed = cluster.feed().await;
            assert_eq!(feed.len(), 1, "one final entry");
            assert_eq!(feed[0].state, TxState::Confirmed);
            let list = cluster.store.confirmations(tx).await.unwrap().unwrap();
            assert!(list.new_fork, "{fate:?} {depth}");
            let mined = cluster.record(tx).await.mined.unwrap();
            assert_eq!(list.first_block, mined.block_number);
            assert_eq!(list.hashes[0], mined.block_hash, "the list is the new chain's");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_alone_confirms_nothing() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let tx = id(engine.create(account(1), None, transfer(1)).await.unwrap());
    cluster.until(tx, "sent", |tx| matches!(tx.row.state, TxState::Tracking(_))).await;
    cluster.chain.mine();
    cluster.until(tx, "mined", |tx| is_mined(tx.row.state)).await;
    for _ in 0..4 {
        cluster.clock.advance(Duration::from_secs(6 * 3_600));
        // An order is carried out after what is due.
        engine.operator().reconcile(account(1)).await.unwrap();
    }
    assert!(is_mined(cluster.record(tx).await.row.state), "I8: a day, and one of three blocks");
    assert!(cluster.feed().await.is_empty());
    cluster.chain.mine();
    cluster.chain.mine();
    cluster.until(tx, "final", |tx| tx.row.state == TxState::Confirmed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_has_an_accounts_outcomes_in_the_order_of_its_blocks() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut ids = Vec::new();
    for value in 0..30 {
        ids.push(id(engine.create(account(1), None, transfer(value)).await.unwrap()));
        if value % 4 == 0 {
            cluster.chain.mine();
        }
    }
    cluster.mine_until_final(&ids).await;
    let mut places = Vec::new();
    for entry in cluster.feed().await {
        let record = cluster.record(entry.tx_id).await;
        places.push((record.mined.unwrap().block_number, record.nonce.unwrap()));
    }
    assert_eq!(places.len(), 30);
    assert!(places.is_sorted(), "{places:?}");
}
