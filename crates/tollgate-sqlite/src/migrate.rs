//! Brings a database's schema up to date: forward only, safe beside nodes that run.
//!
//! Processes may migrate at the same time. All pending migrations and their entries in the history are one
//! transaction under the write lock, and the history's primary key admits each version once. A process
//! that finds that another was faster looks again.

use refinery::error::Kind;
use refinery::{Migration, Runner};
use rusqlite::{Connection, TransactionBehavior};
use tollgate_model::port::{Cause, StoreError};

use crate::connection;
use crate::error::{QueryError, is_damaged, is_unavailable};
use crate::options::SqliteOptions;
use crate::worker::Worker;

mod embedded {
    //! The migrations, as they were when this program was built.
    refinery::embed_migrations!("migrations");
}

/// Brings the database's schema up to date; returns how many migrations that took.
///
/// A schema that is newer than this program is left as it is: old and new nodes run together. One
/// that was changed after the fact is refused as unsafe.
pub async fn migrate(options: &SqliteOptions) -> Result<u32, StoreError> {
    let options = options.clone();
    let worker = Worker::start("tollgate-sqlite-migrate", move || connection::writer(&options));
    worker.await?.run(|conn| run(conn).map_err(QueryError::from)).await
}

/// The newest version that this program knows.
pub(crate) fn newest_version() -> i64 {
    let runner = embedded::migrations::runner();
    runner.get_migrations().iter().map(|known| i64::from(known.version())).max().unwrap_or_default()
}

/// The same on a connection that is open.
pub(crate) fn run(conn: &mut Connection) -> Result<u32, StoreError> {
    let runner = embedded::migrations::runner()
        .set_grouped(true)
        .set_abort_divergent(true)
        .set_abort_missing(false);
    loop {
        let before = applied(&runner, conn);
        if runner.get_migrations().iter().all(|known| before.contains(known)) {
            // Nothing to write, so no lock to wait for: a node can start while another one writes.
            return Ok(0);
        }
        conn.set_transaction_behavior(TransactionBehavior::Immediate);
        match runner.run(conn) {
            Ok(report) => {
                let count = report.applied_migrations().len();
                let version = runner.get_migrations().iter().map(Migration::version).max();
                tracing::info!(applied = count, version, "schema migrated");
                return u32::try_from(count).map_err(|error| StoreError::Defect(Cause::of(error)));
            }
            // Another process was faster. It can't be so for ever: each time a version has gone in.
            Err(_) if applied(&runner, conn).len() > before.len() => {}
            Err(error) => return Err(refused(error)),
        }
    }
}

/// The migrations that the history holds; none if there is no history yet.
fn applied(runner: &Runner, conn: &mut Connection) -> Vec<Migration> {
    conn.set_transaction_behavior(TransactionBehavior::Deferred);
    runner.get_applied_migrations(conn).unwrap_or_default()
}

fn refused(error: refinery::Error) -> StoreError {
    let text = format!("schema: {error}");
    match error.kind() {
        Kind::DivergentVersion(..) | Kind::MissingVersion(..) | Kind::RepeatedVersion(..) => {
            StoreError::Unsafe(Cause::new(text, error))
        }
        Kind::Connection(_, cause) => match cause.downcast_ref::<rusqlite::Error>() {
            Some(cause) if is_unavailable(cause) => {
                StoreError::Unavailable(Cause::new(text, error))
            }
            Some(cause) if is_damaged(cause) => StoreError::Unsafe(Cause::new(text, error)),
            _ => StoreError::Defect(Cause::new(text, error)),
        },
        _ => StoreError::Defect(Cause::new(text, error)),
    }
}
