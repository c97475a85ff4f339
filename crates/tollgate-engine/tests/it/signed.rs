//! Transactions that the caller has signed: they keep their nonces or are refused.

use futures_util::future::join_all;
use tollgate_engine::{CreateError, Created, Engine, EngineOptions, SignedIntent, Unserved};
use tollgate_model::nonce::Mode;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{PreSigned, Signer};
use tollgate_model::refusal::RefusalKind;
use tollgate_model::{GasPrice, Nonce, U256};
use tollgate_testkit::builders::draft;
use tollgate_testkit::fake_chain::FakeSigner;

use crate::support::{Cluster, account, create_signed, options, request, transfer};

/// An intent that account 1 signed for a nonce.
pub(crate) async fn signed(nonce: u64, value: u64) -> SignedIntent {
    let fees = Fees { gas_limit: 21_000, max_fee: GasPrice::default(), max_priority_fee: None };
    let draft = draft(account(1), Nonce::new(nonce).unwrap(), value, fees);
    let signer = FakeSigner(vec![draft.from]);
    let form = signer.sign(vec![draft.clone()]).await.remove(0).unwrap();
    SignedIntent::new(PreSigned { tx_hash: form.tx_hash, raw: form.raw, draft }, None, None)
}

async fn post(engine: &Engine, nonce: u64, value: u64) -> Result<Created, CreateError> {
    create_signed(engine, account(1), None, signed(nonce, value).await).await
}

fn mismatch(expected: u64, given: u64) -> CreateError {
    let nonce = |n| Nonce::new(n).unwrap();
    CreateError::NonceMismatch { expected: nonce(expected), given: nonce(given) }
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_transactions_and_intents_share_one_line_of_nonces() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut ids = vec![post(&engine, 0, 10).await.unwrap().tx_id()];
    ids.push(engine.create(account(1), None, transfer(11)).await.unwrap().tx_id());
    ids.push(post(&engine, 2, 12).await.unwrap().tx_id());
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_transaction_that_no_node_would_take_is_refused() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    cluster.chain.set_block_gas(20_000);
    let over = post(&engine, 0, 10).await.unwrap_err();
    let is =
        |error: &CreateError, kind| matches!(error, CreateError::Refused(why) if why.kind == kind);
    assert!(is(&over, RefusalKind::GasAboveBlockLimit), "{over:?}");
    cluster.chain.set_block_gas(30_000_000);
    cluster.chain.set_balance(account(1).address, U256::from(9));
    let poor = post(&engine, 0, 10).await.unwrap_err();
    assert!(is(&poor, RefusalKind::InsufficientFunds), "{poor:?}");
    assert_eq!(cluster.submitter(account(1)).await.next_nonce, Nonce::MIN);
    post(&engine, 0, 9).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_is_not_due_is_refused_and_nothing_is_written() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    assert_eq!(post(&engine, 1, 10).await.unwrap_err(), mismatch(0, 1));
    post(&engine, 0, 10).await.unwrap();
    assert_eq!(post(&engine, 0, 99).await.unwrap_err(), mismatch(1, 0));
    assert_eq!(post(&engine, 7, 10).await.unwrap_err(), mismatch(1, 7));
    let cursor = cluster.store.submitter(account(1)).await.unwrap().unwrap().next_nonce;
    assert_eq!(cursor.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_again_are_the_same_transaction() {
    let (_cluster, engine) = Cluster::with_node(options()).await;
    let first = post(&engine, 0, 10).await.unwrap();
    let again = join_all((0..20).map(|_| post(&engine, 0, 10))).await;
    assert!(again.into_iter().all(|again| again == Ok(Created::Known(first.tx_id()))));
    let named = create_signed(&engine, account(1), request("a"), signed(1, 5).await).await.unwrap();
    let other = create_signed(&engine, account(1), request("a"), signed(2, 5).await).await;
    assert!(
        matches!(other, Err(CreateError::RequestIdConflict(known)) if known.tx_id == named.tx_id())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_in_any_order_is_taken_when_it_arrives_together_and_can_be_repeated() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut ids = Vec::new();
    // A caller that sends them all at once, and again those that came too early.
    while ids.len() < 30 {
        let answers = join_all((0..30).rev().map(|n| post(&engine, n, n))).await;
        ids = answers.into_iter().flatten().map(|created| created.tx_id()).collect();
    }
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), (0..30).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_takes_one_at_a_time_and_says_when_it_is_busy() {
    let cluster = Cluster::with_mode(Mode::Strict).await;
    let mut strict = options();
    strict.nonces.mode = Mode::Strict;
    let engine = cluster.node("a", strict);
    let first = post(&engine, 0, 10).await.unwrap().tx_id();
    assert_eq!(post(&engine, 1, 11).await.unwrap_err(), CreateError::Unserved(Unserved::Busy));
    cluster.mine_until_final(&[first]).await;
    let second = loop {
        if let Ok(created) = post(&engine, 1, 11).await {
            break created.tx_id();
        }
        tokio::task::yield_now().await;
    };
    cluster.mine_until_final(&[second]).await;
    assert_eq!(cluster.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_a_key_takes_signed_transactions_only_if_it_is_configured() {
    let cluster = Cluster::pipelined().await;
    let keyless = account(9);
    let engine = cluster.node("a", options());
    let answer = create_signed(&engine, keyless, None, signed(0, 1).await).await;
    assert_eq!(answer.unwrap_err(), CreateError::Unserved(Unserved::UnknownSubmitter));

    let mode = Mode::Pipelined;
    let start_from = Nonce::MIN;
    let setup = tollgate_model::port::SubmitterSetup { submitter: keyless, mode, start_from };
    cluster.store.register_submitters(&[setup]).await.unwrap();
    let presigned = EngineOptions { presigned: vec![keyless.address], ..options() };
    let engine = cluster.node("b", presigned);
    create_signed(&engine, keyless, None, signed(0, 1).await).await.unwrap();
    let answer = engine.create(keyless, None, transfer(1)).await;
    assert_eq!(answer.unwrap_err(), CreateError::Unserved(Unserved::UnknownSubmitter));
}
