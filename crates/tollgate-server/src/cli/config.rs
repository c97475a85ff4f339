//! `tollgate config`: shows the configuration and the settings that exist.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_model::secret::masked;

use crate::compose::{Failure, Keyring};
use crate::config::{Loaded, NodeFlags, Purpose, Refused, example, load, report, report_json};

#[derive(Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Show the configuration that `serve` would use and where each value comes from, or all errors.
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
        println!("{:#}", report_json(&outcome));
        let code = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        return Ok(code);
    }
    match outcome {
        Ok(loaded) => {
            print!("{}", report(&loaded));
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => {
            for warning in &refused.warnings {
                eprintln!("warning: {}", masked(warning));
            }
            Err(refused.into())
        }
    }
}

/// Key files are read too; a keystore is not opened: that takes a second for each key.
fn with_readable_keys(loaded: Loaded) -> Result<Loaded, Refused> {
    match Keyring::plain(&loaded.settings.keys) {
        Ok(_) => Ok(loaded),
        Err(problems) => Err(Refused { problems, warnings: loaded.warnings().to_vec() }),
    }
}
