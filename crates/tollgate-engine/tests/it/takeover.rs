//! Two nodes: the death of one is harmless.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{Action, CreateError, EngineOptions, Unserved};
use tollgate_model::answer::AnswerClass;
use tollgate_model::event::{EventKind, EventKinds};
use tollgate_model::port::Page;
use tollgate_model::{Seq, TraceParent, TxId, TxState};
use tollgate_testkit::fake_chain::{Reorged, TxMatch};

use crate::support::{
    Cluster, account, create_when_owned, hasty, id, mine_blocks, options, patient, pending,
    request, sign, transfer, transfers,
};

/// A node on a runtime of its own, so that it can die as a whole, at whatever it is doing.
fn doomed(cluster: &Cluster, count: u64) -> (tokio::runtime::Runtime, Vec<tollgate_model::TxId>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ids = runtime.block_on(async {
        let engine = cluster.node("doomed", hasty());
        let creates = (0..count).map(|n| {
            let engine = engine.clone();
            async move { engine.create(account(1), request(&format!("r{n}")), transfer(n)).await }
        });
        let ids = join_all(creates).await.into_iter().map(|c| id(c.unwrap())).collect();
        std::mem::forget(engine);
        ids
    });
    (runtime, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_dead_node_is_finished_by_another() {
    let cluster = std::sync::Arc::new(Cluster::pipelined().await);
    let at = cluster.clone();
    let (runtime, ids) = tokio::task::spawn_blocking(move || doomed(&at, 100)).await.unwrap();
    runtime.shutdown_background();
    let _heir = cluster.node("heir", hasty());
    cluster.mine_until_final(&ids).await;
    let mut paid = cluster.paid(account(1));
    paid.sort_unstable();
    assert!(paid.into_iter().eq(0..100), "each once, none lost");
    assert!(cluster.feed().await.iter().all(|entry| entry.state == TxState::Confirmed));
}

/// The next owner knows under which trace a transaction was requested minutes ago.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_the_next_owner_carry_the_trace_of_the_request() {
    let cluster = Cluster::pipelined().await;
    let with_events = || EngineOptions { events: EventKinds::ALL, ..options() };
    let engine = cluster.node("a", with_events());
    let trace: TraceParent =
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let prepared = engine.prepare(account(1), None, transfer(10)).await.unwrap();
    let traced = id(engine.submit(prepared.traced(Some(trace))).decided().await.unwrap());
    let plain = transfers(&engine, [11]).await[0];
    engine.stop().await;
    let _heir = cluster.node("b", with_events());
    cluster.mine_until_final(&[traced, plain]).await;

    let page = Page::new(Page::MAX).unwrap();
    cluster.store.number_events(page).await.unwrap();
    let events = cluster.store.events(Seq::MIN, page).await.unwrap().items;
    let of_end = |tx_id: TxId| {
        let ends = events.iter().filter(|it| it.event.kind == EventKind::TxConfirmed);
        let mut txs = ends.filter_map(|it| it.event.tx.as_ref());
        txs.find(|tx| tx.tx_id == tx_id).expect("an event of its end").trace
    };
    assert_eq!((of_end(traced), of_end(plain)), (Some(trace), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_own_says_who_does_and_a_graceful_stop_hands_over_at_once() {
    let cluster = Cluster::pipelined().await;
    let (a, b) = (cluster.node("a", options()), cluster.node("b", options()));
    let first = id(a.create(account(1), None, transfer(0)).await.unwrap());
    let refused = b.create(account(1), None, transfer(1)).await;
    let Err(CreateError::Unserved(Unserved::NotOwner(Some(owner)))) = refused else {
        panic!("{refused:?}")
    };
    assert!(owner.node.as_str().starts_with("a/"));
    a.stop().await;
    drop(a);
    // The lease is free now: whoever asks next owns.
    let second = create_when_owned(&b, account(1), None, transfer(1)).await;
    cluster.mine_until_final(&[first, second]).await;
    assert_eq!(cluster.paid(account(1)), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_was_never_sent_is_not_given_to_another_after_a_restart() {
    let cluster = Cluster::pipelined().await;
    // No node takes anything: the chain counts nothing of what has a slot.
    cluster.chain.answer(TxMatch::Any, AnswerClass::Transient, usize::MAX);
    let engine = cluster.node("a", options());
    let mut ids = transfers(&engine, [10, 11]).await;
    engine.stop().await;
    let engine = cluster.node("b", options());
    ids.extend(transfers(&engine, [12]).await);
    assert_eq!(cluster.chain.pooled(), 0);
    for (nonce, id) in (0..).zip(&ids) {
        assert_eq!(cluster.record(*id).await.nonce.unwrap().get(), nonce, "I3");
    }
    cluster.chain.answer_truly();
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn older_attempt_mined_without_an_owner_is_recognised() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let tx = pending(&cluster, &engine, [10]).await[0];
    // The pool keeps the older one.
    cluster.chain.answer_next(AnswerClass::ReplacementUnderpriced);
    sign(&cluster, &engine, tx, Action::SpeedUp).await;
    engine.stop().await;
    mine_blocks(&cluster, 5);
    let _heir = cluster.node("b", patient());
    cluster.until(tx, "ended", |tx| tx.row.state.is_final()).await;
    let record = cluster.record(tx).await;
    assert_eq!(record.row.state, TxState::Confirmed);
    let attempts = cluster.attempts(tx).await;
    assert_eq!(attempts.len(), 2);
    assert_eq!(record.mined.unwrap().tx_hash, attempts[0].tx_hash, "the one that was mined");
    assert_eq!(cluster.paid(account(1)), [10], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn account_shared_by_two_nodes_is_sent_by_one() {
    let cluster = Cluster::pipelined().await;
    let (a, b) = (cluster.node("a", patient()), cluster.node("b", patient()));
    let mut ids = Vec::new();
    for (n, value) in [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)] {
        let (owner, other) = if n == 1 { (&a, &b) } else { (&b, &a) };
        ids.push(id(owner.create(account(n), None, transfer(value)).await.unwrap()));
        let refused = other.create(account(n), None, transfer(99)).await;
        assert!(
            matches!(refused, Err(CreateError::Unserved(Unserved::NotOwner(Some(_))))),
            "I1: {refused:?}"
        );
    }
    cluster.mine_until_final(&ids).await;
    for id in &ids {
        let attempts = cluster.attempts(*id).await;
        assert_eq!(attempts.len(), 1);
        assert_eq!(cluster.chain.sends(attempts[0].tx_hash), 1, "sent once, by its owner");
    }
    assert_eq!(
        (cluster.paid(account(1)), cluster.paid(account(2))),
        (vec![0, 1, 2], vec![0, 1, 2])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_whose_block_left_the_chain_before_the_new_owner_came_is_not_waited_for() {
    let cluster = Cluster::pipelined().await;
    let a = cluster.node("a", options());
    let tx = id(a.create(account(1), None, transfer(1)).await.unwrap());
    cluster.until(tx, "sent", |tx| matches!(tx.row.state, TxState::Tracking(_))).await;
    cluster.chain.mine();
    cluster.until(tx, "mined", |tx| tx.mined.is_some()).await;
    a.stop().await;
    drop(a);
    // The new owner's view begins above the block that is gone.
    cluster.chain.reorg(1, Reorged::Remined);
    let _b = cluster.node("b", options());
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.paid(account(1)), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn takeover_delays_neither_creates_nor_finality_while_lookups_by_hash_hang() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let mined = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(mined[0], "was mined", |tx| tx.mined.is_some()).await;
    cluster.chain.hold(TxMatch::Value(11));
    let open = pending(&cluster, &engine, [11, 12]).await;
    engine.stop().await;
    drop(engine);
    cluster.chain.hang_hashes(true);
    let heir = cluster.node("b", patient());
    let new = tokio::time::timeout(Duration::from_secs(20), transfers(&heir, [13])).await;
    let new = new.expect("a create waits for nothing that was taken over");
    cluster.mine_until_final(&mined).await;
    for id in &open {
        let hash = cluster.attempts(*id).await[0].tx_hash;
        assert_eq!(cluster.chain.sends(hash), 1, "nothing is sent again before it was looked for");
    }
    cluster.chain.hang_hashes(false);
    cluster
        .eventually("what was taken over is sent again", async || {
            let hash = cluster.attempts(open[0]).await[0].tx_hash;
            cluster.chain.sends(hash) == 2
        })
        .await;
    cluster.chain.release(TxMatch::Value(11));
    cluster.mine_until_final(&[open, new].concat()).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13]);
}
