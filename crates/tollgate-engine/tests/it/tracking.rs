//! The tracker keeps what was delivered and goes on with the rest: one block or receipt that can't
//! be read delays nothing but itself (I14, I15).

use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::{BlockTag, Chain};
use tollgate_model::port::{AlertKind, ReceiptDetails, TxReceipt};
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::{Address, Failed, Intent, TxId, TxState, U256};
use tollgate_testkit::fake_chain::{Query, Reorged, TxMatch};

use crate::support::{
    Cluster, account, id, mine_blocks, options, patient, pending, transfer, transfers,
    until_pending, window,
};

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_receipt_delays_only_its_own_transaction_and_raises_an_alert() {
    let cluster = Cluster::pipelined().await;
    let soon = Duration::from_millis(300);
    let engine = cluster.node("a", EngineOptions { receipt_alert_after: soon, ..options() });
    let mine = transfers(&engine, [10, 11]).await;
    let other = id(engine.create(account(2), None, transfer(20)).await.unwrap());
    until_pending(&cluster, &[mine[0], mine[1], other]).await;
    let hash = cluster.record(mine[0]).await.newest_hash.unwrap();
    cluster.chain.fail(Query::Receipt(hash), true);

    // The neighbours in the same block, of the same and of another account, reach their end.
    cluster.mine_until_final(&[mine[1], other]).await;
    let later = id(engine.create(account(2), None, transfer(21)).await.unwrap());
    cluster.mine_until_final(&[later]).await;
    cluster
        .eventually("an alert", async || !cluster.alerts.of(AlertKind::ReceiptUnread).is_empty())
        .await;
    let alerts = cluster.alerts.of(AlertKind::ReceiptUnread);
    assert_eq!(alerts.len(), 1, "once, not at each try");
    assert_eq!(alerts[0].submitter, account(1));
    assert!(alerts[0].detail.contains(&hash.to_string()), "{}", alerts[0].detail);
    let record = cluster.record(mine[0]).await;
    assert!(!record.row.state.is_final(), "I8: no receipt, no end: {record:?}");

    cluster.chain.fail(Query::Receipt(hash), false);
    cluster.mine_until_final(&[mine[0]]).await;
    assert_eq!(cluster.record(mine[0]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.paid(account(1)), [10, 11], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_receipt_at_takeover_delays_only_its_own_transaction() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = pending(&cluster, &engine, 0..20).await;
    engine.stop().await;
    let hash = cluster.record(ids[0]).await.newest_hash.unwrap();
    mine_blocks(&cluster, 5);
    cluster.chain.fail(Query::Receipt(hash), true);
    let _heir = cluster.node("b", patient());
    for id in &ids[1..] {
        cluster.until(*id, "was final", |tx| tx.row.state == TxState::Confirmed).await;
    }
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "I8");
    cluster.chain.fail(Query::Receipt(hash), false);
    cluster.until(ids[0], "was final", |tx| tx.row.state == TxState::Confirmed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn view_catches_up_after_an_outage_though_a_share_of_block_reads_fails_for_ever() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    cluster.chain.fail(Query::Blocks, true);
    mine_blocks(&cluster, 120);
    // Never 120 good answers in a row.
    cluster.chain.fail_blocks_steadily(7);
    cluster.chain.fail(Query::Blocks, false);
    cluster.until(ids[0], "was final", |tx| tx.row.state == TxState::Confirmed).await;
    cluster
        .eventually("the view is at the head", async || {
            engine.view().head().is_some_and(|head| head.number == 121)
        })
        .await;
    let asked = (2..=121).map(|number| cluster.chain.asked_for_block(number)).sum::<usize>();
    assert!(asked < 120 * 2, "what was delivered is not asked for again: {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_announced_far_ahead_does_not_stop_the_view() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let mut ids = transfers(&engine, [10]).await;
    cluster.mine_until_final(&ids).await;
    cluster.chain.announce_ahead(500);
    ids.extend(transfers(&engine, [11, 12]).await);
    cluster.mine_until_final(&ids).await;
    cluster.chain.announce_ahead(100_000);
    ids.extend(transfers(&engine, [13]).await);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13]);
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_below_the_view_takes_one_look_per_block_and_one_failure_holds_nobody() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let first = pending(&cluster, &engine, 0..10).await;
    cluster.chain.mine();
    let second = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    for id in first.iter().chain(&second) {
        cluster.until(*id, "was mined", |tx| tx.mined.is_some()).await;
    }
    let (kept, broken) = (cluster.record(first[0]).await, cluster.record(second[0]).await);
    let (kept, broken) = (kept.mined.unwrap().block_number, broken.mined.unwrap().block_number);
    engine.stop().await;
    drop(engine);
    mine_blocks(&cluster, 5);
    let before = cluster.chain.asked_for_block(kept);
    cluster.chain.fail(Query::Block(broken), true);
    let _heir = cluster.node("b", patient());
    for id in &first {
        cluster.until(*id, "was final", |tx| tx.row.state == TxState::Confirmed).await;
    }
    assert_eq!(cluster.chain.asked_for_block(kept) - before, 1, "one look for ten transactions");
    assert!(!cluster.record(second[0]).await.row.state.is_final(), "I8: no answer is no proof");
    cluster.chain.fail(Query::Block(broken), false);
    cluster.until(second[0], "was final", |tx| tx.row.state == TxState::Confirmed).await;

    // The list of confirmations names the blocks that it holds.
    let list = cluster.store.confirmations(second[0]).await.unwrap().unwrap();
    assert!(!list.new_fork && !list.hashes.is_empty(), "{list:?}");
    for (number, hash) in (list.first_block..).zip(list.hashes) {
        let block = cluster.chain.block(BlockTag::Number(number)).await.unwrap().unwrap();
        assert_eq!(block.at.hash, hash, "block {number}");
    }
}

/// A transaction that is mined in a block below the view of the node that takes over, and its block.
async fn mined_below_the_view(cluster: &Cluster) -> (TxId, u64) {
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    until_pending(cluster, &ids).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    let block = cluster.record(ids[0]).await.mined.unwrap().block_number;
    engine.stop().await;
    mine_blocks(cluster, 5);
    (ids[0], block)
}

#[tokio::test(flavor = "multi_thread")]
async fn single_wrong_hash_of_a_block_below_the_view_takes_nothing_back() {
    let cluster = Cluster::pipelined().await;
    let (id, block) = mined_below_the_view(&cluster).await;
    cluster.chain.show_wrong_hash(block, 1);
    let _heir = cluster.node("b", options());
    cluster.until(id, "was final", |tx| tx.row.state == TxState::Confirmed).await;
    assert_eq!(cluster.chain.wrong_hashes_left(block), 0);
    let list = cluster.store.confirmations(id).await.unwrap().unwrap();
    assert!(!list.new_fork, "one answer is no proof of a fork: {list:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_wrong_hash_of_a_block_below_the_view_delays_finality_only_while_it_lasts() {
    let cluster = Cluster::pipelined().await;
    let (id, block) = mined_below_the_view(&cluster).await;
    cluster.chain.show_wrong_hash(block, 4);
    let _heir = cluster.node("b", options());
    cluster.until(id, "was final", |tx| tx.row.state == TxState::Confirmed).await;
    assert_eq!(cluster.chain.wrong_hashes_left(block), 0);
    let list = cluster.store.confirmations(id).await.unwrap().unwrap();
    assert!(list.new_fork, "it was taken back: {list:?}");
    assert_eq!(cluster.paid(account(1)), [10], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn block_that_no_endpoint_delivers_raises_an_alert_and_delays_only_what_it_holds() {
    let cluster = Cluster::pipelined().await;
    let soon = Duration::from_millis(300);
    let engine = cluster.node("a", EngineOptions { receipt_alert_after: soon, ..options() });
    let held = pending(&cluster, &engine, [10]).await;
    let missing = cluster.chain.height() as u64 + 1;
    cluster.chain.fail(Query::Block(missing), true);
    cluster.chain.mine();
    let other = id(engine.create(account(2), None, transfer(20)).await.unwrap());
    cluster.mine_until_final(&[other]).await;
    let alerts = cluster.alerts.of(AlertKind::BlockUnread);
    assert_eq!(alerts.len(), 1, "once, not at each try");
    let detail = &alerts[0].detail;
    assert!(detail.contains(&format!("block {missing} ")), "{detail}");
    cluster.until(held[0], "was found by its hash", |tx| tx.mined.is_some()).await;
    assert!(!cluster.record(held[0]).await.row.state.is_final(), "I8: no answer is no proof");

    cluster.chain.fail(Query::Block(missing), false);
    cluster.mine_until_final(&held).await;
    assert_eq!(cluster.record(held[0]).await.row.state, TxState::Confirmed);
    assert_eq!((cluster.paid(account(1)), cluster.paid(account(2))), (vec![10], vec![20]));
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_of_failures_that_can_not_be_had_delay_only_the_failures() {
    let cluster = Cluster::pipelined().await;
    let reverts = Address::repeat_byte(0xba);
    cluster.chain.revert_calls_to(reverts);
    cluster.chain.hang_reasons(true);
    let engine = cluster.node("a", patient());
    // One in each block, more than receipts are read at once.
    let (values, other_value) = (10..22, 30);
    let mut failures = Vec::new();
    for value in values.clone() {
        cluster.chain.hold(TxMatch::Value(value));
        let call = Intent { gas: Some(21_000), ..Intent::transfer(reverts, U256::from(value)) };
        failures.push(id(engine.create(account(1), None, call).await.unwrap()));
    }
    cluster.chain.hold(TxMatch::Value(other_value));
    let other = id(engine.create(account(2), None, transfer(other_value)).await.unwrap());
    until_pending(&cluster, &failures).await;
    until_pending(&cluster, &[other]).await;
    for value in values.chain([other_value]) {
        cluster.chain.release(TxMatch::Value(value));
        cluster.chain.mine();
    }
    cluster.until(other, "was mined", |tx| tx.mined.is_some()).await;
    let record = cluster.record(failures[0]).await;
    assert!(record.mined.is_none(), "it waits for its reason, and nobody waits for it: {record:?}");
    // Without a reason at last, because it is for people only.
    cluster.mine_until_final(&failures).await;
    for id in failures {
        let record = cluster.record(id).await;
        assert_eq!(record.row.state, TxState::Failed(Failed::Reverted));
        assert_eq!(record.mined.unwrap().revert_reason, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn view_jumps_over_a_long_gap_and_transactions_in_it_are_found_by_their_hashes() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let first = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(first[0], "was mined", |tx| tx.mined.is_some()).await;
    cluster.chain.fail(Query::Blocks, true);
    let second = pending(&cluster, &engine, [11]).await;
    mine_blocks(&cluster, 4_500);
    cluster.chain.fail(Query::Blocks, false);
    for id in [first[0], second[0]] {
        cluster.until(id, "was final", |tx| tx.row.state == TxState::Confirmed).await;
    }
    let head = cluster.chain.height() as u64;
    assert_eq!(engine.view().head().map(|head| head.number), Some(head));
    let asked = (3..head - 200).filter(|number| cluster.chain.asked_for_block(*number) > 0).count();
    assert_eq!(asked, 0, "blocks in the gap are left out");
    let alerts = cluster.alerts.of(AlertKind::BlockUnread);
    assert_eq!(alerts.len(), 1, "and not in silence");
    assert!(alerts[0].detail.starts_with("blocks 2 to "), "{}", alerts[0].detail);
    assert_eq!(cluster.paid(account(1)), [10, 11], "executed once");
}

/// The first alert that nothing becomes final.
async fn stalled(cluster: &Cluster) -> String {
    cluster
        .eventually("an alert", async || !cluster.alerts.of(AlertKind::FinalityStalled).is_empty())
        .await;
    cluster.alerts.of(AlertKind::FinalityStalled).remove(0).detail
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_tag_that_the_chain_lacks_raises_an_alert_that_says_what_helps() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.lack_tags();
    let finality = FinalityRule::Finalized;
    let receipt_alert_after = Duration::from_millis(300);
    let engine = cluster.node("a", EngineOptions { finality, receipt_alert_after, ..patient() });
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    let detail = stalled(&cluster).await;
    assert!(detail.contains("set `finality` to `confirmations:N`"), "{detail}");
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "I8");
    assert_eq!(cluster.alerts.of(AlertKind::FinalityStalled).len(), 1, "once, not at each tick");
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_that_makes_no_empty_blocks_raises_an_alert_and_confirms_with_the_next_block() {
    let cluster = Cluster::pipelined().await;
    let finality_alert_after = Duration::from_millis(300);
    let engine = cluster.node("a", EngineOptions { finality_alert_after, ..patient() });
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    let detail = stalled(&cluster).await;
    assert!(detail.contains("set `finality` to `confirmations:1`"), "{detail}");
    cluster.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_that_goes_on_raises_no_alert() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = transfers(&engine, [10]).await;
    cluster.mine_until_final(&ids).await;
    assert!(cluster.alerts.of(AlertKind::FinalityStalled).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_above_the_view_of_a_successor_that_lags_is_neither_orphaned_nor_a_fork() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    pending(&cluster, &engine, [10]).await;
    mine_blocks(&cluster, 4);
    let more = pending(&cluster, &engine, [11]).await;
    cluster.chain.mine();
    cluster.chain.mine();
    cluster.until(more[0], "was mined", |tx| tx.mined.is_some()).await;
    engine.stop().await;
    // The endpoints of the successor lack the block of the receipt and the one above it.
    cluster.chain.hide_newest(2);
    let heir = cluster.node("b", patient());
    let (first, lagging) = (transfers(&heir, [12]).await, cluster.chain.height() as u64 - 2);
    cluster
        .eventually("the view lags", async || {
            heir.view().head().is_some_and(|head| head.number == lagging)
        })
        .await;
    heir.operator().reconcile(account(1)).await.unwrap();
    assert!(cluster.record(more[0]).await.mined.is_some(), "above the view is not yet, not gone");
    cluster.chain.hide_newest(0);
    cluster.mine_until_final(&[more[0], first[0]]).await;
    let events = cluster.history(more[0]).await;
    assert!(events.iter().all(|entry| entry.event.as_str() != "orphaned"), "{events:?}");
    let list = cluster.store.confirmations(more[0]).await.unwrap().unwrap();
    assert!(!list.new_fork && !list.hashes.is_empty(), "{list:?}");
    for (number, hash) in (list.first_block..).zip(list.hashes) {
        let block = cluster.chain.block(BlockTag::Number(number)).await.unwrap().unwrap();
        assert_eq!(block.at.hash, hash, "block {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn block_below_the_view_that_can_not_be_fetched_confirms_nothing_after_a_reorg() {
    let cluster = Cluster::pipelined().await;
    let (id, block) = mined_below_the_view(&cluster).await;
    // While nobody looked, the block was replaced, and what it held is lost.
    cluster.chain.reorg(cluster.chain.height() + 1 - block as usize, Reorged::Dropped);
    mine_blocks(&cluster, 5);
    cluster.chain.fail(Query::Block(block), true);
    let before = cluster.chain.asked_for_block(block);
    let heir = cluster.node("b", patient());
    // Asked more than once: the answers before were no proof of anything.
    cluster
        .eventually("it is asked for again", async || {
            cluster.chain.asked_for_block(block) >= before + 3
        })
        .await;
    heir.operator().reconcile(account(1)).await.unwrap();
    let record = cluster.record(id).await;
    assert!(!record.row.state.is_final(), "I8: no answer is no proof: {record:?}");
    cluster.chain.fail(Query::Block(block), false);
    cluster.mine_until_final(&[id]).await;
    assert_eq!(cluster.paid(account(1)), [10], "executed once, in the chain that there is");
    assert!(cluster.store.confirmations(id).await.unwrap().unwrap().new_fork);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_does_not_wait_for_blocks_below_the_view_that_hang() {
    let (cluster, engine) = Cluster::with_node(window(300)).await;
    let ids = pending(&cluster, &engine, 0..100).await;
    cluster.chain.mine();
    for id in &ids {
        cluster.until(*id, "was mined", |tx| tx.mined.is_some()).await;
    }
    let block = cluster.record(ids[0]).await.mined.unwrap().block_number;
    engine.stop().await;
    mine_blocks(&cluster, 5);
    cluster.chain.hang_block(block);
    let heir = cluster.node("b", window(300));
    let later = transfers(&heir, [200]).await;
    cluster.mine_until_final(&later).await;
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "I8");
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_tag_that_moves_while_the_head_stands_ends_what_waits_for_it() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.set_tag(0);
    let engine = cluster.node("a", EngineOptions { finality: FinalityRule::Safe, ..patient() });
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    cluster.eventually("the tag is known", async || engine.view().tagged == Some(0)).await;
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "I8");
    cluster.chain.set_tag(1);
    cluster.until(ids[0], "was final", |tx| tx.row.state == TxState::Confirmed).await;
    assert_eq!(cluster.chain.height(), 1, "no block came meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn view_catches_up_though_heads_are_announced_too_far_ahead_to_be_delivered() {
    const BLOCKS: u64 = 60;
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = transfers(&engine, [10]).await;
    cluster.mine_until_final(&ids).await;
    let first = cluster.chain.height() as u64;
    cluster
        .eventually("the view is at the head", async || {
            engine.view().head().is_some_and(|head| head.number == first)
        })
        .await;
    // All at once: the view is behind by so many.
    cluster.chain.fail(Query::Blocks, true);
    cluster.chain.announce_ahead(100_000);
    mine_blocks(&cluster, BLOCKS as usize);
    let before = cluster.chain.heads_asked();
    cluster.chain.fail(Query::Blocks, false);
    cluster
        .eventually("the view is at the head", async || {
            engine.view().head().is_some_and(|head| head.number == first + BLOCKS)
        })
        .await;
    let asked = cluster.chain.heads_asked() - before;
    assert!(asked < BLOCKS as usize / 2, "one block for each announcement: {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disputed_receipt_is_not_final_raises_an_alert_and_is_final_once_it_is_confirmed() {
    let cluster = Cluster::pipelined().await;
    let soon = Duration::from_millis(300);
    let engine = cluster.node("a", EngineOptions { receipt_alert_after: soon, ..options() });
    cluster.chain.set_support(ReceiptSupport::Disputed("1 of 2 show another".to_owned()));
    let ids = pending(&cluster, &engine, [10]).await;
    mine_blocks(&cluster, 20);
    cluster
        .eventually("an alert", async || !cluster.alerts.of(AlertKind::ReceiptDisputed).is_empty())
        .await;
    let alerts = cluster.alerts.of(AlertKind::ReceiptDisputed);
    assert!(alerts[0].detail.contains("1 of 2 show another"), "{}", alerts[0].detail);
    let record = cluster.record(ids[0]).await;
    assert!(record.mined.is_some() && !record.row.state.is_final(), "I16: {record:?}");
    cluster.chain.set_support(ReceiptSupport::Confirmed);
    cluster.until(ids[0], "was final", |tx| tx.row.state == TxState::Confirmed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn corrected_receipt_decides_how_the_transaction_ends() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    cluster.chain.set_support(ReceiptSupport::Disputed(String::new()));
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    let mined = cluster.record(ids[0]).await.mined.unwrap();
    let corrected = TxReceipt { succeeded: false, gas_used: 20_999, ..mined };
    cluster.chain.set_support(ReceiptSupport::Corrected(Box::new(corrected.clone())));
    mine_blocks(&cluster, 20);
    cluster.until(ids[0], "was final", |tx| tx.row.state.is_final()).await;
    let record = cluster.record(ids[0]).await;
    assert_eq!(record.row.state, TxState::Failed(Failed::Reverted));
    assert_eq!(record.mined.unwrap().gas_used, 20_999);
    // The same evidence came twice; it was written once, and nobody took it for another writer's.
    assert_eq!(engine.metrics().worker_restarts_total.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn details_that_endpoints_contradict_each_other_about_are_removed_before_it_is_final() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    cluster.chain.set_support(ReceiptSupport::Disputed(String::new()));
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    let mined = cluster.record(ids[0]).await.mined.unwrap();
    assert!(mined.details.effective_gas_price.is_some());
    let details = ReceiptDetails { effective_gas_price: None, ..mined.details };
    let corrected = TxReceipt { details, ..mined.clone() };
    cluster.chain.set_support(ReceiptSupport::Corrected(Box::new(corrected.clone())));
    mine_blocks(&cluster, 20);
    cluster.until(ids[0], "was final", |tx| tx.row.state == TxState::Confirmed).await;
    assert_eq!(cluster.record(ids[0]).await.mined, Some(corrected));
    let history = cluster.history(ids[0]).await;
    assert!(history.iter().any(|entry| entry.event == "receipt_corrected"), "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuted_receipt_is_taken_back_and_the_transaction_is_sent_again() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    cluster.chain.set_support(ReceiptSupport::Disputed(String::new()));
    let ids = pending(&cluster, &engine, [10]).await;
    let hash = cluster.record(ids[0]).await.newest_hash.unwrap();
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    let sends = cluster.chain.sends(hash);
    cluster.chain.set_support(ReceiptSupport::Refuted);
    mine_blocks(&cluster, 2);
    cluster.until(ids[0], "was taken back", |tx| tx.mined.is_none()).await;
    cluster.eventually("it is sent again", async || cluster.chain.sends(hash) > sends).await;
}
