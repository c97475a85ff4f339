//! The throughput of the stores, as a share of a ceiling measured in the same run.
//!
//! `cargo run --profile dist -p tollgate-bench [-- SECONDS]` starts a PostgreSQL of its own, measures each
//! job for that long (3 seconds unless told otherwise) and prints a table. Absolute figures drift
//! with the host; the share of the ceiling does not.

#![allow(clippy::unwrap_used, reason = "a benchmark without its set-up has no result")]

mod ceiling;
mod jobs;

use std::time::Duration;

use tollgate_testkit::{PgFixture, SqliteFixture, StoreFixture, TestNode};

use jobs::Line;

#[tokio::main]
async fn main() {
    let seconds = std::env::args().nth(1).map_or(3.0, |text| text.parse().unwrap());
    let span = Duration::from_secs_f64(seconds);
    println!("| store | job | rows/s | ms per batch | of the ceiling |");
    println!("|---|---|---:|---:|---:|");
    let postgres = PgFixture::crashable().await;
    let ceiling = ceiling::bare_inserts(&postgres.url(), span).await;
    let node = (&postgres as &dyn StoreFixture).node("bench").await;
    run("PostgreSQL", &node, span, &ceiling).await;
    let sqlite = SqliteFixture::new().await;
    let node = (&sqlite as &dyn StoreFixture).node("bench").await;
    let ceiling = jobs::accept(&node, 1, 500, span).await;
    run("SQLite", &node, span, &ceiling).await;
}

async fn run(name: &str, node: &TestNode, span: Duration, ceiling: &Line) {
    let share = Some(ceiling.rows_per_second);
    print(name, ceiling, None);
    for (submitters, batch) in [(1, 50), (1, 500), (100, 500)] {
        print(name, &jobs::accept(node, submitters, batch, span).await, share);
    }
    for line in jobs::life(node, 500, span).await {
        print(name, &line, share);
    }
    print(name, &jobs::renew(node, 10_000, span).await, None);
}

fn print(store: &str, line: &Line, ceiling: Option<f64>) {
    let share = ceiling.map(|ceiling| format!("{:.2}", line.rows_per_second / ceiling));
    let (job, rows, ms) = (&line.job, line.rows_per_second, line.ms_per_batch);
    println!("| {store} | {job} | {rows:.0} | {ms:.2} | {} |", share.unwrap_or_default());
}
