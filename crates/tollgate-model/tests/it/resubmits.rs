//! When the same bytes are sent again, for any rules and any history.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_model::answer::AnswerClass;
use tollgate_model::resubmit::{ResubmitDecision, ResubmitRules, ResubmitView, decide};
use tollgate_model::{Route, Timestamp, Tracking, TxEvent, TxId, TxState, transition};
use uuid::Uuid;

fn any_rules() -> impl Strategy<Value = ResubmitRules> {
    (1u64..100, 0u32..400, 0u64..1_000, 0u32..100, 0u32..30, proptest::option::of(0u64..5_000))
        .prop_map(|(interval, backoff, longest, jitter, attempts, timeout)| ResubmitRules {
            interval: Duration::from_secs(interval),
            backoff_percent: backoff,
            interval_max: Duration::from_secs(longest),
            jitter_percent: jitter,
            max_attempts: attempts,
            timeout: timeout.map(Duration::from_secs),
            grey_zone_timeout: Duration::from_secs(600),
            ..ResubmitRules::default()
        })
}

fn any_view() -> impl Strategy<Value = ResubmitView> {
    let answer = proptest::option::of(prop::sample::select(AnswerClass::ALL.to_vec()));
    let state = prop::sample::select(TxState::ALL.to_vec());
    let route = prop::sample::select(Route::ALL.to_vec());
    let times = (0i64..10_000, 0i64..10_000).prop_map(|(a, b)| (a * 1_000_000, b * 1_000_000));
    (any::<u128>(), state, any::<bool>(), times, 0u32..60, answer, any::<bool>(), route).prop_map(
        |(id, state, is_head, (since, sent_at), resends, last_answer, hold_may_be_over, route)| {
            ResubmitView {
                tx_id: TxId::from_uuid(Uuid::from_u128(id)),
                route,
                fell_back: false,
                state,
                is_head,
                since: Timestamp::from_unix_micros(since),
                resends,
                sent_at: Timestamp::from_unix_micros(sent_at),
                last_answer,
                hindered_by: None,
                hold_may_be_over,
                hindrance_is_over: false,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_pause_lies_between_the_interval_and_the_longest_with_its_jitter(
        rules in any_rules(), id in any::<u128>(), resends in any::<u32>(),
    ) {
        let tx_id = TxId::from_uuid(Uuid::from_u128(id));
        let pause = rules.pause(Route::Public, tx_id, resends);
        let longest = rules.interval.max(rules.interval_max);
        prop_assert!(pause >= rules.interval, "{pause:?}");
        prop_assert!(pause <= longest + longest * rules.jitter_percent / 100, "{pause:?}");
        prop_assert_eq!(pause, rules.pause(Route::Public, tx_id, resends), "the same for everybody");
    }

    #[test]
    fn without_jitter_pauses_never_shrink(rules in any_rules(), resends in 0u32..200) {
        let rules = ResubmitRules { jitter_percent: 0, ..rules };
        let tx_id = TxId::from_uuid(Uuid::nil());
        prop_assert!(rules.pause(Route::Public, tx_id, resends) <= rules.pause(Route::Public, tx_id, resends + 1));
    }

    #[test]
    fn wait_ends_in_the_future_with_a_resend_or_a_question(
        rules in any_rules(), view in any_view(), now in 0i64..20_000,
    ) {
        let now = Timestamp::from_unix_micros(now * 1_000_000);
        if let ResubmitDecision::Wait { until } = decide(&rules, &view, now) {
            prop_assert!(until > now);
            let then = decide(&rules, &view, until);
            prop_assert!(
                matches!(then, ResubmitDecision::Resend | ResubmitDecision::AskPolicy(_)),
                "{then:?}"
            );
        }
    }

    #[test]
    fn giving_up_is_a_legal_move_to_stuck_and_keeps_the_slot(
        rules in any_rules(), view in any_view(), now in 0i64..20_000,
    ) {
        let now = Timestamp::from_unix_micros(now * 1_000_000);
        match decide(&rules, &view, now) {
            ResubmitDecision::AskPolicy(reason) => {
                let next = transition(view.state, TxEvent::GaveUp(reason));
                prop_assert_eq!(next, Ok(TxState::Stuck(reason)));
                prop_assert!(view.is_head);
            }
            ResubmitDecision::Resend | ResubmitDecision::Wait { .. } => {
                prop_assert!(view.state.holds_open_slot());
                prop_assert_ne!(view.state, TxState::Tracking(Tracking::Mined));
            }
            ResubmitDecision::Leave => {}
        }
    }
}
