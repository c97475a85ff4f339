//! `tollgate bench`: the command line of the load generator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tollgate_load::{COUNT_MAX, Options};
use tollgate_model::Address;
use tollgate_model::ids::parse_address;

use crate::config::duration;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct BenchArgs {
    /// A node; may be repeated. Each submitter's intents go to its owner.
    #[arg(
        long,
        visible_alias = "nodes",
        default_value = "http://127.0.0.1:8550",
        value_delimiter = ','
    )]
    url: Vec<String>,
    /// A submitter to load; may be repeated.
    #[arg(long, value_delimiter = ',', value_parser = address, conflicts_with = "submitters")]
    submitter: Vec<Address>,
    /// The number of the node's submitters to load if none is named.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    submitters: u32,
    /// The number of intents; 1000 if no duration is given either.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: Option<u64>,
    /// The time during which new intents are created.
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Concurrent callers, each of which waits for its answer before its next intent.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Intents per call; 1 uses the single create.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    batch: u64,
    /// A node of the chain, to verify what was mined.
    #[arg(long)]
    rpc_url: Option<String>,
    /// The state that every accepted intent must reach before the run ends.
    #[arg(long, value_enum, default_value = "final")]
    wait: Wait,
    /// The longest time without progress before the run gives up.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// The gas limit of each transfer.
    #[arg(long, default_value_t = 21_000)]
    gas: u64,
    /// Send no gas limit, so that the node estimates it.
    #[arg(long, conflicts_with = "gas")]
    estimate: bool,
    /// The name of the run: the same seed gives the same request ids and values.
    #[arg(long)]
    seed: Option<u64>,
    /// Sent as a bearer token.
    #[arg(long, env = "TOLLGATE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Trust the certificates of this PEM file in addition to the system's.
    #[arg(long, env = "TOLLGATE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Wait {
    /// The completion feed contains every accepted intent.
    Final,
    /// The chain's blocks contain every accepted intent.
    Mined,
    /// Every intent has its answer. Nothing is verified.
    Accepted,
}

pub(super) fn run(args: BenchArgs) -> Result<ExitCode, Failure> {
    let report = tollgate_load::run(&Options {
        urls: args.url,
        submitters: args.submitter,
        submitter_count: args.submitters,
        count: args.count,
        duration: args.duration,
        concurrency: args.concurrency,
        batch: args.batch,
        rpc_url: args.rpc_url,
        wait: match args.wait {
            Wait::Final => tollgate_load::Wait::Final,
            Wait::Mined => tollgate_load::Wait::Mined,
            Wait::Accepted => tollgate_load::Wait::Accepted,
        },
        patience: args.patience,
        gas: (!args.estimate).then_some(args.gas),
        seed: args.seed,
        api_key: args.api_key,
        ca_file: args.ca_file,
    })?;
    report.print(args.json);
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn address(text: &str) -> Result<Address, String> {
    parse_address(text).map_err(|error| error.to_string())
}
