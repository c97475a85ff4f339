//! The `tollgate` binary.

// They panic where nobody reads: see `cli::output`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod alerts;
mod audit_log;
mod cli;
mod clock;
mod compose;
mod config;
mod database;
mod events;
#[cfg(feature = "failpoints")]
mod failpoints;
mod failure;
mod features;
mod retention;
mod service_manager;
mod spans;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use tollgate_metrics::NodeMetrics;

/// The counters of this process.
static NODE_METRICS: LazyLock<Arc<NodeMetrics>> = LazyLock::new(Arc::default);

/// The counters of this process.
fn node_metrics() -> Arc<NodeMetrics> {
    NODE_METRICS.clone()
}

fn main() -> ExitCode {
    cli::run()
}
