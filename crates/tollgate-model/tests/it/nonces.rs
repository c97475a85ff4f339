//! The choice of the next slots, played through over whole histories of a submitter.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::nonce;
use proptest::prelude::*;
use tollgate_model::nonce::{
    ChainCount, CountDecision, Mode, NonceDecision, NonceRules, NonceView, RECYCLE_COUNT_AGE_MAX,
    StrictAdvance, SubmitterStatus, UnprovenCount, accept_counts, decide, doubts, unexplained,
    without_lag,
};
use tollgate_model::port::chain::{AccountCounts, CountSupport};
use tollgate_model::{Nonce, StuckReason, Timestamp, Tracking, TxState};

const TIMEOUT: Duration = Duration::from_secs(30);

fn rules(mode: Mode, window: u32) -> NonceRules {
    let (strict_advance, state_timeout) = (StrictAdvance::Final, TIMEOUT);
    NonceRules { mode, window, unfinal_max: 10_000, strict_advance, state_timeout }
}

fn view(cursor: u64, chain: u64) -> NonceView {
    let count = nonce(chain);
    NonceView {
        status: SubmitterStatus::Active,
        cursor: nonce(cursor),
        chain: Some(ChainCount { pending: count, mined: count, read_at: Timestamp::EPOCH }),
        drift: false,
        open_slots: 0,
        unsettled_slots: 0,
        has_recyclable: false,
    }
}

fn allocated(rules: &NonceRules, view: &NonceView, wanted: u32) -> Option<(u64, u32)> {
    match decide(rules, view, wanted, Timestamp::EPOCH).unwrap() {
        NonceDecision::Allocate(range) => Some((range.first.get(), range.count)),
        NonceDecision::AskChain
        | NonceDecision::WindowFull
        | NonceDecision::Held
        | NonceDecision::AwaitProof(_) => None,
    }
}

#[test]
fn pipelined_slots_start_at_the_higher_of_chain_and_cursor() {
    let rules = rules(Mode::Pipelined, 64);
    for (cursor, chain, first) in [(5, 4, 5), (3, 5, 5)] {
        assert_eq!(allocated(&rules, &view(cursor, chain), 1), Some((first, 1)));
    }
    assert_eq!(allocated(&rules, &view(0, 0), 100), Some((0, 64)), "all of the window");
}

#[test]
fn the_chain_is_asked_when_its_count_is_missing_old_or_in_doubt() {
    let rules = rules(Mode::Pipelined, 64);
    let now = Timestamp::EPOCH.after(TIMEOUT);
    let missing = NonceView { chain: None, ..view(0, 0) };
    let doubted = NonceView { drift: true, ..view(0, 0) };
    assert_eq!(decide(&rules, &missing, 1, Timestamp::EPOCH), Ok(NonceDecision::AskChain));
    assert_eq!(decide(&rules, &doubted, 1, Timestamp::EPOCH), Ok(NonceDecision::AskChain));
    assert_eq!(decide(&rules, &view(0, 0), 1, now), Ok(NonceDecision::AskChain));
}

#[test]
fn mined_slots_are_outside_the_window_and_within_the_bound_of_unfinal_ones() {
    let rules = NonceRules { unfinal_max: 7, ..rules(Mode::Pipelined, 4) };
    assert!(!rules.occupies_slot(TxState::Tracking(Tracking::Mined)));
    let decided = |open_slots, unsettled_slots| {
        let view = NonceView { open_slots, unsettled_slots, ..view(9, 9) };
        allocated(&rules, &view, 10).map(|(_, count)| count)
    };
    assert_eq!(decided(0, 0), Some(4), "the window");
    assert_eq!(decided(0, 5), Some(2), "the bound");
    assert_eq!(decided(3, 3), Some(1));
    assert_eq!(decided(0, 7), None);
    // I12: a strict submitter has one slot, whatever the bound is.
    let strict = NonceRules { mode: Mode::Strict, ..rules };
    assert!(strict.occupies_slot(TxState::Tracking(Tracking::Mined)));
}

#[test]
fn placeholders_of_a_strict_submitter_are_opened_beside_its_slot_one_at_a_time() {
    let fill = rules(Mode::Strict, 64).for_placeholders();
    assert_eq!((fill.mode, fill.window), (Mode::Pipelined, 1));
    let fill = rules(Mode::Pipelined, 64).for_placeholders();
    assert_eq!((fill.mode, fill.window), (Mode::Pipelined, 64));
}

#[test]
fn nonces_that_came_back_wait_for_a_new_count_also_in_a_full_window() {
    let rules = rules(Mode::Pipelined, 2);
    let full = NonceView { has_recyclable: true, open_slots: 2, ..view(9, 3) };
    let doubted = NonceView { drift: true, ..full };
    assert_eq!(decide(&rules, &doubted, 1, Timestamp::EPOCH), Ok(NonceDecision::AskChain), "I3");
    let later = Timestamp::EPOCH.after(RECYCLE_COUNT_AGE_MAX);
    assert_eq!(decide(&rules, &full, 1, later), Ok(NonceDecision::AskChain), "I3");
    assert_eq!(decide(&rules, &full, 1, Timestamp::EPOCH), Ok(NonceDecision::WindowFull));
    let roomy = NonceView { open_slots: 0, ..full };
    assert_eq!(decide(&rules, &roomy, 1, later), Ok(NonceDecision::AskChain), "I3");
    let empty = NonceView { has_recyclable: false, ..doubted };
    assert_eq!(decide(&rules, &empty, 1, later), Ok(NonceDecision::WindowFull), "nothing to ask");
    assert_eq!(full.fresh_count(&rules, later), None);
    assert_eq!(empty.fresh_count(&rules, later), None, "drift");
    let undisturbed = NonceView { has_recyclable: false, ..full };
    assert_eq!(undisturbed.fresh_count(&rules, later), full.chain, "nothing to recycle");
    assert_eq!(doubted.fresh_count(&rules, Timestamp::EPOCH), None);
    assert_eq!(full.fresh_count(&rules, Timestamp::EPOCH), full.chain);
}

#[test]
fn a_count_beyond_the_window_needs_the_mined_count_or_a_second_endpoint() {
    let claimed = |mined, pending, sure| {
        let counts = AccountCounts::confirmed(nonce(mined), nonce(pending));
        let counts = AccountCounts { sure: nonce(sure), ..counts };
        doubts(nonce(10), &counts, 64).map(|doubt| (doubt.claimed.get(), doubt.at_most.get()))
    };
    assert_eq!(claimed(10, 74, 10), None, "a window ahead");
    assert_eq!(claimed(10, 75, 10), Some((75, 74)), "I16: one word moves it no further");
    assert_eq!(claimed(10, 100_000, 100_000), None, "two endpoints say so");
    assert_eq!(claimed(5_000, 5_064, 5_000), None, "what is mined counts");
    assert_eq!(claimed(5_000, 5_000, 0), Some((5_000, 74)), "I16: mined by one word");
    assert_eq!(claimed(0, 0, 0), None, "a count that lags moves nothing");
}

/// The decision: the mined and the sure count that are used, or the count to prove, if there is one.
fn accepted(
    cursor: u64,
    (mined, highest): (u64, u64),
    (pending, sure): (u64, u64),
    support: CountSupport,
) -> Result<(u64, u64), Option<u64>> {
    let counts = AccountCounts::confirmed(nonce(mined), nonce(pending));
    let counts = AccountCounts { highest: nonce(highest), sure: nonce(sure), support, ..counts };
    match accept_counts(nonce(cursor), counts, 64, true) {
        CountDecision::Use(counts) => {
            assert!(counts.pending >= counts.mined, "a pool has what is mined");
            let is_higher = counts.mined > nonce(mined);
            let is_confirmed = counts.support == CountSupport::Confirmed;
            assert!(!is_higher || is_confirmed, "it is not disputed again");
            Ok((counts.mined.get(), counts.sure.get()))
        }
        CountDecision::Prove(unproven) => Err(Some(unproven.claimed.get())),
        CountDecision::AskAgain => Err(None),
    }
}

#[test]
fn account_without_slots_begins_with_a_count_that_is_confirmed_proven_or_long_awaited() {
    use CountSupport::{Confirmed, Open, Overdue};
    let first = |mined, highest, support| accepted(0, (mined, highest), (mined, mined), support);
    assert_eq!(first(5, 10, Confirmed), Ok((5, 5)), "two outvote one");
    assert_eq!(first(5, 10, Open), Err(Some(10)), "the lower one is not used");
    assert_eq!(first(7, 7, Open), Err(Some(7)), "one endpoint alone has to show it");
    assert_eq!(first(0, 0, Open), Err(None), "one endpoint alone has nothing to show");
    assert_eq!(first(7, 7, Overdue), Ok((7, 7)), "I15: there is no second one");
    assert_eq!(first(5, 69, Overdue), Ok((69, 5)), "a hole can be filled");
    assert_eq!(first(5, 70, Overdue), Ok((5, 5)), "I16");
}

#[test]
fn lone_count_above_the_cursor_is_proven_before_it_moves_the_cursor() {
    use CountSupport::{Confirmed, Open, Overdue};
    let used = |mined, pending, support| accepted(5, (mined, mined), (pending, 5), support);
    assert_eq!(used(8, 8, Open), Err(Some(8)), "I16: one endpoint's word");
    assert_eq!(used(5, 8, Open), Err(None), "a pool can't be proven: a second voice is awaited");
    assert_eq!(used(5, 8, Overdue), Ok((5, 5)), "I15: it is not awaited for ever");
    assert_eq!(used(8, 8, Overdue), Ok((8, 5)), "I15");
    assert_eq!(used(8, 8, Confirmed), Ok((8, 5)));
    assert_eq!(used(3, 5, Open), Ok((3, 5)), "the cursor is a second source");
    let counts = AccountCounts::confirmed(nonce(5), nonce(5));
    let disputed = AccountCounts { highest: nonce(8), support: Open, ..counts };
    let unproven = UnprovenCount { known: nonce(5), claimed: nonce(8) };
    let may_wait = accept_counts(nonce(5), disputed, 64, true);
    assert_eq!(may_wait, CountDecision::Prove(unproven), "the slots may be used");
    let waited = accept_counts(nonce(5), disputed, 64, false);
    assert_eq!(waited, CountDecision::Use(disputed), "I15: one endpoint that counts too much");
}

#[test]
fn counts_are_never_below_our_own_final_slots() {
    let low = AccountCounts::confirmed(nonce(0), nonce(2)).with_final_slots(nonce(4));
    assert_eq!(low, AccountCounts::confirmed(nonce(4), nonce(4)));
    let high = AccountCounts::confirmed(nonce(5), nonce(7));
    assert_eq!(high.with_final_slots(nonce(4)), high);
}

#[test]
fn strict_count_that_lacks_final_slots_gives_way_to_a_higher_one_that_our_slots_explain() {
    let told = |mined, highest| {
        let counts = AccountCounts::confirmed(nonce(mined), nonce(mined));
        let counts = AccountCounts { highest: nonce(highest), ..counts };
        let corrected = without_lag(nonce(5), 1, counts);
        assert!(corrected.pending >= corrected.mined, "a pool has what is mined");
        corrected.mined.get()
    };
    assert_eq!(told(2, 5), 5, "I15: one endpoint counts too little");
    assert_eq!(told(2, 4), 4);
    assert_eq!(told(4, 5), 4, "our open slot explains what both say");
    assert_eq!(told(2, 3), 2, "nobody counts our final slots");
    assert_eq!(told(2, 9), 2, "neither is explained");
    assert_eq!(told(8, 9), 8, "too high is not a matter of lag");
}

#[test]
fn a_submitter_that_takes_no_work_opens_no_slot() {
    for status in [SubmitterStatus::Paused, SubmitterStatus::Protect] {
        let seen = NonceView { status, ..view(0, 0) };
        for mode in [Mode::Pipelined, Mode::Strict] {
            let decision = decide(&rules(mode, 64), &seen, 1, Timestamp::EPOCH);
            assert_eq!(decision, Ok(NonceDecision::Held));
        }
    }
}

#[test]
fn strict_opens_no_slot_by_a_count_that_its_slots_do_not_explain() {
    let rules = rules(Mode::Strict, 64);
    for chain in [0, 4, 6, 900] {
        let decision = decide(&rules, &view(5, chain), 1, Timestamp::EPOCH).unwrap();
        assert!(matches!(decision, NonceDecision::AwaitProof(_)), "{chain}: {decision:?}");
    }
    assert_eq!(allocated(&rules, &view(5, 5), 10), Some((5, 1)));
}

#[test]
fn unproven_slot_takes_no_room_in_pipelined_mode() {
    let unproven = TxState::Stuck(StuckReason::Unproven);
    assert!(!rules(Mode::Pipelined, 64).occupies_slot(unproven));
    assert!(rules(Mode::Pipelined, 64).occupies_slot(TxState::Stuck(StuckReason::FeeCap)));
    assert!(rules(Mode::Strict, 64).occupies_slot(unproven));
}

#[test]
fn strict_advances_at_mined_if_told_so_and_a_reorg_is_explained() {
    let rules = NonceRules { strict_advance: StrictAdvance::Mined, ..rules(Mode::Strict, 64) };
    let mined = TxState::Tracking(Tracking::Mined);
    assert!(!rules.occupies_slot(mined));
    assert!(rules.occupies_slot(TxState::Tracking(Tracking::Pending)));
    // One slot is mined but not final; the chain has it, or, after a reorg, has it not.
    let seen = |chain| NonceView { unsettled_slots: 1, ..view(5, chain) };
    assert_eq!(allocated(&rules, &seen(5), 1), Some((5, 1)));
    assert_eq!(allocated(&rules, &seen(4), 1), Some((5, 1)));
    assert!(unexplained(nonce(5), 1, nonce(3)).is_some());
}

#[test]
fn the_last_nonce_a_store_can_hold_is_an_error_and_not_a_wrap() {
    let end = Nonce::MAX.get();
    let decision = decide(&rules(Mode::Pipelined, 64), &view(end, 0), 1, Timestamp::EPOCH);
    assert_eq!(decision.unwrap_err().field, "nonce");
}

/// An event between two decisions about a submitter.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u32),
    Settle(u32),
    ForeignUse(u64),
    ReadChain,
    Pause,
    Resume,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..100).prop_map(Step::Allocate),
        4 => (1u32..100).prop_map(Step::Settle),
        1 => (1u64..5).prop_map(Step::ForeignUse),
        2 => Just(Step::ReadChain),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
    ]
}

/// Plays a history: settled slots and foreign use move the chain; the store's cursor moves with
/// each allocation, and nothing is read again unless a step says so.
fn play(rules: &NonceRules, start: u64, steps: Vec<Step>) -> (Vec<u64>, NonceView) {
    let mut known = view(start, start);
    let mut chain = start;
    let mut given = Vec::new();
    for step in steps {
        match step {
            Step::Allocate(wanted) => {
                let Some((first, count)) = allocated(rules, &known, wanted) else { continue };
                given.extend(first..first + u64::from(count));
                known.open_slots += count;
                known.unsettled_slots += count;
                known.cursor = nonce(first + u64::from(count));
            }
            Step::Settle(count) => {
                let count = count.min(known.open_slots);
                known.open_slots -= count;
                known.unsettled_slots -= count;
                chain += u64::from(count);
            }
            Step::ForeignUse(count) => chain += count,
            Step::ReadChain => {
                let count = nonce(chain);
                let read_at = Timestamp::EPOCH;
                known.chain = Some(ChainCount { pending: count, mined: count, read_at });
            }
            Step::Pause => known.status = SubmitterStatus::Paused,
            Step::Resume => known.status = SubmitterStatus::Active,
        }
    }
    (given, known)
}

proptest! {
    #[test]
    fn a_pipelined_nonce_is_never_reused_and_never_goes_back(
        window in 1u32..80,
        start in 0u64..1000,
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let rules = rules(Mode::Pipelined, window);
        let (given, _) = play(&rules, start, steps);
        prop_assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", given);
        prop_assert!(given.first().is_none_or(|first| *first >= start));
    }

    #[test]
    fn strict_nonces_are_contiguous_from_the_start_value(
        start in 0u64..1000,
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let (given, _) = play(&rules(Mode::Strict, 64), start, steps);
        let expected: Vec<u64> = (start..start + given.len() as u64).collect();
        prop_assert_eq!(given, expected);
    }

    #[test]
    fn the_window_is_never_exceeded(
        window in 1u32..80,
        strict in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let mode = if strict { Mode::Strict } else { Mode::Pipelined };
        let rules = rules(mode, window);
        let mut known = steps;
        known.retain(|step| !matches!(step, Step::Settle(_)));
        let (given, last) = play(&rules, 0, known);
        prop_assert!(given.len() <= rules.open_slots_max() as usize);
        prop_assert_eq!(last.open_slots as usize, given.len());
        prop_assert_eq!(BTreeSet::from_iter(&given).len(), given.len());
    }
}
