//! A node in a process of its own: see [`tollgate_testkit::child_process`].

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::NodeId;
use tollgate_model::port::{
    Acquisition, Checkpoint, Checkpoints, FencedBatch, Lease, NoCheckpoints, Section,
    SectionOutcome, Store, StoreError,
};
use tollgate_postgres::{PgOptions, PgStore};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::builders::{
    IntentExt, SectionExt, intent, long_terms, node_id, reserve, submitter,
};
use tollgate_testkit::child_process::{ChildScenario, DONE, POSTGRES, SQLITE, STOPPED};

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [database @ .., scenario, n] = &args[..] else { panic!("too few arguments: {args:?}") };
    let scenario = ChildScenario::from_name(scenario).unwrap();
    let submitter = submitter(n.parse().unwrap());

    let watch: Arc<dyn Checkpoints> = match scenario {
        ChildScenario::MidBatch => Arc::new(StopWhenWritten),
        ChildScenario::BetweenBatches => Arc::new(NoCheckpoints),
    };
    let store = open(database, watch).await;
    let node = node_id("child");
    let lease = match store.acquire(submitter, &node, &long_terms()).await.unwrap() {
        Acquisition::Granted { lease, .. } => lease,
        Acquisition::Held(owner) => panic!("{submitter} is held by {owner:?}"),
    };
    let first = intent().at(0);
    say(&format!("tx {}", first.tx_id));
    let batch = Section::new(lease).cursor(0, 1).create(first);
    report("commit", commit(&*store, &node, batch).await);
    if scenario == ChildScenario::BetweenBatches {
        stop();
        everything_that_needs_the_lease(&*store, &node, lease).await;
    }
    say(DONE);
}

/// Each line is an answer that a node without the lease must not get.
async fn everything_that_needs_the_lease(store: &dyn Store, node: &NodeId, lease: Lease) {
    let batch = Section::new(lease).cursor(1, 2).create(intent().at(1));
    report("commit", commit(store, node, batch).await);
    report("renew", store.renew(node, &[lease], &long_terms()).await.map(|kept| kept.len()));
    report(
        "reserve",
        store.reserve(node, &reserve(lease)).await.map(|reservation| reservation.is_some()),
    );
    report("settle", store.settle(node, lease, &[]).await.map(|_| "settled"));
    report("release", store.release(node, &[lease]).await);
}

async fn commit(
    store: &dyn Store,
    node: &NodeId,
    section: Section,
) -> Result<&'static str, StoreError> {
    let batch = FencedBatch::new(node.clone(), vec![section]).unwrap();
    let outcomes = store.commit(&batch).await?;
    Ok(match &outcomes[..] {
        [SectionOutcome::Committed { .. }] => "committed",
        [SectionOutcome::Fenced] => "fenced",
        [SectionOutcome::Stale { .. }] => "stale",
        [SectionOutcome::Refused(_)] => "refused",
        other => panic!("one outcome for each section: {other:?}"),
    })
}

fn report(what: &str, answer: Result<impl std::fmt::Display, StoreError>) {
    match answer {
        Ok(answer) => say(&format!("{what} {answer}")),
        Err(StoreError::Fenced(_)) => say(&format!("{what} fenced")),
        Err(StoreError::Unavailable(_)) => say(&format!("{what} unavailable")),
        Err(StoreError::CommitUnknown(_)) => say(&format!("{what} unknown")),
        Err(other) => say(&format!("{what} error {other}")),
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

fn stop() {
    say(STOPPED);
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Stops in mid-transaction; the thread waits, as in a process that is not given any time.
struct StopWhenWritten;

#[async_trait]
impl Checkpoints for StopWhenWritten {
    async fn reached(&self, at: Checkpoint) {
        if at == Checkpoint::BatchWritten {
            stop();
        }
    }
}

async fn open(database: &[String], watch: Arc<dyn Checkpoints>) -> Arc<dyn Store> {
    match database {
        [kind, url, idle_millis] if kind == POSTGRES => {
            let mut options = PgOptions::new(url);
            options.checkpoints = watch;
            let idle_limit = Duration::from_millis(idle_millis.parse().unwrap());
            options.session.idle_in_transaction_timeout = idle_limit;
            Arc::new(PgStore::open(options).await.unwrap())
        }
        [kind, path] if kind == SQLITE => {
            let options = SqliteOptions { checkpoints: watch, ..SqliteOptions::file(path) };
            Arc::new(SqliteStore::open(options).await.unwrap())
        }
        other => panic!("not a database: {other:?}"),
    }
}
