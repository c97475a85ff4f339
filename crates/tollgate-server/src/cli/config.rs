//! `tollgate config`: checks a configuration, prints an example.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_model::secret::masked;

use crate::cli::output::{errln, out, outln};
use crate::compose::Keyring;
use crate::config::{Loaded, NodeFlags, Purpose, Refused, example, load, report, report_json};
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print the settings that `serve` would run with and the source of each, or all problems.
    Check(CheckArgs),
    /// Print a complete tollgate.toml with the defaults, each explained.
    Example,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    flags: NodeFlags,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ConfigArgs) -> Result<ExitCode, Failure> {
    match args.command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Example => {
            std::io::stdout().lock().write_all(example().as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(args: CheckArgs) -> Result<ExitCode, Failure> {
    let outcome = load(args.flags.into_flags(), Purpose::Serve).and_then(with_readable_keys);
    if args.json {
        outln!("{:#}", report_json(&outcome));
        let code = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        return Ok(code);
    }
    match outcome {
        Ok(loaded) => {
            out!("{}", report(&loaded));
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => {
            for warning in &refused.warnings {
                errln!("warning: {}", masked(warning));
            }
            Err(refused.into())
        }
    }
}

/// Checks the content of key files too. A keystore is not decrypted: that takes a second per key.
fn with_readable_keys(loaded: Loaded) -> Result<Loaded, Refused> {
    match Keyring::plain(&loaded.settings.keys) {
        Ok(_) => Ok(loaded),
        Err(problems) => Err(Refused { problems, warnings: loaded.warnings().to_vec() }),
    }
}
