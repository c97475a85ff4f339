//! Threads and transactions of a store.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    Checkpoint, Checkpoints, LiveNode, NodeStore, SectionOutcome, StoreError, TxStore,
};
use tollgate_model::{Text, Timestamp};
use tollgate_sqlite::{SqliteOptions, SqliteStore, Threads};
use tollgate_testkit::builders::{
    CHAIN, SectionExt, chain_id, intent, node_id, section, submitter, tx_id,
};
use tollgate_testkit::{SqliteFixture, StoreFixture};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_job_is_rolled_back_and_does_not_kill_the_store() {
    let fixture = SqliteFixture::new().await;
    let (a, lease) = (&fixture as &dyn StoreFixture).owner().await;
    let tx = intent();
    let batch = section(lease).create(tx.clone());
    a.checkpoints.panic_at(Checkpoint::BatchWritten);
    let Err(StoreError::Defect(problem)) = a.try_write_one(batch.clone()).await else {
        panic!("the panic was swallowed")
    };
    assert!(problem.contains("as the test demands"), "{problem}");
    assert!(!a.has(tx.tx_id).await);
    a.write_whole(batch).await;
    assert!(a.has(tx.tx_id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_does_not_wait_behind_a_write() {
    let fixture = SqliteFixture::new().await;
    let (a, lease) = (&fixture as &dyn StoreFixture).owner().await;
    let tx = intent();
    let mut hold = a.checkpoints.pause_at(Checkpoint::BatchWritten);
    let write = a.write_aside(section(lease).create(tx.clone()));
    hold.reached().await;
    assert!(!a.has(tx.tx_id).await);
    hold.release();
    let outcome = write.await.unwrap().unwrap();
    assert!(matches!(outcome, SectionOutcome::Committed { .. }), "{outcome:?}");
    assert!(a.has(tx.tx_id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_released_in_one_transaction() {
    let fixture = SqliteFixture::new().await;
    let a = (&fixture as &dyn StoreFixture).node("a").await;
    let leases = [a.own(submitter(1)).await, a.own(submitter(2)).await];
    // The second release fails: the first one must not be kept without it.
    let second = fixture.blob(submitter(2).address.as_slice());
    let refuse = format!(
        "create trigger refuse before update on submitter_lease when old.submitter = {second}
         begin select raise(abort, 'not this one'); end"
    );
    fixture.execute(&refuse).await.unwrap();
    a.release(&a.id, &leases).await.unwrap_err();
    let owners = a.owners(&[submitter(1), submitter(2)]).await.unwrap();
    assert!(owners.iter().all(Option::is_some), "{owners:?}");
    fixture.execute("drop trigger refuse").await.unwrap();
    assert_eq!(a.release(&a.id, &leases).await.unwrap(), 2);
}

/// Checkpoints that report when they are dropped.
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
    let (_folder, path) = crate::database();
    let (gone, is_gone) = oneshot::channel();
    let checkpoints = Arc::new(Alive(Some(gone)));
    let options = SqliteOptions { checkpoints, ..SqliteOptions::file(path) };
    let store = SqliteStore::open(options).await.unwrap();
    let clone = store.clone();
    drop(store);
    assert!(clone.tx(tx_id()).await.unwrap().is_none());
    drop(clone);
    is_gone.await.unwrap();
}

/// A clock that records which threads read it, which happens inside of transactions.
#[derive(Default)]
struct ThreadClock(Mutex<Vec<ThreadId>>);

impl Clock for ThreadClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().push(thread::current().id());
        Timestamp::EPOCH
    }
}

#[tokio::test]
async fn a_simulations_store_works_on_its_callers_thread_alone() {
    let clock = Arc::new(ThreadClock::default());
    let options = SqliteOptions {
        clock: Arc::<ThreadClock>::clone(&clock),
        threads: Threads::Callers,
        ..SqliteOptions::memory()
    };
    let store = SqliteStore::open(options).await.unwrap();
    let live = LiveNode {
        node: node_id("a"),
        chain_id: chain_id(CHAIN),
        advertise_url: Text::lossy("http://node"),
        draining: false,
        serves: None,
    };
    store.heartbeat(&live).await.unwrap();
    let threads = clock.0.lock().unwrap().clone();
    assert!(!threads.is_empty());
    assert!(threads.iter().all(|thread| *thread == thread::current().id()));
}
