//! Two nodes: the death of one is harmless.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{Action, CreateError, Unserved};
use tollgate_model::TxState;
use tollgate_model::answer::AnswerClass;
use tollgate_testkit::fake_chain::{Fate, Which};

use crate::govern::{PENDING, patient, sign, transfers};
use crate::rig::{Rig, account, hasty, id, options, request, transfer};

/// A node on a runtime of its own, so that it can die as a whole, at whatever it is doing.
fn doomed(rig: &Rig, count: u64) -> (tokio::runtime::Runtime, Vec<tollgate_model::TxId>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ids = runtime.block_on(async {
        let engine = rig.node("doomed", hasty());
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
    let rig = std::sync::Arc::new(Rig::new().await);
    let at = rig.clone();
    let (runtime, ids) = tokio::task::spawn_blocking(move || doomed(&at, 100)).await.unwrap();
    runtime.shutdown_background();
    let _heir = rig.node("heir", hasty());
    rig.mine_until_final(&ids).await;
    let mut paid = rig.paid(account(1));
    paid.sort_unstable();
    assert!(paid.into_iter().eq(0..100), "each once, none lost");
    assert!(rig.feed().await.iter().all(|entry| entry.state == TxState::Confirmed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_own_says_who_does_and_a_graceful_stop_hands_over_at_once() {
    let rig = Rig::new().await;
    let (a, b) = (rig.node("a", options()), rig.node("b", options()));
    let first = id(a.create(account(1), None, transfer(0)).await.unwrap());
    let refused = b.create(account(1), None, transfer(1)).await;
    let Err(CreateError::Unserved(Unserved::NotOwner(Some(owner)))) = refused else {
        panic!("{refused:?}")
    };
    assert!(owner.node.as_str().starts_with("a/"));
    a.stop().await;
    drop(a);
    // The lease is free now: whoever asks next owns.
    let second = loop {
        match b.create(account(1), None, transfer(1)).await {
            Ok(created) => break id(created),
            Err(CreateError::Unserved(Unserved::NotOwner(_) | Unserved::Unavailable(_))) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    rig.mine_until_final(&[first, second]).await;
    assert_eq!(rig.paid(account(1)), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_was_never_sent_is_not_given_to_another_after_a_restart() {
    let rig = Rig::new().await;
    // No node takes anything: the chain counts nothing of what has a slot.
    rig.chain.answer(Which::Any, AnswerClass::Transient, usize::MAX);
    let engine = rig.node("a", options());
    let mut ids = transfers(&engine, [10, 11]).await;
    engine.stop().await;
    let engine = rig.node("b", options());
    ids.extend(transfers(&engine, [12]).await);
    assert_eq!(rig.chain.pooled(), 0);
    for (nonce, id) in (0..).zip(&ids) {
        assert_eq!(rig.record(*id).await.nonce.unwrap().get(), nonce, "I3");
    }
    rig.chain.answer_truly();
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_attempt_that_is_mined_while_nobody_looks_is_recognised() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let tx = transfers(&engine, [10]).await[0];
    rig.until(tx, "was with a node", |tx| tx.seen.state == PENDING).await;
    // The pool keeps the older one.
    rig.chain.answer_next(AnswerClass::ReplacementUnderpriced);
    sign(&rig, &engine, tx, Action::SpeedUp).await;
    engine.stop().await;
    for _ in 0..5 {
        rig.chain.mine();
    }
    let _heir = rig.node("b", patient());
    rig.until(tx, "ended", |tx| tx.seen.state.is_final()).await;
    let record = rig.record(tx).await;
    assert_eq!(record.seen.state, TxState::Confirmed);
    let attempts = rig.attempts(tx).await;
    assert_eq!(attempts.len(), 2);
    assert_eq!(record.mined.unwrap().tx_hash, attempts[0].tx_hash, "the one that was mined");
    assert_eq!(rig.paid(account(1)), [10], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_at_work_one_sends_what_an_account_has() {
    let rig = Rig::new().await;
    let (a, b) = (rig.node("a", patient()), rig.node("b", patient()));
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
    rig.mine_until_final(&ids).await;
    for id in &ids {
        let attempts = rig.attempts(*id).await;
        assert_eq!(attempts.len(), 1);
        assert_eq!(rig.chain.sends(attempts[0].tx_hash), 1, "sent once, by its owner");
    }
    assert_eq!((rig.paid(account(1)), rig.paid(account(2))), (vec![0, 1, 2], vec![0, 1, 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_whose_block_left_the_chain_before_the_new_owner_came_is_not_waited_for() {
    let rig = Rig::new().await;
    let a = rig.node("a", options());
    let tx = id(a.create(account(1), None, transfer(1)).await.unwrap());
    rig.until(tx, "sent", |tx| matches!(tx.seen.state, TxState::Tracking(_))).await;
    rig.chain.mine();
    rig.until(tx, "mined", |tx| tx.mined.is_some()).await;
    a.stop().await;
    drop(a);
    // The new owner's view begins above the block that is gone.
    rig.chain.reorg(1, Fate::BackInTheChain);
    let _b = rig.node("b", options());
    rig.mine_until_final(&[tx]).await;
    assert_eq!(rig.record(tx).await.seen.state, TxState::Confirmed);
    assert_eq!(rig.paid(account(1)), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn takeover_delays_neither_creates_nor_finality_while_lookups_by_hash_hang() {
    let rig = Rig::new().await;
    let engine = rig.node("a", patient());
    let mined = transfers(&engine, [10]).await;
    rig.until(mined[0], "was with a node", |tx| tx.seen.state == PENDING).await;
    rig.chain.mine();
    rig.until(mined[0], "was mined", |tx| tx.mined.is_some()).await;
    rig.chain.hold(Which::Value(11));
    let open = transfers(&engine, [11, 12]).await;
    for id in &open {
        rig.until(*id, "was with a node", |tx| tx.seen.state == PENDING).await;
    }
    engine.stop().await;
    drop(engine);
    rig.chain.hang_hashes(true);
    let heir = rig.node("b", patient());
    let new = tokio::time::timeout(Duration::from_secs(20), transfers(&heir, [13])).await;
    let new = new.expect("a create waits for nothing that was taken over");
    rig.mine_until_final(&mined).await;
    for id in &open {
        let hash = rig.attempts(*id).await[0].tx_hash;
        assert_eq!(rig.chain.sends(hash), 1, "nothing is sent again before it was looked for");
    }
    rig.chain.hang_hashes(false);
    rig.eventually("what was taken over is sent again", async || {
        let hash = rig.attempts(open[0]).await[0].tx_hash;
        rig.chain.sends(hash) == 2
    })
    .await;
    rig.chain.release(Which::Value(11));
    rig.mine_until_final(&[open, new].concat()).await;
    assert_eq!(rig.paid(account(1)), [10, 11, 12, 13]);
}
