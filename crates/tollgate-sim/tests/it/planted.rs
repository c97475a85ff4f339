//! The proof that the checker can fail: each mistake is made on purpose, and noticed.

use tollgate_sim::{Bug, Keep, run};

const SEEDS: u64 = 1_000;

/// The first seed that notices it; the promise must be one of those that it breaks.
fn noticed(bug: Bug, promises: &[&str]) {
    let found = (0..SEEDS).find_map(|seed| {
        let violation = run(seed, Some(bug), Keep::Digest).unwrap().violation?;
        Some((seed, violation))
    });
    let Some((seed, violation)) = found else { panic!("{bug:?} is not noticed in {SEEDS} seeds") };
    println!("{bug:?}: {} after {} seeds: {}", violation.promise, seed + 1, violation.what);
    assert!(promises.contains(&violation.promise), "{bug:?}: {violation:?}");
}

macro_rules! bugs {
    ($($name:ident: $bug:ident breaks $($promise:literal)+;)*) => {
        $(
            #[test]
            fn $name() {
                noticed(Bug::$bug, &[$($promise),+]);
            }
        )*

        #[test]
        fn every_mistake_has_its_test_and_its_line_in_the_documentation() {
            let tested = [$(Bug::$bug),*];
            assert_eq!(tested, Bug::ALL);
            let page = include_str!("../../../../docs/simulation.md");
            for bug in Bug::ALL {
                assert!(page.contains(&format!("| `{bug:?}` |")), "{bug:?}");
            }
        }
    };
}

bugs! {
    a_guard_that_is_not_there_is_noticed: SkippedGuard breaks "I1" "I2";
    a_cursor_that_a_takeover_sets_back_is_noticed: RewindingTakeover breaks "I4";
    a_slot_that_is_freed_on_a_timeout_is_noticed: SlotFreedOnTimeout breaks "I3" "I8";
    a_send_before_the_commit_is_noticed: SendFirst breaks "I5";
    a_forgotten_older_hash_is_noticed: OlderHashesForgotten breaks "I5" "I8";
    an_answer_before_the_commit_is_noticed: AnswerFirst breaks "I6";
    waiting_work_that_no_new_owner_takes_up_is_noticed: WaitingLeftOut breaks "I6";
    request_names_that_differ_by_node_are_noticed: OwnNames breaks "I7";
    finality_one_block_early_is_noticed: EarlyFinality breaks "I8";
    silence_that_is_taken_for_no_receipt_is_noticed: SilenceIsNo breaks "I8";
    forks_that_are_ignored_are_noticed: ForksIgnored breaks "I8" "I9";
    a_feed_that_skips_is_noticed: FeedSkips breaks "I10";
    resends_that_are_not_claimed_are_noticed: UnclaimedResends breaks "I11";
    a_strict_submitter_that_does_not_look_is_noticed: StrictUnchecked breaks "I12";
}
