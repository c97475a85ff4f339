//! A connection of a pool: runs queries by name, and waits for answers within a limit.
//!
//! The server ends statements that take too long, but it can't report that over a network that drops
//! every packet. So the wait for an answer has a limit here as well (I13). A connection with an
//! unanswered statement or an unfinished transaction is closed and never returns to its pool.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error as PgError, Statement, ToStatement};
use tollgate_model::sql::{Overrides, Query};
use tracing::warn;

use crate::error::SqlError;
use crate::row::Row;

pub(crate) type Parameters<'a> = [&'a (dyn ToSql + Sync)];

/// A connection of a pool.
pub(crate) struct Connection {
    /// `None` only while it is being dropped.
    object: Option<Object>,
    answer_timeout: Duration,
    overrides: Overrides,
    unanswered: AtomicUsize,
    timed_out: AtomicBool,
    in_transaction: AtomicBool,
    /// Statements that were sent since it was taken from its pool.
    statements: AtomicUsize,
}

impl Connection {
    pub(crate) const fn new(
        object: Object,
        answer_timeout: Duration,
        overrides: Overrides,
    ) -> Self {
        Self {
            object: Some(object),
            answer_timeout,
            overrides,
            unanswered: AtomicUsize::new(0),
            timed_out: AtomicBool::new(false),
            in_transaction: AtomicBool::new(false),
            statements: AtomicUsize::new(0),
        }
    }

    /// All rows of a query.
    pub(crate) async fn query_all(
        &self,
        query: Query,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, SqlError> {
        let statement = self.prepare(query).await?;
        self.fetch(&statement, parameters).await
    }

    /// The row of a query that returns exactly one.
    pub(crate) async fn query_one(
        &self,
        query: Query,
        parameters: &Parameters<'_>,
    ) -> Result<Row, SqlError> {
        let statement = self.prepare(query).await?;
        self.count();
        self.answer(self.client().query_one(&statement, parameters)).await.map(Row)
    }

    /// The row of a query that returns one or none.
    pub(crate) async fn query_opt(
        &self,
        query: Query,
        parameters: &Parameters<'_>,
    ) -> Result<Option<Row>, SqlError> {
        let statement = self.prepare(query).await?;
        self.count();
        let row = self.answer(self.client().query_opt(&statement, parameters)).await?;
        Ok(row.map(Row))
    }

    /// Runs a statement; returns how many rows it changed.
    pub(crate) async fn execute(
        &self,
        query: Query,
        parameters: &Parameters<'_>,
    ) -> Result<u64, SqlError> {
        let statement = self.prepare(query).await?;
        self.send(&statement, parameters).await
    }

    /// The statement of a query, prepared once per connection. Statements that must reach the server
    /// in order and without waiting for each other are prepared before the first one is sent.
    pub(crate) async fn prepare(&self, query: Query) -> Result<Statement, SqlError> {
        self.answer(self.client().prepare_cached(self.text(query))).await
    }

    /// The text of a query, for statements that are not prepared.
    pub(crate) fn text(&self, query: Query) -> &'static str {
        query.text_with(self.overrides)
    }

    /// [`Self::query_all`] for a statement or a text.
    pub(crate) async fn fetch<T: ?Sized + ToStatement + Sync>(
        &self,
        statement: &T,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, SqlError> {
        self.count();
        let rows = self.answer(self.client().query(statement, parameters)).await?;
        Ok(rows.into_iter().map(Row).collect())
    }

    /// [`Self::execute`] for a statement or a text.
    pub(crate) async fn send<T: ?Sized + ToStatement + Sync>(
        &self,
        statement: &T,
        parameters: &Parameters<'_>,
    ) -> Result<u64, SqlError> {
        self.count();
        self.answer(self.client().execute(statement, parameters)).await
    }

    /// Runs statements without parameters or rows.
    pub(crate) async fn batch_execute(&self, sql: &str) -> Result<(), SqlError> {
        self.count();
        self.answer(self.client().batch_execute(sql)).await
    }

    /// Statements that were sent since it was taken from its pool.
    pub(crate) fn statements(&self) -> usize {
        self.statements.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Records whether a transaction is open, which must not outlive this handle.
    pub(crate) fn set_in_transaction(&self, is: bool) {
        self.in_transaction.store(is, Ordering::Relaxed);
    }

    fn client(&self) -> &Object {
        self.object.as_ref().expect("a connection is there until it is dropped")
    }

    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, PgError>>,
    ) -> Result<T, SqlError> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        match timeout(self.answer_timeout, answer).await {
            Ok(answer) => {
                self.unanswered.fetch_sub(1, Ordering::Relaxed);
                answer.map_err(SqlError::Postgres)
            }
            Err(_) => {
                self.timed_out.store(true, Ordering::Relaxed);
                Err(SqlError::NoAnswer(self.answer_timeout))
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let is_idle = *self.unanswered.get_mut() == 0 && !*self.in_transaction.get_mut();
        let Some(object) = self.object.take().filter(|_| !is_idle) else { return };
        if *self.timed_out.get_mut()
            && let Some(pool) = Object::pool(&object)
        {
            // The idle ones took the same route: their next users would wait as long.
            let closed = pool.retain(|_, _| false).removed.len();
            warn!(closed, "database does not answer; idle connections closed");
        }
        drop(Object::take(object));
    }
}
