//! A cancellation in the slot of what waits in a pool: whichever of the two is mined decides.

use tollgate_engine::{Acted, Action};
use tollgate_model::TxState;
use tollgate_model::port::{AttemptKind, Checkpoint};
use tollgate_testkit::PausePoints;

use super::check::CANCELLED;
use super::support::{Pipeline, account, is_mined, patient};
use crate::support::act;

everywhere! {
    cancel_of_a_pending_transaction_closes_its_slot_and_successors_are_mined,
    an_intent_that_is_mined_before_its_cancellation_is_sent_is_confirmed,
    a_cancellation_that_is_mined_before_its_answer_is_known_cancels,
}

async fn cancel_of_a_pending_transaction_closes_its_slot_and_successors_are_mined(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", patient()).await;
    let mut sent = pipeline.pending(&engine, account(0), 10..15).await;
    let hash = pipeline.sign(&engine, sent[1].id, Action::Cancel).await;
    assert_eq!(act(&engine, sent[1].id, Action::Cancel).await, Ok(Acted::UnderWay));
    sent[1] = sent[1].cancelled();
    pipeline.mine_until_final(&sent).await;
    let mined = pipeline.verify(account(0), &sent).await;
    assert!(mined.iter().map(|tx| tx.value).eq([10, 0, 12, 13, 14]), "in order: {mined:?}");
    let record = pipeline.record(sent[1].id).await;
    assert_eq!(record.mined.unwrap().tx_hash, hash, "the record says which was mined");
    let kinds: Vec<_> = pipeline.attempts(sent[1].id).await.iter().map(|a| a.kind).collect();
    assert_eq!(kinds, [AttemptKind::Intent, AttemptKind::Cancellation]);
}

async fn an_intent_that_is_mined_before_its_cancellation_is_sent_is_confirmed(pipeline: Pipeline) {
    let checkpoints = PausePoints::new();
    let engine = pipeline.watched_node("a", patient(), checkpoints.clone()).await;
    let sent = pipeline.pending(&engine, account(0), [10, 11]).await;
    let mut hold = checkpoints.pause_at(Checkpoint::ActionClaimed);
    let (asked, tx) = (engine.clone(), sent[0].id);
    let cancel = tokio::spawn(async move { act(&asked, tx, Action::Cancel).await });
    hold.reached().await;
    let attempts = pipeline.attempts(sent[0].id).await;
    assert_eq!(attempts.len(), 2, "I11: claimed before it is sent");
    pipeline.chain.mine(1).await;
    hold.release();
    assert_eq!(cancel.await.unwrap(), Ok(Acted::Signed(attempts[1].tx_hash)));
    pipeline.finish(account(0), &sent).await;
    let record = pipeline.record(sent[0].id).await;
    assert_eq!(record.row.state, TxState::Confirmed, "it was too late");
    assert_eq!(record.mined.unwrap().tx_hash, attempts[0].tx_hash);
}

async fn a_cancellation_that_is_mined_before_its_answer_is_known_cancels(pipeline: Pipeline) {
    let checkpoints = PausePoints::new();
    let engine = pipeline.watched_node("a", patient(), checkpoints.clone()).await;
    let mut sent = pipeline.pending(&engine, account(0), [10, 11]).await;
    let mut hold = checkpoints.pause_at(Checkpoint::NodeAnswered);
    let acted = act(&engine, sent[0].id, Action::Cancel).await;
    let Ok(Acted::Signed(hash)) = acted else { panic!("{acted:?}") };
    hold.reached().await;
    pipeline.chain.mine(1).await;
    pipeline.until(sent[0].id, "mined", is_mined).await;
    hold.release();
    sent[0] = sent[0].cancelled();
    pipeline.finish(account(0), &sent).await;
    let record = pipeline.record(sent[0].id).await;
    assert_eq!(record.row.state, CANCELLED);
    assert_eq!(record.mined.unwrap().tx_hash, hash);
}
