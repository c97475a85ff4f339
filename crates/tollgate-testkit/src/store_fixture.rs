//! A database that any number of nodes share, as a conformance test sees it.
//!
//! Nodes reach it through their stores, each over connections of its own; attackers reach it by raw SQL.
//! Whatever differs between the databases is a method here, so that the tests are the same.

mod postgres;
mod sqlite;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{Checkpoints, Lease, NoCheckpoints, Store, StoreError};
use tollgate_model::{Submitter, TxId};

use crate::builders::submitter;
use crate::node::TestNode;

pub use postgres::PgFixture;
pub use sqlite::SqliteFixture;

/// The database of a fixture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// Many writers at once; locks on rows.
    Postgres,
    /// One writer at a time; the lock is the file's.
    Sqlite,
}

impl StoreKind {
    /// A fresh database of this kind.
    pub async fn start(self) -> Arc<dyn StoreFixture> {
        match self {
            Self::Postgres => Arc::new(PgFixture::new().await),
            Self::Sqlite => Arc::new(SqliteFixture::new().await),
        }
    }
}

/// The options of a node's store.
#[derive(Clone)]
pub struct NodeOptions {
    pub checkpoints: Arc<dyn Checkpoints>,
    /// The longest wait for a lock.
    pub patience: Duration,
}

impl NodeOptions {
    /// Waits longer for a lock than any test holds one.
    pub const PATIENT: Duration = Duration::from_secs(30);
    /// Gives up on a lock soon.
    pub const HASTY: Duration = Duration::from_millis(250);
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self { checkpoints: Arc::new(NoCheckpoints), patience: Self::PATIENT }
    }
}

#[async_trait]
pub trait StoreFixture: Send + Sync {
    fn kind(&self) -> StoreKind;

    async fn open(&self, options: NodeOptions) -> Result<Arc<dyn Store>, StoreError>;

    /// Runs a statement without a store; returns how many rows it changed, or the refusal.
    async fn execute(&self, sql: &str) -> Result<u64, String>;

    async fn query_i64(&self, sql: &str) -> i64;

    /// Opens a transaction without a store, and runs a statement in it.
    async fn begin(&self, sql: &str) -> Box<dyn OpenTransaction>;

    /// Waits until some session waits for a lock, where the database can tell.
    async fn somebody_waits_for_a_lock(&self);

    /// Ends a lease's time long ago, even if its owner is in mid-transaction. Others of the same
    /// fixture may end with it.
    async fn expire_in_flight(&self, submitter: Submitter);

    /// Takes `by` off a time, as an SQL expression.
    fn earlier(&self, time: &str, by: Duration) -> String;

    fn blob(&self, bytes: &[u8]) -> String;

    fn id(&self, tx_id: TxId) -> String;

    /// The program that opens this database in a process of its own; see [`crate::child_process`].
    fn child(&self, idle_limit: Duration) -> Command;
}

/// An open transaction without a store.
#[async_trait]
pub trait OpenTransaction: Send {
    /// Rolls back.
    async fn release(self: Box<Self>);
    async fn commit(self: Box<Self>);
}

impl dyn StoreFixture + '_ {
    pub async fn node(&self, name: &str) -> TestNode {
        TestNode::open(self, name, NodeOptions::PATIENT).await
    }

    /// A further node, which owns the first submitter for as long as a test can last.
    pub async fn owner(&self) -> (TestNode, Lease) {
        let node = self.node("a").await;
        let lease = node.own(submitter(1)).await;
        (node, lease)
    }

    /// Two further nodes, of which the first owns the first submitter.
    pub async fn owner_and_other(&self) -> (TestNode, TestNode, Lease) {
        let (a, lease) = self.owner().await;
        (a, self.node("b").await, lease)
    }

    /// A node that gives up on a lock soon.
    pub async fn hasty_node(&self, name: &str) -> TestNode {
        TestNode::open(self, name, NodeOptions::HASTY).await
    }

    /// The condition that a row belongs to a submitter.
    pub fn of(&self, submitter: Submitter) -> String {
        let address = self.blob(submitter.address.as_slice());
        format!("chain_id = {} and submitter = {address}", submitter.chain_id)
    }

    /// The number of rows of a table, which a condition may follow.
    pub async fn count(&self, rows: &str) -> i64 {
        self.query_i64(&format!("select count(*) from {rows}")).await
    }

    /// Lets a lease's time pass faster than the clock: it ends `by` earlier.
    pub async fn age_lease(&self, submitter: Submitter, by: Duration) {
        let aged = self.earlier("expires_at", by);
        let of = self.of(submitter);
        let sql = format!("update submitter_lease set expires_at = {aged} where {of}");
        assert_eq!(self.execute(&sql).await, Ok(1), "the lease of {submitter} exists");
    }

    /// Ends a lease's time long ago.
    pub async fn expire(&self, submitter: Submitter) {
        self.age_lease(submitter, Duration::from_secs(86_400)).await;
    }

    /// The token that the database holds for a submitter.
    pub async fn stored_token(&self, submitter: Submitter) -> i64 {
        let sql = format!("select fencing_token from submitter_lease where {}", self.of(submitter));
        self.query_i64(&sql).await
    }
}
