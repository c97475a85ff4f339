//! Questions that the chain does not answer: no answer is never taken for one (I8), and nobody waits
//! for what another one asked (I14).

use std::time::Duration;

use tollgate_metrics::ReconcileResult;
use tollgate_model::port::AlertKind;
use tollgate_model::{Intent, Queued, TxState};
use tollgate_testkit::fake_chain::Query;

use crate::support::{
    Cluster, PENDING, account, id, mine_blocks, options, patient, pending, transfer, transfers,
};

/// A transaction that was mined and settled while nobody looked.
async fn mined_unseen(cluster: &Cluster) -> tollgate_model::TxId {
    let engine = cluster.node("a", options());
    let tx = pending(cluster, &engine, [10]).await[0];
    engine.stop().await;
    mine_blocks(cluster, 5);
    tx
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_receipt_is_not_taken_for_absent() {
    let cluster = Cluster::pipelined().await;
    let tx = mined_unseen(&cluster).await;
    let hash = cluster.record(tx).await.newest_hash.unwrap();
    for question in [Query::Receipts, Query::Occupants] {
        cluster.chain.fail(question, true);
    }
    let engine = cluster.node("b", options());
    // It is sent again, a node says that the nonce is used, and nobody can say by what.
    cluster.eventually("it is sent again", async || cluster.chain.sends(hash) > 1).await;
    for _ in 0..3 {
        engine.operator().reconcile(account(1)).await.unwrap();
    }
    let record = cluster.record(tx).await;
    assert!(!record.row.state.is_final(), "I8: an error is no evidence: {record:?}");
    assert_eq!((record.nonce.unwrap().get(), record.attempts), (0, 1), "I3: where it was");
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 1);
    for question in [Query::Receipts, Query::Occupants] {
        cluster.chain.fail(question, false);
    }
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.paid(account(1)), [10], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_in_an_occupant_search_decides_nothing() {
    let cluster = Cluster::pipelined().await;
    let tx = mined_unseen(&cluster).await;
    // Every endpoint says that it has no receipt, and none can say who is in the slot.
    cluster.chain.lose_receipts(true);
    cluster.chain.fail(Query::Occupants, true);
    let engine = cluster.node("b", options());
    cluster
        .eventually("it was asked", async || {
            engine.operator().reconcile(account(1)).await.unwrap();
            cluster.chain.failed() > 0
        })
        .await;
    assert!(!cluster.record(tx).await.row.state.is_final(), "I8: it is ours, and it is mined");
    cluster.chain.lose_receipts(false);
    cluster.chain.fail(Query::Occupants, false);
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_can_not_be_fetched_is_fetched_later_and_none_is_skipped() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let mut ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;

    cluster.chain.fail(Query::Blocks, true);
    for value in 11..14 {
        ids.extend(transfers(&engine, [value]).await);
        cluster.until(*ids.last().unwrap(), "was with a node", |tx| tx.row.state == PENDING).await;
        cluster.chain.mine();
    }
    // At the second one at the latest the newest head was asked for.
    let before = cluster.chain.failed();
    cluster.eventually("fetches failed", async || cluster.chain.failed() >= before + 2).await;
    cluster.chain.fail(Query::Blocks, false);
    // No further block comes that could make up for one.
    for (block, id) in (1..).zip(&ids) {
        cluster.until(*id, "was mined", |tx| tx.mined.is_some()).await;
        assert_eq!(cluster.record(*id).await.mined.unwrap().block_number, block);
    }
    cluster.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_line_gets_slots_although_a_share_of_fee_quotes_fails() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    cluster.chain.fail(Query::Fees, true);
    let mut ids = Vec::new();
    for value in 0..30 {
        let intent = Intent { gas: Some(30_000), ..transfer(value) };
        ids.push(id(engine.create(account(1), None, intent).await.unwrap()));
    }
    assert!(cluster.record(ids[29]).await.nonce.is_none(), "without a quote there are no slots");
    // Never 30 good ones in a row.
    cluster.chain.fail_fees_steadily(5);
    cluster.chain.fail(Query::Fees, false);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)).len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_count_of_one_account_delays_no_other() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let counts = Query::Counts(account(1).address);
    cluster.chain.fail(counts, true);
    let kept = transfers(&engine, [10, 11]).await;
    let mut others = Vec::new();
    for value in 0..5 {
        others.push(id(engine.create(account(2), None, transfer(value)).await.unwrap()));
        others.push(id(engine.create(account(3), None, transfer(value)).await.unwrap()));
    }
    cluster.mine_until_final(&others).await;
    assert!(cluster.chain.failed() > 0, "it was asked");
    for tx in &kept {
        let record = cluster.record(*tx).await;
        let waiting = TxState::Queued(Queued::Waiting);
        assert_eq!((record.row.state, record.nonce), (waiting, None), "I6: accepted and kept");
    }
    cluster.chain.fail(counts, false);
    cluster.mine_until_final(&kept).await;
    assert_eq!(cluster.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_without_a_fee_quote_is_accepted_and_gets_its_slot_later() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    // Its counts are known, so that only a price is missing.
    let first = transfers(&engine, [10]).await;
    cluster.chain.fail(Query::Fees, true);
    let kept = transfers(&engine, [11, 12]).await;
    assert!(cluster.chain.failed() > 0, "it was asked");
    for tx in &kept {
        let record = cluster.record(*tx).await;
        let waiting = TxState::Queued(Queued::Waiting);
        assert_eq!((record.row.state, record.nonce), (waiting, None), "I6: accepted and kept");
    }
    cluster.chain.fail(Query::Fees, false);
    cluster.mine_until_final(&[first, kept].concat()).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_account_delays_no_other() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    pending(&cluster, &engine, [10]).await;
    cluster.chain.stall(account(1).address, true);
    // Its sends hang, and it still takes work.
    let stalled = transfers(&engine, [11, 12, 13]).await;
    let mut others = Vec::new();
    for value in 0..20 {
        others.push(id(engine.create(account(2), None, transfer(value)).await.unwrap()));
    }
    cluster.mine_until_final(&others).await;
    for tx in &stalled {
        assert!(cluster.record(*tx).await.mined.is_none(), "nothing of it got through");
    }
    cluster.chain.stall(account(1).address, false);
    cluster.mine_until_final(&stalled).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13]);
}

#[tokio::test(flavor = "multi_thread")]
async fn account_that_can_not_be_compared_with_the_chain_is_told_after_several_failures_in_a_row() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let open = pending(&cluster, &engine, [10]).await;
    let told = || cluster.alerts.of(AlertKind::ReconcileFailure);
    let failures = || engine.metrics().reconcile_total.get(ReconcileResult::Error);
    cluster.chain.fail(Query::Counts(account(1).address), true);
    let until_told = async || {
        cluster.clock.advance(Duration::from_secs(5));
        !told().is_empty()
    };
    cluster.eventually("an alert", until_told).await;
    assert!(failures() >= 6, "one failure is no alert: {}", failures());
    let detail = &told()[0].detail;
    assert!(detail.starts_with("not compared with the chain: "), "{detail}");

    // The next comparison works, and failures are counted anew.
    cluster.chain.fail(Query::Counts(account(1).address), false);
    cluster.mine_until_final(&open).await;
    assert_eq!(cluster.record(open[0]).await.row.state, TxState::Confirmed);
    assert_eq!(told().len(), 1);
}
