//! `kill -9` between every pair of steps: the real binary dies at a named point, another one takes
//! up its work, and the chain shows each accepted transaction exactly once.

mod actions;
mod stage;

use tollgate_model::port::Checkpoint;

use stage::{ChainKind, Stage, StoreKind};

/// Transactions in each run; strict mode takes one after the other.
fn count(mode: &str) -> u64 {
    if mode == "strict" { 4 } else { 12 }
}

/// Lets a node die at a point, after passing it a few times, and a second one finish its work.
async fn dies_at(at: Checkpoint, passes: u32, store: StoreKind, chain: ChainKind, mode: &str) {
    let stage = Stage::set(store, chain, mode).await;
    let mut doomed = stage.node(Some((at, passes)));
    let callers = stage.callers(count(mode));
    assert_eq!(doomed.ended().await, Some(9), "killed at {}", at.name());
    let _heir = stage.node(None);
    stage.check(callers.await.unwrap()).await;
}

/// The heir dies as well, in the middle of its takeover.
async fn heir_dies(store: StoreKind, chain: ChainKind, mode: &str) {
    let stage = Stage::set(store, chain, mode).await;
    let mut first = stage.node(Some((Checkpoint::Sending, 0)));
    let callers = stage.callers(count(mode));
    assert_eq!(first.ended().await, Some(9));
    let mut second = stage.node(Some((Checkpoint::TakeoverStarted, 0)));
    assert_eq!(second.ended().await, Some(9), "killed in its takeover");
    let _third = stage.node(None);
    stage.check(callers.await.unwrap()).await;
}

macro_rules! matrix {
    ($($place:ident: $store:ident, $chain:ident, $mode:literal;)*) => {$(
        mod $place {
            use super::*;

            matrix!(@points $store, $chain, $mode,
                slots_chosen: SlotsChosen, 0;
                attempts_signed: AttemptsSigned, 0;
                batch_guarded: BatchGuarded, 0;
                batch_written: BatchWritten, 0;
                batch_committed: BatchCommitted, 0;
                creates_committed: CreatesCommitted, 0;
                sending: Sending, 0;
                node_answered: NodeAnswered, 0;
                answers_seen: AnswersSeen, 0;
                answers_recorded: AnswersRecorded, 0;
                receipts_seen: ReceiptsSeen, 0;
                receipts_recorded: ReceiptsRecorded, 0;
                finality_judged: FinalityJudged, 0;
                finality_recorded: FinalityRecorded, 0;
                a_later_batch_written: BatchWritten, 3;
                a_later_batch_committed: BatchCommitted, 3;
            );

            #[tokio::test(flavor = "multi_thread")]
            async fn takeover_started() {
                heir_dies(StoreKind::$store, ChainKind::$chain, $mode).await;
            }
        }
    )*};
    (@points $store:ident, $chain:ident, $mode:literal, $($name:ident: $at:ident, $passes:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let at = Checkpoint::$at;
            dies_at(at, $passes, StoreKind::$store, ChainKind::$chain, $mode).await;
        }
    )*};
}

matrix! {
    postgres_devchain: Postgres, Devchain, "pipelined";
    sqlite_devchain: Sqlite, Devchain, "pipelined";
    postgres_anvil: Postgres, Anvil, "pipelined";
    sqlite_anvil: Sqlite, Anvil, "pipelined";
    postgres_strict: Postgres, Devchain, "strict";
    sqlite_strict: Sqlite, Devchain, "strict";
}

#[test]
fn failpoints_page_lists_every_point_in_order() {
    let page = include_str!("../../../../docs/failpoints.md");
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert!(listed.eq(Checkpoint::ALL.iter().map(|at| at.name())), "docs/failpoints.md differs");
}

#[test]
fn pages_that_count_the_points_agree_with_the_code() {
    let count = format!("{} points", Checkpoint::ALL.len());
    for (name, page) in [
        ("README.md", include_str!("../../../../README.md")),
        ("CHANGELOG.md", include_str!("../../../../CHANGELOG.md")),
        ("failure-modes.md", include_str!("../../../../docs/operations/failure-modes.md")),
    ] {
        assert!(page.contains(&count), "{name} does not say {count:?}");
    }
}
