//! Cancelling: at once without a slot, by a transfer to self with one; whichever is mined decides.

use tollgate_engine::{ActError, Acted, Action};
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::policy::Replacement;
use tollgate_model::port::{AttemptKind, Checkpoint};
use tollgate_model::stuck::Forbidden;
use tollgate_model::{Allocated, Failed, GasPrice, TxState};
use tollgate_testkit::fake_chain::TxMatch;

use crate::support::{
    Cluster, MINED, PENDING, account, act, options, patient, pending, sign, transfers, window,
};

const CANCELLED: TxState = TxState::Failed(Failed::Cancelled);

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_queued_transaction_ends_it_at_once_without_a_nonce() {
    let (cluster, engine) = Cluster::with_node(window(1)).await;
    let ids = transfers(&engine, [10, 11, 12]).await;
    assert_eq!(act(&engine, ids[1], Action::Cancel).await, Ok(Acted::Withdrawn));
    let record = cluster.record(ids[1]).await;
    assert_eq!((record.row.state, record.nonce), (CANCELLED, None));
    cluster.mine_until_final(&[ids[0], ids[2]]).await;
    assert_eq!(cluster.paid(account(1)), [10, 12], "the next one has the nonce");
    let again = act(&engine, ids[1], Action::Cancel).await;
    assert_eq!(again, Err(ActError::Forbidden(Forbidden::Final)));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_possibly_sent_transaction_closes_its_slot_by_a_self_transfer() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::Transient, 4);
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    cluster.until(ids[0], "went grey", |tx| tx.row.state == grey).await;
    sign(&cluster, &engine, ids[0], Action::Cancel).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, CANCELLED);
    assert_eq!(cluster.paid(account(1)), [0], "nothing was paid, and the slot is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_pooled_transaction_replaces_it_and_successors_are_mined() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = pending(&cluster, &engine, 10..15).await;
    let hash = sign(&cluster, &engine, ids[1], Action::Cancel).await;
    cluster.mine_until_final(&ids).await;
    let record = cluster.record(ids[1]).await;
    assert_eq!(record.row.state, CANCELLED);
    assert_eq!(record.mined.unwrap().tx_hash, hash, "the record says which was mined");
    assert_eq!(cluster.paid(account(1)), [10, 0, 12, 13, 14]);
    let kinds: Vec<_> = cluster.attempts(ids[1]).await.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [AttemptKind::Intent, AttemptKind::Cancellation]);
    assert_eq!(cluster.feed().await.len(), 5, "an end each, once");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_mined_transaction_is_refused() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.row.state == MINED).await;
    let refused = act(&engine, ids[0], Action::Cancel).await;
    assert_eq!(refused, Err(ActError::Forbidden(Forbidden::Mined)));
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.attempts(ids[0]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_racing_with_mining_is_decided_by_the_block() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[1], "was with a node", |tx| tx.row.state == PENDING).await;
    let intent = cluster.attempts(ids[0]).await[0].tx_hash;
    // The cancellation is durable, and before it is sent the intent is mined.
    let mut hold = cluster.checkpoints.pause_at(Checkpoint::ActionClaimed);
    let (engine2, tx) = (engine.clone(), ids[0]);
    let cancel = tokio::spawn(async move { act(&engine2, tx, Action::Cancel).await });
    hold.reached().await;
    cluster.chain.mine();
    hold.release();
    assert!(matches!(cancel.await.unwrap(), Ok(Acted::Signed(_))));
    cluster.mine_until_final(&ids).await;
    let record = cluster.record(ids[0]).await;
    assert_eq!(record.row.state, TxState::Confirmed, "it was too late");
    assert_eq!(record.mined.unwrap().tx_hash, intent);
    assert_eq!(cluster.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_cancel_signs_nothing_and_the_cancel_can_be_sped_up() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = pending(&cluster, &engine, [10]).await;
    sign(&cluster, &engine, ids[0], Action::Cancel).await;
    assert_eq!(act(&engine, ids[0], Action::Cancel).await, Ok(Acted::UnderWay));
    assert_eq!(cluster.attempts(ids[0]).await.len(), 2);
    sign(&cluster, &engine, ids[0], Action::SpeedUp).await;
    let attempts = cluster.attempts(ids[0]).await;
    assert_eq!(attempts[2].kind, AttemptKind::Cancellation, "it stays cancelled");
    assert!(attempts[2].fees.max_fee > attempts[1].fees.max_fee);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, CANCELLED);
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_and_their_reasons_are_in_the_history() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let ids = pending(&cluster, &engine, [10]).await;
    act(&engine, ids[0], Action::Cancel).await.unwrap();
    let history = cluster.history(ids[0]).await;
    let entry = history.iter().find(|entry| entry.event == "cancel").unwrap();
    let words: serde_json::Value =
        serde_json::from_str(entry.detail.as_ref().unwrap().as_str()).unwrap();
    assert_eq!(words["by"], "operator");
    assert_eq!(words["action"], "cancel");
    assert_eq!(words["reason"], "a test wants it");
    assert_eq!(words["nonce"], 0);
    assert_eq!(words["submitter"], account(1).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_refused_everywhere_as_too_high_is_cancelled_below_its_price() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::FeeTooHigh, usize::MAX);
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    cluster
        .eventually("it was refused", async || cluster.record(ids[0]).await.last_error.is_some())
        .await;
    sign(&cluster, &engine, ids[0], Action::SpeedUp).await;
    cluster.eventually("it was refused", async || cluster.chain.all_sends() == 2).await;
    let prices: Vec<_> = cluster.attempts(ids[0]).await.iter().map(|it| it.fees.max_fee).collect();
    assert!(prices[1] < prices[0], "what no pool has need not be beaten: {prices:?}");
    sign(&cluster, &engine, ids[0], Action::Cancel).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, CANCELLED);
    let attempts = cluster.attempts(ids[0]).await;
    assert_eq!(attempts.len(), 3, "I5: every form is kept");
    assert!(attempts[2].fees.max_fee <= prices[0], "{attempts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_refused_everywhere_as_too_high_need_not_be_outbid() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::FeeTooHigh, 1);
    let absurd = GasPrice::from_wei(900_000_000_000).unwrap();
    let with = Replacement { max_fee_per_gas: Some(absurd), ..Replacement::default() };
    let hash = sign(&cluster, &engine, ids[0], Action::Replace(with)).await;
    let heard = async || cluster.record(ids[0]).await.last_error.is_some();
    cluster.eventually("it was refused", heard).await;
    assert_eq!(cluster.chain.pooled_from(account(1).address).len(), 1, "the first one stands");
    sign(&cluster, &engine, ids[0], Action::SpeedUp).await;
    let attempts = cluster.attempts(ids[0]).await;
    let prices: Vec<_> = attempts.iter().map(|it| it.fees.max_fee).collect();
    assert!(prices[2] > prices[0] && prices[2] < absurd, "{prices:?}");
    cluster.mine_until_final(&ids).await;
    let mined = cluster.record(ids[0]).await.mined.unwrap().tx_hash;
    assert_eq!(mined, attempts[2].tx_hash);
    assert_ne!(mined, hash);
}

/// The price of the second form, where one was signed.
async fn prices(cluster: &Cluster, tx: tollgate_model::TxId) -> Vec<GasPrice> {
    cluster.attempts(tx).await.iter().map(|attempt| attempt.fees.max_fee).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_as_too_high_after_a_lost_answer_leaves_a_form_that_must_be_beaten() {
    let cluster = Cluster::pipelined().await;
    // The answer to the first send is lost, and the second is refused.
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::Unknown, 1);
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::FeeTooHigh, 1);
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    cluster
        .eventually("it was refused", async || cluster.record(ids[0]).await.last_error.is_some())
        .await;
    sign(&cluster, &engine, ids[0], Action::SpeedUp).await;
    let prices = prices(&cluster, ids[0]).await;
    assert!(prices[1] > prices[0], "a pool may hold the first: {prices:?}");
    cluster.mine_until_final(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn form_that_was_taken_over_must_be_beaten_though_it_is_refused_as_too_high() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::Unknown, 1);
    cluster.chain.answer(TxMatch::Value(10), AnswerClass::FeeTooHigh, 2);
    let engine = cluster.node("a", patient());
    let ids = transfers(&engine, [10]).await;
    cluster
        .eventually("it was refused", async || cluster.record(ids[0]).await.last_error.is_some())
        .await;
    let hash = cluster.attempts(ids[0]).await[0].tx_hash;
    engine.stop().await;
    drop(engine);
    let before = cluster.chain.sends(hash);
    let heir = cluster.node("b", patient());
    cluster.eventually("the new owner sends it", async || cluster.chain.sends(hash) > before).await;
    // The answer is taken notice of before the order.
    cluster
        .eventually("its answer is heard", async || {
            cluster.alerts.of(tollgate_model::port::AlertKind::FeeCap).len() == 2
        })
        .await;
    sign(&cluster, &heir, ids[0], Action::SpeedUp).await;
    let prices = prices(&cluster, ids[0]).await;
    assert!(prices[1] > prices[0], "a pool may hold the first: {prices:?}");
    cluster.mine_until_final(&ids).await;
}
