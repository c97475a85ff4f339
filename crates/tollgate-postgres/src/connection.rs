//! A connection whose answers are waited for within bounds.
//!
//! The server ends what takes too long by itself; what it can't do is say so over a way that swallows
//! everything. So silence has a limit here as well (I13). A connection that still owes an answer,
//! because it was silent or because nobody waited for it, is closed and never goes back to its pool.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error as PgError, Row, Statement, ToStatement};
use tracing::warn;

use crate::error::SqlError;

type Parameters<'a> = [&'a (dyn ToSql + Sync)];

/// A connection of a pool.
pub(crate) struct Connection {
    /// Gone only while it is being dropped.
    object: Option<Object>,
    silence_max: Duration,
    /// Answers that it owes.
    owed: AtomicUsize,
    was_silent: AtomicBool,
}

impl Connection {
    pub(crate) const fn new(object: Object, silence_max: Duration) -> Self {
        let (owed, was_silent) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { object: Some(object), silence_max, owed, was_silent }
    }

    pub(crate) async fn query<T: ?Sized + ToStatement + Sync>(
        &self,
        statement: &T,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, SqlError> {
        self.heard(self.client()?.query(statement, parameters)).await
    }

    pub(crate) async fn query_one(
        &self,
        statement: &Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Row, SqlError> {
        self.heard(self.client()?.query_one(statement, parameters)).await
    }

    pub(crate) async fn query_opt(
        &self,
        statement: &Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Option<Row>, SqlError> {
        self.heard(self.client()?.query_opt(statement, parameters)).await
    }

    pub(crate) async fn execute<T: ?Sized + ToStatement + Sync>(
        &self,
        statement: &T,
        parameters: &Parameters<'_>,
    ) -> Result<u64, SqlError> {
        self.heard(self.client()?.execute(statement, parameters)).await
    }

    pub(crate) async fn batch_execute(&self, sql: &str) -> Result<(), SqlError> {
        self.heard(self.client()?.batch_execute(sql)).await
    }

    /// A statement, prepared once per connection.
    pub(crate) async fn prepare_cached(&self, sql: &str) -> Result<Statement, SqlError> {
        self.heard(self.client()?.prepare_cached(sql)).await
    }

    /// Ends it, whatever is going on.
    pub(crate) fn close(mut self) {
        self.object.take().map(Object::take);
    }

    fn client(&self) -> Result<&Object, SqlError> {
        self.object.as_ref().ok_or(SqlError::Closed)
    }

    async fn heard<T>(
        &self,
        answer: impl Future<Output = Result<T, PgError>>,
    ) -> Result<T, SqlError> {
        self.owed.fetch_add(1, Ordering::Relaxed);
        match timeout(self.silence_max, answer).await {
            Ok(answer) => {
                self.owed.fetch_sub(1, Ordering::Relaxed);
                answer.map_err(SqlError::Postgres)
            }
            Err(_) => {
                self.was_silent.store(true, Ordering::Relaxed);
                Err(SqlError::Silence(self.silence_max))
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(object) = self.object.take().filter(|_| *self.owed.get_mut() > 0) else { return };
        if *self.was_silent.get_mut()
            && let Some(pool) = Object::pool(&object)
        {
            // The others went the same way. Whoever got one of them would wait as long.
            let closed = pool.retain(|_, _| false).removed.len();
            warn!(closed, "the database is silent: its idle connections are closed");
        }
        drop(Object::take(object));
    }
}
