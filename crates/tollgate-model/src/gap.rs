//! Resends after `nonce_too_high`: a node lacks a lower nonce.
//!
//! Pure functions. Only the missing transaction is sent again, with growing pauses; those that were
//! refused follow once it was accepted or mined. Sending all of them again would cost as many calls and
//! rows per round as there are transactions, for ever.

use std::time::Duration;

use crate::answer::AnswerClass;
use crate::ids::Nonce;
use crate::resubmit::ResubmitRules;
use crate::route::Route;

/// The first pause before the missing one is sent again; it doubles each time.
pub const PREDECESSOR_PAUSE: Duration = Duration::from_secs(1);

/// One open slot without a receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineSlot {
    pub nonce: Nonce,
    pub last_answer: Option<AnswerClass>,
    /// The number of times that it was sent again because it seemed to be missing.
    pub gap_resends: u32,
    pub route: Route,
}

impl LineSlot {
    /// Returns whether it was refused because a lower nonce is missing.
    pub fn is_refused(&self) -> bool {
        waits_for_predecessor(self.last_answer)
    }

    /// Returns whether it was sent again for a gap, and the nodes had it.
    fn is_there(&self) -> bool {
        self.gap_resends > 0 && self.last_answer == Some(AnswerClass::AlreadyKnown)
    }
}

/// Returns whether a transaction was refused because a lower nonce is missing.
pub fn waits_for_predecessor(last_answer: Option<AnswerClass>) -> bool {
    last_answer == Some(AnswerClass::NonceTooHigh)
}

/// The slot that is missing where a node refused `refused`: the nearest lower one that was neither
/// refused for the same reason nor found to be present. If there is none, the lowest of the line, which
/// may be `refused` itself: a node lags, or the slot is not ours to fill.
///
/// `None` if the slot that is missing has another route than `refused`: the endpoints of one route never see the
/// transactions of the other, so that the refusal tells nothing. What was refused waits until the slot is mined.
///
/// `line` has the open slots without a receipt, lowest first.
pub fn missing_predecessor(
    line: impl DoubleEndedIterator<Item = LineSlot>,
    refused: Nonce,
) -> Option<Nonce> {
    let (mut lowest, mut route) = (None, None);
    for slot in line.rev().filter(|slot| slot.nonce <= refused) {
        if *route.get_or_insert(slot.route) != slot.route {
            return None;
        }
        lowest = Some(slot.nonce);
        if slot.nonce < refused && !slot.is_refused() && !slot.is_there() {
            break;
        }
    }
    lowest
}

/// The pause before the missing one is sent again, after `gap_resends` times.
pub fn predecessor_pause(rules: &ResubmitRules, gap_resends: u32) -> Duration {
    PREDECESSOR_PAUSE.saturating_mul(1 << gap_resends.min(16)).min(rules.interval_max)
}

#[cfg(test)]
mod tests {
    use AnswerClass::{Accepted, AlreadyKnown, InsufficientFunds, NonceTooHigh};

    use super::*;

    fn slot(nonce: u64, last_answer: AnswerClass, gap_resends: u32) -> LineSlot {
        let (nonce, last_answer) = (Nonce::new(nonce).unwrap(), Some(last_answer));
        LineSlot { nonce, last_answer, gap_resends, route: Route::Public }
    }

    fn missing(line: &[LineSlot], refused: u64) -> Option<u64> {
        let refused = Nonce::new(refused).unwrap();
        missing_predecessor(line.iter().copied(), refused).map(Nonce::get)
    }

    #[test]
    fn nearest_that_was_not_refused_for_the_gap_is_missing() {
        let held = slot(0, InsufficientFunds, 0);
        let refused = |nonce| slot(nonce, NonceTooHigh, 0);
        assert_eq!(missing(&[held, refused(1), refused(2)], 2), Some(0));
        let taken = |nonce| slot(nonce, Accepted, 0);
        assert_eq!(missing(&[taken(0), taken(1), refused(2), refused(3)], 3), Some(1));
        let later = slot(4, Accepted, 0);
        assert_eq!(missing(&[taken(0), refused(1), later], 1), Some(0), "not one above it");
    }

    #[test]
    fn slot_that_a_node_already_knows_is_skipped() {
        let there = slot(1, AlreadyKnown, 1);
        let refused = slot(2, NonceTooHigh, 0);
        assert_eq!(missing(&[slot(0, Accepted, 0), there, refused], 2), Some(0));
        let not_asked_yet = slot(1, AlreadyKnown, 0);
        assert_eq!(missing(&[slot(0, Accepted, 0), not_asked_yet, refused], 2), Some(1));
    }

    #[test]
    fn lowest_is_sent_again_where_nothing_of_ours_is_missing() {
        let refused = |nonce| slot(nonce, NonceTooHigh, 0);
        assert_eq!(missing(&[refused(5), refused(6)], 6), Some(5));
        assert_eq!(missing(&[refused(5)], 5), Some(5));
        assert_eq!(missing(&[slot(0, AlreadyKnown, 3), slot(1, AlreadyKnown, 3)], 1), Some(0));
        assert_eq!(missing(&[], 5), None);
    }

    #[test]
    fn slot_of_another_route_is_not_missing() {
        let refused = slot(2, NonceTooHigh, 0);
        for last in [Accepted, AlreadyKnown, InsufficientFunds, NonceTooHigh] {
            let private = LineSlot { route: Route::Private, ..slot(1, last, 1) };
            assert_eq!(missing(&[slot(0, Accepted, 0), private, refused], 2), None, "{last}");
            let private_refused = LineSlot { route: Route::Private, ..refused };
            assert_eq!(missing(&[slot(1, last, 0), private_refused], 2), None, "{last}");
            assert_eq!(missing(&[private, private_refused], 2), Some(1), "{last}");
        }
    }

    #[test]
    fn pauses_double_to_the_longest() {
        let rules = ResubmitRules::default();
        let pause = |resends| predecessor_pause(&rules, resends).as_secs();
        assert_eq!([pause(0), pause(1), pause(2), pause(8)], [1, 2, 4, 256]);
        assert_eq!([pause(9), pause(u32::MAX)], [300, 300]);
    }
}
