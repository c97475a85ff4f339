//! Nodes that are killed at work, each by the next one's side: whoever is left finishes everything,
//! exactly once.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_engine::{Engine, EngineOptions};
use tollgate_model::port::{Checkpoint, LeaseTerms};
use tollgate_testkit::PausePoints;

use super::support::{Pipeline, Sent, account, options, transfer};
use crate::support::{create_when_owned, request};

everywhere! {
    work_of_nodes_killed_at_any_time_is_finished_by_another_exactly_once,
    work_of_nodes_killed_at_checkpoints_is_finished_by_another_exactly_once,
}

/// Requests that each node is given.
const REQUESTS: u64 = 40;
/// Longer than a takeover takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// When a node dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// When it has given so many answers.
    After(usize),
    /// While one of its actors stands here.
    At(Checkpoint),
}

async fn work_of_nodes_killed_at_any_time_is_finished_by_another_exactly_once(pipeline: Pipeline) {
    let deaths = [Death::After(0), Death::After(1), Death::After(25)];
    kill(pipeline, &deaths).await;
}

async fn work_of_nodes_killed_at_checkpoints_is_finished_by_another_exactly_once(
    pipeline: Pipeline,
) {
    let deaths = [
        Death::At(Checkpoint::AttemptsSigned),
        Death::At(Checkpoint::BatchCommitted),
        Death::At(Checkpoint::Sending),
        Death::At(Checkpoint::NodeAnswered),
        Death::At(Checkpoint::ReceiptsSeen),
        Death::At(Checkpoint::FinalityJudged),
    ];
    kill(pipeline, &deaths).await;
}

async fn kill(pipeline: Pipeline, deaths: &[Death]) {
    let pipeline = Arc::new(pipeline);
    // Blocks come all the while, so that work is interrupted at every stage.
    let at = pipeline.clone();
    let miner = tokio::spawn(async move {
        loop {
            at.chain.mine(1).await;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    });
    for (round, death) in (0..).zip(deaths.to_vec()) {
        let at = pipeline.clone();
        let life = move || live_and_die(&at, round, death);
        tokio::task::spawn_blocking(life).await.unwrap();
    }
    let heir = pipeline.node("heir", hasty()).await;
    let mut sent = Vec::new();
    // A caller that got no answer asks again, by the same name.
    for value in 0..REQUESTS * deaths.len() as u64 {
        sent.push(insist(&heir, value).await);
    }
    miner.abort();
    pipeline.finish(account(0), &sent).await;
}

/// Leases that end soon after their owner.
fn hasty() -> EngineOptions {
    let lease =
        LeaseTerms::new(Duration::from_millis(1_000), Duration::from_millis(200), Duration::ZERO);
    EngineOptions { lease: lease.unwrap(), ..options() }
}

/// A node on a runtime of its own, which ends with everything on it, whatever that is doing.
fn live_and_die(pipeline: &Arc<Pipeline>, round: u64, death: Death) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (answered, count) = mpsc::channel();
    let at = pipeline.clone();
    runtime.spawn(async move {
        let checkpoints = PausePoints::new();
        let engine =
            at.watched_node(&format!("doomed-{round}"), hasty(), checkpoints.clone()).await;
        let mut hold = match death {
            Death::After(_) => None,
            Death::At(place) => Some(checkpoints.pause_at(place)),
        };
        let values = round * REQUESTS..(round + 1) * REQUESTS;
        let mut creates: FuturesUnordered<_> = values.map(|value| insist(&engine, value)).collect();
        if let Some(hold) = &mut hold {
            let working = async { while creates.next().await.is_some() {} };
            tokio::join!(working, async {
                hold.reached().await;
                answered.send(()).unwrap();
            });
        } else {
            // Its work has begun.
            answered.send(()).unwrap();
            while creates.next().await.is_some() {
                let _ = answered.send(());
            }
        }
        std::future::pending::<()>().await;
    });
    let signs = match death {
        Death::After(answers) => answers + 1,
        Death::At(_) => 1,
    };
    for _ in 0..signs {
        count.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{death:?} never came"));
    }
    runtime.shutdown_background();
}

/// Asks until the lease of the killed node is over.
async fn insist(engine: &Engine, value: u64) -> Sent {
    let name = request(&format!("request-{value}"));
    Sent::new(create_when_owned(engine, account(0), name, transfer(value)).await, value)
}
