//! Brings the schema up to date: under a lock, forward only.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::NoTls;
use tollgate_model::port::StoreError;
use tracing::info;

use crate::db::config;
use crate::error::failed;
use crate::options::PgOptions;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The advisory lock under which migrations run: "TOLLGATE" in ASCII.
const LOCK_KEY: i64 = 0x544f_4c4c_4741_5445;

/// How much longer than for a connection of the pool a start waits for one that is accepted and
/// greeted (I13).
const HANDSHAKE_PATIENCE: u32 = 5;
/// How long another node may be migrating.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(120);
/// How long all migrations may take. What is not finished by then is rolled back by the server.
const MIGRATION_MAX: Duration = Duration::from_secs(3_600);

/// Waits so long and no longer.
async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::Unavailable(format!("{what} did not come within {limit:?}"));
    timeout(limit, work).await.map_err(late)
}

/// Applies the migrations that are missing, one node at a time; returns how many there were.
///
/// A database that is *newer* than this program is left alone: old and new nodes run side by side
/// while an upgrade rolls through. One whose history differs is refused.
pub async fn migrate(options: &PgOptions) -> Result<u32, StoreError> {
    let config = config(options)?;
    // A host that swallows packets, or accepts and says nothing, must not hold a start up (I13).
    let patience = options.pool_timeout * HANDSHAKE_PATIENCE;
    let connected = within(patience, "the server's greeting", config.connect(NoTls)).await?;
    let (mut client, connection) = connected.map_err(failed)?;
    let driver = tokio::spawn(connection);
    let locked = client.execute("select pg_advisory_lock($1)", &[&LOCK_KEY]);
    within(LOCK_WAIT_MAX, "the migration lock", locked).await?.map_err(failed)?;
    let runner = embedded::migrations::runner().set_abort_missing(false).set_abort_divergent(true);
    let report = within(MIGRATION_MAX, "the migrations", runner.run_async(&mut client)).await?;
    // The lock goes with the session, whatever became of the run.
    drop(client);
    let _ = driver.await;
    let report = report.map_err(|error| StoreError::Unsafe(format!("migration: {error}")))?;
    let applied = report.applied_migrations().len();
    if applied > 0 {
        let last = report.applied_migrations().last();
        info!(applied, version = last.map(|last| last.version()), "schema migrated");
    }
    Ok(u32::try_from(applied).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_accepts_and_says_nothing_does_not_hold_a_migration_up() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://nobody@{}/nothing", silent.local_addr().unwrap());
        let pool_timeout = Duration::from_millis(20);
        let options = PgOptions { pool_timeout, ..PgOptions::new(url) };
        let refused = migrate(&options).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Unavailable(_)), "{refused}");
    }
}
