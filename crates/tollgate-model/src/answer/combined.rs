//! One answer from those of all endpoints, and all tries, that one handing-over of a transaction had.

use super::AnswerClass;

/// How much an answer tells, the most telling first. The classes that may lead to a rejection come
/// last, so that they win only if nobody says anything else; among them the one that leaves most
/// open.
///
/// A price or a lack of funds tells more than a missing predecessor, which is often missing only
/// where the earlier transactions did not go; and all of them tell more than silence, but for a price
/// that is too high. None of the living ones gives up a slot, so the rest of this order is about what is
/// tried next, not about safety.
const fn rank(class: AnswerClass) -> u8 {
    match class {
        AnswerClass::Accepted => 0,
        AnswerClass::AlreadyKnown => 1,
        AnswerClass::NonceTooLow => 2,
        AnswerClass::ReplacementUnderpriced => 3,
        AnswerClass::FeeTooLow => 4,
        AnswerClass::Underpriced => 5,
        AnswerClass::InsufficientFunds => 6,
        AnswerClass::NonceTooHigh => 7,
        AnswerClass::PoolFull => 8,
        AnswerClass::Unknown => 9,
        AnswerClass::Transient => 10,
        AnswerClass::RateLimited => 11,
        // Behind all that leave it open whether a pool holds it: a lower form is signed in the place of
        // one that every endpoint refused as too high.
        AnswerClass::FeeTooHigh => 12,
        AnswerClass::Reverted => 13,
        AnswerClass::GasLimit => 14,
        AnswerClass::Invalid => 15,
    }
}

/// One answer from all that were given, or should have been given, to one handing-over: by every
/// endpoint, and by the same one more than once.
///
/// Any acceptance wins. A class that may lead to a rejection comes out only if all say one, so an
/// answer that was lost keeps the transaction alive whatever is answered to the next try (I3). No
/// answer at all is [`AnswerClass::Unknown`].
pub fn combined(answers: impl IntoIterator<Item = AnswerClass>) -> AnswerClass {
    answers.into_iter().min_by_key(|class| rank(*class)).unwrap_or(AnswerClass::Unknown)
}

#[cfg(test)]
mod tests {
    use AnswerClass::*;

    use super::*;
    use crate::answer::may_be_with_a_node;

    #[test]
    fn the_table() {
        let table: &[(&[AnswerClass], AnswerClass)] = &[
            (&[], Unknown),
            (&[Accepted], Accepted),
            (&[Invalid], Invalid),
            (&[Invalid, Invalid], Invalid),
            (&[Invalid, Accepted], Accepted),
            (&[Reverted, AlreadyKnown, GasLimit], AlreadyKnown),
            (&[NonceTooLow, Accepted], Accepted),
            // Dead only if all say so; then the one that leaves most open.
            (&[Invalid, GasLimit], GasLimit),
            (&[GasLimit, Reverted, Invalid], Reverted),
            (&[Invalid, RateLimited], RateLimited),
            (&[Invalid, Transient], Transient),
            (&[Reverted, Unknown], Unknown),
            (&[Invalid, FeeTooHigh], FeeTooHigh),
            (&[GasLimit, PoolFull], PoolFull),
            // Among the living, what tells most.
            (&[Unknown, InsufficientFunds], InsufficientFunds),
            (&[NonceTooHigh, Underpriced], Underpriced),
            (&[ReplacementUnderpriced, Underpriced], ReplacementUnderpriced),
            (&[Underpriced, NonceTooLow], NonceTooLow),
            (&[FeeTooHigh, NonceTooHigh], NonceTooHigh),
            // Too high everywhere only if all say so.
            (&[FeeTooHigh, FeeTooHigh], FeeTooHigh),
            (&[FeeTooHigh, Unknown], Unknown),
            (&[FeeTooHigh, Transient], Transient),
            (&[FeeTooHigh, RateLimited], RateLimited),
            (&[FeeTooHigh, PoolFull], PoolFull),
            (&[Transient, Unknown, RateLimited], Unknown),
        ];
        for (classes, expected) in table {
            assert_eq!(combined(classes.iter().copied()), *expected, "{classes:?}");
            assert_eq!(combined(classes.iter().rev().copied()), *expected, "{classes:?} reversed");
        }
    }

    #[test]
    fn a_dead_answer_needs_every_endpoint_and_an_acceptance_only_one() {
        let is_taken = |class| matches!(class, Accepted | AlreadyKnown);
        for one in AnswerClass::ALL {
            for other in AnswerClass::ALL {
                let both = combined([one, other]);
                let all_dead = one.may_lead_to_rejection() && other.may_lead_to_rejection();
                assert_eq!(both.may_lead_to_rejection(), all_dead, "{one} {other}");
                assert_eq!(is_taken(both), is_taken(one) || is_taken(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn one_answer_that_leaves_it_open_whether_a_node_has_it_leaves_it_open_for_all() {
        for one in AnswerClass::ALL {
            for other in AnswerClass::ALL {
                let any = may_be_with_a_node(one) || may_be_with_a_node(other);
                assert_eq!(may_be_with_a_node(combined([one, other])), any, "I3: {one} {other}");
            }
        }
    }
}
