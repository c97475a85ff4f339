//! Opens connections, sets them up, and refuses those that would not keep the promises.
//!
//! Blocks; called on the threads that own the connections.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};
use tollgate_model::port::StoreError;
use tollgate_model::port::clock::Clock;
use tollgate_model::time::micros;

use crate::error::{before_commit, is_busy};
use crate::options::{SqliteOptions, SqlitePath};

/// The largest instant and length of time, in microseconds (73,000 years), so that no sum of two
/// of them leaves 64 bits: SQLite would go on with a floating-point number.
const TIME_MAX: i64 = 1 << 61;
/// Pause between two tries of what SQLite's own busy handler does not wait for.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// More than there are queries, so that none is prepared twice.
const STATEMENTS_MAX: usize = 128;

/// The connection that writes; makes the file if it is not there.
pub(crate) fn writer(options: &SqliteOptions) -> Result<Connection, StoreError> {
    let conn = match &options.path {
        SqlitePath::File(path) => {
            make_private(path);
            file(path, OpenFlags::SQLITE_OPEN_CREATE)?
        }
        SqlitePath::Memory => Connection::open_in_memory().map_err(before_commit)?,
    };
    set_up(&conn, options)?;
    Ok(conn)
}

/// A connection that only reads, on a file that a writer has opened before.
pub(crate) fn reader(options: &SqliteOptions, path: &Path) -> Result<Connection, StoreError> {
    let conn = file(path, OpenFlags::empty())?;
    set_up(&conn, options)?;
    conn.pragma_update(None, "query_only", true).map_err(before_commit)?;
    Ok(conn)
}

/// Creates the file readable by its owner alone. SQLite gives the files beside it (`-wal`, `-shm`) the same
/// mode. An error here is reported better by the opening that follows.
fn make_private(path: &Path) {
    if path == Path::new(":memory:") {
        return;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

fn file(path: &Path, more: OpenFlags) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    Connection::open_with_flags(path, flags).map_err(before_commit)
}

fn set_up(conn: &Connection, options: &SqliteOptions) -> Result<(), StoreError> {
    let in_file = options.path != SqlitePath::Memory;
    let set = || {
        conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        conn.busy_timeout(options.busy_timeout)?;
        if in_file {
            retry_while_busy(options.busy_timeout, || journal_in_wal(conn))?;
        }
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        register_clock(conn, Arc::clone(&options.clock))
    };
    set().map_err(before_commit)?;
    check(conn, in_file)
}

fn journal_in_wal(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
}

/// SQLite does not wait by itself when two connections switch the journal's mode at once.
fn retry_while_busy<T>(
    limit: Duration,
    mut act: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut waited = Duration::ZERO;
    loop {
        match act() {
            Err(error) if is_busy(&error) && waited < limit => {
                thread::sleep(RETRY_PAUSE);
                waited += RETRY_PAUSE;
            }
            answer => return answer,
        }
    }
}

/// Checks that the settings are in force: some file systems don't support WAL, and a build of SQLite may
/// pin a setting. Without them an acknowledged write could be lost (I6) or a token issued twice (I4).
fn check(conn: &Connection, in_file: bool) -> Result<(), StoreError> {
    const FULL: i64 = 2;
    let journal: String = pragma(conn, "journal_mode")?;
    if in_file && !journal.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Unsafe(format!("journal_mode is {journal}, must be WAL").into()));
    }
    let synchronous: i64 = pragma(conn, "synchronous")?;
    if synchronous != FULL {
        return Err(StoreError::Unsafe(
            format!("synchronous is {synchronous}, must be FULL").into(),
        ));
    }
    let foreign_keys: bool = pragma(conn, "foreign_keys")?;
    if !foreign_keys {
        return Err(StoreError::Unsafe("foreign_keys is off, must be on".into()));
    }
    Ok(())
}

fn pragma<T: rusqlite::types::FromSql>(conn: &Connection, name: &str) -> Result<T, StoreError> {
    conn.pragma_query_value(None, name, |row| row.get(0)).map_err(before_commit)
}

/// `db_now()`: the database's clock, read anew wherever a statement names it. Not deterministic, so
/// that SQLite never keeps an answer.
fn register_clock(conn: &Connection, clock: Arc<dyn Clock>) -> rusqlite::Result<()> {
    conn.create_scalar_function("db_now", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(clock.now().unix_micros().clamp(-TIME_MAX, TIME_MAX))
    })
}

/// A length of time as the statements take it.
pub(crate) fn span(duration: Duration) -> i64 {
    micros(duration).min(TIME_MAX)
}
