//! Expiry, for any state and any times.

use proptest::prelude::*;
use tollgate_model::expiry::{ExpiryDecision, ExpiryView, decide, is_expired};
use tollgate_model::{Timestamp, TxState, transition};

fn time() -> impl Strategy<Value = Timestamp> {
    (0i64..50).prop_map(Timestamp::from_unix_micros)
}

proptest! {
    #[test]
    fn nothing_ends_early_nothing_that_has_a_slot_ends_and_a_wait_is_worth_waiting_for(
        state in prop::sample::select(TxState::ALL.to_vec()),
        valid_until in proptest::option::of(time()),
        decided_at in proptest::option::of(time()),
        closing in any::<bool>(),
        now in time(),
    ) {
        let view = ExpiryView { state, valid_until, closing, decided_at };
        let decision = decide(&view, now);
        if let Some(event) = decision.event() {
            prop_assert!(is_expired(valid_until, now));
            let next = transition(state, event).unwrap();
            prop_assert_eq!(state.holds_open_slot(), next.holds_open_slot());
            prop_assert_eq!(next.is_final(), decision == ExpiryDecision::Withdraw);
        }
        if let ExpiryDecision::Wait { until } = decision {
            prop_assert!(until > now);
            prop_assert!(decide(&view, until).event().is_some());
        }
    }
}
