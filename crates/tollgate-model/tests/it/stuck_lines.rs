//! Properties of triggers, stuck rules and plans, for any line and any rules.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_model::answer::AnswerClass;
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::port::policy::StuckAction;
use tollgate_model::stuck::rules::{RuleSpec, StuckCase, StuckRules};
use tollgate_model::stuck::{Plan, Subject, Trigger, head, plan};
use tollgate_model::{Nonce, StuckReason, Tracking, TxState, transition};

fn any_state() -> impl Strategy<Value = TxState> {
    prop::sample::select(TxState::ALL.to_vec())
}

fn any_action() -> impl Strategy<Value = StuckAction> {
    prop::sample::select(StuckAction::ALL.to_vec())
}

fn any_rule() -> impl Strategy<Value = RuleSpec> {
    let word = |all: Vec<&'static str>| {
        proptest::option::of(prop::sample::select(all).prop_map(str::to_owned))
    };
    let reasons = StuckReason::ALL.map(StuckReason::name).to_vec();
    let diagnoses = Diagnosis::NAMES.to_vec();
    (word(reasons), word(diagnoses), proptest::option::of(0u64..20), 0u64..5, any_action())
        .prop_map(|(reason, diagnosis, age_at_least_seconds, depth, action)| RuleSpec {
            reason,
            diagnosis,
            age_at_least_seconds,
            depth_at_least: Some(depth),
            action: action.name().to_owned(),
            ..RuleSpec::default()
        })
}

fn any_case() -> impl Strategy<Value = StuckCase> {
    let reason = proptest::option::of(prop::sample::select(StuckReason::ALL.to_vec()));
    let diagnosis = prop::sample::select(vec![Diagnosis::InPool, Diagnosis::ProbablyLost]);
    let answer = proptest::option::of(prop::sample::select(AnswerClass::ALL.to_vec()));
    let trigger = prop::sample::select(Trigger::ALL.to_vec());
    (trigger, reason, answer, proptest::option::of(diagnosis), 0u64..20, 0u64..5).prop_map(
        |(trigger, reason, last_answer, diagnosis, age, depth)| StuckCase {
            trigger,
            reason,
            last_answer,
            diagnosis,
            age: Duration::from_secs(age),
            depth,
            attempts: 1,
        },
    )
}

proptest! {
    #[test]
    fn a_rule_at_the_end_changes_nothing_that_an_earlier_one_decides(
        rules in prop::collection::vec(any_rule(), 0..8), last in any_rule(), case in any_case(),
    ) {
        let before = StuckRules::parse(&rules).unwrap().rule_on(&case);
        let longer: Vec<_> = rules.iter().cloned().chain([last]).collect();
        let after = StuckRules::parse(&longer).unwrap().rule_on(&case);
        match before.rule {
            Some(index) => {
                prop_assert_eq!(after, before);
                prop_assert_eq!(before.action.name(), rules[index].action.as_str());
            }
            None => {
                prop_assert_eq!(before.action, StuckAction::Noop);
                prop_assert!(after.rule.is_none_or(|index| index == rules.len()));
            }
        }
    }

    #[test]
    fn rule_is_the_same_after_a_round_trip_through_json(rule in any_rule()) {
        let text = serde_json::to_string(&rule).unwrap();
        prop_assert_eq!(serde_json::from_str::<RuleSpec>(&text).unwrap(), rule);
    }

    #[test]
    fn head_is_the_lowest_blocking_slot(
        states in prop::collection::vec(any_state(), 0..12),
    ) {
        let open: Vec<_> =
            (0..).map(|n| Nonce::new(n).unwrap()).zip(states.iter().copied()).collect();
        let in_the_way = |state: &TxState| {
            let is_passed = *state == TxState::Tracking(Tracking::Mined)
                || *state == TxState::Stuck(StuckReason::Unproven);
            state.holds_open_slot() && !is_passed
        };
        let head = head(open.iter().rev().copied());
        prop_assert_eq!(head, open.iter().find(|(_, state)| in_the_way(state)).map(|(n, _)| *n));
    }
}

#[test]
fn no_plan_touches_a_receipt_or_signs_without_a_key_or_gives_a_slot_up() {
    for (state, action) in TxState::ALL.into_iter().flat_map(|s| StuckAction::ALL.map(|a| (s, a))) {
        for flags in 0u8..32 {
            let [brings_payload, has_key, signed_by_caller, payload_may_change, closing] =
                std::array::from_fn(|bit| flags & 1 << bit != 0);
            let subject = Subject { state, has_key, signed_by_caller, payload_may_change, closing };
            let event = match plan(action, brings_payload, &subject) {
                Err(_) | Ok(Plan::Alert) => continue,
                Ok(Plan::Resend { event }) => event,
                Ok(Plan::Sign { event, .. }) => {
                    assert!(has_key, "{subject:?}");
                    event
                }
            };
            assert!(state.holds_open_slot() && state != TxState::Tracking(Tracking::Mined));
            let next = event.map_or(Ok(state), |event| transition(state, event));
            assert!(next.is_ok_and(TxState::holds_open_slot), "{subject:?}");
        }
    }
}
