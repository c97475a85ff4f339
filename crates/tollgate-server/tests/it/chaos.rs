//! The whole of it, broken in every way that there is, for two minutes (docs/chaos.md).

use std::time::Duration;

use tollgate_chaos::plan::Kind;
use tollgate_chaos::{Options, run};

/// Kinds that change what endpoints answer, also to nodes that keep up with the chain.
const OF_ANSWERS: [Kind; 6] = [
    Kind::Balancer,
    Kind::LowCounts,
    Kind::FlippedReceipts,
    Kind::MissingBlocks,
    Kind::MissingReceipts,
    Kind::MuteHeads,
];

fn program() -> std::path::PathBuf {
    env!("CARGO_BIN_EXE_tollgate").into()
}

/// The seed of the plan; `TOLLGATE_CHAOS_SEED` gives another one.
const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn two_minutes_of_chaos_lose_and_double_nothing() {
    let seed = std::env::var("TOLLGATE_CHAOS_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    let length = Duration::from_secs(120);
    let report = run(&Options::new(program(), seed, length)).await;
    assert!(report.is_good(), "\n{report}");
    let verdict = &report.verdict;
    assert!(verdict.accepted > 0, "somebody was served\n{report}");
    assert!(verdict.own > 0, "reserved nonces were used\n{report}");
    assert!(verdict.orphans > 0, "work of accounts without a key was done\n{report}");
    assert!(verdict.second_chain > 0, "the second chain was used\n{report}");
    eprintln!("{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_answers_hit_requests() {
    let length = Duration::from_secs(60);
    let options = Options { only: OF_ANSWERS.to_vec(), ..Options::new(program(), SEED, length) };
    let report = run(&options).await;
    assert!(report.is_good(), "\n{report}");
    let hits = report.strikes();
    for kind in OF_ANSWERS {
        assert!(hits.get(&kind).is_some_and(|hits| *hits > 0), "{kind:?}\n{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_trust_one_endpoint_break_promises() {
    let only = vec![Kind::FlippedReceipts];
    let length = Duration::from_secs(25);
    let options = Options { only, is_trusting: true, ..Options::new(program(), SEED, length) };
    let report = run(&options).await;
    let violations = report.violations();
    let is_caught = violations.iter().any(|it| it.what.starts_with("the feed says FAILED_FINAL"));
    assert!(is_caught, "\n{report}");
}
