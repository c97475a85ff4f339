//! Threads and transactions: one writer, readers beside it, and how a transaction ends.
//!
//! Every write is `BEGIN IMMEDIATE` … COMMIT on the writer's thread (I1). Nothing is awaited inside
//! but the checkpoints, which only tests watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::{CachedStatement, Connection, Params, Row};
use tokio::runtime::Handle;
#[cfg(feature = "planted-bugs")]
use tollgate_model::port::GrantKind;
use tollgate_model::port::{Acquisition, Checkpoint, Checkpoints, StoreError};

use crate::connection;
use crate::error::{Fault, at_commit};
use crate::migrate;
use crate::options::{SqliteOptions, SqlitePath, Threads};
use crate::worker::Worker;

/// Threads that only read.
const READERS: usize = 2;

/// A database with its threads.
#[derive(Clone)]
pub(crate) struct Db {
    writer: Worker,
    readers: Arc<[Worker]>,
    turn: Arc<AtomicUsize>,
    options: SqliteOptions,
    runtime: Handle,
}

impl Db {
    pub(crate) async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        let runtime =
            Handle::try_current().map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let for_writer = options.clone();
        let open = move || {
            let mut conn = connection::writer(&for_writer)?;
            migrate::run(&mut conn)?;
            Ok(conn)
        };
        let writer = match options.threads {
            Threads::Own => Worker::start("tollgate-sqlite-writer", open).await?,
            Threads::Callers => Worker::here(open()?),
        };
        let readers = readers(&options).await?.into();
        Ok(Self { writer, readers, turn: Arc::default(), options, runtime })
    }

    pub(crate) async fn another_node(
        &self,
        checkpoints: Arc<dyn Checkpoints>,
    ) -> Result<Self, StoreError> {
        let options = SqliteOptions { checkpoints, ..self.options.clone() };
        match options.path {
            SqlitePath::File(_) => Self::open(options).await,
            SqlitePath::Memory => Ok(Self { options, ..self.clone() }),
        }
    }

    /// Reads that see one moment of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.reader().run(move |conn| {
            exec(conn, "begin deferred", [])?;
            let answer = work(conn)?;
            exec(conn, "commit", [])?;
            Ok(answer)
        });
        answer.await
    }

    /// Writes that are one transaction: all of them or, on an error, none.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Scope<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_or_not(|scope| work(scope).map(End::Commit)).await
    }

    /// The same for work that can find that there is nothing to write.
    pub(crate) async fn write_or_not<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Scope<'_>) -> Result<End<T>, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (options, runtime) = (self.options.clone(), self.runtime.clone());
        let answer = self.writer.run(move |conn| {
            let scope = Scope { conn, options: &options, runtime: &runtime };
            scope.begin()?;
            match work(&scope)? {
                End::Commit(answer) => scope.commit().map(|()| answer),
                End::RollBack(answer) => exec(conn, "rollback", []).map(|_| answer),
            }
        });
        answer.await
    }

    /// Waits at a place outside of any transaction.
    pub(crate) async fn reached(&self, at: Checkpoint) {
        self.options.checkpoints.reached(at).await;
    }

    fn reader(&self) -> &Worker {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        // A database in memory has the one connection.
        turn.checked_rem(self.readers.len())
            .and_then(|turn| self.readers.get(turn))
            .unwrap_or(&self.writer)
    }
}

async fn readers(options: &SqliteOptions) -> Result<Vec<Worker>, StoreError> {
    let SqlitePath::File(path) = &options.path else { return Ok(Vec::new()) };
    let mut readers = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        let (options, path, threads) = (options.clone(), path.clone(), options.threads);
        let open = move || connection::reader(&options, &path);
        readers.push(match threads {
            Threads::Own => Worker::start("tollgate-sqlite-reader", open).await?,
            Threads::Callers => Worker::here(open()?),
        });
    }
    Ok(readers)
}

/// How a write transaction ends well.
pub(crate) enum End<T> {
    /// There is something to keep.
    Commit(T),
    /// There is an answer, and nothing to keep.
    RollBack(T),
}

/// The inside of a write transaction.
pub(crate) struct Scope<'a> {
    /// The connection, with the write lock held.
    pub(crate) conn: &'a Connection,
    options: &'a SqliteOptions,
    runtime: &'a Handle,
}

impl Scope<'_> {
    /// I1, I2: from here on nobody else can write, so what is checked stays true until the commit.
    fn begin(&self) -> Result<(), Fault> {
        #[cfg(feature = "planted-bugs")]
        if self.options.planted == Some(crate::PlantedBug::DeferredBegin) {
            return exec(self.conn, "begin deferred", []).map(drop);
        }
        exec(self.conn, "begin immediate", []).map(drop)
    }

    fn commit(&self) -> Result<(), Fault> {
        let answer = self.conn.prepare_cached("commit").and_then(|mut commit| commit.execute([]));
        answer.map(drop).map_err(|error| Fault::Store(at_commit(&error)))
    }

    /// Waits at a place inside the transaction, on the writer's thread. A caller's own thread can't
    /// wait for what other tasks of it do.
    pub(crate) fn reached(&self, at: Checkpoint) {
        if self.options.threads == Threads::Callers {
            return;
        }
        self.runtime.block_on(self.options.checkpoints.reached(at));
    }

    /// Sets the cursor back after a takeover, where a test has asked for it.
    pub(crate) fn rewind_if_planted(&self, granted: &Acquisition) -> Result<(), Fault> {
        #[cfg(feature = "planted-bugs")]
        if self.options.planted == Some(crate::PlantedBug::RewindingTakeover)
            && let Acquisition::Granted { kind: GrantKind::TakenOver, .. } = granted
        {
            let sql = "update submitter_cursor set next_nonce = max(next_nonce - 1, 0)";
            exec(self.conn, sql, [])?;
        }
        #[cfg(not(feature = "planted-bugs"))]
        let _ = granted;
        Ok(())
    }

    /// Whether a test has asked for the guard to be left out.
    pub(crate) fn skips_guard(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.options.planted == Some(crate::PlantedBug::SkippedGuard);
        #[cfg(not(feature = "planted-bugs"))]
        false
    }
}

/// Runs a statement that returns no rows; returns how many it changed.
pub(crate) fn exec(conn: &Connection, sql: &str, params: impl Params) -> Result<usize, Fault> {
    Ok(conn.prepare_cached(sql)?.execute(params)?)
}

/// All rows of a query.
pub(crate) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    decode: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement: CachedStatement<'_> = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode(row)?);
    }
    Ok(found)
}

/// The one row of a query, or none.
pub(crate) fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    decode: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    // Read to the end, so that a statement that writes is done before the next one runs.
    all(conn, sql, params, decode).map(|rows| rows.into_iter().next())
}
