//! An account that can't pay: held, told, and by itself mined after somebody has paid in.

use std::time::Duration;

use tollgate_model::answer::AnswerClass;
use tollgate_model::port::AlertKind;
use tollgate_model::{Allocated, TxState, U256};
use tollgate_testkit::fake_chain::TxMatch;

use super::{patient, transfers};
use crate::support::{Cluster, account, options};

const ETHER: u64 = 1_000_000_000_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn account_without_funds_is_held_with_an_alert_and_mined_in_order_after_funding() {
    let cluster = Cluster::pipelined().await;
    let address = account(1).address;
    let engine = cluster.node("a", options());
    let values: Vec<u64> = (0..5).map(|n| ETHER + n).collect();
    // After they are taken, most of the money goes elsewhere.
    cluster.chain.answer(TxMatch::Any, AnswerClass::InsufficientFunds, 5);
    let ids = transfers(&engine, values.clone()).await;
    cluster.chain.set_balance(address, U256::from(2 * ETHER + ETHER / 2));
    cluster
        .eventually("an alert", async || {
            cluster.chain.mine();
            !cluster.alerts.of(AlertKind::InsufficientFunds).is_empty()
        })
        .await;
    let unfinished = cluster.record(ids[4]).await;
    assert!(!unfinished.seen.state.is_final(), "{unfinished:?}");
    cluster.chain.set_balance(address, U256::from(ETHER) * U256::from(100));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), values, "in order");
    for id in ids {
        assert_eq!(cluster.record(id).await.seen.state, TxState::Confirmed);
    }
}

/// Longer than `grey_zone.timeout`.
const LONG: Duration = Duration::from_secs(700);
const UNFUNDED: TxState = TxState::Allocated(Allocated::InsufficientFunds);

#[tokio::test(flavor = "multi_thread")]
async fn lack_of_funds_is_shown_as_such_after_a_takeover() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Any, AnswerClass::InsufficientFunds, usize::MAX);
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    cluster.until(ids[0], "is held", |tx| tx.seen.state == UNFUNDED).await;
    let hash = cluster.attempts(ids[0]).await[0].tx_hash;
    engine.stop().await;
    drop(engine);
    cluster.clock.advance(LONG);
    let heir = cluster.node("b", patient());
    cluster.eventually("the new owner sends it", async || cluster.chain.sends(hash) >= 2).await;
    cluster
        .eventually("its answer is heard", async || {
            cluster.alerts.of(AlertKind::InsufficientFunds).len() == 2
        })
        .await;
    heir.reconcile(account(1)).await.unwrap();
    assert_eq!(cluster.record(ids[0]).await.seen.state, UNFUNDED);
    cluster.chain.answer_truly();
    cluster.clock.advance(Duration::from_secs(3_600 * 24));
    cluster.mine_until_final(&ids).await;
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    let history = cluster.history(ids[0]).await;
    let was_doubted = |to: TxState| to == grey || matches!(to, TxState::Stuck(_));
    assert!(!history.iter().any(|entry| was_doubted(entry.to)), "{history:?}");
}
