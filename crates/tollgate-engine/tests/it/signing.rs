//! Signatures that fail: before anything is written, so no nonce is gone (I3) and nobody else pays.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{Action, CreateError, Engine, EngineOptions, Unserved};
use tollgate_model::nonce::NonceRules;
use tollgate_model::port::{AlertKind, Checkpoint, TxRecord};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::stuck::StuckThresholds;
use tollgate_model::{Address, Failed, Intent, TxState, U256};

use crate::support::{Cluster, FaultySigner, account, act, options, patient, transfer, transfers};

fn node(cluster: &Cluster, signer: &Arc<FaultySigner>) -> Engine {
    cluster.node_signing("a", options(), signer.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_fails_takes_no_nonce() {
    let cluster = Cluster::pipelined().await;
    let signer = FaultySigner::refusing([11]);
    let engine = node(&cluster, &signer);
    let mut ids = transfers(&engine, [10]).await;
    for _ in 0..3 {
        let refused = engine.create(account(1), None, transfer(11)).await;
        assert!(
            matches!(refused, Err(CreateError::Unserved(Unserved::Unavailable(_)))),
            "{refused:?}"
        );
    }
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 1, "I3: no nonce is gone");
    ids.extend(transfers(&engine, [12]).await);
    signer.refuse_nothing();
    ids.extend(transfers(&engine, [11]).await);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 12, 11], "no hole");
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_that_cannot_be_signed_fails_alone_in_its_batch() {
    let cluster = Cluster::pipelined().await;
    let engine = node(&cluster, &FaultySigner::refusing([12, 15]));
    // The rest of them wait together while the first one is on its way.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::SlotsChosen);
    let first = tokio::spawn({
        let engine = engine.clone();
        async move { engine.create(account(1), None, transfer(10)).await }
    });
    hold.reached().await;
    let others = (11..18).map(|value| engine.create(account(1), None, transfer(value)));
    let (answers, ()) = tokio::join!(join_all(others), async { hold.release() });
    let mut ids = vec![first.await.unwrap().unwrap().tx_id()];
    for (value, answer) in (11..).zip(answers) {
        match answer {
            Ok(created) => ids.push(created.tx_id()),
            Err(CreateError::Unserved(Unserved::Unavailable(_))) => {
                assert!(value == 12 || value == 15, "{value}")
            }
            Err(error) => panic!("{value}: {error}"),
        }
    }
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 13, 14, 16, 17]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_transaction_that_cannot_be_signed_can_be_cancelled() {
    let cluster = Cluster::pipelined().await;
    let signer = FaultySigner::refusing([11]);
    let mut narrow = options();
    narrow.nonces.window = 1;
    let engine = cluster.node_signing("a", narrow, signer);
    let ids = transfers(&engine, [10, 11, 12]).await;
    cluster.mine_until_final(&ids[..1]).await;
    cluster
        .eventually("people are told", async || !cluster.alerts.of(AlertKind::Unsigned).is_empty())
        .await;
    assert_eq!(cluster.alerts.of(AlertKind::Unsigned)[0].tx_id, Some(ids[1]));
    let noted = |tx: &TxRecord| tx.last_error.as_ref().map(|error| error.as_str().to_owned());
    cluster.until(ids[1], "says why", |tx| noted(tx).is_some()).await;
    let why = noted(&cluster.record(ids[1]).await).unwrap();
    assert!(why.contains("the key is in another castle"), "{why}");
    let acted = crate::support::act(&engine, ids[1], tollgate_engine::Action::Cancel).await;
    assert_eq!(acted, Ok(tollgate_engine::Acted::Withdrawn));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[1]).await.row.state, TxState::Failed(Failed::Cancelled));
    assert_eq!(cluster.paid(account(1)), [10, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn freed_slot_whose_filler_is_cancelled_raises_an_alert_and_is_closed_by_a_placeholder() {
    let cluster = Cluster::pipelined().await;
    let bad = Address::repeat_byte(0xba);
    cluster.chain.reject_calls_to(bad);
    let minute = Duration::from_secs(60);
    let base = EngineOptions { rejected_slot: RejectedSlot::Recycle, ..patient() };
    let nonces = NonceRules { window: 2, ..base.nonces };
    let stuck = StuckThresholds { head_after: minute, ..base.stuck };
    let options = EngineOptions { nonces, stuck, ..base };
    let engine = cluster.node_signing("a", options, FaultySigner::refusing([12]));
    // The first one is rejected when the second has a slot and the third waits for one.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::Sending);
    let intent = Intent { gas: Some(21_000), ..Intent::transfer(bad, U256::from(1)) };
    let rejected = engine.create(account(1), None, intent).await.unwrap().tx_id();
    hold.reached().await;
    let ids = transfers(&engine, [11, 12]).await;
    hold.release();
    let ended = TxState::Failed(Failed::Rejected);
    cluster.until(rejected, "ended", |tx| tx.row.state == ended).await;
    act(&engine, ids[1], Action::Cancel).await.unwrap();
    cluster
        .eventually("people are told", async || !cluster.alerts.of(AlertKind::Hole).is_empty())
        .await;
    cluster.clock.advance(minute);
    cluster.mine_until_final(&ids[..1]).await;
    assert_eq!(cluster.paid(account(1)), [0, 11]);
}
