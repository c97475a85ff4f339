//! The proof that the checker can fail: each mistake is made on purpose, and noticed.

use tollgate_sim::{Bug, TraceMode, run};

const SEEDS: u64 = 1_000;

/// The first seed that notices it; the promise must be one of those that it breaks.
fn noticed(bug: Bug, promises: &[&str]) {
    let found = (0..SEEDS).find_map(|seed| {
        let violation = run(seed, Some(bug), TraceMode::Digest).unwrap().violation?;
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
        fn every_planted_bug_is_tested_and_documented() {
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
    a_slot_that_is_freed_on_a_timeout_is_noticed: SlotFreedOnTimeout breaks "I3" "I8" "I15";
    a_send_before_the_commit_is_noticed: SendFirst breaks "I5";
    a_forgotten_older_hash_is_noticed: OlderHashesForgotten breaks "I5" "I8";
    an_answer_before_the_commit_is_noticed: AnswerFirst breaks "I6";
    waiting_work_that_no_new_owner_takes_up_is_noticed: WaitingLeftOut breaks "I6" "I15";
    request_names_that_differ_by_node_are_noticed: OwnNames breaks "I7";
    finality_one_block_early_is_noticed: EarlyFinality breaks "I8";
    silence_that_is_taken_for_no_receipt_is_noticed: SilenceIsNo breaks "I8" "I15";
    forks_that_are_ignored_are_noticed: ForksIgnored breaks "I8" "I9";
    a_feed_that_skips_is_noticed: FeedSkips breaks "I10";
    resends_that_are_not_claimed_are_noticed: UnclaimedResends breaks "I11";
    a_strict_submitter_that_does_not_look_is_noticed: StrictUnchecked breaks "I12";
    fees_on_one_endpoints_word_are_noticed: OneVoiceFees breaks "I16";
    counts_on_one_endpoints_word_are_noticed: OneVoiceCounts breaks "I16" "I15";
    heads_on_one_endpoints_word_are_noticed: OneVoiceHeads breaks "I15";
    blocks_from_one_endpoint_that_lacks_some_are_noticed: OneVoiceBlocks breaks "I15" "I6";
    receipts_from_one_endpoint_that_lacks_some_are_noticed: OneVoiceReceipts breaks "I15" "I8";
    receipts_that_are_final_on_one_endpoints_word_are_noticed: ReceiptsUnsupported breaks "I8" "I16";
    sends_to_one_endpoint_that_swallows_are_noticed: OneVoiceSends breaks "I15";
    calls_that_eat_the_quota_are_noticed: WastedCalls breaks "I15" "I6";
    an_endpoint_given_up_after_an_error_is_noticed: GivesUpOnErrors breaks "I15" "I6";
    absence_taken_for_proof_is_noticed: AbsenceIsProof breaks "I8";
    doubt_about_the_first_of_a_batch_only_is_noticed: FirstDoubted breaks "I3" "I8";
    requests_looked_up_on_another_chain_are_noticed: ChainsMixed breaks "I7";
    a_takeover_of_the_first_page_only_is_noticed: FirstPageOnly breaks "I15" "I6";
    keys_that_a_node_only_pretends_to_have_are_noticed: KeysPretended breaks "I15" "I6";
    orphans_hidden_behind_others_are_noticed: OrphansCutOff breaks "I15" "I6";
    repeats_taken_for_new_requests_are_noticed: RepeatsForgotten breaks "I7";
    a_used_nonce_that_is_not_written_down_is_noticed: UsedForgotten breaks "I3";
    newest_count_given_for_a_missing_block_is_noticed: LateCountsBelieved breaks "I15";
    calls_without_a_time_limit_are_noticed: SilenceAwaited breaks "I15" "I6";
    answers_of_a_balancer_taken_for_one_nodes_are_noticed: BalancerTrusted breaks "I8";
    estimates_on_one_endpoints_word_are_noticed: OneVoiceEstimates breaks "I15" "I6";
    gas_that_is_guessed_is_noticed: GasGuessed breaks "I15" "I6";
    resume_that_is_not_written_is_noticed: ResumeForgotten breaks "I6";
    tags_on_one_endpoints_word_are_noticed: OneVoiceTags breaks "I8";
    one_endpoint_believed_in_everything_is_noticed: OneVoiceInAll breaks "I6" "I15" "I16";
    private_transactions_at_public_endpoints_are_noticed: RouteIgnored breaks "route";
    scheduled_intent_sent_early_by_a_new_owner_is_noticed: ScheduleForgotten breaks "notBefore";
    chain_left_out_of_a_create_that_is_passed_on_is_noticed: ChainLeftOut breaks "I7";
    pool_request_assigned_twice_is_noticed: AssignmentForgotten breaks "I7";
    occupants_that_count_for_nothing_are_noticed: OccupantsIgnored breaks "I15" "I6";
    events_that_a_reader_misses_are_noticed: EventSkips breaks "I10";
}
