//! The whole of it, broken in every way that there is, for two minutes (docs/chaos.md).

use std::time::Duration;

use tollgate_chaos::{Options, run};

/// The seed of the plan; `TOLLGATE_CHAOS_SEED` gives another one.
const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn two_minutes_of_chaos_lose_and_double_nothing() {
    let seed = std::env::var("TOLLGATE_CHAOS_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    let program = env!("CARGO_BIN_EXE_tollgate").into();
    let length = Duration::from_secs(120);
    let report = run(&Options { program, seed, length }).await;
    assert!(report.is_good(), "\n{report}");
    assert!(report.verdict.accepted > 0, "somebody was served\n{report}");
    eprintln!("{report}");
}
