//! The tables of phrases, and their order.
//!
//! First the rules that keep a transaction alive, then those about the endpoint, then those that may
//! reject it. A text that matches two tables gets the class that does less harm if it is wrong.

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

/// The separator of clauses in normalised text.
const PAUSE: char = ',';
const END: char = '|';

/// JSON-RPC's code for invalid parameters.
const INVALID_PARAMS: i64 = -32602;

/// The class by phrases.
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

/// The class if neither phrases nor numbers were clear.
pub(super) fn last_resort(text: &str) -> Option<Hit> {
    first(nonce::VAGUE, text)
        .or_else(|| first(loose::RULES, text))
        .or_else(|| first(endpoint::VAGUE, text))
}

/// The classes that may reject a transaction, if no other rule matched.
pub(super) fn flaw(text: &str, code: Option<i64>) -> Option<Hit> {
    let parameter = || first(flaws::PARAMETER, text).filter(|_| code == Some(INVALID_PARAMS));
    let bare = || {
        let clause = text.split(" | ").next();
        (clause == Some(flaws::BARE)).then_some((AnswerClass::Invalid, flaws::BARE))
    };
    first_in_a_clause(flaws::RULES, text).or_else(parameter).or_else(bare)
}

/// Cues that a transaction is alive. A text with one of them is never classified as a rejection:
/// "invalid transaction nonce" is about a nonce.
const LIVING: &[&str] =
    &["nonce", "balance", "fund", "already", "replac", "underpriced", "pending", "sequence$"];

/// Returns whether a rejection by this phrase would ignore a cue that the transaction is alive.
pub(super) fn is_about_a_living_one(text: &str, phrase: &str) -> bool {
    LIVING.iter().any(|word| occurs(text, word) && !occurs(phrase, word))
}

/// A class that keeps the transaction alive, from another part of the text than the one with this phrase.
/// Two parts that contradict each other are two answers, and the less harmful one counts.
///
/// The text before the phrase, and that after its part, is classified as a whole, because a rule may need
/// two clauses ("invalid transaction | stale"); then each clause by itself, because one may exclude a rule
/// in another; then each part without the phrase, because a `..` may have skipped a part with another
/// meaning.
pub(super) fn alive_beside(text: &str, phrase: &str) -> Option<Hit> {
    let at = position(text, phrase).unwrap_or(text.len());
    let before = &text[..at];
    let after = text[at..].find([PAUSE, END]).map_or("", |border| &text[at + border..]);
    let beside = [before, after].into_iter();
    let beside = beside.flat_map(|part| std::iter::once(part).chain(part.split(END)));
    let without = text.split([PAUSE, END]).filter(|part| !occurs(part, phrase));
    beside.chain(without).find_map(|part| living(part).or_else(|| vaguely_living(part)))
}

/// The first rule that keeps a transaction alive and matches a part of a text.
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

/// The same by the rules for unclear texts.
fn vaguely_living(part: &str) -> Option<Hit> {
    first_of(nonce::VAGUE, part, is_the_pools)
        .or_else(|| first_of(loose::RULES, part, is_the_pools))
}

/// Finds a statement about the endpoint, and nothing else.
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
