//! Connections and transactions.
//!
//! A transaction that is not finished takes its connection with it: dropping [`Tx`] closes the
//! session, so that no half-done work goes back to a pool and no lock outlives its owner.

use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use tokio_postgres::{Config, NoTls, Statement};
use tollgate_model::port::StoreError;

use crate::error::{commit_failed, failed, no_connection};
use crate::options::{PgOptions, SessionLimits};

/// The two pools: upkeep never waits behind work.
#[derive(Clone)]
pub(crate) struct Pools {
    work: Pool,
    upkeep: Pool,
}

impl Pools {
    pub(crate) fn open(options: &PgOptions) -> Result<Self, StoreError> {
        let mut config = parse_url(&options.url)?;
        config.application_name("tollgate").connect_timeout(options.pool_timeout);
        let pool = |size: usize| {
            let recycling_method = RecyclingMethod::Fast;
            let manager =
                Manager::from_config(config.clone(), NoTls, ManagerConfig { recycling_method });
            Pool::builder(manager)
                .max_size(size.max(1))
                .wait_timeout(Some(options.pool_timeout))
                .create_timeout(Some(options.pool_timeout))
                .runtime(Runtime::Tokio1)
                .post_create(prepare_session(options.session))
                .build()
                .map_err(|error| StoreError::Defect(error.to_string()))
        };
        Ok(Self {
            work: pool(options.work_connections)?,
            upkeep: pool(options.upkeep_connections)?,
        })
    }

    /// A connection for batches and reads.
    pub(crate) async fn work(&self) -> Result<Object, StoreError> {
        self.work.get().await.map_err(no_connection)
    }

    /// A connection for leases and heartbeats.
    pub(crate) async fn upkeep(&self) -> Result<Object, StoreError> {
        self.upkeep.get().await.map_err(no_connection)
    }
}

pub(crate) fn parse_url(url: &str) -> Result<Config, StoreError> {
    // The parser's error does not repeat the URL, which may hold a password.
    url.parse().map_err(|error| StoreError::Unsafe(format!("database URL: {error}")))
}

/// What every session tells the planner.
///
/// Each query here looks rows up by an index, whatever its tables hold. Left to itself the planner
/// reads a whole table where it believes it to be small, and a session keeps that plan while the
/// table grows: the first hour of a new deployment would be its slowest. Compiling plans costs more
/// than these queries do.
pub const PLANNER: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; \
                           set enable_mergejoin = off";

/// Sets the limits of a new session and refuses one that may lose acknowledged commits.
fn prepare_session(limits: SessionLimits) -> Hook {
    Hook::async_fn(move |client, _| {
        Box::pin(async move {
            let millis = |duration: Duration| duration.as_millis().max(1);
            // What is in force now is pinned: a later change of the server's setting can't turn
            // durability off under a running session.
            let setup = format!(
                "set statement_timeout = {}; set lock_timeout = {}; \
                 set idle_in_transaction_session_timeout = {}; \
                 set default_transaction_isolation = 'read committed'; {PLANNER}; \
                 select set_config('synchronous_commit', current_setting('synchronous_commit'), false)",
                millis(limits.statement_timeout),
                millis(limits.lock_timeout),
                millis(limits.idle_in_transaction_timeout),
            );
            client.batch_execute(&setup).await.map_err(HookError::Backend)?;
            let row = client
                .query_one("select current_setting('synchronous_commit')", &[])
                .await
                .map_err(HookError::Backend)?;
            let setting: String = row.try_get(0).map_err(HookError::Backend)?;
            if setting == "off" {
                let message = "synchronous_commit is off for this session: a crash of the server \
                               would lose acknowledged writes and issue fencing tokens twice";
                return Err(HookError::message(message));
            }
            Ok(())
        })
    })
}

/// A statement, prepared once per connection.
pub(crate) async fn prepared(client: &Client, sql: &str) -> Result<Statement, StoreError> {
    client.prepare_cached(sql).await.map_err(failed)
}

/// READ COMMITTED: each statement sees what was committed before *it* began, which is what the
/// fence relies on.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// An open transaction on a connection of its own.
pub(crate) struct Tx {
    connection: Option<Object>,
}

impl Tx {
    /// Begins, and waits for it.
    pub(crate) async fn begin(connection: Object) -> Result<Self, StoreError> {
        Self::begin_as(connection, BEGIN).await
    }

    /// A transaction whose `begin` the caller sends together with its first statements.
    pub(crate) const fn unbegun(connection: Object) -> Self {
        Self { connection: Some(connection) }
    }

    pub(crate) async fn begin_as(connection: Object, begin: &str) -> Result<Self, StoreError> {
        let tx = Self::unbegun(connection);
        tx.client()?.batch_execute(begin).await.map_err(failed)?;
        Ok(tx)
    }

    pub(crate) fn client(&self) -> Result<&Client, StoreError> {
        self.connection.as_ref().ok_or_else(|| StoreError::Defect("transaction is over".to_owned()))
    }

    /// A statement, prepared once per connection.
    pub(crate) async fn prepared(&self, sql: &str) -> Result<Statement, StoreError> {
        prepared(self.client()?, sql).await
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.client()?.batch_execute("commit").await.map_err(commit_failed)?;
        self.finished();
        Ok(())
    }

    pub(crate) async fn rollback(self) -> Result<(), StoreError> {
        self.client()?.batch_execute("rollback").await.map_err(failed)?;
        self.finished();
        Ok(())
    }

    /// The transaction is over: the connection may go back to its pool.
    pub(crate) fn finished(mut self) {
        drop(self.connection.take());
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}
