//! Chaos with real processes: three `tollgate serve` on one PostgreSQL and one anvil, broken by a plan
//! that is drawn from one seed, under clients that repeat and race. Never shipped.
//!
//! Read in this order: [`plan`] (what goes wrong when), `site` (what it goes wrong with), `proxy` (the
//! chain's faults), `nemesis` (carries the plan out), `clients` and `reader` (who uses it meanwhile),
//! `ledger` (what they saw), `audit` and `chain` (what the database and the chain say), `verdict`
//! (whether that fits), `report` and `picture` (in words and as an image).
//!
//! Nothing of Tollgate is linked in but the tests' tools: nodes are known by their program and API.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed run")]

mod audit;
mod chain;
mod clients;
mod lag;
mod ledger;
mod lies;
mod nemesis;
mod picture;
pub mod plan;
mod process;
mod proxy;
mod reader;
mod report;
mod site;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

pub use ledger::Violation;
pub use report::Report;
pub use verdict::Verdict;

use clients::Clients;
use ledger::Ledger;
use plan::Plan;
use site::Site;
use verdict::Evidence;

/// How long the end may take once everything is whole: for what clients began, and again for what
/// was accepted to become final. Only a failed run waits that long.
const END_LIMIT: Duration = Duration::from_secs(180);

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How often it is looked whether all is final.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `tollgate` program.
    pub program: PathBuf,
    /// What the plan and the clients are drawn from.
    pub seed: u64,
    /// How long there is work and trouble.
    pub length: Duration,
}

/// Runs it all and judges.
pub async fn run(options: &Options) -> Report {
    let plan = Plan::draw(options.seed, options.length);
    let site = Arc::new(Site::build(&options.program, options.seed, plan.steady_errors).await);
    let ledger = Arc::new(Ledger::new());
    ledger.tell(&format!("logs are in {}", site.folder().display()));
    let reader = reader::read(site.ports(), ledger.clone());
    let clients = Clients::start(&site, &ledger, options.seed);
    let supervisor = nemesis::supervise(&site, &ledger);
    let teller = tokio::spawn(tell(ledger.clone()));
    nemesis::carry_out(&site, &ledger, &plan).await;
    sleep_until(ledger.start() + options.length).await;
    ledger.tell("the end: no new creates");
    if !clients.end(END_LIMIT).await {
        let what = format!("a create was not taken within {END_LIMIT:?} though all was whole");
        ledger.violation(what);
    }
    wait_for_the_last(&ledger).await;
    teller.abort();
    reader.abort();
    let evidence = Evidence {
        mined: chain::mined(&site.anvil).await,
        pending_counts: chain::pending_counts(&site.anvil).await,
        audit: site.audit.findings().await,
        accepted: ledger.notes().accepted.into_values().collect(),
        feed: ledger.notes().feed,
        cancels: ledger.notes().cancels,
        replaced: ledger.notes().replaced,
    };
    supervisor.abort();
    let _ = supervisor.await;
    let verdict = verdict::judge(&evidence);
    let report = Report::new(options, ledger.notes(), verdict);
    if report.is_good() {
        return report;
    }
    site.audit.write_down(site.folder()).await;
    let blocks: Vec<String> = evidence.mined.iter().map(|mined| format!("{mined:?}")).collect();
    std::fs::write(site.folder().join("chain.txt"), blocks.join("\n")).unwrap();
    report.with_logs(keep_logs(site))
}

/// Until the feed has as many as were accepted, or too long.
async fn wait_for_the_last(ledger: &Ledger) {
    let begun = Instant::now();
    loop {
        let (accepted, settled) = ledger.counts();
        if settled >= accepted {
            return;
        }
        if begun.elapsed() > END_LIMIT {
            let what = format!("{} are not final after {END_LIMIT:?}", accepted - settled);
            ledger.violation(what);
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn tell(ledger: Arc<Ledger>) {
    loop {
        sleep(TELL_EVERY).await;
        ledger.tell("");
    }
}

fn keep_logs(site: Arc<Site>) -> PathBuf {
    let site = Arc::into_inner(site).expect("all tasks of the run have ended");
    site.keep()
}
