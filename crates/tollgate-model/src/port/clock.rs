//! The node's own clock: for schedules and ages, never for leases.

use crate::time::Timestamp;

/// Reads the wall clock. Leases are judged by the database's clock instead.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}
