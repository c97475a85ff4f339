//! The `tollgate` binary.

mod cli;
mod clock;
mod compose;
mod config;
mod database;
#[cfg(feature = "failpoints")]
mod failpoints;
mod failure;
mod features;
mod retention;
mod service_manager;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
