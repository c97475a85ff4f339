//! The `tollgate` binary.

mod cli;
mod compose;
mod config;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
