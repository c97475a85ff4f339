//! Brings the schema up to date: under a lock, forward only.

use std::time::Duration;

use deadpool_postgres::Connect as _;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tollgate_model::port::{Cause, StoreError};
use tracing::info;

use crate::db::config;
use crate::error::SqlError;
use crate::hosts::HostByHost;
use crate::options::PgOptions;
use crate::selftest::sessions_are_kept;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The advisory lock under which migrations run: "TOLLGATE" in ASCII.
const LOCK_KEY: i64 = 0x544f_4c4c_4741_5445;

/// The limit on the first connection, as a multiple of `pool_timeout` (I13).
const HANDSHAKE_FACTOR: u32 = 5;
/// The longest time that another node may be migrating.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(120);
/// The longest time that all migrations may take. The server rolls back what is not finished by then.
const MIGRATION_MAX: Duration = Duration::from_secs(3_600);

/// Waits for work, up to a limit.
async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::Unavailable(format!("{what} took longer than {limit:?}").into());
    timeout(limit, work).await.map_err(late)
}

/// Applies the migrations that are missing, one node at a time; returns how many there were.
///
/// A database that is *newer* than this program is left alone: old and new nodes run side by side
/// while an upgrade rolls through. One whose history differs is refused.
pub async fn migrate(options: &PgOptions) -> Result<u32, StoreError> {
    let (config, tls) = config(options)?;
    // A host that drops packets, or accepts and does not answer, must not block a start (I13).
    let limit = options.pool_timeout * HANDSHAKE_FACTOR;
    let hosts = HostByHost { tls, within: options.pool_timeout };
    within(limit, "the connection", sessions_are_kept(&config, &hosts)).await??;
    let connected = within(limit, "the connection", hosts.connect(&config)).await?;
    let (mut client, driver) = connected.map_err(SqlError::from)?;
    let locked = client.execute("select pg_advisory_lock($1)", &[&LOCK_KEY]);
    within(LOCK_WAIT_MAX, "the migration lock", locked).await?.map_err(SqlError::from)?;
    let runner = embedded::migrations::runner().set_abort_missing(false).set_abort_divergent(true);
    let report = within(MIGRATION_MAX, "the migrations", runner.run_async(&mut client)).await?;
    // The lock ends with the session, whatever the outcome.
    drop(client);
    let _ = driver.await;
    let refused = |error: refinery::Error| match is_read_only(&error) {
        // The member of a cluster that was reached is not the primary, or not yet.
        true => StoreError::Unavailable("migration: the server is read-only".into()),
        false => StoreError::Unsafe(Cause::new(format!("migration: {error}"), error)),
    };
    let report = report.map_err(refused)?;
    let applied = report.applied_migrations().len();
    if applied > 0 {
        let last = report.applied_migrations().last();
        info!(applied, version = last.map(|last| last.version()), "schema migrated");
    }
    Ok(u32::try_from(applied).unwrap_or(u32::MAX))
}

/// Returns whether a statement failed because the server is a standby.
fn is_read_only(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| {
        let database = cause.downcast_ref::<tokio_postgres::Error>();
        database.and_then(|it| it.code()) == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn migration_against_a_server_that_never_answers_fails_within_the_limit() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://nobody@{}/nothing", silent.local_addr().unwrap());
        let pool_timeout = Duration::from_millis(20);
        let options = PgOptions { pool_timeout, ..PgOptions::new(url) };
        let refused = migrate(&options).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Unavailable(_)), "{refused}");
    }
}
