//! Expiry of an intent's `validUntil`.
//!
//! Pure functions, called by intake, by the writer and by upkeep. Without a slot an expired intent ends
//! at once. A slot is never abandoned: the stuck policy decides what closes it.

use crate::state::{Queued, StuckReason, Tracking, TxState};
use crate::time::Timestamp;
use crate::transition::TxEvent;

/// Returns whether an intent has expired. It has at the exact instant of `valid_until`.
///
/// Intake checks before and after it prepares a create and refuses an expired one: nothing is created.
/// The writer checks once more right before it opens a slot, with the clock that it signs by.
pub fn is_expired(valid_until: Option<Timestamp>, now: Timestamp) -> bool {
    valid_until.is_some_and(|until| now >= until)
}

/// The facts about one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiryView {
    pub state: TxState,
    /// When its intent expires.
    pub valid_until: Option<Timestamp>,
    /// One of its attempts is a cancellation or a placeholder: its slot is being closed.
    pub closing: bool,
    /// When a policy or an operator last decided about its slot.
    pub decided_at: Option<Timestamp>,
}

/// The decision about one transaction's expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpiryDecision {
    /// Nothing: it never expires, is mined or final, or a decision was made already.
    Leave,
    /// Nothing yet.
    Wait {
        /// When to ask again.
        until: Timestamp,
    },
    /// End it: it never had a slot, and no nonce is used ([`TxEvent::Withdrawn`]).
    Withdraw,
    /// Mark it STUCK/EXPIRED and ask the stuck policy. It is no longer resent automatically; tracking
    /// continues, because a node may have it.
    AskPolicy,
}

impl ExpiryDecision {
    /// The event that carries the decision out.
    pub const fn event(self) -> Option<TxEvent> {
        match self {
            Self::Leave | Self::Wait { .. } => None,
            Self::Withdraw => Some(TxEvent::Withdrawn),
            Self::AskPolicy => Some(TxEvent::GaveUp(StuckReason::Expired)),
        }
    }
}

/// Decides what a transaction's expiry does to it now.
pub fn decide(view: &ExpiryView, now: Timestamp) -> ExpiryDecision {
    let Some(until) = view.valid_until else { return ExpiryDecision::Leave };
    let at_the_deadline = match view.state {
        TxState::Queued(Queued::Waiting | Queued::Held) => ExpiryDecision::Withdraw,
        TxState::Allocated(_)
        | TxState::Tracking(Tracking::Pending | Tracking::Stale)
        | TxState::Stuck(
            StuckReason::TimedOut
            | StuckReason::ResubmitsExhausted
            | StuckReason::GreyZone
            | StuckReason::InsufficientFunds
            | StuckReason::FeeCap
            | StuckReason::Unwritable,
        ) => ExpiryDecision::AskPolicy,
        // A mined transaction, or one in a used slot, can no longer be stopped. STUCK/REJECTED stays:
        // its slot may be recyclable, and that information would be lost (I3).
        TxState::Tracking(Tracking::Mined)
        | TxState::Stuck(StuckReason::Rejected | StuckReason::Expired | StuckReason::Unproven)
        | TxState::Confirmed
        | TxState::Failed(_) => ExpiryDecision::Leave,
    };
    let decided = view.closing || view.decided_at.is_some_and(|at| at >= until);
    let leave = match at_the_deadline {
        ExpiryDecision::Leave | ExpiryDecision::Wait { .. } => true,
        ExpiryDecision::AskPolicy => decided,
        // A transaction without a slot is simply withdrawn.
        ExpiryDecision::Withdraw => false,
    };
    if leave {
        ExpiryDecision::Leave
    } else if is_expired(view.valid_until, now) {
        at_the_deadline
    } else {
        ExpiryDecision::Wait { until }
    }
}

// `docs/decisions.md` has the decision for every state, which a test compares with the code.
#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Timestamp = Timestamp::from_unix_micros(1_000);
    const BEFORE: Timestamp = Timestamp::from_unix_micros(999);

    fn view(state: TxState) -> ExpiryView {
        ExpiryView { state, valid_until: Some(DEADLINE), closing: false, decided_at: None }
    }

    #[test]
    fn the_deadline_itself_is_too_late() {
        assert!(!is_expired(Some(DEADLINE), BEFORE));
        assert!(is_expired(Some(DEADLINE), DEADLINE));
        assert!(!is_expired(None, Timestamp::from_unix_micros(i64::MAX)));
    }

    #[test]
    fn decision_waits_for_the_deadline_and_holds_once_it_was_made_after_it() {
        let pending = view(TxState::Tracking(Tracking::Pending));
        assert_eq!(decide(&pending, BEFORE), ExpiryDecision::Wait { until: DEADLINE });
        let decided = |at| ExpiryView { decided_at: Some(at), ..pending };
        assert_eq!(decide(&decided(BEFORE), DEADLINE), ExpiryDecision::AskPolicy);
        assert_eq!(decide(&decided(DEADLINE), DEADLINE), ExpiryDecision::Leave);
    }
}
