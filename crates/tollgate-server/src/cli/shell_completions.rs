//! `tollgate shell-completions`: scripts with which a shell completes commands and options.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::failure::Failure;

/// Prints the script; where to put it is in docs/cli.md.
#[derive(Args)]
pub(super) struct ShellCompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: &ShellCompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "tollgate", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
