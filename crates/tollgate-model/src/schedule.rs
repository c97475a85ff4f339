//! The start of an intent: `notBefore`.
//!
//! Pure functions, called by intake and by the writer. Before its `notBefore` an intent is durable and QUEUED, has
//! no slot, and holds up no other one. [`expiry`](crate::expiry) is the other end.

use std::time::Duration;

use thiserror::Error;

use crate::intent::Intent;
use crate::time::Timestamp;

/// The furthest that `notBefore` may lie ahead when an intent is accepted (I13): 30 days.
pub const NOT_BEFORE_AHEAD_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The reason why an intent with this `notBefore` is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadSchedule {
    /// The intent could never be sent.
    #[error("notBefore must be before validUntil")]
    NotBeforeExpiry,
    #[error("notBefore lies more than {} days ahead", NOT_BEFORE_AHEAD_MAX.as_secs() / 86_400)]
    TooFarAhead,
}

/// Checks the times of a new intent. A `notBefore` in the past is allowed and changes nothing.
///
/// # Errors
/// [`BadSchedule`].
pub fn check(intent: &Intent, now: Timestamp) -> Result<(), BadSchedule> {
    let Some(start) = intent.starts_at() else { return Ok(()) };
    if intent.expires_at().is_some_and(|until| start >= until) {
        return Err(BadSchedule::NotBeforeExpiry);
    }
    if start > now.after(NOT_BEFORE_AHEAD_MAX) {
        return Err(BadSchedule::TooFarAhead);
    }
    Ok(())
}

/// Returns whether an intent may get a slot. It may from the exact instant of its `notBefore` on.
pub fn is_due(intent: &Intent, now: Timestamp) -> bool {
    intent.starts_at().is_none_or(|start| now >= start)
}

/// Since when an intent has waited: ages and timeouts count from here.
pub fn waits_since(intent: &Intent, accepted_at: Timestamp) -> Timestamp {
    intent.starts_at().map_or(accepted_at, |start| start.max(accepted_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, U256};

    const START: Timestamp = Timestamp::from_unix_micros(1_000);
    const BEFORE: Timestamp = Timestamp::from_unix_micros(999);

    fn starting(start: Timestamp) -> Intent {
        let not_before = Some(start.unix_micros());
        Intent { not_before, ..Intent::transfer(Address::ZERO, U256::ZERO) }
    }

    #[test]
    fn intent_is_due_from_the_exact_instant_on() {
        assert!(!is_due(&starting(START), BEFORE));
        assert!(is_due(&starting(START), START));
        assert!(is_due(&Intent::transfer(Address::ZERO, U256::ZERO), Timestamp::EPOCH));
    }

    #[test]
    fn waiting_time_counts_from_the_start_or_the_acceptance_whichever_is_later() {
        assert_eq!(waits_since(&starting(START), BEFORE), START);
        assert_eq!(waits_since(&starting(BEFORE), START), START);
    }

    #[test]
    fn start_at_or_after_the_expiry_or_beyond_the_bound_is_refused() {
        let until = |micros| Intent { valid_until: Some(micros), ..starting(START) };
        assert_eq!(check(&until(1_001), BEFORE), Ok(()));
        assert_eq!(check(&until(1_000), BEFORE), Err(BadSchedule::NotBeforeExpiry));
        let furthest = BEFORE.after(NOT_BEFORE_AHEAD_MAX);
        assert_eq!(check(&starting(furthest), BEFORE), Ok(()));
        let beyond = furthest.after(Duration::from_micros(1));
        assert_eq!(check(&starting(beyond), BEFORE), Err(BadSchedule::TooFarAhead));
        assert_eq!(check(&starting(BEFORE), START), Ok(()), "in the past");
    }
}
