//! Ceiling and Tollgate in turns, under the same load.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_testkit::http;

use crate::bed::{Bed, Chain, FreeChain, Setup, Side, Store};
use crate::load::{Amount, Load, Sample, measure, run};
use crate::stats::{Bound, Metric, Row, Runs};

/// Open transactions at once against the free chain and against anvil, whose pool gets slow when it is full.
const OPEN_FREE: usize = 50_000;
const OPEN_ANVIL: usize = 8_000;

/// One line of the comparison.
struct Scenario {
    name: &'static str,
    store: Store,
    chain: Chain,
    open_max: usize,
    load: Load,
    targets: &'static [(Metric, Bound)],
}

fn scenarios(span: Duration) -> Vec<Scenario> {
    let amount = Amount::For(span);
    let accept = |name, callers, targets| Scenario {
        name,
        store: Store::Postgres,
        // Nothing is mined: what comes after the answer is only Tollgate's sending, which can't be left out.
        chain: Chain::Free(FreeChain::HELD),
        open_max: 100_000,
        load: Load::closed(callers, amount),
        targets,
    };
    let life = |name, chain, open_max, load: Load, targets| Scenario {
        name,
        store: Store::Postgres,
        chain,
        open_max,
        load: load.whole_life(),
        targets,
    };
    let free = || Chain::Free(FreeChain::FAST);
    let closed = || Load::closed(256, amount);
    vec![
        accept("accept, 256 callers", 256, &[(Metric::Rate, Bound::RatioAtLeast(0.8))]),
        accept("accept, 1 caller", 1, &[(Metric::P50, Bound::AtMost(2.0))]),
        accept("accept, 8 callers", 8, &[(Metric::P50, Bound::AtMost(4.0))]),
        life(
            "whole life, a node that costs nothing",
            free(),
            OPEN_FREE,
            closed(),
            &[
                (Metric::Rate, Bound::RatioAtLeast(0.6)),
                (Metric::ServiceCpu, Bound::RatioAtMost(1.5)),
                (Metric::DatabaseCpu, Bound::RatioAtMost(2.0)),
                (Metric::RpcCalls, Bound::AtMost(1.1)),
            ],
        ),
        life(
            "whole life, anvil",
            Chain::Anvil,
            OPEN_ANVIL,
            closed(),
            &[(Metric::Rate, Bound::RatioAtLeast(0.85))],
        ),
        life(
            "1,000/s by the clock, whole life",
            free(),
            OPEN_FREE,
            Load::open(1_000, amount),
            &[(Metric::P50, Bound::AtMost(5.0)), (Metric::P99, Bound::AtMost(25.0))],
        ),
        Scenario {
            store: Store::Sqlite,
            ..accept("accept, SQLite, 256 callers", 256, &[(Metric::Rate, Bound::AtLeast(6_000.0))])
        },
    ]
}

/// Runs every scenario so many times on each side.
pub(crate) async fn measure_all(bed: &Bed, span: Duration, rounds: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for scenario in scenarios(span) {
        let mut row = Row::new(scenario.name, scenario.targets);
        for round in 0..rounds {
            let mut sides = vec![Side::Ceiling, Side::Tollgate];
            // The ceiling has no other store.
            sides.retain(|side| *side == Side::Tollgate || scenario.store == Store::Postgres);
            if round % 2 == 1 {
                sides.reverse();
            }
            for side in sides {
                let sample = run_one(bed, &scenario, side).await;
                eprintln!("{}, {side:?}: {}", scenario.name, brief(&sample));
                row.runs(side).push(sample);
            }
        }
        rows.push(row);
    }
    rows
}

async fn run_one(bed: &Bed, scenario: &Scenario, side: Side) -> Sample {
    let stand = bed
        .stand(Setup {
            side,
            store: scenario.store,
            chain: scenario.chain.clone(),
            accounts: 1,
            open_max: scenario.open_max,
            variables: Vec::new(),
        })
        .await;
    warm_up(bed, &stand, &scenario.load).await;
    let sample = measure(bed, &stand, &scenario.load).await;
    bed.clear(stand).await;
    sample
}

/// A second of the same load: leases are taken, connections opened, statements planned.
pub(crate) async fn warm_up(bed: &Bed, stand: &crate::bed::Stand, load: &Load) {
    let amount = Amount::For(Duration::from_secs(1));
    run(bed, stand, &Load { amount, ..load.clone() }).await;
}

pub(crate) fn brief(sample: &Sample) -> String {
    format!(
        "{:.0}/s, p50 {:.1} ms, p99 {:.1} ms, service {:.0} µs, database {:.0} µs, others {:.0} %",
        sample.rate,
        sample.p50,
        sample.p99,
        sample.service,
        sample.database,
        sample.foreign * 100.0
    )
}

/// Whole lives with metrics scraped and events read, in turns with neither. Counters themselves can't be switched off;
/// what can is that balances are read, that accounts have series of their own, and that somebody asks.
pub(crate) async fn observed(
    bed: &Bed,
    span: Duration,
    rounds: usize,
) -> Vec<(&'static str, Runs)> {
    let names = ["neither", "metrics", "events", "metrics and events"];
    let mut ways = names.map(|name| (name, Runs::default()));
    for round in 0..rounds {
        for turn in 0..ways.len() {
            // Each round begins with another way.
            let way = (round + turn) % ways.len();
            let (metrics, events) = (way & 1 == 1, way & 2 == 2);
            let sample = run_observed(bed, span, metrics, events).await;
            eprintln!("whole life with {}: {}", names[way], brief(&sample));
            ways[way].1.push(sample);
        }
    }
    ways.into()
}

async fn run_observed(bed: &Bed, span: Duration, metrics: bool, events: bool) -> Sample {
    let balances = if metrics { "5s" } else { "0s" };
    let stand = bed
        .stand(Setup {
            side: Side::Tollgate,
            store: Store::Postgres,
            chain: Chain::Free(FreeChain::FAST),
            accounts: 1,
            open_max: OPEN_FREE,
            variables: vec![
                ("TOLLGATE_METRICS_BALANCE_INTERVAL", balances.to_owned()),
                ("TOLLGATE_METRICS_PER_SUBMITTER", metrics.to_string()),
                ("TOLLGATE_EVENTS_ENABLED", events.to_string()),
            ],
        })
        .await;
    let load = Load::closed(256, Amount::For(span)).whole_life();
    warm_up(bed, &stand, &load).await;
    let scraper = metrics.then(|| tokio::spawn(scrape(stand.port)));
    let reader = events.then(|| tokio::spawn(read_events(stand.port)));
    let sample = measure(bed, &stand, &load).await;
    for watcher in [scraper, reader].into_iter().flatten() {
        assert!(!watcher.is_finished(), "nothing was read: {:?}", watcher.await);
        watcher.abort();
    }
    bed.clear(stand).await;
    sample
}

/// Asks for the metrics each second.
async fn scrape(port: u16) {
    loop {
        let host = format!("127.0.0.1:{port}");
        let answer = http::request(&host, "GET", "/metrics", "").await.unwrap();
        assert!(answer.body.contains("tollgate_"), "no metrics");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Reads the stream of events.
async fn read_events(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 65_536];
    let mut first = true;
    loop {
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(length > 0, "the stream of events ended");
        let is_good = buffer.starts_with(b"HTTP/1.1 200");
        assert!(!first || is_good, "{}", String::from_utf8_lossy(&buffer[..length]));
        first = false;
    }
}
