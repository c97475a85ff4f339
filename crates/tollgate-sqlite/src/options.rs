//! The options of a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tollgate_metrics::NodeMetrics;
use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{Checkpoints, NoCheckpoints};
use tollgate_model::sql::Overrides;

/// The place of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SqlitePath {
    /// In this file, which is made if it is not there.
    File(PathBuf),
    /// In memory: gone with the last handle. For simulations; it keeps no promise across a crash.
    Memory,
}

/// The options of a store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The place of the database.
    pub path: SqlitePath,
    /// The longest wait for another process's write; after it a call is `Unavailable`.
    pub busy_timeout: Duration,
    /// The database's clock, behind `db_now()`. All processes on one file must share one: the
    /// machine's.
    pub clock: Arc<dyn Clock>,
    /// Observes checkpoints inside transactions, for tests.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Counts the statements of batches.
    pub metrics: Arc<NodeMetrics>,
    /// The threads that run the queries.
    pub threads: Threads,
    /// Queries with which tests plant mistakes; empty otherwise.
    pub overrides: Overrides,
}

impl SqliteOptions {
    /// A file, with a busy timeout of 5 s and the machine's clock.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::at(SqlitePath::File(path.into()))
    }

    /// A database in memory, with the machine's clock.
    pub fn memory() -> Self {
        Self::at(SqlitePath::Memory)
    }

    fn at(path: SqlitePath) -> Self {
        Self {
            path,
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            checkpoints: Arc::new(NoCheckpoints),
            metrics: Arc::default(),
            threads: Threads::Own,
            overrides: &[],
        }
    }
}

/// The threads that run a store's queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// The store's own, so that a runtime never waits for a disk.
    Own,
    /// The caller's: nothing runs beside a simulation, so that a seed is one run. Checkpoints inside
    /// transactions are skipped.
    Callers,
}

/// The machine's clock.
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "an embedded database's clock is the machine's")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}
