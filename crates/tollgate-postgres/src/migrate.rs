//! Brings the schema up to date: under a lock, forward only.

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

/// Applies the migrations that are missing, one node at a time; returns how many there were.
///
/// A database that is *newer* than this program is left alone: old and new nodes run side by side
/// while an upgrade rolls through. One whose history differs is refused.
pub async fn migrate(options: &PgOptions) -> Result<u32, StoreError> {
    // A host that swallows packets must not hold a start up for minutes (I13).
    let config = config(options)?;
    let (mut client, connection) = config.connect(NoTls).await.map_err(failed)?;
    let driver = tokio::spawn(connection);
    client.execute("select pg_advisory_lock($1)", &[&LOCK_KEY]).await.map_err(failed)?;
    let report = embedded::migrations::runner()
        .set_abort_missing(false)
        .set_abort_divergent(true)
        .run_async(&mut client)
        .await;
    // The lock goes with the session, whatever became of the run.
    drop(client);
    let _ = driver.await;
    let report = report.map_err(|error| StoreError::Unsafe(format!("migration: {error}")))?;
    let applied = report.applied_migrations().len();
    info!(applied, "schema is up to date");
    Ok(u32::try_from(applied).unwrap_or(u32::MAX))
}
