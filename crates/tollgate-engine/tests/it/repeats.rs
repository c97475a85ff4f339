//! A repeat of an accepted request is answered with its transaction, whatever the chain, the queue, the
//! lease and the keys of the asked node are like (I7).

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{
    CreateError, Created, Engine, EngineOptions, PendingCreate, Simulated, Unserved,
};
use tollgate_model::port::Checkpoint;
use tollgate_model::{Intent, TxId, U256};
use tollgate_testkit::fake_chain::{FakeSigner, Query};
use tollgate_testkit::wait::within;

use crate::signed::signed;
use crate::support::{Cluster, account, create_signed, options, request, transfer};

fn with_gas(value: u64) -> Intent {
    Intent { gas: Some(30_000), ..transfer(value) }
}

/// A node that accepted an intent with gas, one without, and a signed transaction without a request id.
async fn accepted(cluster: &Cluster, options: EngineOptions) -> (Engine, [TxId; 3]) {
    let engine = cluster.node("a", options);
    let of = account(1);
    let given = engine.create(of, request("given"), with_gas(10)).await.unwrap();
    let open = engine.create(of, request("open"), transfer(11)).await.unwrap();
    let signed = create_signed(&engine, of, None, signed(2, 12).await).await.unwrap();
    (engine, [given, open, signed].map(|created| created.tx_id()))
}

/// Repeats all three at a node.
async fn assert_known(engine: &Engine, ids: &[TxId; 3]) {
    let of = account(1);
    let given = engine.create(of, request("given"), with_gas(10)).await;
    let open = engine.create(of, request("open"), transfer(11)).await;
    let raw = create_signed(engine, of, None, signed(2, 12).await).await;
    assert_eq!([given, open, raw], ids.map(|id| Ok(Created::Known(id))));
    let simulated = engine.simulate(of, request("given"), with_gas(10)).await;
    assert_eq!(simulated, Ok(Simulated::Known(ids[0])));
    let conflict = engine.create(of, request("given"), with_gas(99)).await;
    assert!(matches!(conflict, Err(CreateError::RequestIdConflict(_))), "{conflict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_with_a_full_queue_is_known() {
    let cluster = Cluster::pipelined().await;
    let narrow = EngineOptions { queued_max: 5, ..options() };
    let (engine, ids) = accepted(&cluster, narrow).await;
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::SlotsChosen);
    let create = |n: u64| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.create(account(1), None, with_gas(n)).await })
    };
    let mut waiting = vec![create(20)];
    hold.reached().await;
    // The worker stands still: five fill its queue, the sixth is refused.
    let mut refused = None;
    for n in 21..27 {
        let prepared = engine.prepare(account(1), None, with_gas(n)).await.unwrap();
        let pending = engine.submit(prepared);
        if let PendingCreate::Decided(Err(why)) = pending {
            refused = Some(why);
        } else {
            waiting.push(tokio::spawn(pending.decided()));
        }
    }
    assert_eq!(refused, Some(CreateError::Unserved(Unserved::Busy)));
    assert_known(&engine, &ids).await;
    hold.release();
    for created in waiting {
        created.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_that_was_looked_up_before_the_first_was_durable_is_known_and_not_refused() {
    let cluster = Cluster::pipelined().await;
    let engine = cluster.node("a", options());
    let of = account(1);
    // Its worker owns the account before both are looked up.
    engine.create(of, request("other"), with_gas(1)).await.unwrap();
    let [first, repeat, other, conflict] = [
        engine.prepare(of, request("a"), with_gas(2)).await.unwrap(),
        engine.prepare(of, request("a"), with_gas(2)).await.unwrap(),
        engine.prepare(of, request("b"), with_gas(2)).await.unwrap(),
        engine.prepare(of, request("a"), with_gas(3)).await.unwrap(),
    ];
    let first = engine.submit(first).decided().await.unwrap();
    cluster.chain.set_balance(of.address, U256::ZERO);
    cluster.clock.advance(Duration::from_secs(11));
    let refused = engine.submit(other).decided().await;
    assert!(matches!(refused, Err(CreateError::Refused(_))), "the account is poor: {refused:?}");
    let repeat = engine.submit(repeat).decided().await;
    assert_eq!(repeat, Ok(Created::Known(first.tx_id())), "I7: whatever the account can pay");
    let conflict = engine.submit(conflict).decided().await;
    assert!(matches!(conflict, Err(CreateError::RequestIdConflict(_))), "{conflict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_that_was_looked_up_under_an_earlier_owner_is_known_and_not_refused() {
    let cluster = Cluster::pipelined().await;
    let engine = cluster.node("a", options());
    let of = account(1);
    let repeat = engine.prepare(of, request("a"), with_gas(2)).await.unwrap();
    let before = cluster.node("b", options());
    let first = before.create(of, request("a"), with_gas(2)).await.unwrap();
    before.stop().await;
    cluster.chain.set_balance(of.address, U256::ZERO);
    let repeat = engine.submit(repeat).decided().await;
    assert_eq!(repeat, Ok(Created::Known(first.tx_id())), "I7: its worker remembers nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_while_the_chain_hangs_or_fails_is_known() {
    let cluster = Cluster::pipelined().await;
    let (engine, ids) = accepted(&cluster, options()).await;
    cluster.chain.stall(account(1).address, true);
    cluster.chain.fail(Query::Counts(account(1).address), true);
    within("answers of the owner", assert_known(&engine, &ids)).await;
    // A node that has yet to recover what the other one left.
    cluster.chain.stall(account(1).address, false);
    engine.stop().await;
    cluster.chain.stall(account(1).address, true);
    let next = cluster.node("b", options());
    within("answers of the next owner", assert_known(&next, &ids)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_at_a_node_that_neither_owns_nor_signs_is_known() {
    let cluster = Cluster::pipelined().await;
    let (_owner, ids) = accepted(&cluster, options()).await;
    assert_known(&cluster.node("b", options()), &ids).await;
    let keyless = Arc::new(FakeSigner(Vec::new()));
    let keyless = cluster.node_signing("c", options(), keyless);
    assert_known(&keyless, &ids).await;
    let new = keyless.create(account(1), request("new"), with_gas(10)).await;
    assert_eq!(new, Err(CreateError::Unserved(Unserved::UnknownSubmitter)));
    keyless.stop().await;
    assert_known(&keyless, &ids).await;
}
