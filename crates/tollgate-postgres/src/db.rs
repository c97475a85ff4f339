//! Pools, the settings of sessions, and transactions.
//!
//! Dropping a [`Tx`] that is not finished closes its session, so that no half-done work returns to a
//! pool and no lock outlives its owner.

use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_model::port::{Cause, StoreError};
use tollgate_model::sql::{Overrides, Query};

use crate::connection::{Connection, Parameters};
use crate::error::{commit_failed, no_connection};
use crate::hosts::HostByHost;
use crate::options::{PgOptions, SessionLimits};
use crate::queries;
use crate::row::Row;
use crate::tls::TlsParameters;

/// The time that an answer may take beyond the longest statement: the network's share.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// The time that a connection is idle before the system sends keepalive probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// The pause between two keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
/// Unanswered probes that end the connection.
const KEEPALIVE_RETRIES: u32 = 3;
/// The longest time that sent data may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// Two pools, so that leases and heartbeats never wait behind work.
#[derive(Clone)]
pub(crate) struct Pools {
    work: Pool,
    upkeep: Pool,
    pool_timeout: Duration,
    answer_timeout: Duration,
    overrides: Overrides,
}

impl Pools {
    pub(crate) fn open(options: &PgOptions) -> Result<Self, StoreError> {
        let (config, tls) = config(options)?;
        let pool = |size: usize| {
            let recycling_method = RecyclingMethod::Fast;
            let connect = HostByHost { tls: tls.clone(), within: options.pool_timeout };
            let manager =
                Manager::from_connect(config.clone(), connect, ManagerConfig { recycling_method });
            Pool::builder(manager)
                .max_size(size.max(1))
                .runtime(Runtime::Tokio1)
                .post_create(prepare_session(options.session))
                .build()
                .map_err(|error| StoreError::Defect(Cause::of(error)))
        };
        Ok(Self {
            work: pool(options.work_connections)?,
            upkeep: pool(options.upkeep_connections)?,
            pool_timeout: options.pool_timeout,
            answer_timeout: options.session.statement_timeout + ANSWER_GRACE,
            overrides: options.overrides,
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

    /// All rows of a query on a work connection.
    pub(crate) async fn all<T>(
        &self,
        query: Query,
        parameters: &Parameters<'_>,
        decode: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.work().await?.query_all(query, parameters).await?;
        rows.iter().map(decode).collect()
    }

    /// The row of a query that returns one or none, on a work connection.
    pub(crate) async fn one<T>(
        &self,
        query: Query,
        parameters: &Parameters<'_>,
        decode: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let row = self.work().await?.query_opt(query, parameters).await?;
        row.as_ref().map(decode).transpose()
    }

    /// One limit for everything (I13): the wait for a free connection, connecting, and session set-up.
    async fn get(&self, pool: &Pool) -> Result<Connection, StoreError> {
        match timeout(self.pool_timeout, pool.get()).await {
            Ok(Ok(object)) => Ok(Connection::new(object, self.answer_timeout, self.overrides)),
            Ok(Err(error)) => Err(no_connection(error)),
            Err(_) => {
                let why = format!("no connection within {:?}", self.pool_timeout);
                Err(StoreError::Unavailable(why.into()))
            }
        }
    }
}

/// The settings of connections. The system's defaults notice a server that vanished (a dead host, a firewall that
/// dropped the connection) after a quarter of an hour where something was sent, and after two hours where
/// nothing was; these settings notice it in seconds. Settings in the URL win.
pub(crate) fn config(options: &PgOptions) -> Result<(Config, MakeRustlsConnect), StoreError> {
    let (url, tls) = TlsParameters::split(&options.url);
    let (ssl_mode, connector) = tls.connector()?;
    // The parser's error does not repeat the URL, which may hold a password.
    let parsed = url.parse::<Config>();
    let mut config = parsed
        .map_err(|error| StoreError::Unsafe(Cause::new(format!("database URL: {error}"), error)))?;
    config.application_name("tollgate").ssl_mode(ssl_mode);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.pool_timeout);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED_MAX);
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
    Ok((config, connector))
}

/// Planner settings of every session.
///
/// Each query here looks rows up by an index, whatever its tables hold. By default the planner reads a
/// whole table where its statistics say that it is small, and a session keeps that plan while the table
/// grows: the first hour of a new deployment would be its slowest. Compiling plans costs more than these
/// queries do.
///
/// Plans are made once per session. Left to itself the planner makes one for each execution with few rows, because
/// the one for any number of rows looks dearer: planning a batch of one create took several times as long as
/// executing it.
pub const PLANNER: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; \
                           set enable_mergejoin = off; set plan_cache_mode = force_generic_plan";
/// For the next query alone, in its transaction: its parameters decide which index serves.
pub(crate) const PLANNED_FOR_PARAMETERS: &str = "set local plan_cache_mode = force_custom_plan";

/// Reads what a commit waits for before it is acknowledged, and the names of the standbys.
const DURABILITY: &str = "select current_setting('synchronous_commit'), \
                          current_setting('synchronous_standby_names')";

/// The failure that would undo an acknowledged commit of a session with these settings, other than the
/// loss of all copies.
fn danger(synchronous_commit: &str, standbys: &str) -> Option<&'static str> {
    match synchronous_commit {
        "off" => Some("a crash of the server"),
        // There is a standby to wait for, and this session would not.
        "local" if !standbys.trim().is_empty() => Some("a failover to a standby"),
        _ => None,
    }
}

/// The settings of a new session.
///
/// `synchronous_commit` is pinned to its current value: a later change of the server's setting can't turn
/// durability off under a running session. With TCP keepalives the server notices a node that vanished:
/// `idle_in_transaction_session_timeout` does not end a session that waits for the rest of a message, and
/// its locks would stay for two hours. Keepalives have no effect on Unix sockets.
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
        millis(UNACKNOWLEDGED_MAX),
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

/// An open transaction on a connection of its own.
pub(crate) struct Tx {
    connection: Connection,
}

impl Tx {
    /// Begins, and waits for it.
    pub(crate) async fn begin(connection: Connection) -> Result<Self, StoreError> {
        let tx = Self::unbegun(connection);
        tx.batch_execute(tx.text(queries::BEGIN)).await?;
        Ok(tx)
    }

    /// A transaction whose `begin` the caller sends together with its first statements.
    pub(crate) fn unbegun(connection: Connection) -> Self {
        connection.set_in_transaction(true);
        Self { connection }
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.batch_execute("commit").await.map_err(commit_failed)?;
        self.finished();
        Ok(())
    }

    pub(crate) async fn rollback(self) -> Result<(), StoreError> {
        self.batch_execute("rollback").await?;
        self.finished();
        Ok(())
    }

    /// The transaction has ended: the connection may return to its pool.
    pub(crate) fn finished(self) {
        self.connection.set_in_transaction(false);
    }
}

impl Deref for Tx {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_can_lose_acknowledged_commits_are_refused() {
        assert_eq!(danger("off", ""), Some("a crash of the server"));
        assert_eq!(danger("local", "ANY 1 (a, b)"), Some("a failover to a standby"));
        for (setting, standbys) in [("local", ""), ("on", ""), ("on", "*"), ("remote_apply", "*")] {
            assert_eq!(danger(setting, standbys), None, "{setting} {standbys}");
        }
    }

    #[tokio::test]
    async fn live_sessions_have_the_settings_that_notice_a_vanished_node() {
        let server = tollgate_testkit::PgServer::start().await;
        let options = PgOptions::new(server.url(&server.fresh_database().await));
        let pools = Pools::open(&options).unwrap();
        for connection in [pools.work().await.unwrap(), pools.upkeep().await.unwrap()] {
            let show = "select name, setting from pg_settings
                         where name like 'tcp\\_%' order by name";
            let rows = connection.fetch(show, &[]).await.unwrap();
            let settings: Vec<(&str, &str)> =
                rows.iter().map(|row| (row.0.get(0), row.0.get(1))).collect();
            let expected = [
                ("tcp_keepalives_count", "3"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "3"),
                ("tcp_user_timeout", "10000"),
            ];
            assert_eq!(settings, expected);
        }
    }

    #[test]
    fn a_dead_host_is_noticed_within_seconds_unless_the_url_says_otherwise() {
        let noticed = |url: &str| {
            let (config, _) = config(&PgOptions::new(url)).unwrap();
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
