//! A defect kills an actor: it is started again, and nothing is lost or done twice.

use std::pin::pin;

use futures_util::future::join_all;
use futures_util::poll;
use tollgate_engine::{ActError, Acted, Action, Unserved};
use tollgate_model::port::{AttemptKind, Checkpoint};
use tollgate_model::{Failed, Intent, TxState};

use tollgate_testkit::wait::within;

use crate::support::{Cluster, account, act, options, patient, pending, request, transfer};

/// Lets an actor die at a place in the life of five transactions; callers that got no answer ask
/// again under the same request id.
async fn die_at(at: Checkpoint) {
    let (cluster, engine) = Cluster::with_node(options()).await;
    cluster.checkpoints.panic_at(at);
    let ask = |n: u64| {
        let engine = &engine;
        async move {
            let name = format!("order-{n}");
            loop {
                match engine.create(account(1), request(&name), transfer(n)).await {
                    Ok(created) => return created.tx_id(),
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        }
    };
    let ids = join_all((0..5).map(ask)).await;
    cluster.mine_until_final(&ids).await;
    // The last place is passed after the last entry of the feed was written.
    within(&format!("a death at {at:?}"), async {
        while engine.deaths() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut paid = cluster.paid(account(1));
    paid.sort_unstable();
    assert_eq!(paid, [0, 1, 2, 3, 4], "each exactly once");
    let feed = cluster.feed().await;
    assert_eq!(feed.len(), 5);
    assert!(feed.iter().all(|entry| entry.state == TxState::Confirmed));
}

/// Lets an actor die while one of five transactions is cancelled; whoever got no answer asks again.
async fn die_in_a_cancel_at(at: Checkpoint) {
    let cluster = Cluster::pipelined().await;
    // What a sender had in its hands is sent again when its time comes; nothing else has to be.
    let options = if at == Checkpoint::Sending { options() } else { patient() };
    let engine = cluster.node("a", options);
    let ids = pending(&cluster, &engine, 0..5).await;
    cluster.checkpoints.panic_at(at);
    let acted = loop {
        match act(&engine, ids[2], Action::Cancel).await {
            Ok(acted) => break acted,
            Err(ActError::Unserved(Unserved::Unavailable(_))) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(matches!(acted, Acted::Signed(_) | Acted::UnderWay), "{acted:?}");
    let newest = cluster.attempts(ids[2]).await.pop().unwrap();
    assert_eq!(newest.kind, AttemptKind::Cancellation, "what is answered is durable");
    cluster.eventually("it is handed over", async || cluster.chain.sends(newest.tx_hash) > 0).await;
    cluster.eventually("a death", async || engine.deaths() > 0).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.attempts(ids[2]).await.len(), 2, "I11: asked twice, signed once");
    assert_eq!(cluster.paid(account(1)), [0, 1, 0, 3, 4], "closed once, the others paid once");
    assert_eq!(cluster.record(ids[2]).await.row.state, TxState::Failed(Failed::Cancelled));
    assert_eq!(cluster.feed().await.len(), 5);
}

/// On one thread, so that the worker finds both in one turn.
#[tokio::test]
async fn worker_that_panics_while_the_node_stops_is_restarted_and_stops() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    pending(&cluster, &engine, [0]).await;
    cluster.checkpoints.panic_at(Checkpoint::SlotsChosen);
    let intent = Intent { gas: Some(21_000), ..transfer(1) };
    let mut create = pin!(engine.create(account(1), None, intent));
    assert!(poll!(&mut create).is_pending());
    let mut stop = pin!(engine.stop());
    assert!(poll!(&mut stop).is_pending());
    assert!(within("the answer", create).await.is_err());
    within("the engine stops", stop).await;
    assert_eq!(engine.deaths(), 1);
}

macro_rules! deaths {
    ($how:ident: $($name:ident: $at:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            $how(Checkpoint::$at).await;
        }
    )*};
}

deaths! { die_in_a_cancel_at:
    a_worker_that_dies_with_a_signed_cancellation_is_started_again: AttemptsSigned,
    a_worker_that_dies_with_a_claimed_cancellation_is_started_again: ActionClaimed,
    a_committer_that_dies_with_a_cancellation_is_started_again: BatchCommitted,
    a_sender_that_dies_with_a_cancellation_is_started_again: Sending,
}

deaths! { die_at:
    a_worker_that_dies_before_it_signs_is_started_again: SlotsChosen,
    a_worker_that_dies_before_it_commits_is_started_again: AttemptsSigned,
    a_worker_that_dies_after_its_commit_is_started_again: CreatesCommitted,
    a_sender_that_dies_before_it_sends_is_started_again: Sending,
    a_sender_that_dies_with_an_answer_is_started_again: NodeAnswered,
    a_worker_that_dies_with_answers_is_started_again: AnswersSeen,
    a_worker_that_dies_after_answers_is_started_again: AnswersRecorded,
    a_worker_that_dies_with_receipts_is_started_again: ReceiptsSeen,
    a_worker_that_dies_after_receipts_is_started_again: ReceiptsRecorded,
    a_worker_that_dies_before_the_end_is_started_again: FinalityJudged,
    a_worker_that_dies_at_the_end_is_started_again: FinalityRecorded,
    a_committer_that_dies_after_its_commit_is_started_again: BatchCommitted,
}
