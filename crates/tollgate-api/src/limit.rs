//! Limits of requests (I13).

use std::time::Duration;

/// The longest that a call may wait: `wait` of the feed, and `Prefer: wait` of a transaction.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// Log entries in one answer.
pub const LOGS_MAX: usize = 1_000;
/// The data of all log entries in one answer.
pub const LOG_DATA_BYTES_MAX: usize = 1024 * 1024;
/// The largest body that is read.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Creates in one batch.
pub const BATCH_ITEMS_MAX: usize = 1_000;
/// The longest metadata.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// The deepest nesting of metadata: common JSON readers take 128 levels, and answers have some around it.
pub const METADATA_DEPTH_MAX: usize = 100;
