//! `tollgate bench`: a load generator against running nodes, with the chain as the judge.
//!
//! A closed loop: each caller waits for its answer before its next intent. Every intent is a plain
//! transfer of a value of its own, so that what was accepted can be matched with what was mined.
//! Runs on one thread and reports its own use of the processor, because it shares the machine with
//! what it measures.

mod chain;
mod feed;
mod load;
mod plan;
mod record;
mod report;
mod verify;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::Instant;
use tollgate_model::Address;
use tollgate_model::ids::parse_address;
use uuid::Uuid;

use self::chain::ChainReader;
use self::load::Load;
use self::plan::{COUNT_MAX, Plan};
use self::record::Run;
use self::report::{Environment, Report};
use super::client::Target;
use crate::config::duration;
use crate::failure::Failure;

/// Intents where neither a count nor a duration is given.
const COUNT_DEFAULT: u64 = 1_000;

#[derive(Args)]
pub(super) struct BenchArgs {
    /// A node; may be given more than once. Each submitter's intents go to the node that works for it.
    #[arg(
        long,
        visible_alias = "nodes",
        default_value = "http://127.0.0.1:8550",
        value_delimiter = ','
    )]
    url: Vec<String>,
    /// A submitter to load; may be given more than once.
    #[arg(long, value_delimiter = ',', value_parser = address, conflicts_with = "submitters")]
    submitter: Vec<Address>,
    /// How many of the node's submitters are loaded, where none is named.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    submitters: u32,
    /// How many intents; 1000 where no duration is given either.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: Option<u64>,
    /// For how long new intents are made.
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Callers, each of which waits for its answer before its next intent.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Intents in one call; 1 makes single creates.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    batch: u64,
    /// A node of the chain, to verify what was mined.
    #[arg(long)]
    rpc_url: Option<String>,
    /// What must have become of all intents before the run is over.
    #[arg(long, value_enum, default_value = "final")]
    wait: Wait,
    /// How long no progress is put up with.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// The gas limit of each transfer.
    #[arg(long, default_value_t = 21_000)]
    gas: u64,
    /// Give no gas limit, so that the node asks the chain for an estimate.
    #[arg(long, conflicts_with = "gas")]
    estimate: bool,
    /// Names the run: the same seed makes the same request ids and values.
    #[arg(long)]
    seed: Option<u64>,
    /// Sent as a bearer token.
    #[arg(long, env = "TOLLGATE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// What ends a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Wait {
    /// The feed shows all of them.
    Final,
    /// The chain's blocks hold all of them.
    Mined,
    /// All have their answer. Nothing is verified.
    Accepted,
}

impl Wait {
    const fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Mined => "mined",
            Self::Accepted => "accepted",
        }
    }
}

pub(super) fn run(args: BenchArgs) -> Result<ExitCode, Failure> {
    match (args.wait, &args.rpc_url) {
        (Wait::Mined, None) => return Err("--wait mined reads the chain: give --rpc-url".into()),
        (Wait::Accepted, Some(_)) => {
            return Err("--rpc-url verifies what was mined: use --wait mined or final".into());
        }
        _ => {}
    }
    // One thread: no hand-over between cores, and at most one of them is taken from the node.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(measure(args))?;
    report.print();
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(args: BenchArgs) -> Result<Report, Failure> {
    let targets: Result<Vec<Target>, Failure> =
        args.url.iter().map(|url| Target::parse(url, args.api_key.as_deref())).collect();
    let targets = Arc::new(targets?);
    let submitters = if args.submitter.is_empty() {
        feed::submitters(&targets[0], args.submitters).await?
    } else {
        args.submitter.clone()
    };
    let plan = Arc::new(Plan {
        run: args.seed.unwrap_or_else(|| Uuid::now_v7().as_u64_pair().1),
        submitters,
        gas: (!args.estimate).then_some(args.gas),
        batch: args.batch,
        count: args.count.unwrap_or(match args.duration {
            Some(_) => COUNT_MAX,
            None => COUNT_DEFAULT,
        }),
        duration: args.duration,
    });
    let chain = match &args.rpc_url {
        Some(url) => Some(ChainReader::connect(url, &plan).await?),
        None => None,
    };
    let environment = Environment::new(&args, &plan, chain.as_ref());
    let feed_end = match args.wait {
        Wait::Final => feed::end_of(&targets[0]).await?,
        Wait::Mined | Wait::Accepted => 0,
    };
    let run = Arc::new(Run::new(args.count));
    let follower = match args.wait {
        Wait::Accepted => None,
        Wait::Mined => chain.clone().map(|chain| {
            let (plan, run) = (plan.clone(), run.clone());
            tokio::spawn(async move { chain.follow(&plan, &run).await })
        }),
        Wait::Final => {
            let (targets, plan, run) = (targets.clone(), plan.clone(), run.clone());
            Some(tokio::spawn(async move { feed::follow(&targets, &plan, &run, feed_end).await }))
        }
    };
    let shown = tokio::spawn(record::show(run.clone(), args.wait));
    let load = Load::new(plan.clone(), targets, run.clone(), args.patience);
    let load = load.ok_or("no node to ask")?;
    load.carry_out(args.concurrency).await;
    if let Some(follower) = follower {
        wait_for_all(&run, &follower, args.patience).await;
        follower.abort();
    }
    shown.abort();
    let records = run.end();
    let verdict = match &chain {
        Some(chain) => Some(chain.verify(&plan, &records).await?),
        None => None,
    };
    Ok(Report { environment, json: args.json, wait: args.wait, records, verdict })
}

/// Waits until all that was accepted is done, or nothing moves any more.
async fn wait_for_all(run: &Run, follower: &tokio::task::JoinHandle<()>, patience: Duration) {
    let (mut moved, mut seen) = (Instant::now(), run.done());
    while run.done() < run.accepted() && moved.elapsed() < patience && !follower.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if run.done() != seen {
            (moved, seen) = (Instant::now(), run.done());
        }
    }
}

fn address(text: &str) -> Result<Address, String> {
    parse_address(text).map_err(|error| error.to_string())
}
