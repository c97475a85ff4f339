//! A load generator for running nodes that verifies the result on the chain.
//!
//! A closed loop, in which each caller waits for its answer before its next intent, or an open loop, in which intents
//! arrive at a given rate whatever the node does. Every intent is a plain transfer of a unique value, so that accepted
//! intents can be matched with mined transactions. Runs on one thread and reports its own CPU time, because it shares
//! the machine with the nodes it measures.

mod callers;
mod chain;
mod feed;
mod ledger;
mod plan;
mod record;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::Instant;
use tollgate_api::parse_duration;
use tollgate_client::{Node, connect};
use tollgate_http::{Limits, TlsFiles};
use tollgate_model::Address;
use tollgate_model::ids::parse_address;
use uuid::Uuid;

use self::callers::Load;
use self::chain::ChainReader;
pub use self::plan::COUNT_MAX;
use self::plan::Plan;
use self::record::Run;
use self::report::Environment;
pub use self::report::Report;

/// The number of intents if neither a count nor a duration is given.
const COUNT_DEFAULT: u64 = 1_000;
/// Callers of a closed loop by default.
const CALLERS_CLOSED: u32 = 64;
/// Calls under way in an open loop by default: enough for a second of silence at a thousand intents per second.
const CALLERS_OPEN: u32 = 1_024;
/// The longest response body, in bytes (I13).
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest time for a response, including long polls.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);

/// Any failure of a run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The settings of a run, which are the flags of `tollgate bench`.
#[derive(Args)]
pub struct Options {
    /// A node; may be repeated. Each submitter's intents go to its owner.
    #[arg(
        long,
        visible_alias = "nodes",
        default_value = "http://127.0.0.1:8550",
        value_delimiter = ','
    )]
    pub url: Vec<String>,
    /// A submitter to load; may be repeated.
    #[arg(long, value_delimiter = ',', value_parser = address, conflicts_with = "submitters")]
    pub submitter: Vec<Address>,
    /// The number of the node's submitters to load if none is named.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub submitters: u32,
    /// The number of intents; 1000 if no duration is given either.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    pub count: Option<u64>,
    /// The time during which new intents are created.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// Concurrent callers, each of which waits for its answer before its next intent; with a rate, the most calls
    /// under way [default: 64; with --rate 1024]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub concurrency: Option<u32>,
    /// Intents per second, at times fixed in advance (open loop): latency is measured from these times, however late
    /// a call begins.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// Intents per call; 1 uses the single create.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub batch: u64,
    /// A node of the chain, to verify what was mined.
    #[arg(long)]
    pub rpc_url: Option<String>,
    /// The state that every accepted intent must reach before the run ends.
    #[arg(long, value_enum, default_value = "final")]
    pub wait: Wait,
    /// The longest time without progress before the run gives up.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub patience: Duration,
    /// The gas limit of each transfer.
    #[arg(long, default_value_t = 21_000)]
    pub gas: u64,
    /// Send no gas limit, so that the node estimates it.
    #[arg(long, conflicts_with = "gas")]
    pub estimate: bool,
    /// The name of the run: the same seed gives the same request ids and values.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Sent as a bearer token.
    #[arg(long, env = "TOLLGATE_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Trust the certificates of this PEM file in addition to the system's.
    #[arg(long, env = "TOLLGATE_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Present the certificate of this PEM file, for nodes that ask for one.
    #[arg(long, env = "TOLLGATE_CLIENT_CERT_FILE", value_name = "FILE")]
    pub client_cert_file: Option<PathBuf>,
    /// Private key of that certificate, in PEM.
    #[arg(long, env = "TOLLGATE_CLIENT_KEY_FILE", value_name = "FILE")]
    pub client_key_file: Option<PathBuf>,
}

impl Options {
    fn callers(&self) -> u32 {
        let default = if self.rate.is_some() { CALLERS_OPEN } else { CALLERS_CLOSED };
        self.concurrency.unwrap_or(default)
    }
}

/// The state that ends a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Wait {
    /// The completion feed contains every accepted intent.
    Final,
    /// The chain's blocks contain every accepted intent.
    Mined,
    /// Every intent has its answer. Nothing is verified.
    Accepted,
}

fn address(text: &str) -> Result<Address, String> {
    parse_address(text).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "must be like 500ms, 10s, 5m or 1h".to_owned())
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

/// Runs the load and verifies its result.
///
/// # Errors
/// The options contradict each other, or a node can't be used.
pub fn run(options: &Options) -> Result<Report, Error> {
    match (options.wait, &options.rpc_url) {
        (Wait::Mined, None) => return Err("--wait mined reads the chain: give --rpc-url".into()),
        (Wait::Accepted, Some(_)) => {
            return Err("--rpc-url verifies what was mined: use --wait mined or final".into());
        }
        _ => {}
    }
    // One thread: no hand-over between cores, and at most one core is taken from the nodes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(options))
}

async fn measure(options: &Options) -> Result<Report, Error> {
    let nodes = Arc::new(nodes(options)?);
    let submitters = if options.submitter.is_empty() {
        feed::submitters(&nodes[0], options.submitters).await?
    } else {
        options.submitter.clone()
    };
    let plan = Arc::new(Plan {
        run: options.seed.unwrap_or_else(|| Uuid::now_v7().as_u64_pair().1),
        submitters,
        gas: (!options.estimate).then_some(options.gas),
        batch: options.batch,
        count: options.count.unwrap_or(match options.duration {
            Some(_) => COUNT_MAX,
            None => COUNT_DEFAULT,
        }),
        duration: options.duration,
        rate: options.rate,
    });
    let chain = match &options.rpc_url {
        Some(url) => Some(ChainReader::connect(url, &plan).await?),
        None => None,
    };
    let environment = Environment::new(options, &plan, chain.as_ref());
    let feed_end = match options.wait {
        Wait::Final => feed::end(&nodes[0]).await?,
        Wait::Mined | Wait::Accepted => 0,
    };
    let run = Arc::new(Run::new(options.count));
    let follower = match options.wait {
        Wait::Accepted => None,
        Wait::Mined => chain.clone().map(|chain| {
            let (plan, run) = (plan.clone(), run.clone());
            tokio::spawn(async move { chain.follow(&plan, &run).await })
        }),
        Wait::Final => {
            let (nodes, plan, run) = (nodes.clone(), plan.clone(), run.clone());
            Some(tokio::spawn(async move { feed::follow(&nodes, &plan, &run, feed_end).await }))
        }
    };
    let progress = tokio::spawn(record::show_progress(run.clone(), options.wait));
    let load = Load::new(plan.clone(), nodes, run.clone(), options.patience);
    load.ok_or("no node is given")?.run(options.callers()).await;
    if let Some(follower) = follower {
        wait_for_all(&run, &follower, options.patience).await;
        follower.abort();
    }
    progress.abort();
    let records = run.end();
    let verdict = match &chain {
        Some(chain) => Some(chain.verify(&plan, &records).await?),
        None => None,
    };
    Ok(Report { environment, wait: options.wait, records, verdict })
}

fn nodes(options: &Options) -> Result<Vec<Node>, Error> {
    let limits = Limits {
        connect_timeout: RESPONSE_TIMEOUT,
        idle_max: options.callers() as usize + 1,
        response_bytes_max: RESPONSE_BYTES_MAX,
    };
    let files = TlsFiles {
        ca_file: options.ca_file.clone(),
        cert_file: options.client_cert_file.clone(),
        key_file: options.client_key_file.clone(),
    };
    let http = connect(&limits, &files)?;
    let mut nodes = Vec::new();
    for url in &options.url {
        let node = Node::new(url, http.clone())?;
        nodes.push(match &options.api_key {
            Some(key) => node.with_api_key(key)?,
            None => node,
        });
    }
    Ok(nodes)
}

/// Waits until every accepted intent is done, or nothing moves any more.
async fn wait_for_all(run: &Run, follower: &tokio::task::JoinHandle<()>, patience: Duration) {
    let (mut moved, mut seen) = (Instant::now(), run.done());
    while run.done() < run.accepted() && moved.elapsed() < patience && !follower.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if run.done() != seen {
            (moved, seen) = (Instant::now(), run.done());
        }
    }
}
