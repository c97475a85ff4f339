//! The threads behind a store: what they survive, and that they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    Checkpoint, Checkpoints, FencedBatch, LiveNode, NodeStore, Section, StoreError, TxStore,
};
use tollgate_model::{NodeId, Text, Timestamp};
use tollgate_sqlite::{SqliteOptions, SqliteStore, Threads};
use uuid::Uuid;

use crate::support::{Folder, World, connect, new_tx};

/// Panics the first time that a batch has written everything.
#[derive(Default)]
struct PanicsOnce(AtomicBool);

#[async_trait]
impl Checkpoints for PanicsOnce {
    async fn reached(&self, at: Checkpoint) {
        if at == Checkpoint::BatchWritten && !self.0.swap(true, Ordering::SeqCst) {
            panic!("planted panic");
        }
    }
}

#[tokio::test]
async fn a_panic_in_a_job_is_rolled_back_and_does_not_kill_the_store() {
    let checkpoints = Arc::new(PanicsOnce::default());
    let world = World::open(SqliteOptions { checkpoints, ..SqliteOptions::memory() }).await;
    let tx = new_tx(Some("order"), None);
    let tx_id = tx.tx_id;
    let mut section = Section::new(world.lease);
    section.creates.push(tx);
    let batch = FencedBatch::new(world.node.clone(), vec![section]).unwrap();
    let Err(StoreError::Defect(problem)) = world.store.commit(&batch).await else {
        panic!("the panic was swallowed")
    };
    assert!(problem.contains("planted panic"));
    assert_eq!(world.store.tx(tx_id).await.unwrap(), None);
    world.store.commit(&batch).await.unwrap();
    assert!(world.store.tx(tx_id).await.unwrap().is_some());
}

/// Holds a batch in the middle of its transaction.
#[derive(Default)]
struct Gate {
    arrived: Notify,
    go: Notify,
}

#[async_trait]
impl Checkpoints for Gate {
    async fn reached(&self, at: Checkpoint) {
        if at == Checkpoint::BatchWritten {
            self.arrived.notify_one();
            self.go.notified().await;
        }
    }
}

#[tokio::test]
async fn a_read_does_not_wait_behind_a_write() {
    let folder = Folder::new();
    let gate = Arc::new(Gate::default());
    let checkpoints: Arc<dyn Checkpoints> = Arc::<Gate>::clone(&gate);
    let options = SqliteOptions { checkpoints, ..SqliteOptions::file(folder.database()) };
    let world = Arc::new(World::open(options).await);
    let tx = new_tx(None, None);
    let tx_id = tx.tx_id;
    let writer = Arc::clone(&world);
    let commit = tokio::spawn(async move { writer.commit(|s| s.creates.push(tx)).await });
    gate.arrived.notified().await;
    assert_eq!(world.store.tx(tx_id).await.unwrap(), None);
    gate.go.notify_one();
    commit.await.unwrap();
    assert!(world.store.tx(tx_id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_database_that_another_process_writes_to_is_unavailable_and_nothing_is_written() {
    let folder = Folder::new();
    let busy_timeout = Duration::from_millis(20);
    let options = SqliteOptions { busy_timeout, ..SqliteOptions::file(folder.database()) };
    let world = World::open(options).await;
    let other = connect(&folder.database());
    other.execute_batch("begin immediate").unwrap();
    let tx = new_tx(None, None);
    let mut section = Section::new(world.lease);
    section.creates.push(tx);
    let batch = FencedBatch::new(world.node.clone(), vec![section]).unwrap();
    assert!(matches!(world.store.commit(&batch).await, Err(StoreError::Unavailable(_))));
    other.execute_batch("rollback").unwrap();
    world.store.commit(&batch).await.unwrap();
}

/// Tells when it is dropped.
struct Alive(Option<oneshot::Sender<()>>);

#[async_trait]
impl Checkpoints for Alive {
    async fn reached(&self, _at: Checkpoint) {}
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.take().map(|gone| gone.send(()));
    }
}

#[tokio::test]
async fn the_threads_end_with_the_last_handle() {
    let folder = Folder::new();
    let (gone, is_gone) = oneshot::channel();
    let checkpoints = Arc::new(Alive(Some(gone)));
    let options = SqliteOptions { checkpoints, ..SqliteOptions::file(folder.database()) };
    let world = World::open(options).await;
    let clone = world.store.clone();
    drop(world);
    assert!(clone.tx(new_tx(None, None).tx_id).await.unwrap().is_none());
    drop(clone);
    is_gone.await.unwrap();
}

/// Tells which thread reads the clock, which happens inside of transactions.
struct WhoAsks(Mutex<Vec<ThreadId>>);

impl Clock for WhoAsks {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().push(thread::current().id());
        Timestamp::EPOCH
    }
}

#[tokio::test]
async fn a_simulations_store_works_on_its_callers_thread_alone() {
    let clock = Arc::new(WhoAsks(Mutex::default()));
    let options = SqliteOptions {
        clock: Arc::<WhoAsks>::clone(&clock),
        checkpoints: Arc::new(PanicsOnce::default()),
        threads: Threads::Callers,
        ..SqliteOptions::memory()
    };
    let store = SqliteStore::open(options).await.unwrap();
    let node = NodeId::new("a", Uuid::now_v7()).unwrap();
    let live = LiveNode {
        node,
        chain_id: tollgate_model::ChainId::MIN,
        advertise_url: Text::lossy("http://node"),
        draining: false,
        serves: None,
    };
    store.heartbeat(&live).await.unwrap();
    let asked = clock.0.lock().unwrap().clone();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|thread| *thread == thread::current().id()));
}
