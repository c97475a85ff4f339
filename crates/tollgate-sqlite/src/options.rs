//! How a store is to be opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{Checkpoints, Unwatched};

/// Where a database is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SqlitePath {
    /// In this file, which is made if it is not there.
    File(PathBuf),
    /// In memory: gone with the last handle. For simulations; it keeps no promise across a crash.
    Memory,
}

/// How to open a store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// Where the database is.
    pub path: SqlitePath,
    /// How long a call waits for another process's write before it is `Unavailable`.
    pub busy_timeout: Duration,
    /// The database's clock, behind `db_now()`. All processes on one file must share one: the
    /// machine's.
    pub clock: Arc<dyn Clock>,
    /// Who watches the places in this store's transactions.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Whose thread does the work.
    pub threads: Threads,
    /// The promise to break, to show that a test notices.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<PlantedBug>,
}

impl SqliteOptions {
    /// A file, with a patience of 5 s and the machine's clock.
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
            checkpoints: Arc::new(Unwatched),
            threads: Threads::Own,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}

/// Whose thread does a store's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// The store's own, so that a runtime never waits for a disk.
    Own,
    /// The caller's, at once: nothing runs beside a simulation, so that a seed is one run. Places
    /// inside transactions are not waited at.
    Callers,
}

/// A way to break the fence.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedBug {
    /// Critical writes don't look at the lease.
    SkippedGuard,
    /// Write transactions begin without the write lock.
    DeferredBegin,
    /// A takeover sets the cursor back by one.
    RewindingTakeover,
}

/// The machine's clock.
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "an embedded database's clock is the machine's")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}
