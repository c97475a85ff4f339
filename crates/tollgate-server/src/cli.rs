//! The command line.

mod bench;
mod demo;
mod devchain;
mod explain;
mod node;
mod openapi;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::compose::{Database, Failure};

/// A transaction manager for EVM chains.
#[derive(Parser)]
#[command(name = "tollgate", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Loads a running node, and reads from the chain what came of it.
    Bench(bench::BenchArgs),
    /// Two nodes, a dev chain, 200 intents, one node killed in the middle; the chain gives the verdict.
    Demo(demo::DemoArgs),
    /// The API on loopback with a dev chain (or --rpc-url) and funded accounts.
    Dev(node::DevArgs),
    /// A node.
    Serve(node::ServeArgs),
    /// The dev chain alone.
    Devchain(devchain::DevchainArgs),
    /// What a node's answer to a send means, and what is done about it.
    Explain(explain::ExplainArgs),
    /// Prints the OpenAPI document.
    Openapi,
    /// Brings a database's schema up to date.
    Migrate {
        /// postgres://… or sqlite:PATH
        #[arg(long, env = "TOLLGATE_DATABASE_URL", default_value = "sqlite:tollgate.db")]
        database_url: String,
    },
}

/// Runs the command that was asked for.
pub(crate) fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Dev(args) => node::dev(args),
        Command::Serve(args) => node::serve(args),
        Command::Devchain(args) => devchain::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Openapi => openapi::run(),
        Command::Migrate { database_url } => migrate(&database_url),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn migrate(database_url: &str) -> Result<ExitCode, Failure> {
    let database = Database::parse(database_url)?;
    let applied = runtime()?.block_on(database.migrate())?;
    println!("{applied} migrations applied; the schema is up to date");
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// How logs look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum LogFormat {
    /// For people.
    Pretty,
    /// For machines.
    Json,
}

/// Logs go to stderr; the level is RUST_LOG's.
fn log(format: LogFormat, default_level: &str) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Pretty => log.init(),
        LogFormat::Json => log.json().init(),
    }
}

/// `500ms`, `10s`, `5m`.
fn duration(text: &str) -> Result<std::time::Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let number: u64 = digits.parse().map_err(|_| "must be like 500ms, 10s or 5m".to_owned())?;
    match &text[digits.len()..] {
        "ms" => Ok(std::time::Duration::from_millis(number)),
        "s" => Ok(std::time::Duration::from_secs(number)),
        "m" => Ok(std::time::Duration::from_secs(number.saturating_mul(60))),
        _ => Err("must be like 500ms, 10s or 5m".to_owned()),
    }
}
