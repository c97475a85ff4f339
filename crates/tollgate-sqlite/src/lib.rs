//! The store on SQLite: one file, any number of processes on it, each of them a node.
//!
//! Owns the schema (`migrations/`), the queries (`queries/`) and the threads that hold the
//! connections. Every write is one `BEGIN IMMEDIATE` transaction on the store's one writer thread: under
//! that lock a lease is checked and stays valid until the commit (I1, I2), between threads and between
//! processes. Reads go to threads of their own and never wait behind a write.
//!
//! Never decides what a transaction should become (that is `tollgate-model`), never calls a chain, never
//! compares a lease with another clock than the statements' `db_now()`.
//!
//! Read in the order of the flow: [`options`](SqliteOptions), `connection` and `migrate` (how a
//! database is opened), `worker` and `db` (threads and transactions), then one module per port area:
//! `lease`, `tx`, `batch`, `list`, `feed`, `reservation`, `node`.

mod account;
mod account_pool;
mod alert;
mod api_key;
mod audit;
mod backup;
mod batch;
mod connection;
mod db;
mod error;
mod event;
mod feed;
mod lease;
mod list;
mod migrate;
mod node;
mod options;
pub mod queries;
mod reservation;
mod restore;
mod retention;
mod row;
mod tx;
mod worker;

use tollgate_model::port::StoreError;

pub use backup::{BackupError, BackupReport, RestoreReport, backup, restore};
pub use migrate::migrate;
pub use options::{SqliteOptions, SqlitePath, Threads};

use db::Db;

/// A database, as one node sees it. Clones share its threads; they end with the last clone.
///
/// A call whose future is dropped before its turn has come does nothing; one that has begun is
/// carried through.
#[derive(Clone)]
pub struct SqliteStore {
    db: Db,
}

impl SqliteStore {
    /// Opens the database, creating it and bringing its schema up to date where needed.
    ///
    /// Must be called inside a tokio runtime, which the checkpoints then run on.
    pub async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        Ok(Self { db: Db::open(options).await? })
    }

    /// Runs statements for tests on databases in memory, which no other connection reaches.
    #[doc(hidden)]
    pub async fn execute_batch(&self, sql: &'static str) -> Result<(), StoreError> {
        self.db.write(move |tx| Ok(tx.conn.execute_batch(sql)?)).await
    }
}
