//! What the tests build on: files that go away, a clock that stands still, a node with a lease.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use tollgate_model::nonce::Mode;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    Acquisition, AttemptKind, ChainRegistration, Fees, FencedBatch, Lease, LeaseStore, LeaseTerms,
    NewAttempt, NewTx, Payload, Section, SectionOutcome, Slot, SubmitterSetup, TxStore,
};
use tollgate_model::{
    Address, B256, Bytes, ChainId, GasPrice, NodeId, Nonce, RequestId, Submitter, Timestamp, TxId,
};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use uuid::Uuid;

/// The instant at which every test's clock starts.
pub(crate) const START: i64 = 1_800_000_000_000_000;

/// A folder that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-sqlite-{}", Uuid::now_v7()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("tollgate.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A clock that the test moves.
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(START)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.0.load(Ordering::SeqCst))
    }
}

/// A connection past the store, with the function that its statements need.
pub(crate) fn connect(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    let flags = FunctionFlags::SQLITE_UTF8;
    conn.create_scalar_function("db_now", 0, flags, |_| Ok(START)).unwrap();
    conn
}

/// A node that holds the lease of one submitter.
pub(crate) struct World {
    pub(crate) store: SqliteStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) node: NodeId,
    pub(crate) lease: Lease,
}

impl World {
    pub(crate) async fn memory() -> Self {
        Self::open(SqliteOptions::memory()).await
    }

    pub(crate) async fn open(options: SqliteOptions) -> Self {
        let clock = ManualClock::new();
        let options = SqliteOptions { clock: Arc::<ManualClock>::clone(&clock), ..options };
        let store = SqliteStore::open(options).await.unwrap();
        register(&store).await;
        let node = NodeId::new("a", Uuid::now_v7()).unwrap();
        let lease = acquire(&store, &node).await;
        Self { store, clock, node, lease }
    }

    /// Commits one section; the test fails if its lease does not hold.
    pub(crate) async fn commit(&self, fill: impl FnOnce(&mut Section)) -> SectionOutcome {
        let mut section = Section::new(self.lease);
        fill(&mut section);
        let batch = FencedBatch::new(self.node.clone(), vec![section]).unwrap();
        let mut outcomes = self.store.commit(&batch).await.unwrap();
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }
}

pub(crate) fn chain_id() -> ChainId {
    ChainId::new(31_337).unwrap()
}

pub(crate) fn submitter() -> Submitter {
    Submitter::new(chain_id(), Address::repeat_byte(0xaa))
}

pub(crate) fn nonce(nonce: u64) -> Nonce {
    Nonce::new(nonce).unwrap()
}

pub(crate) async fn register(store: &SqliteStore) {
    let chain = ChainRegistration { chain_id: chain_id(), genesis: B256::repeat_byte(7) };
    store.register_chain(&chain).await.unwrap();
    let setup =
        SubmitterSetup { submitter: submitter(), mode: Mode::Pipelined, start_from: nonce(0) };
    store.register_submitters(&[setup]).await.unwrap();
}

pub(crate) async fn acquire(store: &SqliteStore, node: &NodeId) -> Lease {
    match store.acquire(submitter(), node, &LeaseTerms::default()).await.unwrap() {
        Acquisition::Granted { lease, .. } => lease,
        Acquisition::Held(owner) => panic!("held by {owner:?}"),
    }
}

pub(crate) fn new_tx(request: Option<&str>, slot: Option<Slot>) -> NewTx {
    NewTx {
        tx_id: TxId::from_uuid(Uuid::now_v7()),
        request_id: request.map(|text| RequestId::new(text).unwrap()),
        payload: Payload::new(Bytes::from_static(b"an intent")).unwrap(),
        slot,
        held: false,
        valid_until: None,
        outbox: None,
    }
}

/// A slot whose attempt has a hash of its own.
pub(crate) fn slot(at: u64) -> Slot {
    Slot { nonce: nonce(at), recycled: false, attempt: attempt() }
}

pub(crate) fn attempt() -> NewAttempt {
    let mut tx_hash = B256::ZERO;
    tx_hash[..16].copy_from_slice(Uuid::now_v7().as_bytes());
    let max_fee = GasPrice::from_wei(20_000_000_000).unwrap();
    NewAttempt {
        tx_hash,
        raw: Bytes::from_static(b"signed"),
        kind: AttemptKind::Intent,
        fees: Fees { gas_limit: 21_000, max_fee, max_priority_fee: None },
    }
}
