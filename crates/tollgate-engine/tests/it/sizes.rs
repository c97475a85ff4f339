//! Accounts with more open work than one batch, one page or one look holds.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{
    CreateError, Engine, EngineOptions, EnginePorts, Policies, RandomIds, Unserved,
};
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::signer::{Signer, TxDraft, TxKind};
use tollgate_model::port::{
    Acquisition, AlertKind, AttemptKind, BatchLimits, ChainRegistration, CursorMove, Fees,
    FencedBatch, Lease, NewAttempt, NewTx, Section, SectionOutcome, Slot, Store, SubmitterSetup,
    Unwatched,
};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{B256, Bytes, Failed, GasPrice, Intent, NodeId, Nonce, TxId, TxState, Wei};
use tollgate_testkit::fake_chain::{FakeChain, FakeSigner};
use tollgate_testkit::world::NodeOptions;
use tollgate_testkit::{PgWorld, SqliteWorld, World};
use uuid::Uuid;

use crate::rig::{Recorded, account, options, transfer};

/// More than one batch takes, many times over.
const MANY: u64 = 20_000;
/// For everything that a node does with so many.
const PATIENCE: Duration = Duration::from_secs(120);

/// One database with one account, and one chain.
struct Crowd {
    world: Box<dyn World>,
    store: Arc<dyn Store>,
    chain: Arc<FakeChain>,
    alerts: Arc<Recorded>,
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

fn node_id(name: &str) -> NodeId {
    NodeId::new(name, Uuid::now_v7()).unwrap()
}

impl Crowd {
    async fn on(world: Box<dyn World>) -> Self {
        let store = world.open(NodeOptions::default()).await.unwrap();
        let (chain_id, genesis) = (account(1).chain_id, B256::repeat_byte(1));
        store.register_chain(&ChainRegistration { chain_id, genesis }).await.unwrap();
        let (submitter, mode, start_from) = (account(1), Mode::Pipelined, Nonce::MIN);
        store.register_submitters(&[SubmitterSetup { submitter, mode, start_from }]).await.unwrap();
        let (chain, alerts) = (Arc::new(FakeChain::new()), Arc::default());
        Self { world, store, chain, alerts }
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
        self.world.expire(account(1)).await;
    }

    async fn node(&self, name: &str, options: EngineOptions) -> Engine {
        let ports = EnginePorts {
            node: node_id(name),
            store: self.world.open(NodeOptions::default()).await.unwrap(),
            chain: self.chain.clone(),
            signer: Arc::new(FakeSigner(vec![account(1).address])),
            clock: Arc::new(crate::rig::RigClock::default()),
            ids: Arc::new(RandomIds),
            checkpoints: Arc::new(Unwatched),
            policies: Policies::default(),
            alerts: self.alerts.clone(),
        };
        Engine::start(ports, options)
    }

    /// Waits until so many rows are what a condition says.
    async fn until(&self, rows: &str, count: u64) {
        let waits = async {
            while self.world.count(rows).await < i64::try_from(count).unwrap() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waits).await.is_err() {
            panic!("{} of {count}: {rows}", self.world.count(rows).await);
        }
    }

    /// Runs a node until a condition holds for so many rows, and then kills it at whatever it does.
    fn doomed(&self, rows: &str, count: u64) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let engine = self.node("doomed", crowded()).await;
            self.until(rows, count).await;
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
        let draft = TxDraft {
            chain_id: account(1).chain_id,
            from: account(1).address,
            nonce: nonce(*value),
            to: intent.to,
            value: Wei(intent.value),
            data: Bytes::new(),
            access_list: Vec::new(),
            fees,
            kind: TxKind::Legacy,
        };
        let slot = if have_slots {
            let signed = FakeSigner(Vec::new()).sign(vec![draft]).await.remove(0).unwrap();
            let (tx_hash, raw, kind) = (signed.tx_hash, signed.raw, AttemptKind::Intent);
            let attempt = NewAttempt { tx_hash, raw, kind, fees };
            Some(Slot { nonce: nonce(*value), recycled: false, attempt })
        } else {
            None
        };
        section.creates.push(NewTx {
            tx_id: TxId::from_uuid(Uuid::now_v7()),
            request_id: None,
            payload: intent.to_payload().unwrap(),
            slot,
            held: false,
            valid_until: None,
            outbox: None,
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

async fn takeover_of_20000_open_finishes_all_of_them(world: Box<dyn World>) {
    let crowd = Arc::new(Crowd::on(world).await);
    crowd.insert(MANY, true).await;
    let at = crowd.clone();
    // The owner dies while it writes down what nodes have taken.
    let killed = move || at.doomed("managed_tx where state in (30, 31)", MANY / 4);
    tokio::task::spawn_blocking(killed).await.unwrap();
    crowd.world.expire(account(1)).await;
    let heir = crowd.node("heir", crowded()).await;
    crowd.until("managed_tx where state >= 30", MANY).await;
    for _ in 0..4 {
        crowd.chain.mine();
    }
    crowd.until("managed_tx where state = 40", MANY).await;
    crowd.until("tx_completion", MANY).await;
    assert_paid(&crowd.chain, MANY);
    assert_eq!(heir.deaths(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn takeover_of_20000_open_finishes_all_of_them_on_sqlite() {
    takeover_of_20000_open_finishes_all_of_them(Box::new(SqliteWorld::new().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn takeover_of_20000_open_finishes_all_of_them_on_postgres() {
    takeover_of_20000_open_finishes_all_of_them(Box::new(PgWorld::new().await)).await;
}

async fn queue_of_6000_is_given_slots_in_order(world: Box<dyn World>) {
    let (crowd, count) = (Crowd::on(world).await, 6_000);
    crowd.insert(count, false).await;
    let engine = crowd.node("a", crowded()).await;
    // A window wider than a batch, and callers who come meanwhile.
    let mut late = transfer(count);
    late.gas = Some(21_000);
    let created = loop {
        match engine.create(account(1), None, late.clone()).await {
            Ok(created) => break created,
            Err(CreateError::Unserved(Unserved::NotOwner(_) | Unserved::Unavailable(_))) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    crowd.until("managed_tx where state >= 30", count + 1).await;
    let record = crowd.store.tx(created.tx_id()).await.unwrap().unwrap();
    assert_eq!(record.nonce.unwrap().get(), count, "behind all that waited");
    crowd.chain.mine();
    assert_paid(&crowd.chain, count + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_of_6000_is_given_slots_in_order_on_sqlite() {
    queue_of_6000_is_given_slots_in_order(Box::new(SqliteWorld::new().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_of_6000_is_given_slots_in_order_on_postgres() {
    queue_of_6000_is_given_slots_in_order(Box::new(PgWorld::new().await)).await;
}

/// A transaction that no store can hold a slot of, in the middle of a queue. Older versions accepted it
/// where a node estimated its gas so.
async fn queued_transaction_that_cannot_be_written_is_rejected_alone(world: Box<dyn World>) {
    let crowd = Crowd::on(world).await;
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
    crowd.world.expire(account(1)).await;

    let _engine = crowd.node("a", crowded()).await;
    crowd.until("managed_tx where state >= 30", 40).await;
    let rejected = crowd.store.tx(pill).await.unwrap().unwrap();
    assert_eq!(rejected.seen.state, TxState::Failed(Failed::Rejected));
    assert_eq!((rejected.nonce, rejected.attempts), (None, 0), "I8: it never had a slot");
    let why = rejected.last_error.unwrap();
    assert!(why.as_str().contains("gas"), "{why}");
    let told = crowd.alerts.of(AlertKind::Rejected);
    assert!(told.iter().any(|alert| alert.tx_id == Some(pill)), "{told:?}");
    for _ in 0..4 {
        crowd.chain.mine();
    }
    crowd.until("managed_tx where state = 40", 39).await;
    let paid: Vec<u64> =
        crowd.chain.mined(account(1).address).iter().map(|tx| tx.value.to::<u64>()).collect();
    let expected: Vec<u64> = values.into_iter().filter(|value| *value != 17).collect();
    assert_eq!(paid, expected, "I14: the line moves on, in order and without a hole");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_transaction_that_cannot_be_written_is_rejected_alone_on_sqlite() {
    let world = Box::new(SqliteWorld::new().await);
    queued_transaction_that_cannot_be_written_is_rejected_alone(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_transaction_that_cannot_be_written_is_rejected_alone_on_postgres() {
    let world = Box::new(PgWorld::new().await);
    queued_transaction_that_cannot_be_written_is_rejected_alone(world).await;
}
