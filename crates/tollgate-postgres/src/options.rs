//! The address of the database, and the limits on its connections and sessions.

use std::sync::Arc;
use std::time::Duration;

use tollgate_metrics::NodeMetrics;
use tollgate_model::port::{Checkpoints, NoCheckpoints};
use tollgate_model::sql::Overrides;

/// The address of the database, and the limits on its connections.
#[derive(Clone)]
pub struct PgOptions {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// Connections for batches and reads.
    pub work_connections: usize,
    /// Connections for leases and heartbeats alone, so that they never wait behind work.
    pub upkeep_connections: usize,
    /// The longest wait for a free connection; after it the store is unavailable.
    pub pool_timeout: Duration,
    /// Limits on every session.
    pub session: SessionLimits,
    /// Observes checkpoints inside transactions, for tests.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Counts the statements of batches.
    pub metrics: Arc<NodeMetrics>,
    /// Queries with which tests plant mistakes; empty otherwise.
    pub overrides: Overrides,
}

/// Limits of a session. A writer that is stopped in mid-transaction must not block takeovers for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionLimits {
    /// The longest statement.
    pub statement_timeout: Duration,
    /// The longest wait for a lock.
    pub lock_timeout: Duration,
    /// The longest silence inside a transaction.
    pub idle_in_transaction_timeout: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            statement_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(3),
            idle_in_transaction_timeout: Duration::from_secs(5),
        }
    }
}

impl PgOptions {
    /// The defaults for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            work_connections: 8,
            upkeep_connections: 2,
            pool_timeout: Duration::from_secs(3),
            session: SessionLimits::default(),
            checkpoints: Arc::new(NoCheckpoints),
            metrics: Arc::default(),
            overrides: &[],
        }
    }
}

/// The URL may hold a password: it is never shown.
impl std::fmt::Debug for PgOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgOptions")
            .field("work_connections", &self.work_connections)
            .field("upkeep_connections", &self.upkeep_connections)
            .field("pool_timeout", &self.pool_timeout)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
