//! Copies a database into a backup file while nodes write, and makes a database of a backup.
//!
//! A backup is one snapshot: `VACUUM INTO` reads in a single transaction, beside the writers, and is never
//! restarted by them (the page-wise backup API is, by every write of another process). The table
//! `backup_info` is written last, after the check of the copy, so that a file without it is no backup.
//!
//! Blocks; for commands, not for nodes.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection as Sqlite, OpenFlags, OptionalExtension};
use thiserror::Error;
use tollgate_model::port::{RestoreSummary, StoreError};
use tollgate_model::{NodeId, Text, Timestamp};

use crate::db::Connection;
use crate::error::QueryError;
use crate::options::{SqliteOptions, SqlitePath};
use crate::{connection, migrate, restore as marks};

/// The pause between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_millis(500);

/// Files that SQLite keeps beside a database. Those of another database would corrupt a restored one.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The reason why a backup or a restore failed. It leaves no file behind.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The source is not usable.
    #[error("{}: {why}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        why: String,
    },
    /// The target exists, or can't be made.
    #[error("{}: {why}", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        why: String,
    },
    /// The copy was not made whole.
    #[error("the copy failed: {0}")]
    Copy(String),
}

/// A finished backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupReport {
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The version of the schema.
    pub schema_version: i64,
    /// The number of transactions in it.
    pub transactions: u64,
    /// The number of accounts in it.
    pub accounts: u64,
}

/// Copies the database into a new file, readable by its owner alone; durable when this returns.
/// `progress` is told the bytes written and the size of the database, every half second.
pub fn backup(
    options: &SqliteOptions,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<BackupReport, BackupError> {
    let SqlitePath::File(path) = &options.path else {
        let why = "a database in memory has no backup".to_owned();
        return Err(BackupError::Source { path: PathBuf::from(":memory:"), why });
    };
    let source = |error: rusqlite::Error| refused_source(path, error.to_string());
    if !path.is_file() {
        return Err(refused_source(path, "there is no such file".to_owned()));
    }
    let conn = Sqlite::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(source)?;
    conn.busy_timeout(options.busy_timeout).map_err(source)?;
    schema_version(&conn).map_err(source)?.ok_or_else(|| {
        refused_source(path, "is not a database of Tollgate, or not migrated yet".to_owned())
    })?;
    let number = |pragma: &str| {
        let value: i64 = conn.pragma_query_value(None, pragma, |row| row.get(0)).map_err(source)?;
        Ok(u64::try_from(value).unwrap_or_default())
    };
    let size = number("page_count")? * number("page_size")?;
    new_private_file(to)?;
    let taken_at = options.clock.now();
    let copied =
        copy(conn, to, || progress(file_size(to), size)).and_then(|()| finish_copy(to, taken_at));
    copied.inspect_err(|_| remove(to))
}

/// Runs `VACUUM INTO` on a thread, and `report` while it runs.
fn copy(conn: Sqlite, to: &Path, mut report: impl FnMut()) -> Result<(), BackupError> {
    let to = to.to_str().ok_or_else(|| refused_target(to, "is not UTF-8".to_owned()))?;
    let (done, finished) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = done.send(conn.execute("vacuum into ?1", [to]));
        });
        loop {
            match finished.recv_timeout(REPORT_PAUSE) {
                Ok(copied) => return copied.map(drop).map_err(failed_copy),
                Err(RecvTimeoutError::Timeout) => report(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BackupError::Copy("the thread of the copy panicked".to_owned()));
                }
            }
        }
    })
}

/// Checks the copy, marks it as a whole backup, and makes it durable.
fn finish_copy(to: &Path, taken_at: Timestamp) -> Result<BackupReport, BackupError> {
    let conn = open_alone(to)?;
    check_integrity(&conn)?;
    let count = |table: &str| {
        let sql = format!("select count(*) from {table}");
        let rows: i64 = conn.query_row(&sql, [], |row| row.get(0)).map_err(failed_copy)?;
        Ok(u64::try_from(rows).unwrap_or_default())
    };
    let (transactions, accounts) = (count("managed_tx")?, count("submitter_cursor")?);
    let schema_version = schema_version(&conn).map_err(failed_copy)?.unwrap_or_default();
    conn.execute_batch("drop table if exists backup_info; create table backup_info (taken_at integer not null) strict")
        .and_then(|()| {
            conn.execute("insert into backup_info values (?1)", [taken_at.unix_micros()])
        })
        .map_err(failed_copy)?;
    conn.close().map_err(|(_, error)| failed_copy(error))?;
    make_durable(to)?;
    Ok(BackupReport { bytes: file_size(to), schema_version, transactions, accounts })
}

/// A database that was made of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreReport {
    /// When the backup was taken.
    pub taken_at: Timestamp,
    /// The reason with which the accounts are paused.
    pub reason: Text<500>,
    /// The numbers of accounts and of open transactions in it.
    pub summary: RestoreSummary,
}

/// Makes a new database of a backup; durable when this returns. No account is active in it, see
/// [`RestoreStore`](tollgate_model::port::RestoreStore). `reason` gets the time of the backup.
pub fn restore(
    from: &Path,
    options: &SqliteOptions,
    by: &NodeId,
    reason: impl FnOnce(Timestamp) -> Text<500>,
) -> Result<RestoreReport, BackupError> {
    let SqlitePath::File(to) = &options.path else {
        let why = "a backup is restored into a file".to_owned();
        return Err(BackupError::Target { path: PathBuf::from(":memory:"), why });
    };
    for suffix in ["", BESIDE[0], BESIDE[1], BESIDE[2]] {
        let path = with_suffix(to, suffix);
        if path.exists() {
            let why = "exists: a restore makes a new database. If no node runs on this one, move it away with \
                       the files beside it (-wal, -shm)";
            return Err(refused_target(&path, why.to_owned()));
        }
    }
    let building = with_suffix(to, ".restoring");
    new_private_file(&building)?;
    let restored = build(from, &building, options, by, reason).and_then(|report| {
        std::fs::rename(&building, to).map_err(|error| refused_target(to, error.to_string()))?;
        make_durable(to)?;
        Ok(report)
    });
    restored.inspect_err(|_| {
        remove(&building);
        BESIDE.iter().for_each(|suffix| remove(&with_suffix(&building, suffix)));
    })
}

/// Makes the database under another name, so that the right one never names half of it.
fn build(
    from: &Path,
    building: &Path,
    options: &SqliteOptions,
    by: &NodeId,
    reason: impl FnOnce(Timestamp) -> Text<500>,
) -> Result<RestoreReport, BackupError> {
    let source = |error: std::io::Error| refused_source(from, error.to_string());
    let mut reader = File::open(from).map_err(source)?;
    let mut writer = OpenOptions::new()
        .write(true)
        .open(building)
        .map_err(|error| refused_target(building, error.to_string()))?;
    std::io::copy(&mut reader, &mut writer).map_err(source)?;
    drop(writer);
    let not_usable = |error: rusqlite::Error| refused_source(from, error.to_string());
    let conn =
        Sqlite::open_with_flags(building, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(not_usable)?;
    // A database whose newest pages are in its -wal file can't even be read.
    let not_whole = |why: &str| {
        refused_source(from, format!("is not a whole backup of `tollgate backup`{why}"))
    };
    let marked = taken_at(&conn).map_err(|error| not_whole(&format!(": {error}")))?;
    let taken_at = marked.ok_or_else(|| not_whole(""))?;
    check_integrity(&conn).map_err(|error| refused_source(from, error.to_string()))?;
    let version = schema_version(&conn).map_err(not_usable)?.unwrap_or_default();
    if version > migrate::newest_version() {
        let why = format!(
            "has schema version {version}, and this program knows versions up to {}: restore it with the \
             Tollgate that made it, or a newer one",
            migrate::newest_version()
        );
        return Err(refused_source(from, why));
    }
    conn.close().map_err(|(_, error)| failed_copy(error))?;

    let options = SqliteOptions { path: SqlitePath::File(building.to_owned()), ..options.clone() };
    let mut conn = connection::writer(&options).map_err(failed_store)?;
    migrate::run(&mut conn).map_err(failed_store)?;
    let reason = reason(taken_at);
    let tx = conn.transaction().map_err(failed_copy)?;
    let summary = marks::mark(&Connection::plain(&tx), by, &reason)
        .map_err(|error: QueryError| failed_store(error.into()))?;
    tx.execute_batch("drop table backup_info").map_err(failed_copy)?;
    tx.commit().map_err(failed_copy)?;
    // The last connection that closes writes the journal (-wal) back into the file and removes it.
    conn.close().map_err(|(_, error)| failed_copy(error))?;
    if file_size(&with_suffix(building, BESIDE[0])) > 0 {
        return Err(BackupError::Copy("the journal was not written back".to_owned()));
    }
    make_durable(building)?;
    Ok(RestoreReport { taken_at, reason, summary })
}

fn taken_at(conn: &Sqlite) -> rusqlite::Result<Option<Timestamp>> {
    if !has_table(conn, "backup_info")? {
        return Ok(None);
    }
    let micros = conn.query_row("select taken_at from backup_info", [], |row| row.get(0));
    Ok(micros.optional()?.map(Timestamp::from_unix_micros))
}

/// The version of the newest migration; `None` if it is not a database of Tollgate.
fn schema_version(conn: &Sqlite) -> rusqlite::Result<Option<i64>> {
    if !has_table(conn, "refinery_schema_history")? || !has_table(conn, "submitter_cursor")? {
        return Ok(None);
    }
    conn.query_row("select max(version) from refinery_schema_history", [], |row| row.get(0))
}

fn has_table(conn: &Sqlite, name: &str) -> rusqlite::Result<bool> {
    let sql = "select 1 from sqlite_schema where type = 'table' and name = ?1";
    Ok(conn.query_row(sql, [name], |_| Ok(())).optional()?.is_some())
}

/// Opens a copy that no other process knows, without a journal file that could be left behind.
fn open_alone(path: &Path) -> Result<Sqlite, BackupError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let conn = Sqlite::open_with_flags(path, flags).map_err(failed_copy)?;
    conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
        .map_err(failed_copy)?;
    conn.pragma_update(None, "synchronous", "FULL").map_err(failed_copy)?;
    Ok(conn)
}

fn check_integrity(conn: &Sqlite) -> Result<(), BackupError> {
    let found: String =
        conn.query_row("pragma integrity_check(1)", [], |row| row.get(0)).map_err(failed_copy)?;
    if found != "ok" {
        return Err(BackupError::Copy(format!("the check of its integrity says: {found}")));
    }
    let orphan = conn.query_row("pragma foreign_key_check", [], |row| row.get::<_, String>(0));
    match orphan.optional().map_err(failed_copy)? {
        None => Ok(()),
        Some(table) => Err(BackupError::Copy(format!("a row of {table} refers to no row"))),
    }
}

/// Creates the file, readable by its owner alone. One that exists is never overwritten.
fn new_private_file(path: &Path) -> Result<(), BackupError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(refused_target(path, "exists and is not overwritten".to_owned()))
        }
        Err(error) => Err(refused_target(path, error.to_string())),
    }
}

/// Writes the file and its name in the folder to the disk.
fn make_durable(path: &Path) -> Result<(), BackupError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|error| BackupError::Copy(format!("not written to the disk: {error}")))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Removes an unfinished file. If that fails, the failure that is reported says more.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

fn refused_source(path: &Path, why: String) -> BackupError {
    BackupError::Source { path: path.to_owned(), why }
}

fn refused_target(path: &Path, why: String) -> BackupError {
    BackupError::Target { path: path.to_owned(), why }
}

fn failed_copy(error: rusqlite::Error) -> BackupError {
    BackupError::Copy(error.to_string())
}

fn failed_store(error: StoreError) -> BackupError {
    BackupError::Copy(error.to_string())
}
