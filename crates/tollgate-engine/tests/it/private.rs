//! Private transactions on the fake chain, which notes what public endpoints learn.

use std::time::Duration;

use tollgate_engine::{CreateError, EngineOptions};
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::signer::{PreSigned, Signer};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Bytes, Intent, Nonce, PrivateRoute, StuckReason, TxId, TxState};
use tollgate_testkit::builders::draft;
use tollgate_testkit::fake_chain::{FakeSigner, TxMatch};

use crate::support::{
    Cluster, PENDING, account, create_signed, id, options, patient, request, transfer, transfers,
};

const SECOND: Duration = Duration::from_secs(1);

fn private(value: u64, fallback: Option<Duration>) -> Intent {
    let private = Some(PrivateRoute::with_fallback(fallback));
    Intent { private, data: Bytes::from_static(b"secret"), ..transfer(value) }
}

/// Nothing public is sent again by itself; private ones each second.
fn quick() -> EngineOptions {
    let resubmit = ResubmitRules {
        private_interval: SECOND,
        jitter_percent: 0,
        max_attempts: 4,
        ..patient().resubmit
    };
    EngineOptions { resubmit, diagnose: Some(SECOND), ..patient() }
}

async fn cluster() -> Cluster {
    let cluster = Cluster::pipelined().await;
    cluster.chain.add_private_endpoint();
    cluster
}

async fn is_disclosed(cluster: &Cluster, tx: TxId) -> bool {
    let attempts = cluster.attempts(tx).await;
    attempts.iter().any(|attempt| cluster.chain.is_disclosed(attempt.tx_hash))
}

#[tokio::test(flavor = "multi_thread")]
async fn private_create_on_a_chain_without_private_endpoints_is_refused_and_uses_no_nonce() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    for intent in [private(1, None), Intent { gas: Some(60_000), ..private(1, None) }] {
        let refused = engine.create(account(1), None, intent.clone()).await;
        assert_eq!(refused.unwrap_err(), CreateError::NoPrivateEndpoint);
        let simulated = engine.simulate(account(1), None, intent).await;
        assert_eq!(simulated.unwrap_err(), CreateError::NoPrivateEndpoint);
    }
    let ids = transfers(&engine, [7]).await;
    assert_eq!(cluster.record(ids[0]).await.nonce, Some(Nonce::MIN));
    assert!(!cluster.chain.is_call_disclosed(b"secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn same_request_with_another_route_is_a_conflict() {
    let cluster = cluster().await;
    let engine = cluster.node("a", quick());
    let first = engine.create(account(1), request("r"), private(1, None)).await.unwrap();
    let again = engine.create(account(1), request("r"), private(1, None)).await.unwrap();
    assert_eq!(first.tx_id(), again.tx_id());
    let public = Intent { private: None, ..private(1, None) };
    for other in [public, private(1, Some(SECOND))] {
        let refused = engine.create(account(1), request("r"), other).await;
        assert!(matches!(refused, Err(CreateError::RequestIdConflict(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_transaction_of_a_caller_keeps_its_private_route() {
    let cluster = cluster().await;
    cluster.chain.swallow_private(true);
    let engine = cluster.node("a", quick());
    let fees = tollgate_model::port::Fees {
        gas_limit: 60_000,
        max_fee: tollgate_model::GasPrice::from_wei(20_000_000_000).unwrap(),
        max_priority_fee: None,
    };
    let draft = draft(account(1), Nonce::MIN, 5, fees);
    let signer = FakeSigner(vec![account(1).address]);
    let form = signer.sign(vec![draft.clone()]).await.remove(0).unwrap();
    let signed = PreSigned { tx_hash: form.tx_hash, raw: form.raw, draft };
    let signed = tollgate_engine::SignedIntent::new(signed, None, Some(PrivateRoute::default()));
    let tx = id(create_signed(&engine, account(1), None, signed).await.unwrap());
    cluster.until(tx, "was with a node", |tx| tx.row.state == PENDING).await;
    let resent = async || {
        cluster.clock.advance(SECOND);
        cluster.chain.private_sends() > 3
    };
    cluster.eventually("it was sent again", resent).await;
    assert!(!is_disclosed(&cluster, tx).await);
    cluster.chain.swallow_private(false);
    let mined = async || {
        cluster.clock.advance(SECOND);
        cluster.chain.mine();
        cluster.record(tx).await.row.state == TxState::Confirmed
    };
    cluster.eventually("it is final", mined).await;
}

/// A relay accepts it for ever, and no block has it.
#[tokio::test(flavor = "multi_thread")]
async fn swallowed_private_transaction_is_stuck_after_its_time_and_still_resent() {
    let cluster = cluster().await;
    cluster.chain.swallow_private(true);
    let engine = cluster.node("a", quick());
    let tx = id(engine.create(account(1), None, private(1, None)).await.unwrap());
    cluster.until(tx, "was with a node", |tx| tx.row.state == PENDING).await;
    let many = async || {
        cluster.clock.advance(SECOND);
        cluster.chain.private_sends() > 7
    };
    cluster.eventually("sent more often than public ones before they are STUCK", many).await;
    let state = cluster.record(tx).await.row.state;
    assert!(matches!(state, TxState::Tracking(_)), "{state}: not lost by the number of resends");

    cluster.clock.advance(quick().resubmit.private_stuck_after);
    let stuck = TxState::Stuck(StuckReason::TimedOut);
    cluster.until(tx, "was STUCK", |tx| tx.row.state == stuck).await;
    let before = cluster.chain.private_sends();
    let more = async || {
        cluster.clock.advance(SECOND);
        cluster.chain.private_sends() > before + 3
    };
    cluster.eventually("it is sent further", more).await;
    assert!(!is_disclosed(&cluster, tx).await && !cluster.chain.is_call_disclosed(b"secret"));
    assert_eq!(cluster.record(tx).await.diagnosis, None, "pools can't tell anything about it");
}

#[tokio::test(flavor = "multi_thread")]
async fn fallback_makes_a_stuck_private_transaction_public_and_its_time_starts_anew() {
    let cluster = cluster().await;
    cluster.chain.swallow_private(true);
    let engine = cluster.node("a", quick());
    let after = 2 * quick().resubmit.private_stuck_after;
    let tx = id(engine.create(account(1), None, private(1, Some(after))).await.unwrap());
    cluster.until(tx, "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.clock.advance(after - SECOND);
    cluster.until(tx, "was STUCK", |tx| matches!(tx.row.state, TxState::Stuck(_))).await;
    assert!(!is_disclosed(&cluster, tx).await, "not before its time");
    cluster.clock.advance(SECOND);
    cluster.eventually("public endpoints have it", async || cluster.chain.pooled() == 1).await;
    cluster.mine_until_final(&[tx]).await;
    let history = cluster.history(tx).await;
    let tells = |text: &str| text.contains("fallbackAfter has passed");
    let told = history.iter().filter_map(|it| it.detail.as_ref()).filter(|it| tells(it.as_str()));
    assert_eq!(told.count(), 1, "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fallback_that_is_due_when_a_new_owner_begins_is_carried_out_by_it() {
    let cluster = cluster().await;
    cluster.chain.swallow_private(true);
    let engine = cluster.node("a", quick());
    let after = quick().resubmit.private_stuck_after / 2;
    let tx = id(engine.create(account(1), None, private(1, Some(after))).await.unwrap());
    let many = async || {
        cluster.clock.advance(SECOND);
        cluster.record(tx).await.resubmits > quick().resubmit.max_attempts
    };
    cluster.eventually("it was resent more often than public ones are", many).await;
    engine.stop().await;
    assert!(!is_disclosed(&cluster, tx).await);
    cluster.clock.advance(after);
    let _engine = cluster.node("b", quick());
    cluster.eventually("public endpoints have it", async || cluster.chain.pooled() == 1).await;
    cluster.mine_until_final(&[tx]).await;
    let history = cluster.history(tx).await;
    assert!(history.iter().all(|it| !matches!(it.to, TxState::Stuck(_))), "{history:?}");
}

/// Public nodes refuse what is behind a private transaction that they never see.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_behind_a_private_transaction_resend_nothing_until_it_is_mined() {
    let cluster = cluster().await;
    cluster.chain.refuse_gaps();
    cluster.chain.swallow_private(true);
    let engine = cluster.node("a", quick());
    let first = id(engine.create(account(1), None, private(0, None)).await.unwrap());
    cluster.until(first, "was with a node", |tx| tx.row.state == PENDING).await;
    let behind = transfers(&engine, 1..20).await;
    let mut hashes = Vec::new();
    for tx in &behind {
        cluster.until(*tx, "was refused", |tx| tx.last_error.is_some()).await;
        hashes.push(cluster.record(*tx).await.newest_hash.unwrap());
    }
    let sends = || hashes.iter().map(|hash| cluster.chain.sends(*hash)).collect::<Vec<_>>();
    let (before, private_before) = (sends(), cluster.chain.private_sends());
    let many = async || {
        cluster.clock.advance(SECOND);
        cluster.chain.private_sends() > private_before + 10
    };
    cluster.eventually("the private one is sent on its own schedule", many).await;
    assert_eq!(sends(), before, "what is behind it waits");
    for tx in &behind {
        let state = cluster.record(*tx).await.row.state;
        assert!(!matches!(state, TxState::Stuck(_)) && !state.is_final(), "{state}");
    }
    assert!(!is_disclosed(&cluster, first).await);

    cluster.chain.swallow_private(false);
    let all = [&[first][..], &behind].concat();
    let done = async || {
        cluster.clock.advance(SECOND);
        cluster.chain.mine();
        cluster.record(all[19]).await.row.state == TxState::Confirmed
    };
    cluster.eventually("all are final", done).await;
    assert_eq!(cluster.paid(account(1)), (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_private_transaction_is_held_and_not_offered_to_public_endpoints() {
    let cluster = cluster().await;
    cluster.chain.answer(TxMatch::Any, AnswerClass::Invalid, usize::MAX);
    let engine = cluster.node("a", quick());
    let tx = id(engine.create(account(1), None, private(1, None)).await.unwrap());
    cluster.until(tx, "was rejected", |tx| tx.last_error.is_some()).await;
    cluster.clock.advance(60 * SECOND);
    cluster.eventually("it was sent", async || cluster.chain.private_sends() > 0).await;
    assert!(!is_disclosed(&cluster, tx).await);
}
