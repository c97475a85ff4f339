//! Resubmission, case by case.

use super::*;
use crate::test_values::at;
use uuid::Uuid;

const PENDING: TxState = TxState::Tracking(Tracking::Pending);
const GREY: TxState = TxState::Allocated(Allocated::UnknownSubmitResult);

fn rules() -> ResubmitRules {
    ResubmitRules { jitter_percent: 0, ..ResubmitRules::default() }
}

fn view(state: TxState) -> ResubmitView {
    ResubmitView {
        tx_id: TxId::from_uuid(Uuid::from_u128(7)),
        route: Route::Public,
        fell_back: false,
        state,
        is_head: true,
        since: Timestamp::EPOCH,
        resends: 0,
        sent_at: Timestamp::EPOCH,
        last_answer: None,
        hindered_by: None,
        hold_may_be_over: false,
        hindrance_is_over: false,
    }
}

#[test]
fn transaction_is_resent_when_its_pause_is_over() {
    let wait = ResubmitDecision::Wait { until: at(30) };
    assert_eq!(decide(&rules(), &view(PENDING), at(29)), wait);
    assert_eq!(decide(&rules(), &view(PENDING), at(30)), ResubmitDecision::Resend);
}

#[test]
fn after_the_last_resend_a_policy_is_asked_and_nothing_is_dropped() {
    let worn = ResubmitView { resends: 20, ..view(PENDING) };
    let asked = ResubmitDecision::AskPolicy(StuckReason::ResubmitsExhausted);
    assert_eq!(decide(&rules(), &worn, at(299)), ResubmitDecision::Wait { until: at(300) });
    assert_eq!(decide(&rules(), &worn, at(300)), asked);
    let stuck = view(TxState::Stuck(StuckReason::ResubmitsExhausted));
    let stuck = ResubmitView { last_answer: Some(AnswerClass::AlreadyKnown), ..stuck };
    assert_eq!(decide(&rules(), &stuck, at(9_999)), ResubmitDecision::Leave);
}

#[test]
fn timeout_counts_from_the_last_action_and_ends_in_stuck() {
    let rules = ResubmitRules { timeout: Some(Duration::from_secs(3_600)), ..rules() };
    let timed_out = ResubmitDecision::AskPolicy(StuckReason::TimedOut);
    assert_eq!(decide(&rules, &view(PENDING), at(3_600)), timed_out);
    let acted_on = ResubmitView { since: at(3_000), ..view(PENDING) };
    assert_eq!(decide(&rules, &acted_on, at(3_600)), ResubmitDecision::Resend);
}

#[test]
fn hindered_transaction_is_stuck_for_that_reason_and_still_resent() {
    let rules = ResubmitRules { timeout: Some(Duration::from_secs(60)), ..rules() };
    let hindered_by = Some(StuckReason::InsufficientFunds);
    let hindered = ResubmitView { hindered_by, sent_at: at(40), ..view(PENDING) };
    let asked = ResubmitDecision::AskPolicy(StuckReason::InsufficientFunds);
    assert_eq!(decide(&rules, &hindered, at(60)), asked);
    let stuck = view(TxState::Stuck(StuckReason::InsufficientFunds));
    assert_eq!(decide(&rules, &stuck, at(90)), ResubmitDecision::Resend);
}

#[test]
fn timed_out_transaction_is_resent_once_its_hindrance_is_gone() {
    for reason in [StuckReason::TimedOut, StuckReason::ResubmitsExhausted] {
        let last_answer = Some(AnswerClass::Accepted);
        let stuck = ResubmitView { last_answer, resends: 20, ..view(TxState::Stuck(reason)) };
        assert_eq!(decide(&rules(), &stuck, at(9_999)), ResubmitDecision::Leave);
        let free = ResubmitView { hindrance_is_over: true, ..stuck };
        assert_eq!(decide(&rules(), &free, at(1)), ResubmitDecision::Resend);
    }
}

#[test]
fn transaction_that_timed_out_in_an_outage_is_resent_until_a_node_answers() {
    let stuck = view(TxState::Stuck(StuckReason::TimedOut));
    for last_answer in [None, Some(AnswerClass::Transient), Some(AnswerClass::Unknown)] {
        let unheard = ResubmitView { last_answer, ..stuck };
        let wait = ResubmitDecision::Wait { until: at(30) };
        assert_eq!(decide(&rules(), &unheard, at(29)), wait);
        assert_eq!(decide(&rules(), &unheard, at(30)), ResubmitDecision::Resend, "I15");
    }
}

#[test]
fn transaction_that_a_node_had_accepted_before_it_timed_out_is_resent_until_resends_are_used_up() {
    let stuck = view(TxState::Stuck(StuckReason::TimedOut));
    let heard = |resends| {
        let last_answer = Some(AnswerClass::Accepted);
        decide(&rules(), &ResubmitView { last_answer, resends, ..stuck }, at(9_999))
    };
    assert_eq!(heard(0), ResubmitDecision::Resend, "I15: pools may have lost it in an outage");
    assert_eq!(heard(rules().max_attempts - 1), ResubmitDecision::Resend);
    assert_eq!(heard(rules().max_attempts), ResubmitDecision::Leave, "I13");
    let exhausted = view(TxState::Stuck(StuckReason::ResubmitsExhausted));
    let exhausted = ResubmitView { last_answer: Some(AnswerClass::Accepted), ..exhausted };
    assert_eq!(decide(&rules(), &exhausted, at(9_999)), ResubmitDecision::Leave);
}

#[test]
fn grey_zone_ends_in_stuck_unless_a_node_names_a_hold() {
    let asked = ResubmitDecision::AskPolicy(StuckReason::GreyZone);
    assert_eq!(decide(&rules(), &view(GREY), at(600)), asked);
    let worn = ResubmitView { resends: 20, ..view(GREY) };
    assert_eq!(decide(&rules(), &worn, at(300)), asked);
    let broke = Some(AnswerClass::InsufficientFunds);
    let held = ResubmitView { last_answer: broke, ..view(GREY) };
    assert_eq!(decide(&rules(), &held, at(600)), ResubmitDecision::Resend);
}

#[test]
fn stored_lack_of_funds_is_a_hold_until_a_new_owner_hears_an_answer() {
    let unfunded = TxState::Allocated(Allocated::InsufficientFunds);
    assert_eq!(decide(&rules(), &view(unfunded), at(600)), ResubmitDecision::Resend);
    let silent = ResubmitView { last_answer: Some(AnswerClass::Unknown), ..view(unfunded) };
    let asked = ResubmitDecision::AskPolicy(StuckReason::GreyZone);
    assert_eq!(decide(&rules(), &silent, at(600)), asked);
}

#[test]
fn transaction_behind_a_missing_predecessor_is_not_resent_unless_it_is_the_head() {
    let refused = ResubmitView { last_answer: Some(AnswerClass::NonceTooHigh), ..view(GREY) };
    assert_eq!(decide(&rules(), &refused, at(30)), ResubmitDecision::Resend);
    let behind = ResubmitView { is_head: false, ..refused };
    assert_eq!(decide(&rules(), &behind, at(90_000)), ResubmitDecision::Leave);
}

#[test]
fn held_transaction_is_retried_for_ever_and_sooner_when_its_cause_may_be_gone() {
    for (answer, reason) in [
        (AnswerClass::InsufficientFunds, StuckReason::InsufficientFunds),
        (AnswerClass::FeeTooLow, StuckReason::FeeCap),
        (AnswerClass::Underpriced, StuckReason::FeeCap),
        (AnswerClass::FeeTooHigh, StuckReason::FeeCap),
    ] {
        let held = ResubmitView { last_answer: Some(answer), resends: 20, ..view(GREY) };
        let asked = ResubmitDecision::AskPolicy(reason);
        assert_eq!(decide(&rules(), &held, at(300)), asked);
        let stuck = ResubmitView { state: TxState::Stuck(reason), ..held };
        let wait = ResubmitDecision::Wait { until: at(300) };
        assert_eq!(decide(&rules(), &stuck, at(30)), wait);
        assert_eq!(decide(&rules(), &stuck, at(300)), ResubmitDecision::Resend);
        let over = ResubmitView { hold_may_be_over: true, ..stuck };
        assert_eq!(decide(&rules(), &over, at(30)), ResubmitDecision::Resend);
    }
}

#[test]
fn private_transaction_is_resent_at_its_own_interval_also_when_stuck() {
    for state in [
        PENDING,
        GREY,
        TxState::Stuck(StuckReason::TimedOut),
        TxState::Stuck(StuckReason::ResubmitsExhausted),
        TxState::Stuck(StuckReason::GreyZone),
    ] {
        let last_answer = Some(AnswerClass::AlreadyKnown);
        let route = Route::Private;
        let private = ResubmitView { route, resends: 9_999, last_answer, ..view(state) };
        let wait = ResubmitDecision::Wait { until: at(12) };
        assert_eq!(decide(&rules(), &private, at(11)), wait, "{state:?}");
        assert_eq!(decide(&rules(), &private, at(12)), ResubmitDecision::Resend, "{state:?}");
    }
}

#[test]
fn private_transaction_is_stuck_by_time_alone() {
    let route = Route::Private;
    let private = |state| ResubmitView { route, sent_at: at(599), resends: 50, ..view(state) };
    for (state, reason) in [(PENDING, StuckReason::TimedOut), (GREY, StuckReason::GreyZone)] {
        let waits = decide(&rules(), &private(state), at(599));
        assert_eq!(waits, ResubmitDecision::Wait { until: at(611) });
        let asked = ResubmitDecision::AskPolicy(reason);
        assert_eq!(decide(&rules(), &private(state), at(600)), asked);
    }
}

#[test]
fn transaction_that_fell_back_is_sent_at_once_unless_it_must_not_be_sent() {
    for state in TxState::ALL {
        let fallen = ResubmitView { fell_back: true, resends: 9_999, ..view(state) };
        let expected = match sending(state) {
            Sending::No => ResubmitDecision::Leave,
            _ => ResubmitDecision::Resend,
        };
        assert_eq!(decide(&rules(), &fallen, at(9_999)), expected, "{state:?}");
    }
}

#[test]
fn transaction_that_left_stuck_starts_a_new_wait() {
    for reason in StuckReason::ALL {
        for event in [TxEvent::Retried, TxEvent::NodeAccepted] {
            assert!(renews_patience(TxState::Stuck(reason), event), "{reason:?}");
        }
    }
    assert!(renews_patience(TxState::Tracking(Tracking::Mined), TxEvent::Orphaned));
    for event in [TxEvent::NodeAccepted, TxEvent::Resent, TxEvent::AnswerUnclear] {
        assert!(!renews_patience(PENDING, event), "more of the same is no news");
    }
}
