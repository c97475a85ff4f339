//! The database of a node: opens and migrates it, and waits for a server that does not answer yet.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_metrics::NodeMetrics;
use tollgate_model::port::{Checkpoints, Store, StoreError};
use tollgate_postgres::{PgOptions, PgStore, SessionLimits};
use tollgate_sqlite::{SqliteOptions, SqlitePath, SqliteStore};
use tracing::warn;

use crate::config::{DatabaseSettings, redacted_database_url};
use crate::failure::Failure;

/// The pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A database that may not be open yet.
pub(crate) struct Database {
    backend: Backend,
    /// Without secrets.
    redacted_url: String,
}

enum Backend {
    Postgres(PgOptions),
    Sqlite(SqliteOptions),
}

impl Database {
    pub(crate) fn new(settings: &DatabaseSettings) -> Self {
        let backend = match settings.url.sqlite_file() {
            Some(file) => Backend::Sqlite(SqliteOptions {
                busy_timeout: settings.busy_timeout,
                ..SqliteOptions::file(file)
            }),
            None => Backend::Postgres(pg_options(settings)),
        };
        Self { backend, redacted_url: redacted_database_url(&settings.url.0) }
    }

    /// Counts the statements of batches.
    pub(crate) fn counted(mut self, metrics: &Arc<NodeMetrics>) -> Self {
        match &mut self.backend {
            Backend::Postgres(options) => options.metrics = metrics.clone(),
            Backend::Sqlite(options) => options.metrics = metrics.clone(),
        }
        self
    }

    /// The URL without secrets.
    pub(crate) fn shown(&self) -> &str {
        &self.redacted_url
    }

    /// The options of a SQLite database.
    pub(crate) const fn sqlite(&self) -> Option<&SqliteOptions> {
        match &self.backend {
            Backend::Sqlite(options) => Some(options),
            Backend::Postgres(_) => None,
        }
    }

    /// Refuses a SQLite file that does not exist, for commands on a database of a node: a new one would say
    /// that there is nothing, and a key in it would be known to no node.
    pub(crate) fn must_exist(&self) -> Result<(), Failure> {
        match self.sqlite().map(|options| &options.path) {
            Some(SqlitePath::File(file)) if !file.exists() => {
                Err(format!(
                    "there is no database {}: give --config or --database-url of one that exists, or make \
                     it with tollgate migrate",
                    file.display()
                )
                .into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Brings the schema up to date; returns the number of migrations applied.
    pub(crate) async fn migrate(&self) -> Result<u32, Failure> {
        self.try_migrate().await.map_err(|error| self.describe(&error).into())
    }

    async fn try_migrate(&self) -> Result<u32, StoreError> {
        match &self.backend {
            Backend::Postgres(options) => tollgate_postgres::migrate(options).await,
            Backend::Sqlite(options) => tollgate_sqlite::migrate(options).await,
        }
    }

    pub(crate) async fn try_open(
        &self,
        checkpoints: Arc<dyn Checkpoints>,
    ) -> Result<Arc<dyn Store>, StoreError> {
        self.try_migrate().await?;
        Ok(match &self.backend {
            Backend::Postgres(options) => {
                Arc::new(PgStore::open(PgOptions { checkpoints, ..options.clone() }).await?)
            }
            Backend::Sqlite(options) => {
                Arc::new(SqliteStore::open(SqliteOptions { checkpoints, ..options.clone() }).await?)
            }
        })
    }

    /// Runs a call, and repeats it for up to `wait` while a server does not answer. A SQLite file
    /// that can't be opened now can't be opened later either.
    pub(crate) async fn retry<T, A: Future<Output = Result<T, StoreError>>>(
        &self,
        wait: Duration,
        call: impl Fn() -> A,
    ) -> Result<T, Failure> {
        let until = Instant::now() + wait;
        loop {
            match call().await {
                Err(StoreError::Unavailable(why))
                    if matches!(self.backend, Backend::Postgres(_)) && Instant::now() < until =>
                {
                    warn!(database = self.redacted_url, error = %why, "the database does not answer yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                answer => return answer.map_err(|error| self.describe(&error).into()),
            }
        }
    }

    /// The error in one line.
    fn describe(&self, error: &StoreError) -> String {
        let what = match error {
            StoreError::Unavailable(why) => format!("can't be reached or opened: {why}"),
            StoreError::Unsafe(why) | StoreError::Defect(why) => why.to_string(),
            other => other.to_string(),
        };
        format!("database {}: {}", self.redacted_url, what.replace('\n', " "))
    }
}

pub(crate) fn pg_options(settings: &DatabaseSettings) -> PgOptions {
    PgOptions {
        work_connections: settings.connections,
        upkeep_connections: settings.upkeep_connections,
        pool_timeout: settings.pool_timeout,
        session: SessionLimits {
            statement_timeout: settings.statement_timeout,
            lock_timeout: settings.lock_timeout,
            idle_in_transaction_timeout: settings.idle_in_transaction_timeout,
        },
        ..PgOptions::new(&settings.url.0)
    }
}
