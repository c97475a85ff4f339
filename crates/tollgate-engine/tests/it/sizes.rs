//! Accounts with more open work than one batch, one page or one look holds.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Engine, EngineOptions};
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{
    Acquisition, AlertKind, AttemptKind, BatchLimits, CursorMove, Fees, FencedBatch, Lease,
    NewAttempt, NewTx, Section, SectionOutcome, Slot,
};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Failed, GasPrice, Intent, Nonce, TxState};
use tollgate_testkit::StoreKind;
use tollgate_testkit::builders::{draft, node_id, tx_id};
use tollgate_testkit::fake_chain::{FakeChain, FakeSigner};
use tollgate_testkit::store_fixture::NodeOptions;

use crate::support::{Cluster, account, create_when_owned, options, transfer};

/// More than one batch takes, many times over.
const MANY: u64 = 20_000;
/// For everything that a node does with so many.
const PATIENCE: Duration = Duration::from_secs(120);

on_both_stores! {
    takeover_of_20000_open_finishes_all_of_them,
    queue_of_6000_is_given_slots_in_order,
    queued_transaction_that_cannot_be_written_is_rejected_alone,
}

/// One database, one chain, and an account with much open work.
struct Crowd(Cluster);

impl Deref for Crowd {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

fn crowded() -> EngineOptions {
    let window = 100_000;
    EngineOptions {
        batch_max: BatchLimits::OPS,
        nonces: NonceRules { window, ..options().nonces },
        // What is sent again is sent because of a takeover, not for its age.
        resubmit: ResubmitRules { interval: PATIENCE, ..ResubmitRules::default() },
        ..options()
    }
}

impl Crowd {
    async fn on(store: StoreKind) -> Self {
        Self(Cluster::on(store.start().await, Mode::Pipelined).await)
    }

    /// As an owner that died left them: with slots, signed and not sent; or without slots.
    async fn insert(&self, count: u64, have_slots: bool) {
        let node = node_id("before");
        let granted = self.store.acquire(account(1), &node, &options().lease).await.unwrap();
        let Acquisition::Granted { lease, .. } = granted else { panic!("{granted:?}") };
        let all: Vec<u64> = (0..count).collect();
        for part in all.chunks(BatchLimits::OPS) {
            let section = section(lease, part, have_slots).await;
            let batch = FencedBatch::new(node.clone(), vec![section]).unwrap();
            let outcomes = self.store.commit(&batch).await.unwrap();
            assert!(matches!(outcomes[..], [SectionOutcome::Committed { .. }]), "{outcomes:?}");
        }
        self.fixture.expire(account(1)).await;
    }

    async fn node(&self, name: &str, options: EngineOptions) -> Engine {
        let store = self.fixture.open(NodeOptions::default()).await.unwrap();
        let signer = Arc::new(FakeSigner(vec![account(1).address]));
        Engine::start(self.ports(name, store, self.chain.clone(), signer), options)
    }

    /// Waits until so many rows are what a condition says.
    async fn until_rows(&self, rows: &str, count: u64) {
        let waits = async {
            while self.fixture.count(rows).await < i64::try_from(count).unwrap() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waits).await.is_err() {
            panic!("{} of {count}: {rows}", self.fixture.count(rows).await);
        }
    }

    /// Runs a node until a condition holds for so many rows, and then kills it at whatever it does.
    fn doomed(&self, rows: &str, count: u64) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let engine = self.node("doomed", crowded()).await;
            self.until_rows(rows, count).await;
            std::mem::forget(engine);
        });
        runtime.shutdown_background();
    }
}

/// Transfers of 0, 1, 2, … in slots of the same numbers.
async fn section(lease: Lease, values: &[u64], have_slots: bool) -> Section {
    let nonce = |n: u64| Nonce::new(n).unwrap();
    let mut section = Section::new(lease);
    if let Some((first, last)) = values.first().zip(values.last()).filter(|_| have_slots) {
        section.cursor = Some(CursorMove { from: nonce(*first), to: nonce(last + 1) });
    }
    let fees = Fees {
        gas_limit: 21_000,
        max_fee: GasPrice::from_wei(1_000_000_000).unwrap(),
        max_priority_fee: None,
    };
    for value in values {
        let mut intent = transfer(*value);
        intent.gas = Some(21_000);
        let slot = if have_slots {
            let draft = draft(account(1), nonce(*value), *value, fees);
            let signed = FakeSigner(Vec::new()).sign(vec![draft]).await.remove(0).unwrap();
            let (tx_hash, raw, kind) = (signed.tx_hash, signed.raw, AttemptKind::Intent);
            let attempt = NewAttempt { tx_hash, raw, kind, fees };
            Some(Slot { nonce: nonce(*value), recycled: false, attempt })
        } else {
            None
        };
        section.creates.push(NewTx {
            tx_id: tx_id(),
            request_id: None,
            payload: intent.to_payload().unwrap(),
            slot,
            held: false,
            valid_until: None,
            author: None,
            trace: None,
        });
    }
    section
}

/// Each was paid once, in the order of its slot.
fn assert_paid(chain: &FakeChain, count: u64) {
    let mined = chain.mined(account(1).address);
    let paid = mined.iter().map(|tx| (tx.nonce, tx.value.to::<u64>()));
    assert!(paid.eq((0..count).map(|n| (n, n))), "each once, in order: {}", mined.len());
}

async fn takeover_of_20000_open_finishes_all_of_them(store: StoreKind) {
    let crowd = Arc::new(Crowd::on(store).await);
    crowd.insert(MANY, true).await;
    let at = crowd.clone();
    // The owner dies while it writes down what nodes have taken.
    let killed = move || at.doomed("managed_tx where state in (30, 31)", MANY / 4);
    tokio::task::spawn_blocking(killed).await.unwrap();
    crowd.fixture.expire(account(1)).await;
    let heir = crowd.node("heir", crowded()).await;
    crowd.until_rows("managed_tx where state >= 30", MANY).await;
    for _ in 0..4 {
        crowd.chain.mine();
    }
    crowd.until_rows("managed_tx where state = 40", MANY).await;
    crowd.until_rows("tx_completion", MANY).await;
    assert_paid(&crowd.chain, MANY);
    assert_eq!(heir.deaths(), 0);
}

async fn queue_of_6000_is_given_slots_in_order(store: StoreKind) {
    let (crowd, count) = (Crowd::on(store).await, 6_000);
    crowd.insert(count, false).await;
    let engine = crowd.node("a", crowded()).await;
    // A window wider than a batch, and callers who come meanwhile.
    let mut late = transfer(count);
    late.gas = Some(21_000);
    let created = create_when_owned(&engine, account(1), None, late).await;
    crowd.until_rows("managed_tx where state >= 30", count + 1).await;
    let record = crowd.record(created).await;
    assert_eq!(record.nonce.unwrap().get(), count, "behind all that waited");
    crowd.chain.mine();
    assert_paid(&crowd.chain, count + 1);
}

/// A transaction that no store can hold a slot of, in the middle of a queue. Older versions accepted it
/// where a node estimated its gas so.
async fn queued_transaction_that_cannot_be_written_is_rejected_alone(store: StoreKind) {
    let crowd = Crowd::on(store).await;
    let node = node_id("before");
    let granted = crowd.store.acquire(account(1), &node, &options().lease).await.unwrap();
    let Acquisition::Granted { lease, .. } = granted else { panic!("{granted:?}") };
    let values: Vec<u64> = (0..40).collect();
    let mut section = section(lease, &values, false).await;
    let pill = section.creates[17].tx_id;
    let absurd = Intent { gas: Some(u64::MAX), ..transfer(1_000) };
    section.creates[17].payload = absurd.to_payload().unwrap();
    let batch = FencedBatch::new(node, vec![section]).unwrap();
    crowd.store.commit(&batch).await.unwrap();
    crowd.fixture.expire(account(1)).await;

    let _engine = crowd.node("a", crowded()).await;
    crowd.until_rows("managed_tx where state >= 30", 40).await;
    let rejected = crowd.record(pill).await;
    assert_eq!(rejected.row.state, TxState::Failed(Failed::Rejected));
    assert_eq!((rejected.nonce, rejected.attempts), (None, 0), "I8: it never had a slot");
    let why = rejected.last_error.unwrap();
    assert!(why.as_str().contains("gas"), "{why}");
    let told = crowd.alerts.of(AlertKind::Rejected);
    assert!(told.iter().any(|alert| alert.tx_id == Some(pill)), "{told:?}");
    for _ in 0..4 {
        crowd.chain.mine();
    }
    crowd.until_rows("managed_tx where state = 40", 39).await;
    let paid: Vec<u64> =
        crowd.chain.mined(account(1).address).iter().map(|tx| tx.value.to::<u64>()).collect();
    let expected: Vec<u64> = values.into_iter().filter(|value| *value != 17).collect();
    assert_eq!(paid, expected, "I14: the line moves on, in order and without a hole");
}
