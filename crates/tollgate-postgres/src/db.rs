//! Connections and transactions.
//!
//! A transaction that is not finished takes its connection with it: dropping [`Tx`] closes the
//! session, so that no half-done work goes back to a pool and no lock outlives its owner.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::time::timeout;
use tokio_postgres::{Config, NoTls, Statement};
use tollgate_model::port::StoreError;

use crate::connection::Connection;
use crate::error::{commit_failed, failed, no_connection};
use crate::options::{PgOptions, SessionLimits};

/// How much longer than the longest statement a server may be silent: the way there and back.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// How long a connection is quiet before the system asks whether the other end is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// The pause between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
/// So many without an answer end the connection.
const KEEPALIVE_RETRIES: u32 = 3;
/// How long what was sent may stay without the other end's word that it came.
const SENT_UNHEARD_MAX: Duration = Duration::from_secs(10);

/// The two pools: upkeep never waits behind work.
#[derive(Clone)]
pub(crate) struct Pools {
    work: Pool,
    upkeep: Pool,
    pool_timeout: Duration,
    silence_max: Duration,
}

impl Pools {
    pub(crate) fn open(options: &PgOptions) -> Result<Self, StoreError> {
        let config = config(options)?;
        let pool = |size: usize| {
            let recycling_method = RecyclingMethod::Fast;
            let manager =
                Manager::from_config(config.clone(), NoTls, ManagerConfig { recycling_method });
            Pool::builder(manager)
                .max_size(size.max(1))
                .runtime(Runtime::Tokio1)
                .post_create(prepare_session(options.session))
                .build()
                .map_err(|error| StoreError::Defect(error.to_string()))
        };
        Ok(Self {
            work: pool(options.work_connections)?,
            upkeep: pool(options.upkeep_connections)?,
            pool_timeout: options.pool_timeout,
            silence_max: options.session.statement_timeout + ANSWER_GRACE,
        })
    }

    /// A connection for batches and reads.
    pub(crate) async fn work(&self) -> Result<Connection, StoreError> {
        self.get(&self.work).await
    }

    /// A connection for leases and heartbeats.
    pub(crate) async fn upkeep(&self) -> Result<Connection, StoreError> {
        self.get(&self.upkeep).await
    }

    /// One limit for all of it (I13): the wait for a free one, connecting, and setting up its session.
    async fn get(&self, pool: &Pool) -> Result<Connection, StoreError> {
        match timeout(self.pool_timeout, pool.get()).await {
            Ok(Ok(object)) => Ok(Connection::new(object, self.silence_max)),
            Ok(Err(error)) => Err(no_connection(error)),
            Err(_) => {
                let why = format!("no connection within {:?}", self.pool_timeout);
                Err(StoreError::Unavailable(why))
            }
        }
    }
}

/// How to connect. A server that is gone without a word (a dead host, a firewall that forgot the
/// connection) must be noticed by somebody: left to itself the system takes a quarter of an hour where
/// something was sent, and two hours where nothing was. What the URL says about it stands.
pub(crate) fn config(options: &PgOptions) -> Result<Config, StoreError> {
    // The parser's error does not repeat the URL, which may hold a password.
    let parsed = options.url.parse::<Config>();
    let mut config =
        parsed.map_err(|error| StoreError::Unsafe(format!("database URL: {error}")))?;
    config.application_name("tollgate").connect_timeout(options.pool_timeout);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SENT_UNHEARD_MAX);
    }
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
    Ok(config)
}

/// What every session tells the planner.
///
/// Each query here looks rows up by an index, whatever its tables hold. Left to itself the planner
/// reads a whole table where it believes it to be small, and a session keeps that plan while the
/// table grows: the first hour of a new deployment would be its slowest. Compiling plans costs more
/// than these queries do.
pub const PLANNER: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; \
                           set enable_mergejoin = off";

/// How far a commit goes before it is acknowledged, and who it could wait for.
const DURABILITY: &str = "select current_setting('synchronous_commit'), \
                          current_setting('synchronous_standby_names')";

/// What would undo an acknowledged commit of a session with these settings, if anything but the loss
/// of all copies would.
fn danger(synchronous_commit: &str, standbys: &str) -> Option<&'static str> {
    match synchronous_commit {
        "off" => Some("a crash of the server"),
        // There is one to wait for, and this session would not.
        "local" if !standbys.trim().is_empty() => Some("a failover to a standby"),
        _ => None,
    }
}

/// What a new session is set to.
///
/// What is in force of `synchronous_commit` is pinned: a later change of the server's setting can't
/// turn durability off under a running session. The server asks over TCP whether this node is still
/// there: one that vanished halfway through a message is in no transaction that
/// `idle_in_transaction_session_timeout` would end, and its locks would stay for two hours. These
/// settings have no effect on Unix sockets.
fn session_setup(limits: &SessionLimits) -> String {
    let millis = |duration: Duration| duration.as_millis().max(1);
    format!(
        "set statement_timeout = {}; set lock_timeout = {}; \
         set idle_in_transaction_session_timeout = {}; \
         set tcp_keepalives_idle = {}; set tcp_keepalives_interval = {}; \
         set tcp_keepalives_count = {KEEPALIVE_RETRIES}; set tcp_user_timeout = {}; \
         set default_transaction_isolation = 'read committed'; {PLANNER}; \
         select set_config('synchronous_commit', current_setting('synchronous_commit'), false)",
        millis(limits.statement_timeout),
        millis(limits.lock_timeout),
        millis(limits.idle_in_transaction_timeout),
        KEEPALIVE_IDLE.as_secs(),
        KEEPALIVE_INTERVAL.as_secs(),
        millis(SENT_UNHEARD_MAX),
    )
}

/// Sets the limits of a new session and refuses one that may lose acknowledged commits.
fn prepare_session(limits: SessionLimits) -> Hook {
    Hook::async_fn(move |client, _| {
        Box::pin(async move {
            client.batch_execute(&session_setup(&limits)).await.map_err(HookError::Backend)?;
            let asked = client.query_one(DURABILITY, &[]).await.map_err(HookError::Backend)?;
            let setting: String = asked.try_get(0).map_err(HookError::Backend)?;
            let standbys: String = asked.try_get(1).map_err(HookError::Backend)?;
            if let Some(danger) = danger(&setting, &standbys) {
                return Err(HookError::message(format!(
                    "synchronous_commit is {setting} for this session: {danger} would lose \
                     acknowledged writes and issue fencing tokens twice"
                )));
            }
            Ok(())
        })
    })
}

/// A statement, prepared once per connection.
pub(crate) async fn prepared(client: &Connection, sql: &str) -> Result<Statement, StoreError> {
    client.prepare_cached(sql).await.map_err(failed)
}

/// READ COMMITTED: each statement sees what was committed before *it* began, which is what the
/// fence relies on.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// An open transaction on a connection of its own.
pub(crate) struct Tx {
    connection: Option<Connection>,
}

impl Tx {
    /// Begins, and waits for it.
    pub(crate) async fn begin(connection: Connection) -> Result<Self, StoreError> {
        Self::begin_as(connection, BEGIN).await
    }

    /// A transaction whose `begin` the caller sends together with its first statements.
    pub(crate) const fn unbegun(connection: Connection) -> Self {
        Self { connection: Some(connection) }
    }

    pub(crate) async fn begin_as(connection: Connection, begin: &str) -> Result<Self, StoreError> {
        let tx = Self::unbegun(connection);
        tx.client()?.batch_execute(begin).await.map_err(failed)?;
        Ok(tx)
    }

    pub(crate) fn client(&self) -> Result<&Connection, StoreError> {
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
            connection.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_may_lose_commits_is_told_from_one_that_may_not() {
        assert_eq!(danger("off", ""), Some("a crash of the server"));
        assert_eq!(danger("local", "ANY 1 (a, b)"), Some("a failover to a standby"));
        for (setting, standbys) in [("local", ""), ("on", ""), ("on", "*"), ("remote_apply", "*")] {
            assert_eq!(danger(setting, standbys), None, "{setting} {standbys}");
        }
    }

    #[test]
    fn the_server_is_told_to_notice_a_node_that_vanished() {
        let setup = session_setup(&SessionLimits::default());
        for setting in [
            "set tcp_keepalives_idle = 10;",
            "set tcp_keepalives_interval = 3;",
            "set tcp_keepalives_count = 3;",
            "set tcp_user_timeout = 10000;",
        ] {
            assert!(setup.contains(setting), "{setting} is missing in {setup}");
        }
    }

    #[test]
    fn a_dead_host_is_noticed_soon_unless_the_url_knows_better() {
        let noticed = |url: &str| {
            let config = config(&PgOptions::new(url)).unwrap();
            let (idle, interval) = (config.get_keepalives_idle(), config.get_keepalives_interval());
            let asked = interval.unwrap() * config.get_keepalives_retries().unwrap();
            (idle + asked, *config.get_tcp_user_timeout().unwrap())
        };
        let seconds = Duration::from_secs;
        assert_eq!(noticed("postgres://h/d"), (seconds(19), seconds(10)));
        let url = "postgres://h/d?keepalives_idle=60&keepalives_interval=20&keepalives_retries=2&\
                   tcp_user_timeout=5";
        assert_eq!(noticed(url), (seconds(100), seconds(5)));
    }
}
