//! `tollgate bench`: the command line of the load generator.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollgate_load::Options;

use super::output::outln;
use super::remote::key_in;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    options: Options,
    /// Read the API key from this file.
    #[arg(long, env = "TOLLGATE_API_KEY_FILE", value_name = "FILE", conflicts_with = "api_key")]
    api_key_file: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(mut args: BenchArgs) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.api_key_file {
        args.options.api_key = Some(key_in(file)?);
    }
    let report = tollgate_load::run(&args.options)?;
    report.lines(args.json).iter().for_each(|line| outln!("{line}"));
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
