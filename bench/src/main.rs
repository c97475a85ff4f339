//! Measures what a node costs, against what the same machine can do at best in the same run.
//!
//! Starts a PostgreSQL of its own, and for each run a chain, a service and the load generator, `tollgate bench`. The
//! ceiling is a service with none of the safety ([`ceiling`]); the chain costs nearly nothing ([`free_node`]) or is
//! anvil. Absolute figures drift with the host; ratios within one run do not. `docs/bench.md` tells how to use it.

#![allow(clippy::unwrap_used, reason = "a benchmark without its set-up has no result")]

mod bed;
mod ceiling;
mod compare;
mod free_node;
mod growth;
mod load;
mod machine;
mod process;
mod report;
mod rpc_connection;
mod slow_signer;
mod stats;
mod stores;
mod svg;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use bed::Bed;

/// The chain of all runs.
const CHAIN_ID: u64 = 31_337;
/// Blocks until a receipt is final, its own included.
const CONFIRMATIONS: u64 = 3;

/// Measures Tollgate against a ceiling, and how it grows.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
    /// Seconds of load in each run [default: 10; quick: 2]
    #[arg(long, global = true)]
    seconds: Option<f64>,
    /// Runs of each kind [default: 3; quick: 1]
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// A short run that shows whether everything works. The page is written to target/bench
    #[arg(long, global = true)]
    quick: bool,
    /// The node and load generator
    #[arg(long, global = true, default_value = "target/dist/tollgate")]
    program: PathBuf,
    /// Folder of performance.md and its charts [default: docs; quick: target/bench]
    #[arg(long, global = true)]
    docs: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Task {
    /// Ceiling and Tollgate in turns; the default
    Compare,
    /// Rates, latencies and upkeep over growing numbers
    Growth(growth::Sizes),
    /// Single jobs of the stores
    Stores,
    /// The ceiling (started by the others)
    #[command(hide = true)]
    Ceiling(ceiling::Options),
    /// The chain that costs nothing (started by the others)
    #[command(hide = true)]
    Node(free_node::Options),
}

impl Options {
    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(if self.quick { 2.0 } else { 10.0 }))
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    fn docs(&self) -> PathBuf {
        let default = if self.quick { "target/bench" } else { "docs" };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        self.docs.clone().unwrap_or_else(|| root.join(default))
    }
}

#[tokio::main]
async fn main() {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    // What was started is ended with the work that is given up.
    tokio::select! {
        () = work(Options::parse()) => {}
        _ = tokio::signal::ctrl_c() => eprintln!("interrupted"),
        _ = terminated.recv() => eprintln!("terminated"),
    }
}

async fn work(mut options: Options) {
    let part = match options.task.take() {
        Some(Task::Ceiling(settings)) => return ceiling::serve(settings).await,
        Some(Task::Node(settings)) => return free_node::serve(settings).await,
        Some(Task::Stores) => return stores::measure(options.span()).await,
        Some(Task::Growth(sizes)) => {
            let bed = Bed::start(options.program.clone()).await;
            let about = machine::describe(&bed).await;
            growth::measure(&bed, options.span(), options.quick, &sizes, &about).await
        }
        None | Some(Task::Compare) => {
            let bed = Bed::start(options.program.clone()).await;
            let about = machine::describe(&bed).await;
            let rows = compare::measure_all(&bed, options.span(), options.rounds()).await;
            let observed = compare::observed(&bed, options.span(), options.rounds()).await;
            report::comparison(&rows, &observed, &about)
        }
    };
    println!("{}", part.text);
    report::write(&part, &options.docs());
}
