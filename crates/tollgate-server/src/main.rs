//! The `tollgate` binary.

mod cli;
mod compose;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
