//! The tracker keeps what was delivered and goes on with the rest: one block or receipt that can't
//! be read delays nothing but itself (I14, I15).

use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::{BlockTag, Chain};
use tollgate_model::port::{AlertKind, TxStore};
use tollgate_model::{Address, Failed, Intent, TxId, TxState, U256};
use tollgate_testkit::fake_chain::{Fate, Question, Which};

use crate::govern::{PENDING, patient, transfers, window};
use crate::rig::{Rig, account, id, options, transfer};

async fn pending(rig: &Rig, ids: &[TxId]) {
    for id in ids {
        rig.until(*id, "was with a node", |tx| tx.seen.state == PENDING).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_receipt_delays_only_its_own_transaction_and_raises_an_alert() {
    let rig = Rig::new().await;
    let soon = Duration::from_millis(300);
    let engine = rig.node("a", EngineOptions { receipt_alert_after: soon, ..options() });
    let mine = transfers(&engine, [10, 11]).await;
    let other = id(engine.create(account(2), None, transfer(20)).await.unwrap());
    pending(&rig, &[mine[0], mine[1], other]).await;
    let hash = rig.record(mine[0]).await.newest_hash.unwrap();
    rig.chain.fail(Question::Receipt(hash), true);

    // The neighbours in the same block, of the same and of another account, reach their end.
    rig.mine_until_final(&[mine[1], other]).await;
    let later = id(engine.create(account(2), None, transfer(21)).await.unwrap());
    rig.mine_until_final(&[later]).await;
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::ReceiptUnread).is_empty()).await;
    let alerts = rig.alerts.of(AlertKind::ReceiptUnread);
    assert_eq!(alerts.len(), 1, "once, not at each try");
    assert_eq!(alerts[0].submitter, account(1));
    assert!(alerts[0].detail.contains(&hash.to_string()), "{}", alerts[0].detail);
    let record = rig.record(mine[0]).await;
    assert!(!record.seen.state.is_final(), "I8: no receipt, no end: {record:?}");

    rig.chain.fail(Question::Receipt(hash), false);
    rig.mine_until_final(&[mine[0]]).await;
    assert_eq!(rig.record(mine[0]).await.seen.state, TxState::Confirmed);
    assert_eq!(rig.paid(account(1)), [10, 11], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_receipt_at_takeover_delays_only_its_own_transaction() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let ids = transfers(&engine, 0..20).await;
    pending(&rig, &ids).await;
    engine.stop().await;
    let hash = rig.record(ids[0]).await.newest_hash.unwrap();
    for _ in 0..5 {
        rig.chain.mine();
    }
    rig.chain.fail(Question::Receipt(hash), true);
    let _heir = rig.node("b", patient());
    for id in &ids[1..] {
        rig.until(*id, "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    }
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "I8");
    rig.chain.fail(Question::Receipt(hash), false);
    rig.until(ids[0], "was final", |tx| tx.seen.state == TxState::Confirmed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn view_catches_up_after_an_outage_though_a_share_of_block_reads_fails_for_ever() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    pending(&rig, &ids).await;
    rig.chain.mine();
    rig.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    rig.chain.fail(Question::Blocks, true);
    for _ in 0..120 {
        rig.chain.mine();
    }
    // Never 120 good answers in a row.
    rig.chain.fail_blocks_steadily(7);
    rig.chain.fail(Question::Blocks, false);
    rig.until(ids[0], "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    rig.eventually("the view is at the head", async || {
        engine.view().head().is_some_and(|head| head.number == 121)
    })
    .await;
    let asked = (2..=121).map(|number| rig.chain.asked_for_block(number)).sum::<usize>();
    assert!(asked < 120 * 2, "what was delivered is not asked for again: {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_announced_far_ahead_does_not_stop_the_view() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let mut ids = transfers(&engine, [10]).await;
    rig.mine_until_final(&ids).await;
    rig.chain.announce_ahead(500);
    ids.extend(transfers(&engine, [11, 12]).await);
    rig.mine_until_final(&ids).await;
    rig.chain.announce_ahead(100_000);
    ids.extend(transfers(&engine, [13]).await);
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), [10, 11, 12, 13]);
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_below_the_view_takes_one_look_per_block_and_one_failure_holds_nobody() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let first = transfers(&engine, 0..10).await;
    pending(&rig, &first).await;
    rig.chain.mine();
    let second = transfers(&engine, [10]).await;
    pending(&rig, &second).await;
    rig.chain.mine();
    for id in first.iter().chain(&second) {
        rig.until(*id, "was mined", |tx| tx.mined.is_some()).await;
    }
    let (kept, broken) = (rig.record(first[0]).await, rig.record(second[0]).await);
    let (kept, broken) = (kept.mined.unwrap().block_number, broken.mined.unwrap().block_number);
    engine.stop().await;
    drop(engine);
    for _ in 0..5 {
        rig.chain.mine();
    }
    let before = rig.chain.asked_for_block(kept);
    rig.chain.fail(Question::Block(broken), true);
    let _heir = rig.node("b", patient());
    for id in &first {
        rig.until(*id, "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    }
    assert_eq!(rig.chain.asked_for_block(kept) - before, 1, "one look for ten transactions");
    assert!(!rig.record(second[0]).await.seen.state.is_final(), "I8: no answer is no proof");
    rig.chain.fail(Question::Block(broken), false);
    rig.until(second[0], "was final", |tx| tx.seen.state == TxState::Confirmed).await;

    // The list of confirmations names the blocks that it holds.
    let list = rig.store.confirmations(second[0]).await.unwrap().unwrap();
    assert!(!list.new_fork && !list.hashes.is_empty(), "{list:?}");
    for (number, hash) in (list.first_block..).zip(list.hashes) {
        let block = rig.chain.block(BlockTag::Number(number)).await.unwrap().unwrap();
        assert_eq!(block.at.hash, hash, "block {number}");
    }
}

/// A transaction that is mined in a block below the view of the node that takes over, and its block.
async fn mined_below_the_view(rig: &Rig) -> (TxId, u64) {
    let engine = rig.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    pending(rig, &ids).await;
    rig.chain.mine();
    rig.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    let block = rig.record(ids[0]).await.mined.unwrap().block_number;
    engine.stop().await;
    for _ in 0..5 {
        rig.chain.mine();
    }
    (ids[0], block)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_wrong_hash_of_a_block_below_the_view_takes_nothing_back() {
    let rig = Rig::new().await;
    let (id, block) = mined_below_the_view(&rig).await;
    rig.chain.show_wrong_hash(block, 1);
    let _heir = rig.node("b", options());
    rig.until(id, "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    assert_eq!(rig.chain.wrong_hashes_left(block), 0);
    let list = rig.store.confirmations(id).await.unwrap().unwrap();
    assert!(!list.new_fork, "one answer is no proof of a fork: {list:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_wrong_hash_of_a_block_below_the_view_delays_finality_only_while_it_lasts() {
    let rig = Rig::new().await;
    let (id, block) = mined_below_the_view(&rig).await;
    rig.chain.show_wrong_hash(block, 4);
    let _heir = rig.node("b", options());
    rig.until(id, "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    assert_eq!(rig.chain.wrong_hashes_left(block), 0);
    let list = rig.store.confirmations(id).await.unwrap().unwrap();
    assert!(list.new_fork, "it was taken back: {list:?}");
    assert_eq!(rig.paid(account(1)), [10], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn block_that_no_endpoint_delivers_raises_an_alert_and_delays_only_what_it_holds() {
    let rig = Rig::new().await;
    let soon = Duration::from_millis(300);
    let engine = rig.node("a", EngineOptions { receipt_alert_after: soon, ..options() });
    let held = transfers(&engine, [10]).await;
    pending(&rig, &held).await;
    let missing = rig.chain.height() as u64 + 1;
    rig.chain.fail(Question::Block(missing), true);
    rig.chain.mine();
    let other = id(engine.create(account(2), None, transfer(20)).await.unwrap());
    rig.mine_until_final(&[other]).await;
    let alerts = rig.alerts.of(AlertKind::BlockUnread);
    assert_eq!(alerts.len(), 1, "once, not at each try");
    let detail = &alerts[0].detail;
    assert!(detail.contains(&format!("block {missing} ")), "{detail}");
    rig.until(held[0], "was found by its hash", |tx| tx.mined.is_some()).await;
    assert!(!rig.record(held[0]).await.seen.state.is_final(), "I8: no answer is no proof");

    rig.chain.fail(Question::Block(missing), false);
    rig.mine_until_final(&held).await;
    assert_eq!(rig.record(held[0]).await.seen.state, TxState::Confirmed);
    assert_eq!((rig.paid(account(1)), rig.paid(account(2))), (vec![10], vec![20]));
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_of_failures_that_can_not_be_had_delay_only_the_failures() {
    let rig = Rig::new().await;
    let reverts = Address::repeat_byte(0xba);
    rig.chain.revert_calls_to(reverts);
    rig.chain.hang_reasons(true);
    let engine = rig.node("a", patient());
    // One in each block, more than receipts are read at once.
    let (values, other_value) = (10..22, 30);
    let mut failures = Vec::new();
    for value in values.clone() {
        rig.chain.hold(Which::Value(value));
        let call = Intent { gas: Some(21_000), ..Intent::transfer(reverts, U256::from(value)) };
        failures.push(id(engine.create(account(1), None, call).await.unwrap()));
    }
    rig.chain.hold(Which::Value(other_value));
    let other = id(engine.create(account(2), None, transfer(other_value)).await.unwrap());
    pending(&rig, &failures).await;
    pending(&rig, &[other]).await;
    for value in values.chain([other_value]) {
        rig.chain.release(Which::Value(value));
        rig.chain.mine();
    }
    rig.until(other, "was mined", |tx| tx.mined.is_some()).await;
    let record = rig.record(failures[0]).await;
    assert!(record.mined.is_none(), "it waits for its reason, and nobody waits for it: {record:?}");
    // Without a reason at last, because it is for people only.
    rig.mine_until_final(&failures).await;
    for id in failures {
        let record = rig.record(id).await;
        assert_eq!(record.seen.state, TxState::Failed(Failed::Reverted));
        assert_eq!(record.mined.unwrap().revert_reason, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn view_jumps_over_a_long_gap_and_transactions_in_it_are_found_by_their_hashes() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    let first = transfers(&engine, [10]).await;
    pending(&rig, &first).await;
    rig.chain.mine();
    rig.until(first[0], "was mined", |tx| tx.mined.is_some()).await;
    rig.chain.fail(Question::Blocks, true);
    let second = transfers(&engine, [11]).await;
    pending(&rig, &second).await;
    for _ in 0..4_500 {
        rig.chain.mine();
    }
    rig.chain.fail(Question::Blocks, false);
    for id in [first[0], second[0]] {
        rig.until(id, "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    }
    let head = rig.chain.height() as u64;
    assert_eq!(engine.view().head().map(|head| head.number), Some(head));
    let asked = (3..head - 200).filter(|number| rig.chain.asked_for_block(*number) > 0).count();
    assert_eq!(asked, 0, "blocks in the gap are left out");
    let alerts = rig.alerts.of(AlertKind::BlockUnread);
    assert_eq!(alerts.len(), 1, "and not in silence");
    assert!(alerts[0].detail.starts_with("blocks 2 to "), "{}", alerts[0].detail);
    assert_eq!(rig.paid(account(1)), [10, 11], "executed once");
}

/// The first alert that nothing becomes final.
async fn stalled(rig: &Rig) -> String {
    rig.eventually("an alert", async || !rig.alerts.of(AlertKind::FinalityStalled).is_empty())
        .await;
    rig.alerts.of(AlertKind::FinalityStalled).remove(0).detail
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_tag_that_the_chain_lacks_raises_an_alert_that_says_what_helps() {
    let rig = Rig::new().await;
    rig.chain.lack_tags();
    let finality = FinalityRule::Finalized;
    let receipt_alert_after = Duration::from_millis(300);
    let engine = rig.node("a", EngineOptions { finality, receipt_alert_after, ..patient() });
    let ids = transfers(&engine, [10]).await;
    pending(&rig, &ids).await;
    rig.chain.mine();
    let detail = stalled(&rig).await;
    assert!(detail.contains("set `finality` to `confirmations:N`"), "{detail}");
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "I8");
    assert_eq!(rig.alerts.of(AlertKind::FinalityStalled).len(), 1, "once, not at each tick");
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_that_makes_no_empty_blocks_raises_an_alert_and_confirms_with_the_next_block() {
    let rig = Rig::new().await;
    let finality_alert_after = Duration::from_millis(300);
    let engine = rig.node("a", EngineOptions { finality_alert_after, ..patient() });
    let ids = transfers(&engine, [10]).await;
    pending(&rig, &ids).await;
    rig.chain.mine();
    let detail = stalled(&rig).await;
    assert!(detail.contains("set `finality` to `confirmations:1`"), "{detail}");
    rig.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_that_goes_on_raises_no_alert() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    rig.mine_until_final(&ids).await;
    assert!(rig.alerts.of(AlertKind::FinalityStalled).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_above_the_view_of_a_successor_that_lags_is_neither_orphaned_nor_a_fork() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    pending(&rig, &ids).await;
    for _ in 0..4 {
        rig.chain.mine();
    }
    let more = transfers(&engine, [11]).await;
    pending(&rig, &more).await;
    rig.chain.mine();
    rig.chain.mine();
    rig.until(more[0], "was mined", |tx| tx.mined.is_some()).await;
    engine.stop().await;
    // The endpoints of the successor lack the block of the receipt and the one above it.
    rig.chain.hide_newest(2);
    let heir = rig.node("b", patient());
    let (first, lagging) = (transfers(&heir, [12]).await, rig.chain.height() as u64 - 2);
    rig.eventually("the view lags", async || {
        heir.view().head().is_some_and(|head| head.number == lagging)
    })
    .await;
    heir.reconcile(account(1)).await.unwrap();
    assert!(rig.record(more[0]).await.mined.is_some(), "above the view is not yet, not gone");
    rig.chain.hide_newest(0);
    rig.mine_until_final(&[more[0], first[0]]).await;
    let events = rig.history(more[0]).await;
    assert!(events.iter().all(|entry| entry.event.as_str() != "orphaned"), "{events:?}");
    let list = rig.store.confirmations(more[0]).await.unwrap().unwrap();
    assert!(!list.new_fork && !list.hashes.is_empty(), "{list:?}");
    for (number, hash) in (list.first_block..).zip(list.hashes) {
        let block = rig.chain.block(BlockTag::Number(number)).await.unwrap().unwrap();
        assert_eq!(block.at.hash, hash, "block {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn block_below_the_view_that_can_not_be_fetched_confirms_nothing_after_a_reorg() {
    let rig = Rig::new().await;
    let (id, block) = mined_below_the_view(&rig).await;
    // While nobody looked, the block was replaced, and what it held is lost.
    rig.chain.reorg(rig.chain.height() + 1 - block as usize, Fate::Lost);
    for _ in 0..5 {
        rig.chain.mine();
    }
    rig.chain.fail(Question::Block(block), true);
    let before = rig.chain.asked_for_block(block);
    let heir = rig.node("b", patient());
    // Asked more than once: the answers before were no proof of anything.
    rig.eventually("it is asked for again", async || {
        rig.chain.asked_for_block(block) >= before + 3
    })
    .await;
    heir.reconcile(account(1)).await.unwrap();
    let record = rig.record(id).await;
    assert!(!record.seen.state.is_final(), "I8: no answer is no proof: {record:?}");
    rig.chain.fail(Question::Block(block), false);
    rig.mine_until_final(&[id]).await;
    assert_eq!(rig.paid(account(1)), [10], "executed once, in the chain that there is");
    assert!(rig.store.confirmations(id).await.unwrap().unwrap().new_fork);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_does_not_wait_for_blocks_below_the_view_that_hang() {
    let rig = Rig::new().await;
    let engine = rig.node("a", window(300));
    let ids = transfers(&engine, 0..100).await;
    pending(&rig, &ids).await;
    rig.chain.mine();
    for id in &ids {
        rig.until(*id, "was mined", |tx| tx.mined.is_some()).await;
    }
    let block = rig.record(ids[0]).await.mined.unwrap().block_number;
    engine.stop().await;
    for _ in 0..5 {
        rig.chain.mine();
    }
    rig.chain.hang_block(block);
    let heir = rig.node("b", window(300));
    let later = transfers(&heir, [200]).await;
    rig.mine_until_final(&later).await;
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "I8");
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_tag_that_moves_while_the_head_stands_ends_what_waits_for_it() {
    let rig = Rig::new().await;
    rig.chain.set_tag(0);
    let engine = rig.node("a", EngineOptions { finality: FinalityRule::Safe, ..patient() });
    let ids = transfers(&engine, [10]).await;
    pending(&rig, &ids).await;
    rig.chain.mine();
    rig.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    rig.eventually("the tag is known", async || engine.view().tagged == Some(0)).await;
    assert!(!rig.record(ids[0]).await.seen.state.is_final(), "I8");
    rig.chain.set_tag(1);
    rig.until(ids[0], "was final", |tx| tx.seen.state == TxState::Confirmed).await;
    assert_eq!(rig.chain.height(), 1, "no block came meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn view_catches_up_though_heads_are_announced_too_far_ahead_to_be_delivered() {
    const BLOCKS: u64 = 60;
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    rig.mine_until_final(&ids).await;
    let first = rig.chain.height() as u64;
    rig.eventually("the view is at the head", async || {
        engine.view().head().is_some_and(|head| head.number == first)
    })
    .await;
    // All at once: the view is behind by so many.
    rig.chain.fail(Question::Blocks, true);
    rig.chain.announce_ahead(100_000);
    for _ in 0..BLOCKS {
        rig.chain.mine();
    }
    let before = rig.chain.heads_asked();
    rig.chain.fail(Question::Blocks, false);
    rig.eventually("the view is at the head", async || {
        engine.view().head().is_some_and(|head| head.number == first + BLOCKS)
    })
    .await;
    let asked = rig.chain.heads_asked() - before;
    assert!(asked < BLOCKS as usize / 2, "one block for each announcement: {asked}");
}
