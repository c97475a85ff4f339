//! One run of the load generator, `tollgate bench`: the same for the ceiling and for Tollgate.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use crate::bed::{Bed, Stand, account};

/// The intents to post.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The places of the accounts that are loaded.
    pub(crate) accounts: std::ops::Range<usize>,
    pub(crate) amount: Amount,
    /// The most calls under way.
    pub(crate) callers: u32,
    /// Intents per second, at times fixed in advance; else each caller waits for its answer.
    pub(crate) rate: Option<u32>,
    /// Intents per call.
    pub(crate) batch: u32,
    /// Waits until all are final, not only accepted.
    pub(crate) whole_life: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Count(usize),
    For(Duration),
}

impl Load {
    /// One account, creates one by one, in a closed loop.
    pub(crate) fn closed(callers: u32, amount: Amount) -> Self {
        Self { accounts: 0..1, amount, callers, rate: None, batch: 1, whole_life: false }
    }

    /// Creates by the clock.
    pub(crate) fn open(rate: u32, amount: Amount) -> Self {
        Self { rate: Some(rate), ..Self::closed(1_024, amount) }
    }

    pub(crate) fn whole_life(self) -> Self {
        Self { whole_life: true, ..self }
    }

    pub(crate) fn from(self, accounts: std::ops::Range<usize>) -> Self {
        Self { accounts, ..self }
    }

    pub(crate) fn in_batches(self, batch: u32) -> Self {
        Self { batch, ..self }
    }
}

/// The generator's report.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) accepted: u64,
    pub(crate) accepted_per_second: f64,
    pub(crate) accept_latency_ms: Option<Latency>,
    pub(crate) done: Option<Done>,
    pub(crate) generator: Generator,
    good: bool,
    faults: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    pub(crate) per_second: f64,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Generator {
    pub(crate) cpu_seconds: f64,
}

/// Posts the load to a stand and waits for its end.
pub(crate) async fn run(bed: &Bed, stand: &Stand, load: &Load) -> Report {
    let mut command = Command::new(&bed.tollgate);
    command.args(["bench", "--json", "--url", &stand.url, "--patience", "120s"]);
    for place in load.accounts.clone() {
        command.args(["--submitter", &account(place).to_string()]);
    }
    match load.amount {
        Amount::Count(count) => command.args(["--count", &count.to_string()]),
        Amount::For(span) => command.args(["--duration", &format!("{}ms", span.as_millis())]),
    };
    command.args(["--concurrency", &load.callers.to_string()]);
    command.args(["--batch", &load.batch.to_string()]);
    if let Some(rate) = load.rate {
        command.args(["--rate", &rate.to_string()]);
    }
    command.args(["--wait", if load.whole_life { "final" } else { "accepted" }]);
    let done = command.stderr(Stdio::inherit()).kill_on_drop(true).output().await.unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let report: Report = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("tollgate bench: {error}: {text}");
    });
    assert!(report.good, "{load:?} at {:?}: {:?}", stand.setup.side, report.faults);
    report
}

/// The rate and the cost of one run, each cost per transaction.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sample {
    /// Accepted, or final for whole lives, per second.
    pub(crate) rate: f64,
    /// Latency of the creates, in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Microseconds of processor time.
    pub(crate) service: f64,
    pub(crate) database: f64,
    pub(crate) chain: f64,
    pub(crate) generator: f64,
    pub(crate) wal_bytes: f64,
    pub(crate) statements: f64,
    pub(crate) rpc_calls: f64,
    /// The share of the machine that other programs took meanwhile.
    pub(crate) foreign: f64,
}

/// Runs a load and measures what it costs.
pub(crate) async fn measure(bed: &Bed, stand: &Stand, load: &Load) -> Sample {
    let before = bed.usage(stand).await;
    let report = run(bed, stand, load).await;
    let after = bed.usage(stand).await;
    let count = report.accepted as f64;
    let micros = |used: Duration| used.as_secs_f64() * 1e6 / count;
    let service = after.service.saturating_sub(before.service);
    let database = after.database.saturating_sub(before.database);
    let chain = after.chain.saturating_sub(before.chain);
    let generator = Duration::from_secs_f64(report.generator.cpu_seconds);
    let machine = after.machine.saturating_sub(before.machine);
    let foreign = machine.saturating_sub(service + database + chain + generator);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all = (after.at - before.at).as_secs_f64() * cores as f64;
    let latency = report.accept_latency_ms.unwrap();
    Sample {
        rate: report.done.map_or(report.accepted_per_second, |done| done.per_second),
        p50: latency.p50,
        p99: latency.p99,
        service: micros(service),
        database: micros(database),
        chain: micros(chain),
        generator: micros(generator),
        wal_bytes: (after.wal_bytes - before.wal_bytes) as f64 / count,
        statements: (after.statements - before.statements) as f64 / count,
        rpc_calls: match (before.rpc_calls, after.rpc_calls) {
            (Some(before), Some(after)) => (after - before) as f64 / count,
            _ => f64::NAN,
        },
        foreign: foreign.as_secs_f64() / all,
    }
}
