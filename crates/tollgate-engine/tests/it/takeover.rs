//! Two nodes: the death of one is harmless.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::CreateError;
use tollgate_model::TxState;

use crate::rig::{Rig, account, id, options, request, transfer};
use tollgate_testkit::fake_chain::Fate;

/// A node on a runtime of its own, so that it can die as a whole, at whatever it is doing.
fn doomed(rig: &Rig, count: u64) -> (tokio::runtime::Runtime, Vec<tollgate_model::TxId>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ids = runtime.block_on(async {
        let engine = rig.node("doomed", options());
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
    let _heir = rig.node("heir", options());
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
    let Err(CreateError::NotOwner(Some(owner))) = refused else { panic!("{refused:?}") };
    assert!(owner.node.as_str().starts_with("a/"));
    a.stop().await;
    drop(a);
    // The lease is free now: whoever asks next owns.
    let second = loop {
        match b.create(account(1), None, transfer(1)).await {
            Ok(created) => break id(created),
            Err(CreateError::NotOwner(_) | CreateError::Unavailable(_)) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    rig.mine_until_final(&[first, second]).await;
    assert_eq!(rig.paid(account(1)), [0, 1]);
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
