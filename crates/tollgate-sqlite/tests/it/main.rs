//! The SQLite store on its own: its statements and their plans, its schema, its threads. The conformance
//! suite tests what it shares with the other store.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod plans;
mod schema;
mod store;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use tempfile::TempDir;

/// The path of a database in a folder that is removed with the test.
fn database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.db");
    (folder, path)
}

/// A connection beside the store's, with the function that its statements need.
fn connect(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.create_scalar_function("db_now", 0, FunctionFlags::SQLITE_UTF8, |_| Ok(0)).unwrap();
    conn
}
