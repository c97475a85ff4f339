//! The throughput of the stores, as a share of a ceiling measured in the same run.
//!
//! `cargo run --profile dist -p tollgate-bench [-- SECONDS]` starts a PostgreSQL of its own, measures each
//! job for that long (3 seconds unless told otherwise) and prints a table. Absolute figures drift
//! with the host; the share of the ceiling does not.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't set up has nothing to say")]

mod ceiling;
mod jobs;

use std::sync::Arc;
use std::time::Duration;

use tollgate_model::port::Store;
use tollgate_postgres::{PgOptions, PgStore};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::postgres::PgServer;

use jobs::{Line, Node};

#[tokio::main]
async fn main() {
    let seconds = std::env::args().nth(1).map_or(3.0, |text| text.parse().unwrap());
    let span = Duration::from_secs_f64(seconds);
    println!("| store | job | rows/s | ms per batch | of the ceiling |");
    println!("|---|---|---:|---:|---:|");
    postgres(span).await;
    sqlite(span).await;
}

async fn postgres(span: Duration) {
    let server = PgServer::start_own().await;
    let url = server.url(&server.fresh_database().await);
    tollgate_postgres::migrate(&PgOptions::new(&url)).await.unwrap();
    let ceiling = ceiling::bare_inserts(&url, span).await;
    print("PostgreSQL", &ceiling, None);
    let store = PgStore::open(PgOptions::new(&url)).await.unwrap();
    run("PostgreSQL", Arc::new(store), span, ceiling.rows_per_second).await;
}

async fn sqlite(span: Duration) {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("bench.db"));
    tollgate_sqlite::migrate(&options).await.unwrap();
    let store = Arc::new(SqliteStore::open(options).await.unwrap());
    let node = Node::new(store.clone()).await;
    let first = jobs::accept(&node, 1, 500, span).await;
    print("SQLite", &first, None);
    run("SQLite", store, span, first.rows_per_second).await;
}

async fn run(name: &str, store: Arc<dyn Store>, span: Duration, ceiling: f64) {
    let node = Node::new(store).await;
    for (submitters, batch) in [(1, 50), (1, 500), (100, 500)] {
        print(name, &jobs::accept(&node, submitters, batch, span).await, Some(ceiling));
    }
    for line in jobs::life(&node, 500, span).await {
        print(name, &line, Some(ceiling));
    }
    print(name, &jobs::renew(&node, 10_000, span).await, None);
}

fn print(store: &str, line: &Line, ceiling: Option<f64>) {
    let share = ceiling.map(|ceiling| format!("{:.2}", line.rows_per_second / ceiling));
    let (job, rows, ms) = (&line.job, line.rows_per_second, line.ms_per_batch);
    println!("| {store} | {job} | {rows:.0} | {ms:.2} | {} |", share.unwrap_or_default());
}
