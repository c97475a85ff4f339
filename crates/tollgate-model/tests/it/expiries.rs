//! Expiry, for every state and every order of the times that it looks at.

use tollgate_model::expiry::{ExpiryDecision, ExpiryView, decide, is_expired};
use tollgate_model::{Timestamp, TxState, transition};

/// Three times are compared: four instants have every order of them, neighbours included.
const TIMES: std::ops::Range<i64> = 0..4;

fn time_or_none() -> impl Iterator<Item = Option<Timestamp>> {
    TIMES.map(Timestamp::from_unix_micros).map(Some).chain([None])
}

fn every_view() -> impl Iterator<Item = ExpiryView> {
    TxState::ALL.into_iter().flat_map(|state| {
        time_or_none().flat_map(move |valid_until| {
            time_or_none().flat_map(move |decided_at| {
                [false, true].map(|closing| ExpiryView { state, valid_until, closing, decided_at })
            })
        })
    })
}

#[test]
fn expiry_ends_nothing_early_and_nothing_with_a_slot_and_every_wait_ends() {
    for view in every_view() {
        for now in TIMES.map(Timestamp::from_unix_micros) {
            let decision = decide(&view, now);
            if let Some(event) = decision.event() {
                assert!(is_expired(view.valid_until, now), "{view:?} at {now:?}");
                let next = transition(view.state, event).unwrap();
                assert_eq!(view.state.holds_open_slot(), next.holds_open_slot(), "{view:?}");
                assert_eq!(next.is_final(), decision == ExpiryDecision::Withdraw, "{view:?}");
                let after = decide(&ExpiryView { state: next, ..view }, now);
                assert_eq!(after, ExpiryDecision::Leave, "{view:?}: once is enough");
            }
            if let ExpiryDecision::Wait { until } = decision {
                assert!(until > now, "{view:?} at {now:?}");
                assert!(decide(&view, until).event().is_some(), "{view:?} at {until:?}");
            }
        }
    }
}
