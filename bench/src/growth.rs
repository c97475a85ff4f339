//! Curves: how rates, latencies and upkeep change as numbers grow. Tollgate alone, on PostgreSQL.

use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollgate_testkit::postgres::connect;

use crate::bed::{Bed, Chain, FreeChain, Setup, Side, Stand, Store, Usage};
use crate::compare::{brief, warm_up};
use crate::load::{Amount, Latency, Load, measure as measure_load, run};
use crate::report::Part;
use crate::stats::grouped;
use crate::svg::{Series, curves};
use crate::{process, slow_signer};

/// Blocks of a quiet chain.
const SLOW: FreeChain = FreeChain { interval_ms: 1_000, hold: true, never: None };
/// The rate at which others are loaded beside a stuck account, and how many they are.
const OTHERS_RATE: u32 = 500;
const OTHERS: std::ops::Range<usize> = 1..11;
/// Transactions that wait for a stuck account.
const STUCK: usize = 10_000;

/// The sizes to measure.
#[derive(Args)]
pub(crate) struct Sizes {
    /// Accounts that are loaded at once
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    submitters: Vec<usize>,
    /// Finished transactions in the database
    #[arg(long, value_delimiter = ',', default_value = "0,10000,100000,1000000")]
    finished: Vec<usize>,
    /// Open transactions of one account
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    open: Vec<usize>,
    /// Accounts with an open transaction each
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000,10000")]
    working: Vec<usize>,
    /// Readers in long polls
    #[arg(long, value_delimiter = ',', default_value = "0,1,10,100,1000")]
    readers: Vec<usize>,
}

/// One chart and its table.
struct Curve {
    file: &'static str,
    title: String,
    x: &'static str,
    unit: fn(f64) -> String,
    series: Vec<(&'static str, Vec<(f64, f64)>)>,
    note: String,
}

impl Curve {
    fn markdown(&self) -> String {
        let mut out = format!(
            "### {}\n\n{}\n\n![{0}](img/{})\n\n| {} |",
            self.title, self.note, self.file, self.x
        );
        for (name, _) in &self.series {
            out.push_str(&format!(" {name} |"));
        }
        out.push_str(&format!("\n|---:|{}\n", "---:|".repeat(self.series.len())));
        for (place, (at, _)) in self.series[0].1.iter().enumerate() {
            out.push_str(&format!("| {} |", grouped(*at)));
            for (_, points) in &self.series {
                out.push_str(&format!(" {} |", (self.unit)(points[place].1)));
            }
            out.push('\n');
        }
        out
    }

    fn chart(&self) -> String {
        let series = self
            .series
            .iter()
            .map(|(name, points)| Series { name: (*name).to_owned(), points: points.clone() });
        curves(&self.title, self.x, &series.collect::<Vec<_>>(), self.unit)
    }
}

/// Measures all curves.
pub(crate) async fn measure(
    bed: &Bed,
    span: Duration,
    quick: bool,
    sizes: &Sizes,
    about: &str,
) -> Part {
    // A quick run leaves out what takes long to fill.
    let of = |sizes: &[usize], most: usize| -> Vec<usize> {
        sizes.iter().copied().filter(|size| !quick || *size <= most).collect()
    };
    let mut all = vec![submitters(bed, span, &of(&sizes.submitters, 100)).await];
    all.push(finished(bed, span, &of(&sizes.finished, 10_000)).await);
    all.extend(open(bed, span, &of(&sizes.open, 1_000)).await);
    all.extend(working(bed, span, &of(&sizes.working, 100)).await);
    all.push(readers(bed, span, &of(&sizes.readers, 100)).await);
    let stuck = stuck(bed, span, if quick { 1_000 } else { STUCK }).await;
    let slow_signer = slow_signer::measure(span).await;
    let texts: Vec<String> = all.iter().map(Curve::markdown).collect();
    let text =
        format!("{about} One run for each point.\n\n{}\n{stuck}\n{slow_signer}", texts.join("\n"));
    let charts = all.iter().map(|curve| (curve.file.to_owned(), curve.chart())).collect();
    Part { name: "growth", text, charts }
}

async fn stand(bed: &Bed, accounts: usize, chain: FreeChain, open_max: usize) -> Stand {
    let chain = Chain::Free(chain);
    let (side, store) = (Side::Tollgate, Store::Postgres);
    bed.stand(Setup { side, store, chain, accounts, open_max, variables: Vec::new() }).await
}

fn per_second(value: f64) -> String {
    format!("{}/s", grouped(value))
}

/// Of one core.
fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

/// Whole lives with the load spread over accounts.
async fn submitters(bed: &Bed, span: Duration, sizes: &[usize]) -> Curve {
    let mut rates = Vec::new();
    // A chain that recovers senders also for one account: the points differ in nothing else.
    let accounts = sizes.iter().copied().max().unwrap_or(1).max(2);
    for size in sizes {
        let stand = stand(bed, accounts, FreeChain::FAST, 50_000).await;
        let load = Load::closed(256, Amount::For(span)).whole_life().from(0..*size);
        warm_up(bed, &stand, &load).await;
        let sample = measure_load(bed, &stand, &load).await;
        eprintln!("{size} submitters: {}", brief(&sample));
        rates.push((*size as f64, sample.rate));
        bed.clear(stand).await;
    }
    Curve {
        file: "growth-submitters.svg",
        title: "Whole lives by number of submitters".to_owned(),
        x: "submitters",
        unit: per_second,
        series: vec![("whole lives", rates)],
        note: "256 callers, a node that costs nothing but the recovery of senders, blocks of 0.1 s. Wanted: 100 \
               submitters at least 0.9 of one."
            .to_owned(),
    }
}

/// Rates on a database that holds finished transactions of other accounts.
async fn finished(bed: &Bed, span: Duration, sizes: &[usize]) -> Curve {
    let (mut accepted, mut lives) = (Vec::new(), Vec::new());
    for size in sizes {
        let mut stand = stand(bed, 1, FreeChain::FAST, 50_000).await;
        stand.stop_service();
        let database = connect(&stand.database_url).await.unwrap();
        let sql = include_str!("finished.sql").replace("{count}", &size.to_string());
        database.batch_execute(&sql).await.unwrap();
        database.batch_execute("vacuum analyze").await.unwrap();
        database.batch_execute("checkpoint").await.unwrap();
        bed.start_service(&mut stand).await;
        let load = Load::closed(256, Amount::For(span)).whole_life();
        warm_up(bed, &stand, &load).await;
        let report = run(bed, &stand, &load).await;
        let done = report.done.unwrap().per_second;
        eprintln!(
            "{size} finished: {:.0}/s accepted, {done:.0}/s final",
            report.accepted_per_second
        );
        accepted.push((*size as f64, report.accepted_per_second));
        lives.push((*size as f64, done));
        bed.clear(stand).await;
    }
    Curve {
        file: "growth-finished.svg",
        title: "Rates by number of finished transactions in the database".to_owned(),
        x: "finished transactions",
        unit: per_second,
        series: vec![("accepted", accepted), ("final", lives)],
        note: "One submitter, 256 callers, whole lives. The finished ones belong to ten other accounts. Wanted: within \
               10 % of none."
            .to_owned(),
    }
}

/// Start and upkeep of a node whose account has open transactions.
async fn open(bed: &Bed, span: Duration, sizes: &[usize]) -> Vec<Curve> {
    let (mut starts, mut shares, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for size in sizes {
        let mut stand = stand(bed, 1, FreeChain { interval_ms: 100, ..SLOW }, 100_000).await;
        let load = Load::closed(4, Amount::Count(*size)).in_batches(500.min(*size as u32));
        run(bed, &stand, &load).await;
        stand.stop_service();
        let start = Instant::now();
        bed.start_service(&mut stand).await;
        // The account works again when it has accepted one more.
        run(bed, &stand, &Load::closed(1, Amount::Count(1))).await;
        let took = start.elapsed().as_secs_f64();
        let Upkeep { node: cpu, rpc_calls, .. } = upkeep(bed, &stand, span).await;
        eprintln!("{size} open: start {took:.2} s, upkeep {cpu:.1} % of a core");
        starts.push((*size as f64, took));
        shares.push((*size as f64, cpu));
        calls.push((*size as f64, rpc_calls));
        bed.clear(stand).await;
    }
    vec![
        Curve {
            file: "growth-open-start.svg",
            title: "Start of a node by number of open transactions".to_owned(),
            x: "open transactions",
            unit: |value| format!("{value:.2} s"),
            series: vec![("start", starts)],
            note: "From the start of the process until the account accepts a transaction. Wanted: at most 10 s with \
                   100,000."
                .to_owned(),
        },
        Curve {
            file: "growth-open-upkeep.svg",
            title: "Upkeep by number of open transactions".to_owned(),
            x: "open transactions",
            unit: percent,
            series: vec![("node, of one core", shares)],
            note: "Ten blocks a second that hold none of them.".to_owned(),
        },
        Curve {
            file: "growth-open-calls.svg",
            title: "Calls to the chain by number of open transactions".to_owned(),
            x: "open transactions",
            unit: |value| format!("{value:.1}/s"),
            series: vec![("calls", calls)],
            note: "The same: a call for the head and one for each block. Wanted: the same with any number.".to_owned(),
        },
    ]
}

/// Upkeep of accounts with an open transaction each.
async fn working(bed: &Bed, span: Duration, sizes: &[usize]) -> Vec<Curve> {
    let (mut node, mut database, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for size in sizes {
        let stand = stand(bed, *size, SLOW, 100).await;
        let load = Load::closed(256, Amount::Count(*size)).from(0..*size);
        run(bed, &stand, &load).await;
        let Upkeep { node: cpu, database: used, .. } = upkeep(bed, &stand, span).await;
        let megabytes = process::memory_mb(stand.service_id());
        eprintln!("{size} at work: node {cpu:.1} %, database {used:.1} %, {megabytes:.0} MB");
        node.push((*size as f64, cpu));
        database.push((*size as f64, used));
        memory.push((*size as f64, megabytes));
        bed.clear(stand).await;
    }
    vec![
        Curve {
            file: "growth-working-cpu.svg",
            title: "Upkeep by number of submitters with work".to_owned(),
            x: "submitters with work",
            unit: percent,
            series: vec![("node, of one core", node), ("database, of one core", database)],
            note: "Each has one transaction that is not mined; a block each second. Wanted: at most 2 % for leases with \
                   10,000."
                .to_owned(),
        },
        Curve {
            file: "growth-working-memory.svg",
            title: "Memory of a node by number of submitters with work".to_owned(),
            x: "submitters with work",
            unit: |value| format!("{value:.0} MB"),
            series: vec![("resident", memory)],
            note: "Wanted: at most 300 MB with 10,000.".to_owned(),
        },
    ]
}

/// A node without work, with readers that wait for something to happen.
async fn readers(bed: &Bed, span: Duration, sizes: &[usize]) -> Curve {
    let (mut node, mut database) = (Vec::new(), Vec::new());
    let mut memory = 0.0;
    for size in sizes {
        let stand = stand(bed, 1, SLOW, 100).await;
        let mut polls = JoinSet::new();
        for _ in 0..*size {
            polls.spawn(poll(stand.port));
        }
        let Upkeep { node: cpu, database: used, .. } = upkeep(bed, &stand, span).await;
        eprintln!("{size} readers: node {cpu:.1} %, database {used:.1} %");
        memory = f64::max(memory, process::memory_mb(stand.service_id()));
        assert_eq!(polls.len(), *size);
        assert!(polls.try_join_next().is_none(), "a long poll ended");
        node.push((*size as f64, cpu));
        database.push((*size as f64, used));
        polls.shutdown().await;
        bed.clear(stand).await;
    }
    Curve {
        file: "growth-readers.svg",
        title: "A node without work by number of readers in long polls".to_owned(),
        x: "readers",
        unit: percent,
        series: vec![("node, of one core", node), ("database, of one core", database)],
        note: format!(
            "A block each second. The node took at most {memory:.0} MB. Wanted: below 1 % and at most 40 MB without \
             readers, at most 5 % with 1,000."
        ),
    }
}

/// Waits for the completion feed to grow, which it does not.
async fn poll(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut buffer = [0; 4_096];
    loop {
        let request =
            "GET /api/v1/tx/completions?after=0&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(
            buffer[..length].starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer[..length])
        );
    }
}

/// The cost of a node that nobody asks anything.
struct Upkeep {
    /// Shares of one core, in percent.
    node: f64,
    database: f64,
    /// Calls to the chain per second.
    rpc_calls: f64,
}

async fn upkeep(bed: &Bed, stand: &Stand, span: Duration) -> Upkeep {
    // The time that follows a start or a load is not measured.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = bed.usage(stand).await;
    tokio::time::sleep(span).await;
    let after = bed.usage(stand).await;
    let seconds = (after.at - before.at).as_secs_f64();
    let share = |of: fn(&Usage) -> Duration| {
        of(&after).saturating_sub(of(&before)).as_secs_f64() / seconds * 100.0
    };
    let calls = after.rpc_calls.zip(before.rpc_calls).map_or(0, |(after, before)| after - before);
    Upkeep {
        node: share(|usage| usage.service),
        database: share(|usage| usage.database),
        rpc_calls: calls as f64 / seconds,
    }
}

/// Latency of others before and while an account is stuck.
async fn stuck(bed: &Bed, span: Duration, queued: usize) -> String {
    let never = Some(0);
    let stand = stand(bed, OTHERS.end, FreeChain { never, ..FreeChain::FAST }, 64).await;
    let load = Load::open(OTHERS_RATE, Amount::For(span)).whole_life().from(OTHERS);
    warm_up(bed, &stand, &load).await;
    let mut out = format!(
        "### Others beside a stuck submitter\n\nTen submitters at {OTHERS_RATE}/s by the clock, before and after another \
         one with a window of 64 has {} transactions that are not mined. Wanted: unchanged.\n\n\
         | | p50, ms | p99, ms |\n|---|---:|---:|\n",
        grouped(queued as f64)
    );
    for when in ["before", "beside it"] {
        if when == "beside it" {
            let all = Load::closed(4, Amount::Count(queued)).in_batches(500);
            run(bed, &stand, &all).await;
        }
        let Latency { p50, p99 } = run(bed, &stand, &load).await.accept_latency_ms.unwrap();
        eprintln!("others {when}: p50 {p50:.1} ms, p99 {p99:.1} ms");
        out.push_str(&format!("| {when} | {p50:.1} | {p99:.1} |\n"));
    }
    bed.clear(stand).await;
    out
}
