//! The throughput of the stores, as a share of a ceiling measured in the same run.

mod bare;
mod jobs;

use std::time::Duration;

use tollgate_testkit::{PgFixture, SqliteFixture, StoreFixture, TestNode};

use jobs::Line;

/// Measures each job for this long and prints a table.
pub(crate) async fn measure(span: Duration) {
    println!("| store | job | rows/s | ms per batch | of the ceiling |");
    println!("|---|---|---:|---:|---:|");
    let postgres = PgFixture::crashable().await;
    let ceiling = bare::bare_inserts(&postgres.url(), span).await;
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
