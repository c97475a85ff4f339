//! Threads and transactions: one writer, readers beside it, and how a transaction ends.
//!
//! Every write is `BEGIN IMMEDIATE` … COMMIT on the writer's thread (I1). Nothing is awaited inside but
//! the checkpoints, which only tests use.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Params;
use tokio::runtime::Handle;
use tollgate_model::port::{Cause, Checkpoint, StoreError};
use tollgate_model::sql::{Overrides, Query};

use crate::connection;
use crate::error::{QueryError, at_commit};
use crate::migrate;
use crate::options::{SqliteOptions, SqlitePath, Threads};
use crate::queries;
use crate::row::Row;
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
            Handle::try_current().map_err(|error| StoreError::Unavailable(Cause::of(error)))?;
        let for_writer = options.clone();
        let open = move || {
            let mut conn = connection::writer(&for_writer)?;
            migrate::run(&mut conn)?;
            Ok(conn)
        };
        let writer = match options.threads {
            Threads::Own => Worker::start("tollgate-sqlite-writer", open).await?,
            Threads::Callers => Worker::on_callers_thread(open()?),
        };
        let readers = readers(&options).await?.into();
        Ok(Self { writer, readers, turn: Arc::default(), options, runtime })
    }

    /// Runs reads in one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection<'_>) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let overrides = self.options.overrides;
        let answer = self.reader().run(move |conn| {
            let conn = Connection::new(conn, overrides);
            conn.control("begin deferred")?;
            let answer = work(&conn)?;
            conn.control("commit")?;
            Ok(answer)
        });
        answer.await
    }

    /// All rows of one query.
    pub(crate) async fn all<T: Send + 'static>(
        &self,
        query: Query,
        params: impl Params + Send + 'static,
        decode: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Vec<T>, StoreError> {
        self.read(move |conn| conn.all(query, params, decode)).await
    }

    /// The row of one query that returns one or none.
    pub(crate) async fn one<T: Send + 'static>(
        &self,
        query: Query,
        params: impl Params + Send + 'static,
        decode: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        self.read(move |conn| conn.one(query, params, decode)).await
    }

    /// Runs writes in one transaction: all of them or, on an error, none.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&WriteTx<'_>) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_or_not(|tx| work(tx).map(End::Commit)).await
    }

    /// The same for work that can find that there is nothing to write.
    pub(crate) async fn write_or_not<T: Send + 'static>(
        &self,
        work: impl FnOnce(&WriteTx<'_>) -> Result<End<T>, QueryError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (options, runtime) = (self.options.clone(), self.runtime.clone());
        let answer = self.writer.run(move |conn| {
            let connection = Connection::new(conn, options.overrides);
            let tx = WriteTx { connection, options: &options, runtime: &runtime };
            // I1, I2: from here on no other connection can write, so what is checked stays true.
            tx.exec(queries::BEGIN, [])?;
            match work(&tx)? {
                End::Commit(answer) => tx.commit().map(|()| answer),
                End::RollBack(answer) => tx.control("rollback").map(|()| answer),
            }
        });
        answer.await
    }

    /// Waits at a checkpoint outside of any transaction.
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
            Threads::Callers => Worker::on_callers_thread(open()?),
        });
    }
    Ok(readers)
}

/// The end of a write transaction that did not fail.
pub(crate) enum End<T> {
    /// There is something to keep.
    Commit(T),
    /// There is an answer, and nothing to keep.
    RollBack(T),
}

/// A connection inside of a transaction: runs queries by name.
pub(crate) struct Connection<'a> {
    pub(crate) conn: &'a rusqlite::Connection,
    overrides: Overrides,
    /// Statements that were run.
    statements: Cell<usize>,
}

impl<'a> Connection<'a> {
    /// A connection with the queries as they are.
    pub(crate) const fn plain(conn: &'a rusqlite::Connection) -> Self {
        Self::new(conn, &[])
    }

    const fn new(conn: &'a rusqlite::Connection, overrides: Overrides) -> Self {
        Self { conn, overrides, statements: Cell::new(0) }
    }
}

impl Connection<'_> {
    /// Runs a statement that returns no rows; returns how many it changed.
    pub(crate) fn exec(&self, query: Query, params: impl Params) -> Result<usize, QueryError> {
        self.count();
        Ok(self.conn.prepare_cached(query.text_with(self.overrides))?.execute(params)?)
    }

    /// Runs a statement that must change one row; `problem` says why it did not.
    pub(crate) fn exec_one(
        &self,
        query: Query,
        params: impl Params,
        problem: impl FnOnce() -> String,
    ) -> Result<(), QueryError> {
        match self.exec(query, params)? {
            1 => Ok(()),
            _ => Err(QueryError::defect(problem())),
        }
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self,
        query: Query,
        params: impl Params,
        decode: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, QueryError> {
        self.count();
        let mut statement = self.conn.prepare_cached(query.text_with(self.overrides))?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(decode(&Row(row))?);
        }
        Ok(found)
    }

    /// The row of a query that returns one or none.
    pub(crate) fn one<T>(
        &self,
        query: Query,
        params: impl Params,
        decode: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, QueryError> {
        // Read to the end, so that a statement that writes is done before the next one runs.
        self.all(query, params, decode).map(|rows| rows.into_iter().next())
    }

    /// True if a query returns a row.
    pub(crate) fn exists(&self, query: Query, params: impl Params) -> Result<bool, QueryError> {
        self.one(query, params, |_| Ok(())).map(|row| row.is_some())
    }

    /// Runs a statement that begins, ends or splits a transaction.
    pub(crate) fn control(&self, sql: &'static str) -> Result<(), QueryError> {
        self.count();
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn count(&self) {
        self.statements.set(self.statements.get() + 1);
    }
}

/// A transaction that writes, with the write lock held.
pub(crate) struct WriteTx<'a> {
    connection: Connection<'a>,
    options: &'a SqliteOptions,
    runtime: &'a Handle,
}

impl<'a> Deref for WriteTx<'a> {
    type Target = Connection<'a>;

    fn deref(&self) -> &Connection<'a> {
        &self.connection
    }
}

impl WriteTx<'_> {
    fn commit(&self) -> Result<(), QueryError> {
        let mut commit = self.conn.prepare_cached("commit")?;
        commit.execute([]).map(drop).map_err(|error| QueryError::Store(at_commit(error)))
    }

    /// Shows the statements of a batch in metrics; its commit is one more.
    pub(crate) fn measure_batch(&self) {
        let statements = self.statements.get() + 1;
        self.options.metrics.tollgate.store_batch_statements.observe_count(statements);
    }

    /// Waits at a checkpoint inside the transaction, on the writer's thread. A caller's own thread can't
    /// wait for other tasks of the same thread.
    pub(crate) fn reached(&self, at: Checkpoint) {
        if self.options.threads == Threads::Own {
            self.runtime.block_on(self.options.checkpoints.reached(at));
        }
    }
}
