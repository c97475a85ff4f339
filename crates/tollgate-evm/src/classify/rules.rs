//! The tables of what nodes say, and the order in which they are asked.
//!
//! First what keeps a transaction alive, then what an endpoint says about itself, then what may
//! end it. A text that fits two tables is thus read as the one that loses less.

mod endpoint;
mod fees;
mod flaws;
mod funds;
mod gas;
mod invalid;
mod loose;
mod nonce;
mod pool;

use tollgate_model::answer::AnswerClass;

use super::pattern::{find as position, occurs};
use super::rule::{Hit, Rule, first, first_in_a_clause, first_of};

/// What normal text has between parts.
const PAUSE: char = ',';
const END: char = '|';

/// JSON-RPC's code for them.
const INVALID_PARAMS: i64 = -32602;

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

/// What may end it, if nothing else was found at all.
pub(super) fn flaw(text: &str, code: Option<i64>) -> Option<Hit> {
    let parameter = || first(flaws::PARAMETER, text).filter(|_| code == Some(INVALID_PARAMS));
    let bare = || {
        let clause = text.split(" | ").next();
        (clause == Some(flaws::BARE)).then_some((AnswerClass::Invalid, flaws::BARE))
    };
    first_in_a_clause(flaws::RULES, text).or_else(parameter).or_else(bare)
}

/// Words that are said of transactions that live. A verdict that may end one is not passed on a text
/// with such a word, whatever else it says: "invalid transaction nonce" is about a nonce.
const LIVING: &[&str] =
    &["nonce", "balance", "fund", "already", "replac", "underpriced", "pending", "sequence$"];

/// Whether a verdict of this phrase would be passed on a text that may be about one that lives.
pub(super) fn is_about_a_living_one(text: &str, phrase: &str) -> bool {
    LIVING.iter().any(|word| occurs(text, word) && !occurs(phrase, word))
}

/// What keeps it alive in another part of the text than the one with this phrase. Two parts that
/// contradict each other are two answers, and the one that loses less counts.
///
/// All that stands before the phrase, or behind its part, is read as a whole, because a rule may need
/// two clauses ("invalid transaction | stale"); then each clause of it by itself, because what one says
/// may silence a rule in another; then each part without the phrase, because a `..` in the phrase may
/// have passed over a part that says something else.
pub(super) fn alive_beside(text: &str, phrase: &str) -> Option<Hit> {
    let at = position(text, phrase).unwrap_or(text.len());
    let before = &text[..at];
    let after = text[at..].find([PAUSE, END]).map_or("", |border| &text[at + border..]);
    let beside = [before, after].into_iter();
    let beside = beside.flat_map(|part| std::iter::once(part).chain(part.split(END)));
    let without = text.split([PAUSE, END]).filter(|part| !occurs(part, phrase));
    beside.chain(without).find_map(|part| living(part).or_else(|| vaguely_living(part)))
}

/// The first rule of those that keep a transaction alive that fits a part of a text, whatever else
/// fits it.
fn living(part: &str) -> Option<Hit> {
    const TABLES: [&[Rule]; 7] = [
        pool::REPLACEMENT,
        pool::KNOWN,
        pool::FULL,
        nonce::CLEAR,
        fees::CAP,
        fees::LOW,
        funds::RULES,
    ];
    TABLES.into_iter().find_map(|table| first_of(table, part, is_the_pools))
}

/// The same by the rules that are asked if nothing is clear.
fn vaguely_living(part: &str) -> Option<Hit> {
    first_of(nonce::VAGUE, part, is_the_pools)
        .or_else(|| first_of(loose::RULES, part, is_the_pools))
}

/// What the text says about the endpoint, and nothing else.
pub(super) fn of_the_endpoint(text: &str) -> Option<Hit> {
    first(endpoint::CLEAR, text).or_else(|| first(endpoint::VAGUE, text))
}

/// A verdict that keeps the transaction alive and is the pool's own, not a wrapper's.
pub(super) fn alive(text: &str) -> Option<Hit> {
    living(text).or_else(|| find(text).filter(|(class, _)| *class == AnswerClass::RateLimited))
}

const fn is_the_pools(class: AnswerClass) -> bool {
    use AnswerClass::{
        Accepted, AlreadyKnown, FeeTooHigh, FeeTooLow, GasLimit, InsufficientFunds, Invalid,
        NonceTooHigh, NonceTooLow, PoolFull, RateLimited, ReplacementUnderpriced, Reverted,
        Transient, Underpriced, Unknown,
    };
    match class {
        AlreadyKnown
        | NonceTooLow
        | NonceTooHigh
        | ReplacementUnderpriced
        | Underpriced
        | FeeTooLow
        | FeeTooHigh
        | InsufficientFunds
        | PoolFull => true,
        Accepted | GasLimit | Reverted | Invalid | RateLimited | Transient | Unknown => false,
    }
}
