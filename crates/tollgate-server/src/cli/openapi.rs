//! `tollgate openapi`.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::failure::Failure;

/// Prints the document that a node serves at `/openapi.json`.
pub(super) fn run() -> Result<ExitCode, Failure> {
    io::stdout().lock().write_all(tollgate_server::openapi().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
