//! The tables of what nodes say, and the order in which they are asked.
//!
//! First what keeps a transaction alive, then what an endpoint says about itself, then what may
//! end it. A text that fits two tables is thus read as the one that loses less.

mod endpoint;
mod fees;
mod funds;
mod gas;
mod invalid;
mod loose;
mod nonce;
mod pool;

use tollgate_model::answer::AnswerClass;

use super::rule::{Hit, first};

/// What the text says by its wording.
pub(super) fn find(text: &str) -> Option<Hit> {
    first(pool::REPLACEMENT, text)
        .or_else(|| first(pool::KNOWN, text))
        .or_else(|| first(pool::FULL, text))
        .or_else(|| first(nonce::CLEAR, text))
        // Fees that contradict each other name prices too, and no price would help.
        .or_else(|| first(invalid::FEES, text))
        .or_else(|| first(fees::CAP, text))
        .or_else(|| first(fees::LOW, text))
        .or_else(|| first(funds::RULES, text))
        .or_else(|| first(endpoint::CLEAR, text))
        .or_else(|| first(gas::RULES, text))
        .or_else(|| first(invalid::RULES, text))
}

/// What the text says if neither wording nor numbers were clear.
pub(super) fn last_resort(text: &str) -> Option<Hit> {
    first(nonce::VAGUE, text)
        .or_else(|| first(loose::RULES, text))
        .or_else(|| first(endpoint::VAGUE, text))
}

/// What the text says about the endpoint, and nothing else.
pub(super) fn of_the_endpoint(text: &str) -> Option<Hit> {
    first(endpoint::CLEAR, text).or_else(|| first(endpoint::VAGUE, text))
}

/// A verdict that keeps the transaction alive and is the pool's own, not a wrapper's.
pub(super) fn alive(text: &str) -> Option<Hit> {
    use AnswerClass::{
        AlreadyKnown, InsufficientFunds, NonceTooHigh, NonceTooLow, ReplacementUnderpriced,
    };
    find(text).filter(|(class, _)| {
        [AlreadyKnown, InsufficientFunds, NonceTooHigh, NonceTooLow, ReplacementUnderpriced]
            .contains(class)
    })
}
