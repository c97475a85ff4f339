//! A fixture on one SQLite file. Each node has connections of its own, as another process would.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_model::port::{Store, StoreError};
use tollgate_model::sql::Overrides;
use tollgate_model::{Submitter, TxId};
use tollgate_sqlite::{SqliteOptions, SqliteStore};

use super::{NodeOptions, OpenTransaction, StoreFixture, StoreKind};
use crate::child_process;
use crate::clock::TestClock;

/// A fresh file with the schema in it.
pub struct SqliteFixture {
    folder: TempDir,
    clock: Arc<TestClock>,
    overrides: Overrides,
    child: Option<PathBuf>,
}

impl SqliteFixture {
    pub async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let fixture = Self { folder, clock: Arc::default(), overrides: &[], child: None };
        tollgate_sqlite::migrate(&SqliteOptions::file(fixture.path())).await.unwrap();
        fixture
    }

    /// With mistakes in the queries of every node's store.
    pub async fn with_overrides(overrides: Overrides) -> Self {
        Self { overrides, ..Self::new().await }
    }

    /// With the program that opens the database in another process.
    #[must_use]
    pub fn with_child(mut self, program: impl Into<PathBuf>) -> Self {
        self.child = Some(program.into());
        self
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("tollgate.db")
    }

    /// Raw statements run on a connection that waits for its turn.
    fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(NodeOptions::PATIENT).unwrap();
        connection
    }
}

#[async_trait]
impl StoreFixture for SqliteFixture {
    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    async fn open(&self, options: NodeOptions) -> Result<Arc<dyn Store>, StoreError> {
        let mut opened = SqliteOptions::file(self.path());
        opened.checkpoints = options.checkpoints;
        opened.clock = self.clock.clone();
        opened.busy_timeout = options.patience;
        opened.overrides = self.overrides;
        Ok(Arc::new(SqliteStore::open(opened).await?))
    }

    async fn execute(&self, sql: &str) -> Result<u64, String> {
        let touched = self.connection().execute(sql, []).map_err(|error| error.to_string())?;
        Ok(touched.try_into().unwrap())
    }

    async fn query_i64(&self, sql: &str) -> i64 {
        self.connection().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    async fn begin(&self, sql: &str) -> Box<dyn OpenTransaction> {
        let connection = self.connection();
        connection.execute_batch(&format!("begin immediate; {sql}")).unwrap();
        Box::new(Session(connection))
    }

    /// SQLite has no queue of waiting sessions.
    async fn somebody_waits_for_a_lock(&self) {}

    /// No other connection can write while a writer is in mid-transaction, so the clock is advanced.
    async fn expire_in_flight(&self, _submitter: Submitter) {
        self.clock.advance(Duration::from_secs(86_400));
    }

    fn earlier(&self, time: &str, by: Duration) -> String {
        format!("{time} - {}", by.as_micros())
    }

    fn blob(&self, bytes: &[u8]) -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{digits}'")
    }

    fn id(&self, tx_id: TxId) -> String {
        self.blob(tx_id.uuid().as_bytes())
    }

    fn child(&self, _idle_limit: Duration) -> Command {
        let program = self.child.as_ref().expect("this fixture was given no child program");
        let mut command = Command::new(program);
        command.arg(child_process::SQLITE).arg(self.path());
        command
    }
}

struct Session(Connection);

#[async_trait]
impl OpenTransaction for Session {
    async fn release(self: Box<Self>) {
        self.0.execute_batch("rollback").unwrap();
    }

    async fn commit(self: Box<Self>) {
        self.0.execute_batch("commit").unwrap();
    }
}
