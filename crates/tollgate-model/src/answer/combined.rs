//! Combines the answers of all endpoints and tries of one send into one.

use super::AnswerClass;

/// The rank of an answer: the lower, the more informative. The classes that may lead to a rejection come
/// last, so that they win only if all answers are of such classes; among them the least conclusive
/// wins.
///
/// An answer about price or funds is more informative than a missing predecessor, which is often
/// missing only at endpoints that did not get the earlier transactions. All of them are more informative
/// than no answer, except a price that is too high. No class before the rejections gives up a slot, so
/// the rest of the order decides what is tried next, not safety.
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
        // After all classes that leave open whether a pool holds it: a cheaper attempt may be signed in
        // place of one that every endpoint refused as too high.
        AnswerClass::FeeTooHigh => 12,
        AnswerClass::Reverted => 13,
        AnswerClass::GasLimit => 14,
        AnswerClass::Invalid => 15,
    }
}

/// Combines all answers to one send: those of every endpoint, and of repeated tries at one endpoint.
///
/// Any acceptance wins. A class that may lead to a rejection is returned only if all answers are of
/// such classes, so a lost answer keeps the transaction alive whatever the next try brings (I3). No
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
    fn combined_answer_is_the_most_informative_one() {
        let table: &[(&[AnswerClass], AnswerClass)] = &[
            (&[], Unknown),
            (&[Accepted], Accepted),
            (&[Invalid], Invalid),
            (&[Invalid, Invalid], Invalid),
            (&[Invalid, Accepted], Accepted),
            (&[Reverted, AlreadyKnown, GasLimit], AlreadyKnown),
            (&[NonceTooLow, Accepted], Accepted),
            // Rejected only if all answers say so; then the least conclusive class.
            (&[Invalid, GasLimit], GasLimit),
            (&[GasLimit, Reverted, Invalid], Reverted),
            (&[Invalid, RateLimited], RateLimited),
            (&[Invalid, Transient], Transient),
            (&[Reverted, Unknown], Unknown),
            (&[Invalid, FeeTooHigh], FeeTooHigh),
            (&[GasLimit, PoolFull], PoolFull),
            // Otherwise the most informative class.
            (&[Unknown, InsufficientFunds], InsufficientFunds),
            (&[NonceTooHigh, Underpriced], Underpriced),
            (&[ReplacementUnderpriced, Underpriced], ReplacementUnderpriced),
            (&[Underpriced, NonceTooLow], NonceTooLow),
            (&[FeeTooHigh, NonceTooHigh], NonceTooHigh),
            // Too high everywhere only if all answers say so.
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
    fn rejection_needs_every_endpoint_and_an_acceptance_only_one() {
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
    fn one_inconclusive_answer_makes_the_combined_answer_inconclusive() {
        for one in AnswerClass::ALL {
            for other in AnswerClass::ALL {
                let any = may_be_with_a_node(one) || may_be_with_a_node(other);
                assert_eq!(may_be_with_a_node(combined([one, other])), any, "I3: {one} {other}");
            }
        }
    }
}
