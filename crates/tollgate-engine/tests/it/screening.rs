//! Creates that the chain would certainly refuse are refused before a nonce is touched, and nothing is kept.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{CreateError, Engine, EngineOptions, Simulated};
use tollgate_model::answer::AnswerClass;
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::{AlertKind, ListFilter, Page};
use tollgate_model::refusal::{RefusalKind, TxLimit, TxLimitSettings};
use tollgate_model::rejected::{HoldReason, RejectedSlot};
use tollgate_model::{Address, Allocated, Failed, GasPrice, Intent, StuckReason, TxState, U256};
use tollgate_testkit::fake_chain::{Query, TxMatch};

use crate::signed::signed;
use crate::support::{
    Cluster, PENDING, account, create_signed, id, options, patient, request, transfer,
};

/// The highest cost of a transfer of nothing on a chain without a base fee: all of its gas, at one gwei.
const FEE: u64 = 25_200 * 1_000_000_000;
const UNFUNDED: TxState = TxState::Allocated(Allocated::InsufficientFunds);

fn with_gas(value: u64) -> Intent {
    Intent { gas: Some(25_200), ..transfer(value) }
}

async fn refused(engine: &Engine, intent: Intent) -> Option<RefusalKind> {
    let created = engine.create(account(1), None, intent.clone()).await;
    let simulated = engine.simulate(account(1), None, intent).await;
    match (created, simulated) {
        (Err(CreateError::Refused(why)), Err(CreateError::Refused(same))) => {
            assert_eq!(why.kind, same.kind, "a simulation tells the same");
            Some(why.kind)
        }
        (Ok(_), Ok(Simulated::Costs(_))) => None,
        other => panic!("{other:?}"),
    }
}

async fn assert_untouched(cluster: &Cluster) {
    let rows = cluster.store.list(&ListFilter::default(), None, Page::new(10).unwrap()).await;
    assert_eq!(rows.unwrap(), [], "nothing is kept");
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 0, "no nonce is touched");
    assert_eq!(cluster.chain.all_sends(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_the_chain_would_refuse_is_refused_and_leaves_nothing() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    cluster.chain.set_block_gas(1_000_000);
    cluster.chain.set_base_fee(1_000_000);
    let gas = |gas| Intent { gas: Some(gas), ..transfer(1) };
    assert_eq!(refused(&engine, gas(20_999)).await, Some(RefusalKind::GasTooLow));
    let over = Some(RefusalKind::GasAboveBlockLimit);
    assert_eq!(refused(&engine, gas(1_000_001)).await, over);
    let capped =
        |wei| Intent { max_fee_per_gas: Some(GasPrice::from_wei(wei).unwrap()), ..gas(30_000) };
    assert_eq!(refused(&engine, capped(99_999)).await, Some(RefusalKind::FeeCapTooLow));
    cluster.chain.set_balance(account(1).address, U256::ZERO);
    let poor = Some(RefusalKind::InsufficientFunds);
    assert_eq!(refused(&engine, gas(30_000)).await, poor, "with gas");
    assert_eq!(refused(&engine, transfer(1)).await, poor, "and without");
    assert_untouched(&cluster).await;
    cluster.chain.set_balance(account(1).address, U256::MAX);
    cluster.clock.advance(Duration::from_millis(500));
    let taken = engine.create(account(1), request("a"), capped(100_000)).await.unwrap();
    assert_eq!(cluster.record(taken.tx_id()).await.nonce.unwrap().get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_above_what_the_chain_allows_one_transaction_is_refused_and_leaves_nothing() {
    let cluster = Cluster::pipelined().await;
    let (gas, initcode_bytes) = (TxLimit::At(100_000), TxLimit::At(64));
    let tx_limits = TxLimitSettings { gas, initcode_bytes, bytes: TxLimit::At(1_000) };
    let engine = cluster.node("a", EngineOptions { tx_limits, ..options() });
    cluster.chain.set_estimate(99_999);
    let gas = |gas| Intent { gas: Some(gas), ..transfer(1) };
    let long = |bytes| Intent { data: vec![1; bytes].into(), ..gas(90_000) };
    let creation = |bytes| Intent { to: None, ..long(bytes) };
    assert_eq!(refused(&engine, gas(100_001)).await, Some(RefusalKind::GasAboveTxLimit));
    assert_eq!(refused(&engine, long(1_001)).await, Some(RefusalKind::TxTooLarge));
    assert_eq!(refused(&engine, creation(65)).await, Some(RefusalKind::TxTooLarge));
    assert_untouched(&cluster).await;
    // The margin above an estimate does not make a good create one that is refused.
    let taken = engine.create(account(1), None, transfer(1)).await.unwrap();
    assert_eq!(cluster.attempts(taken.tx_id()).await[0].fees.gas_limit, 100_000);
    for intent in [gas(100_000), long(1_000), creation(64)] {
        assert_eq!(refused(&engine, intent).await, None);
    }
}

/// Two can be paid, the third can't, whichever of them have slots.
async fn counts_what_is_open(mode: Mode, window: u32) {
    let cluster = Cluster::with_mode(mode).await;
    let nonces = NonceRules { mode, window, ..options().nonces };
    let engine = cluster.node("a", EngineOptions { nonces, ..patient() });
    let address = account(1).address;
    cluster.chain.set_balance(address, U256::from(2 * FEE + 100));
    let mut ids = Vec::new();
    for value in [50, 50] {
        ids.push(id(engine.create(account(1), None, with_gas(value)).await.unwrap()));
    }
    assert_eq!(refused(&engine, with_gas(1)).await, Some(RefusalKind::InsufficientFunds));
    assert_eq!(refused(&engine, transfer(1)).await, Some(RefusalKind::InsufficientFunds));
    cluster.chain.set_balance(address, U256::from(3 * FEE + 101));
    cluster
        .eventually("the money that came in is seen", async || {
            let created = engine.create(account(1), request("third"), with_gas(1)).await;
            created.map(|created| ids.push(created.tx_id())).is_ok()
        })
        .await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [50, 50, 1], "{mode:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_balance_check_counts_open_and_queued_transactions() {
    counts_what_is_open(Mode::Pipelined, 64).await;
    counts_what_is_open(Mode::Pipelined, 1).await;
    counts_what_is_open(Mode::Strict, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_with_gas_are_taken_while_the_balance_can_not_be_read() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.set_balance(account(1).address, U256::ZERO);
    cluster.chain.fail(Query::Balances, true);
    let engine = cluster.node("a", options());
    let tx = id(engine.create(account(1), None, with_gas(1)).await.unwrap());
    cluster.chain.set_balance(account(1).address, U256::MAX);
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn balance_that_suffices_is_read_once_in_ten_seconds() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    for value in 0..20 {
        let batch = (0..10).map(|n| engine.create(account(1), None, with_gas(value * 10 + n)));
        assert!(join_all(batch).await.into_iter().all(|created| created.is_ok()));
    }
    // A second reading only if the machine needs more than ten seconds for this.
    let reads = cluster.chain.balance_reads();
    assert!((1..=2).contains(&reads), "{reads} for 200 creates in 20 batches");
    cluster.clock.advance(Duration::from_secs(10));
    engine.create(account(1), None, with_gas(200)).await.unwrap();
    assert_eq!(cluster.chain.balance_reads(), reads + 1);
}

/// Current-thread runtime: all ten are in the worker's mailbox before it runs, so they are one batch.
#[tokio::test]
async fn balance_read_amid_a_batch_counts_the_creates_that_passed_before() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    cluster.chain.set_balance(account(1).address, U256::from(FEE + 1 + 5 * (FEE + 2)));
    engine.create(account(1), None, with_gas(1)).await.unwrap();
    // The balance is believed while it suffices, and read anew where it does not.
    cluster.clock.advance(Duration::from_secs(1));
    let reads = cluster.chain.balance_reads();
    let batch = (0..10).map(|_| engine.create(account(1), None, with_gas(2)));
    let (taken, refused): (Vec<_>, Vec<_>) =
        join_all(batch).await.into_iter().partition(Result::is_ok);
    assert!(cluster.chain.balance_reads() > reads, "the batch read the balance");
    assert_eq!((taken.len(), refused.len()), (5, 5));
    let poor = |why: &Result<_, CreateError>| matches!(why, Err(CreateError::Refused(why)) if why.kind == RefusalKind::InsufficientFunds);
    assert!(refused.iter().all(poor), "{refused:?}");
}

#[tokio::test]
async fn create_refused_for_its_nonce_takes_no_funds_from_others() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    cluster.chain.set_balance(account(1).address, U256::from(3 * FEE));
    let wrong_nonce = || async {
        let signed = signed(7, 3 * FEE).await;
        create_signed(&engine, account(1), None, signed).await
    };
    // One after the other, within the time for which a balance that is too low is believed.
    let refused = wrong_nonce().await;
    assert!(matches!(refused, Err(CreateError::NonceMismatch { .. })), "{refused:?}");
    engine.create(account(1), None, with_gas(1)).await.unwrap();
    // In one batch, where the other one is judged first.
    let signed = signed(7, 2 * FEE - 1).await;
    let wrong = engine.prepare_signed(account(1), None, signed).await.unwrap();
    let create = engine.prepare(account(1), None, with_gas(2)).await.unwrap();
    let (wrong, create) = (engine.submit(wrong), engine.submit(create));
    let (refused, created) = tokio::join!(wrong.decided(), create.decided());
    assert!(matches!(refused, Err(CreateError::NonceMismatch { .. })), "{refused:?}");
    created.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn funds_that_disappear_are_shown_and_the_transaction_can_be_cancelled() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(7), AnswerClass::InsufficientFunds, usize::MAX);
    let engine = cluster.node("a", patient());
    let poor = id(engine.create(account(1), None, with_gas(7)).await.unwrap());
    cluster.until(poor, "says that funds are missing", |tx| tx.row.state == UNFUNDED).await;
    let behind = id(engine.create(account(1), None, with_gas(8)).await.unwrap());
    cluster.until(behind, "was with a node", |tx| tx.row.state == PENDING).await;
    let head = cluster.store.line_head(account(1)).await.unwrap().unwrap();
    assert_eq!((head.tx_id, head.state.blocks_with()), (poor, Some("insufficient_funds")));
    let why = tollgate_model::Text::lossy("not wanted any more");
    engine.operator().act(poor, tollgate_engine::Action::Cancel, why).await.unwrap();
    cluster.mine_until_final(&[poor, behind]).await;
    assert_eq!(cluster.record(poor).await.row.state, TxState::Failed(Failed::Cancelled));
    assert_eq!(cluster.paid(account(1)), [0, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_after_missing_funds_is_the_grey_zone() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.answer(TxMatch::Value(7), AnswerClass::InsufficientFunds, 1);
    cluster.chain.answer(TxMatch::Value(7), AnswerClass::Unknown, usize::MAX);
    let engine = cluster.node("a", options());
    let tx = id(engine.create(account(1), None, with_gas(7)).await.unwrap());
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    cluster.until(tx, "may be with a node", |tx| tx.row.state == grey).await;
    let states: Vec<_> = cluster.history(tx).await.iter().map(|entry| entry.to).collect();
    assert!(states.contains(&UNFUNDED), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_slot_is_closed_by_default_and_the_line_moves_on() {
    let cluster = Cluster::pipelined().await;
    let bad = Address::repeat_byte(0xba);
    cluster.chain.reject_calls_to(bad);
    let engine = cluster.node("a", patient());
    let rejected = Intent { gas: Some(21_000), ..Intent::transfer(bad, U256::from(6)) };
    let rejected = id(engine.create(account(1), None, rejected).await.unwrap());
    let next = id(engine.create(account(1), None, with_gas(8)).await.unwrap());
    cluster.mine_until_final(&[rejected, next]).await;
    assert_eq!(cluster.record(rejected).await.row.state, TxState::Failed(Failed::Rejected));
    assert_eq!(cluster.paid(account(1)), [0, 8]);
}

/// No pool ever had the rejected bytes, so what closes their slot needs no premium.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_slot_whose_offer_is_the_callers_cap_is_closed_within_the_cap() {
    let cluster = Cluster::pipelined().await;
    let bad = Address::repeat_byte(0xba);
    cluster.chain.reject_calls_to(bad);
    let engine = cluster.node("a", patient());
    let cap = GasPrice::from_wei(1_000_000_000).unwrap();
    let rejected = Intent {
        gas: Some(21_000),
        max_fee_per_gas: Some(cap),
        ..Intent::transfer(bad, U256::from(6))
    };
    let rejected = id(engine.create(account(1), None, rejected).await.unwrap());
    let next = id(engine.create(account(1), None, with_gas(8)).await.unwrap());
    cluster.mine_until_final(&[rejected, next]).await;
    assert_eq!(cluster.record(rejected).await.row.state, TxState::Failed(Failed::Rejected));
    assert_eq!(cluster.paid(account(1)), [0, 8]);
    let attempts = cluster.store.attempts(rejected).await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.fees.max_fee <= cap), "{attempts:?}");
}

/// The answers that prove that no pool has the rejected bytes are lost with the node that heard them,
/// and what would replace them is above the caller's cap.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_slot_at_the_callers_cap_is_closed_by_another_node_within_the_cap() {
    let cluster = Cluster::pipelined().await;
    let bad = Address::repeat_byte(0xba);
    cluster.chain.reject_calls_to(bad);
    let holds = || EngineOptions { rejected_slot: RejectedSlot::Hold, ..patient() };
    let a = cluster.node("a", holds());
    let cap = GasPrice::from_wei(1_000_000_000).unwrap();
    let rejected = Intent {
        gas: Some(21_000),
        max_fee_per_gas: Some(cap),
        ..Intent::transfer(bad, U256::from(6))
    };
    let rejected = id(a.create(account(1), None, rejected).await.unwrap());
    let next = id(a.create(account(1), None, with_gas(8)).await.unwrap());
    let marked = TxState::Stuck(StuckReason::Rejected);
    cluster.until(rejected, "is rejected", |tx| tx.row.state == marked).await;
    a.stop().await;
    let b = cluster.node("b", holds());
    let held = format!("nonce kept: {}", HoldReason::Policy);
    cluster
        .eventually("the alert says why the slot is held", async || {
            cluster
                .alerts
                .of(AlertKind::Rejected)
                .iter()
                .any(|alert| alert.detail.starts_with(&held))
        })
        .await;
    b.stop().await;
    let _c = cluster.node("c", patient());
    cluster.mine_until_final(&[rejected, next]).await;
    assert_eq!(cluster.record(rejected).await.row.state, TxState::Failed(Failed::Rejected));
    assert_eq!(cluster.paid(account(1)), [0, 8]);
    let attempts = cluster.store.attempts(rejected).await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.fees.max_fee <= cap), "{attempts:?}");
}
