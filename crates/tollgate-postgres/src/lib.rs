//! Tollgate's store on PostgreSQL.
//!
//! Owns the schema and every statement that touches it. Never calls a chain or a signer, and never
//! decides anything that [`tollgate_model`] can decide.
//!
//! How the fence works: [`batch`] checks the leases with `FOR KEY SHARE` as its first lock and keeps
//! them until the commit; [`lease`] takes over with `FOR UPDATE`, which waits for exactly those locks.
//! The token is part of a unique key, so renewals pass and changes of the token wait. `selftest` proves
//! that on the real table at every start.

mod account;
mod account_pool;
mod alert;
mod api_key;
mod audit;
mod batch;
mod connection;
mod db;
mod error;
mod event;
mod feed;
mod hosts;
mod lease;
mod list;
mod migrate;
mod node;
mod options;
pub mod queries;
mod reservation;
mod restore;
mod retention;
mod row;
mod selftest;
mod tls;
mod tx;

use std::sync::Arc;

use tollgate_metrics::NodeMetrics;
use tollgate_model::port::{Checkpoints, StoreError};

pub use db::PLANNER;
pub use migrate::migrate;
pub use options::{PgOptions, SessionLimits};

use db::Pools;

/// A node's handle to the shared database. Cheap to clone.
#[derive(Clone)]
pub struct PgStore {
    pools: Pools,
    checkpoints: Arc<dyn Checkpoints>,
    metrics: Arc<NodeMetrics>,
}

impl std::fmt::Debug for PgStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgStore").finish_non_exhaustive()
    }
}

impl PgStore {
    /// Connects, and refuses a database on which the promises would not hold.
    ///
    /// The schema must exist: [`migrate`] creates it.
    pub async fn open(options: PgOptions) -> Result<Self, StoreError> {
        let pools = Pools::open(&options)?;
        selftest::fence_holds(&pools).await?;
        let (checkpoints, metrics) = (options.checkpoints, options.metrics);
        Ok(Self { pools, checkpoints, metrics })
    }
}
