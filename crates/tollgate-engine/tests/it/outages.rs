//! Questions that the chain does not answer: no answer is never taken for one (I8), and nobody waits
//! for what another one asked (I14).

use tollgate_model::{Intent, Queued, TxState};
use tollgate_testkit::fake_chain::Question;

use crate::govern::{PENDING, patient, transfers};
use crate::rig::{Rig, account, id, options, transfer};

/// A transaction that was mined and settled while nobody looked.
async fn mined_unseen(rig: &Rig) -> tollgate_model::TxId {
    let engine = rig.node("a", options());
    let tx = transfers(&engine, [10]).await[0];
    rig.until(tx, "was with a node", |tx| tx.seen.state == PENDING).await;
    engine.stop().await;
    for _ in 0..5 {
        rig.chain.mine();
    }
    tx
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_can_not_be_asked_for_is_not_one_that_is_not_there() {
    let rig = Rig::new().await;
    let tx = mined_unseen(&rig).await;
    let hash = rig.record(tx).await.newest_hash.unwrap();
    for question in [Question::Receipts, Question::Occupants] {
        rig.chain.fail(question, true);
    }
    let engine = rig.node("b", options());
    // It is sent again, a node says that the nonce is used, and nobody can say by what.
    rig.eventually("it is sent again", async || rig.chain.sends(hash) > 1).await;
    for _ in 0..3 {
        engine.reconcile(account(1)).await.unwrap();
    }
    let record = rig.record(tx).await;
    assert!(!record.seen.state.is_final(), "I8: an error is no evidence: {record:?}");
    assert_eq!((record.nonce.unwrap().get(), record.attempts), (0, 1), "I3: where it was");
    assert_eq!(rig.submitter(account(1)).await.next_nonce.get(), 1);
    for question in [Question::Receipts, Question::Occupants] {
        rig.chain.fail(question, false);
    }
    rig.mine_until_final(&[tx]).await;
    assert_eq!(rig.record(tx).await.seen.state, TxState::Confirmed);
    assert_eq!(rig.paid(account(1)), [10], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_a_slot_is_not_decided_by_an_error() {
    let rig = Rig::new().await;
    let tx = mined_unseen(&rig).await;
    // Every endpoint says that it has no receipt, and none can say who is in the slot.
    rig.chain.lose_receipts(true);
    rig.chain.fail(Question::Occupants, true);
    let engine = rig.node("b", options());
    rig.eventually("it was asked", async || {
        engine.reconcile(account(1)).await.unwrap();
        rig.chain.failed() > 0
    })
    .await;
    assert!(!rig.record(tx).await.seen.state.is_final(), "I8: it is ours, and it is mined");
    rig.chain.lose_receipts(false);
    rig.chain.fail(Question::Occupants, false);
    rig.mine_until_final(&[tx]).await;
    assert_eq!(rig.record(tx).await.seen.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_can_not_be_fetched_is_fetched_later_and_none_is_skipped() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let mut ids = transfers(&engine, [10]).await;
    rig.until(ids[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.chain.mine();
    rig.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;

    rig.chain.fail(Question::Blocks, true);
    for value in 11..14 {
        ids.extend(transfers(&engine, [value]).await);
        rig.until(*ids.last().unwrap(), "was with a node", |tx| tx.seen.state == PENDING).await;
        rig.chain.mine();
    }
    // At the second one at the latest the newest head was asked for.
    let before = rig.chain.failed();
    rig.eventually("fetches failed", async || rig.chain.failed() >= before + 2).await;
    rig.chain.fail(Question::Blocks, false);
    // No further block comes that could make up for one.
    for (block, id) in (1..).zip(&ids) {
        rig.until(*id, "was mined", |tx| tx.mined.is_some()).await;
        assert_eq!(rig.record(*id).await.mined.unwrap().block_number, block);
    }
    rig.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_line_gets_slots_although_a_share_of_fee_quotes_fails() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    rig.chain.fail(Question::Fees, true);
    let mut ids = Vec::new();
    for value in 0..30 {
        let intent = Intent { gas: Some(30_000), ..transfer(value) };
        ids.push(id(engine.create(account(1), None, intent).await.unwrap()));
    }
    assert!(rig.record(ids[29]).await.nonce.is_none(), "without a quote there are no slots");
    // Never 30 good ones in a row.
    rig.chain.fail_fees_steadily(5);
    rig.chain.fail(Question::Fees, false);
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)).len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_one_account_does_not_get_is_nobody_elses_trouble() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    let counts = Question::Counts(account(1).address);
    rig.chain.fail(counts, true);
    let kept = transfers(&engine, [10, 11]).await;
    let mut others = Vec::new();
    for value in 0..5 {
        others.push(id(engine.create(account(2), None, transfer(value)).await.unwrap()));
        others.push(id(engine.create(account(3), None, transfer(value)).await.unwrap()));
    }
    rig.mine_until_final(&others).await;
    assert!(rig.chain.failed() > 0, "it was asked");
    for tx in &kept {
        let record = rig.record(*tx).await;
        let waiting = TxState::Queued(Queued::Waiting);
        assert_eq!((record.seen.state, record.nonce), (waiting, None), "I6: accepted and kept");
    }
    rig.chain.fail(counts, false);
    rig.mine_until_final(&kept).await;
    assert_eq!(rig.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_priced_is_accepted_and_gets_its_slot_later() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    // Its counts are known, so that only a price is missing.
    let first = transfers(&engine, [10]).await;
    rig.chain.fail(Question::Fees, true);
    let kept = transfers(&engine, [11, 12]).await;
    assert!(rig.chain.failed() > 0, "it was asked");
    for tx in &kept {
        let record = rig.record(*tx).await;
        let waiting = TxState::Queued(Queued::Waiting);
        assert_eq!((record.seen.state, record.nonce), (waiting, None), "I6: accepted and kept");
    }
    rig.chain.fail(Question::Fees, false);
    rig.mine_until_final(&[first, kept].concat()).await;
    assert_eq!(rig.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_keeps_one_account_waiting_keeps_nobody_else_waiting() {
    let rig = Rig::new().await;
    let engine = rig.node("a", options());
    let first = transfers(&engine, [10]).await;
    rig.until(first[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.chain.stall(account(1).address, true);
    // Its sends hang, and it still takes work.
    let stalled = transfers(&engine, [11, 12, 13]).await;
    let mut others = Vec::new();
    for value in 0..20 {
        others.push(id(engine.create(account(2), None, transfer(value)).await.unwrap()));
    }
    rig.mine_until_final(&others).await;
    for tx in &stalled {
        assert!(rig.record(*tx).await.mined.is_none(), "nothing of it got through");
    }
    rig.chain.stall(account(1).address, false);
    rig.mine_until_final(&stalled).await;
    assert_eq!(rig.paid(account(1)), [10, 11, 12, 13]);
}
