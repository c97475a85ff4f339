//! Chaos with real processes: three `tollgate serve` on one PostgreSQL and two anvils, broken by a plan
//! that is drawn from one seed, under clients that repeat and race. Never shipped.
//!
//! Read in this order: [`plan`] (which fault when), `cluster` (nodes, database and chain), `faults`
//! (carries the plan out), `clients`, `reservers`, `orphans` and `reader` (who use it meanwhile), `event_log` (what they saw),
//! `audit` and `chain` (what the database and the chain say), `verdict` (whether that fits), `report`
//! and `svg` (as text and as an image).
//!
//! Nodes are known by their program and API alone: of Tollgate only the API's types and the tests' tools are linked in.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed run")]

mod audit;
mod chain;
mod clients;
mod cluster;
mod event_log;
mod faults;
mod order;
mod orphans;
pub mod plan;
mod process;
mod reader;
mod report;
mod reservers;
mod svg;
mod verdict;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

pub use event_log::Violation;
pub use report::Report;
pub use verdict::Verdict;

use clients::Clients;
use cluster::Cluster;
use event_log::EventLog;
use plan::{Kind, Plan};
use verdict::Evidence;

/// The longest end of a run once every fault is over: for the creates that were begun, and again for what
/// was accepted to become final. Only a failed run waits that long.
const END_LIMIT: Duration = Duration::from_secs(180);

/// The interval of progress lines.
const TELL_EVERY: Duration = Duration::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `tollgate` program.
    pub program: PathBuf,
    /// The seed of the plan and of the clients.
    pub seed: u64,
    /// The time of creates and faults.
    pub length: Duration,
    /// The only kinds of faults; all of them if it is empty.
    pub only: Vec<Kind>,
    /// Each node knows one endpoint, the one that is wrong in faults of one endpoint: a configuration
    /// that trusts it, and breaks promises.
    pub is_trusting: bool,
}

impl Options {
    /// A run of all kinds of faults.
    pub fn new(program: PathBuf, seed: u64, length: Duration) -> Self {
        Self { program, seed, length, only: Vec::new(), is_trusting: false }
    }
}

/// Runs it all and judges.
pub async fn run(options: &Options) -> Report {
    let plan = match options.only.as_slice() {
        [] => Plan::draw(options.seed, options.length),
        kinds => Plan::of_kinds(options.seed, options.length, kinds),
    };
    let cluster = Arc::new(Cluster::build(options, &plan).await);
    let log = Arc::new(EventLog::new());
    log.tell(&format!("logs are in {}", cluster.folder().display()));
    if let Some(lasting) = &plan.lasting {
        log.tell(&format!("to the end: {}", faults::describe_lasting(lasting)));
    }
    if plan.orphans > 0 {
        orphans::leave(&cluster, &log, plan.orphans).await;
    }
    let reader = reader::read(cluster.ports(), log.clone());
    let clients = Clients::start(&cluster, &log, options.seed);
    let supervisor = faults::supervise(&cluster, &log);
    let teller = tokio::spawn(tell(log.clone()));
    faults::carry_out(&cluster, &log, &plan).await;
    sleep_until(log.start() + options.length).await;
    log.tell("the end: no new creates");
    if !clients.end(END_LIMIT).await {
        let what = format!("a create was not taken within {END_LIMIT:?} though all was whole");
        log.violation(what);
    }
    wait_for_the_last(&log).await;
    teller.abort();
    reader.abort();
    let (mut mined, mut pending_counts) = (Vec::new(), BTreeMap::new());
    for (chain, anvil) in cluster.chains.iter().enumerate() {
        mined.extend(chain::mined(chain, anvil).await);
        pending_counts.extend(chain::pending_counts(chain, anvil).await);
    }
    let evidence = Evidence {
        mined,
        pending_counts,
        audit: cluster.audit.findings().await,
        accepted: log.events().accepted.into_values().collect(),
        feed: log.events().feed,
        cancels: log.events().cancels,
        used: log.events().used,
        replaced: log.events().replaced,
    };
    supervisor.abort();
    let _ = supervisor.await;
    let verdict = verdict::judge(&evidence);
    let report = Report::new(options, plan, log.events(), verdict);
    if report.is_good() {
        return report;
    }
    cluster.audit.write_down(cluster.folder()).await;
    let blocks: Vec<String> = evidence.mined.iter().map(|mined| format!("{mined:?}")).collect();
    std::fs::write(cluster.folder().join("chain.txt"), blocks.join("\n")).unwrap();
    report.with_logs(keep_logs(cluster))
}

/// Until the feed has as many as were accepted, or too long.
async fn wait_for_the_last(log: &EventLog) {
    let begun = Instant::now();
    loop {
        let (accepted, settled) = log.counts();
        if settled >= accepted {
            return;
        }
        if begun.elapsed() > END_LIMIT {
            let what = format!("{} are not final after {END_LIMIT:?}", accepted - settled);
            log.violation(what);
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn tell(log: Arc<EventLog>) {
    loop {
        sleep(TELL_EVERY).await;
        log.tell("");
    }
}

fn keep_logs(cluster: Arc<Cluster>) -> PathBuf {
    let cluster = Arc::into_inner(cluster).expect("all tasks of the run have ended");
    cluster.keep()
}
