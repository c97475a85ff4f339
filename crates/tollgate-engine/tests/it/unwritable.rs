//! Transactions that can't be written fail alone, are seen, and stop no line (I14).

use std::sync::Arc;

use futures_util::future::join_all;
use tollgate_engine::{ActError, Acted, Action, CreateError, Engine, Unserved};
use tollgate_model::port::{AlertKind, Checkpoint};
use tollgate_model::{StuckReason, TxState};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{
    Cluster, FaultySigner, PENDING, account, act, id, options, patient, pending, transfer,
    transfers,
};

const UNWRITABLE: TxState = TxState::Stuck(StuckReason::Unwritable);

/// A transfer of this much is signed as nothing at all, which no store takes.
const BAD: u64 = 666;

fn node(cluster: &Cluster, signer: &Arc<FaultySigner>) -> Engine {
    cluster.node_signing("a", patient(), signer.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_cannot_be_written_fails_alone_and_takes_no_nonce() {
    let cluster = Cluster::pipelined().await;
    let engine = node(&cluster, &FaultySigner::signing_nothing_for([BAD]));
    let mut ids = transfers(&engine, [0]).await;
    // Everything else comes in one batch, with the neighbours of other accounts.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::BatchWritten);
    let first = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.create(account(1), None, transfer(1)).await })
    };
    hold.reached().await;
    let values = [2, 3, BAD, 4, 5, 6, 7];
    let creates = values.map(|value| engine.create(account(1), None, transfer(value)));
    let others = [2, 3].map(|n| engine.create(account(n), None, transfer(9)));
    let (answers, others) = {
        let all = async { tokio::join!(join_all(creates), join_all(others)) };
        let release = async {
            tokio::task::yield_now().await;
            hold.release();
        };
        tokio::join!(all, release).0
    };
    ids.push(id(first.await.unwrap().unwrap()));
    let mut expected = vec![0, 1];
    for (value, answer) in values.into_iter().zip(answers) {
        match (value, answer) {
            (BAD, answer) => {
                assert!(matches!(answer, Err(CreateError::Invalid(_))), "{answer:?}");
            }
            (value, answer) => {
                ids.push(id(answer.unwrap()));
                expected.push(value);
            }
        }
    }
    ids.extend(others.into_iter().map(|answer| id(answer.unwrap())));
    cluster.mine_until_final(&ids).await;
    let mut paid = cluster.paid(account(1));
    paid.sort_unstable();
    assert_eq!(paid, expected, "each once, and no nonce is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn change_that_cannot_be_written_marks_its_transaction_stuck_and_no_other() {
    let cluster = Cluster::pipelined().await;
    let signer = FaultySigner::signing_nothing_for([BAD]);
    let engine = node(&cluster, &signer);
    cluster.chain.hold(TxMatch::Value(10));
    let ids = pending(&cluster, &engine, [10, 11]).await;
    signer.fail_always(true);
    let refused = act(&engine, ids[0], Action::SpeedUp).await;
    assert!(matches!(refused, Err(ActError::Unserved(Unserved::Unavailable(_)))), "{refused:?}");
    signer.fail_always(false);
    cluster.until(ids[0], "is stuck", |tx| tx.row.state == UNWRITABLE).await;
    let record = cluster.record(ids[0]).await;
    assert_eq!(record.attempts, 1, "I5: nothing of it is kept, and nothing was sent");
    assert!(record.last_error.unwrap().as_str().contains("rawTx"));
    let told = cluster.alerts.of(AlertKind::Stuck);
    assert!(told.iter().any(|alert| alert.tx_id == Some(ids[0])), "{told:?}");
    assert_eq!(cluster.record(ids[1]).await.row.state, PENDING, "its neighbour goes on");
    // A person has it sent again, and evidence still moves it.
    let resent = async || act(&engine, ids[0], Action::Resubmit).await == Ok(Acted::Resent);
    cluster.eventually("it is sent again", resent).await;
    cluster.chain.release(TxMatch::Value(10));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn estimate_that_no_store_can_hold_is_the_nodes_trouble_and_leaves_nothing_behind() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut ids = transfers(&engine, [0]).await;
    cluster.chain.set_estimate(u64::MAX);
    for _ in 0..3 {
        let refused = engine.create(account(1), None, transfer(1)).await;
        assert!(
            matches!(refused, Err(CreateError::Unserved(Unserved::Unavailable(_)))),
            "{refused:?}"
        );
    }
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 1);
    // A slot is closed all the same, by the gas that such a transfer takes.
    cluster.chain.hold(TxMatch::Value(0));
    cluster
        .until(ids[0], "was with a node", |tx| matches!(tx.row.state, TxState::Tracking(_)))
        .await;
    let cancelled = act(&engine, ids[0], Action::Cancel).await;
    assert!(matches!(cancelled, Ok(Acted::Signed(_))), "{cancelled:?}");
    let closing = cluster.attempts(ids[0]).await.pop().unwrap();
    assert_eq!(closing.fees.gas_limit, 21_000);
    cluster.chain.release(TxMatch::Value(0));
    cluster.chain.set_estimate(21_000);
    ids.extend(transfers(&engine, [1]).await);
    cluster.mine_until_final(&ids).await;
}
