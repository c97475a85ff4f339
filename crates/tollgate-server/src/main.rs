//! The `tollgate` binary.

mod cli;
mod compose;
mod config;
#[cfg(feature = "failpoints")]
mod failpoints;
mod features;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
