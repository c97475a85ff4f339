//! Full means a clear refusal: nothing grows without end, and what was taken is kept (I13, I6).

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{CreateError, EngineOptions, Unserved};
use tollgate_model::port::{AlertKind, Checkpoint};
use tollgate_model::{Intent, TxId, TxState, U256};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{Cluster, account, options, transfer, transfers};

fn narrow() -> EngineOptions {
    let mut options = EngineOptions { queued_max: 5, batch_max: 4, ..options() };
    options.nonces.window = 2;
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn create_beyond_the_queue_is_refused_and_accepted_ones_are_mined() {
    let (cluster, engine) = Cluster::with_node(narrow()).await;
    let answers = join_all((0..60).map(|n| engine.create(account(1), None, transfer(n)))).await;
    let taken: Vec<(u64, TxId)> = (0..)
        .zip(&answers)
        .filter_map(|(value, answer)| Some((value, answer.as_ref().ok()?.tx_id())))
        .collect();
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(
        refused.clone().all(|why| *why == CreateError::Unserved(Unserved::Busy)),
        "{answers:?}"
    );
    assert!(refused.count() > 0, "sixty at once are more than two slots and a queue of five");
    // At least an inbox; at most also two slots, a queue, and what is in the worker's hands.
    assert!((5..=20).contains(&taken.len()), "{} were taken", taken.len());
    let ids: Vec<TxId> = taken.iter().map(|(_, id)| *id).collect();
    cluster.mine_until_final(&ids).await;
    let mut paid = cluster.paid(account(1));
    paid.sort_unstable();
    assert!(
        paid.into_iter().eq(taken.into_iter().map(|(value, _)| value)),
        "exactly what was taken"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn window_and_queue_limit_what_one_account_may_have_open() {
    let (cluster, engine) = Cluster::with_node(narrow()).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(engine.create(account(1), None, transfer(n)).await.unwrap().tx_id());
    }
    let answer = engine.create(account(1), None, transfer(7)).await;
    assert_eq!(answer.unwrap_err(), CreateError::Unserved(Unserved::Busy));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), (0..7).collect::<Vec<_>>());
    engine.create(account(1), None, transfer(8)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_worker_fills_only_its_own_inbox() {
    let (cluster, engine) = Cluster::with_node(narrow()).await;
    // The first account's worker stands before its first signature.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::SlotsChosen);
    let first = tokio::spawn({
        let engine = engine.clone();
        async move { engine.create(account(1), None, transfer(1)).await }
    });
    hold.reached().await;
    let waiting: Vec<_> = (2..20)
        .map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.create(account(1), None, transfer(n)).await })
        })
        .collect();
    let other = engine.create(account(2), None, transfer(100)).await.unwrap().tx_id();
    cluster.mine_until_final(&[other]).await;
    hold.release();
    let mut taken = vec![first.await.unwrap().unwrap().tx_id()];
    let mut refused = 0;
    for answer in join_all(waiting).await {
        match answer.unwrap() {
            Ok(created) => taken.push(created.tx_id()),
            Err(CreateError::Unserved(Unserved::Busy)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused >= 13, "an inbox of five: {refused} were refused");
    cluster.mine_until_final(&taken).await;
    assert_eq!(cluster.paid(account(1)).len(), taken.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_full_leaves_the_others_their_own_slots() {
    let (cluster, engine) = Cluster::with_node(narrow()).await;
    cluster.chain.hold(TxMatch::To(account(9).address));
    let stuck = Intent::transfer(account(9).address, U256::from(1));
    let mut ids = vec![engine.create(account(1), None, stuck).await.unwrap().tx_id()];
    for n in 1..7 {
        ids.push(engine.create(account(1), None, transfer(n)).await.unwrap().tx_id());
    }
    assert_eq!(
        engine.create(account(1), None, transfer(7)).await,
        Err(CreateError::Unserved(Unserved::Busy))
    );
    let mut others = Vec::new();
    for n in 0..7 {
        others.push(engine.create(account(2), None, transfer(n)).await.unwrap().tx_id());
    }
    cluster.mine_until_final(&others).await;
    assert!(cluster.paid(account(1)).is_empty(), "it is stuck, and delays only its own");
    cluster.chain.release(TxMatch::To(account(9).address));
    cluster.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_queued_for_a_day_is_neither_failed_nor_dropped() {
    let (cluster, engine) = Cluster::with_node(narrow()).await;
    cluster.chain.hold(TxMatch::Value(1_000));
    let ids = transfers(&engine, 1_000..1_007).await;
    cluster.clock.advance(Duration::from_secs(24 * 3_600));
    // The worker has looked at everything when it says that somebody should look at the head.
    cluster.eventually("an alert", async || !cluster.alerts.of(AlertKind::Stuck).is_empty()).await;
    for id in &ids {
        let record = cluster.record(*id).await;
        assert!(!record.row.state.is_final(), "I6: age ends nothing: {record:?}");
    }
    assert!(cluster.feed().await.is_empty());
    cluster.chain.release(TxMatch::Value(1_000));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), (1_000..1_007).collect::<Vec<_>>());
    assert!(cluster.feed().await.iter().all(|entry| entry.state == TxState::Confirmed));
}
