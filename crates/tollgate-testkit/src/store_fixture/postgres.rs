//! A fixture on a real PostgreSQL server.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Client;
use tollgate_model::port::{Store, StoreError};
use tollgate_model::sql::Overrides;
use tollgate_model::{Submitter, TxId};
use tollgate_postgres::{PgOptions, PgStore, SessionLimits};

use super::{NodeOptions, OpenTransaction, StoreFixture, StoreKind};
use crate::postgres::connect;
use crate::wait::until;
use crate::{PgServer, child_process};

/// A fresh database with the schema in it.
pub struct PgFixture {
    server: PgServer,
    database: String,
    overrides: Overrides,
    child: Option<PathBuf>,
}

impl PgFixture {
    pub async fn new() -> Self {
        Self::on(PgServer::start().await).await
    }

    /// On a server of its own, which may be crashed.
    pub async fn crashable() -> Self {
        Self::on(PgServer::start_own().await).await
    }

    /// With mistakes in the queries of every node's store.
    pub async fn with_overrides(overrides: Overrides) -> Self {
        Self { overrides, ..Self::new().await }
    }

    async fn on(server: PgServer) -> Self {
        let database = server.fresh_database().await;
        let fixture = Self { server, database, overrides: &[], child: None };
        tollgate_postgres::migrate(&PgOptions::new(fixture.url())).await.unwrap();
        fixture
    }

    /// With the program that opens the database in another process.
    #[must_use]
    pub fn with_child(mut self, program: impl Into<PathBuf>) -> Self {
        self.child = Some(program.into());
        self
    }

    pub fn url(&self) -> String {
        self.server.url(&self.database)
    }

    pub const fn server(&self) -> &PgServer {
        &self.server
    }

    pub fn options(&self, node: NodeOptions) -> PgOptions {
        let session = SessionLimits {
            statement_timeout: Duration::from_secs(40),
            lock_timeout: node.patience,
            idle_in_transaction_timeout: Duration::from_secs(40),
        };
        let mut options = PgOptions::new(self.url());
        options.checkpoints = node.checkpoints;
        options.session = session;
        options.overrides = self.overrides;
        options
    }

    /// Ends the server as a crash does and starts it again.
    pub async fn crash_and_restart(&self) {
        self.server.crash();
        self.server.restart().await;
    }

    /// Makes commits that insert into `table` for one submitter hang until the returned
    /// transaction is released.
    pub async fn hang_commits(&self, table: &str, of: Submitter) -> Box<dyn OpenTransaction> {
        let address = self.blob(of.address.as_slice());
        let trigger = format!(
            "create function hang() returns trigger language plpgsql as $$
             begin
               if new.submitter = {address} then perform pg_advisory_xact_lock(1789); end if;
               return null;
             end $$;
             create constraint trigger hang after insert on {table}
               deferrable initially deferred for each row execute function hang()"
        );
        self.attacker().await.batch_execute(&trigger).await.unwrap();
        self.begin("select pg_advisory_xact_lock(1789)").await
    }

    async fn attacker(&self) -> Client {
        connect(&self.url()).await.expect("the server takes connections")
    }
}

#[async_trait]
impl StoreFixture for PgFixture {
    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    async fn open(&self, options: NodeOptions) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(PgStore::open(self.options(options)).await?))
    }

    async fn execute(&self, sql: &str) -> Result<u64, String> {
        let refusal = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(db) => db.to_string(),
            None => error.to_string(),
        };
        self.attacker().await.execute(sql, &[]).await.map_err(refusal)
    }

    async fn query_i64(&self, sql: &str) -> i64 {
        self.attacker().await.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn begin(&self, sql: &str) -> Box<dyn OpenTransaction> {
        let client = self.attacker().await;
        client.batch_execute(&format!("begin; {sql}")).await.unwrap();
        Box::new(Session(client))
    }

    async fn somebody_waits_for_a_lock(&self) {
        let client = self.attacker().await;
        let sql = "select count(*) from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock'";
        until("a session that waits for a lock", || async {
            let waiting: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
            (waiting > 0).then_some(())
        })
        .await;
    }

    async fn expire_in_flight(&self, submitter: Submitter) {
        // Not a key column: this does not wait for the writer that still holds the lease.
        let fixture: &dyn StoreFixture = self;
        fixture.expire(submitter).await;
    }

    fn earlier(&self, time: &str, by: Duration) -> String {
        format!("{time} - interval '{} microseconds'", by.as_micros())
    }

    fn blob(&self, bytes: &[u8]) -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("decode('{digits}', 'hex')")
    }

    fn id(&self, tx_id: TxId) -> String {
        format!("'{tx_id}'::uuid")
    }

    fn child(&self, idle_limit: Duration) -> Command {
        let program = self.child.as_ref().expect("this fixture was given no child program");
        let mut command = Command::new(program);
        command.args([child_process::POSTGRES, &self.url(), &idle_limit.as_millis().to_string()]);
        command
    }
}

struct Session(Client);

#[async_trait]
impl OpenTransaction for Session {
    async fn release(self: Box<Self>) {
        self.0.batch_execute("rollback").await.unwrap();
    }

    async fn commit(self: Box<Self>) {
        self.0.batch_execute("commit").await.unwrap();
    }
}
