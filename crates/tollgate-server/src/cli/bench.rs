//! `tollgate bench`: the command line of the load generator.

use std::process::ExitCode;

use clap::Args;
use tollgate_load::Options;

use crate::failure::Failure;

#[derive(Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    options: Options,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let report = tollgate_load::run(&args.options)?;
    report.print(args.json);
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
