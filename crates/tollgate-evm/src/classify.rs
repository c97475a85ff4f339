//! Reads a node's answer to a send.
//!
//! The one unforgivable mistake is to call a transaction dead that may be mined, so the order of
//! the questions is a matter of safety: what the EVM itself said comes first (its reason is the
//! contract's text, whatever node it sounds like), then what keeps a transaction alive, then what
//! may end it, then what the endpoint says about itself. What no rule knows is
//! [`AnswerClass::Unknown`]. Codes and HTTP statuses only help where the text is silent: the same
//! number means a rate limit at one provider and a gas limit at another client.
//!
//! Owns no state and does no I/O. Called for every answer to a send, and by `explain`.

mod nonces;
mod normalise;
mod overrides;
mod pattern;
mod reverts;
mod rule;
mod rules;
mod unwrap;

use std::fmt;

pub use overrides::{BadOverride, Override, Overrides};
use tollgate_model::answer::AnswerClass;
use unwrap::Reading;

/// An endpoint's answer to a send, as far as it got one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RpcAnswer<'a> {
    /// The JSON-RPC error code.
    pub code: Option<i64>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The error's message, or the body where it was no JSON-RPC.
    pub message: &'a str,
    /// The error's data, as text.
    pub data: Option<&'a str>,
}

/// A class, and what it rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What the answer means.
    pub class: AnswerClass,
    /// Why.
    pub reason: Reason,
}

/// What a verdict rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The text holds this phrase. A `..` in it stands for a few words.
    Phrase(&'static str),
    /// The EVM ran it and said no, in these words.
    Evm(&'static str),
    /// The data is the ABI encoding of a revert.
    RevertData,
    /// The two nonces in the text: the transaction's, and what the node wants.
    Nonces(u64, u64),
    /// The text is silent and the HTTP status is not.
    Status(u16),
    /// Text and status are silent and the code is not.
    Code(i64),
    /// The body holds a result and no error.
    Result,
    /// The configured override at this place of the list.
    Override(usize),
    /// No rule knows it.
    Nothing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phrase(phrase) => write!(f, "the text says \"{phrase}\""),
            Self::Evm(phrase) => {
                write!(f, "the EVM said no (\"{phrase}\"); what follows is the contract's text")
            }
            Self::RevertData => f.write_str("the data is the encoding of a revert"),
            Self::Nonces(ours, wanted) => {
                write!(f, "the transaction's nonce is {ours} and the node wants {wanted}")
            }
            Self::Status(status) => write!(f, "HTTP status {status}, and no text that is known"),
            Self::Code(code) => write!(f, "error code {code}, and no text that is known"),
            Self::Result => f.write_str("the body holds a result and no error"),
            Self::Override(place) => write!(f, "override number {} of the chain", place + 1),
            Self::Nothing => f.write_str("no rule knows this text: possibly sent"),
        }
    }
}

/// What an answer means.
pub fn classify(answer: &RpcAnswer<'_>) -> AnswerClass {
    judge(answer, &Overrides::default()).class
}

/// What an answer means on a chain with overrides.
pub fn classify_with(answer: &RpcAnswer<'_>, overrides: &Overrides) -> AnswerClass {
    judge(answer, overrides).class
}

/// What an answer means, and why.
pub fn judge(answer: &RpcAnswer<'_>, overrides: &Overrides) -> Verdict {
    let reading = Reading::of(answer);
    let (class, reason) = built_in(answer, &reading);
    match overrides.find(&reading, class) {
        Some((place, class)) => Verdict { class, reason: Reason::Override(place) },
        None => Verdict { class, reason },
    }
}

fn built_in(answer: &RpcAnswer<'_>, reading: &Reading) -> (AnswerClass, Reason) {
    let text = reading.text.as_str();
    if reading.has_result {
        return (AnswerClass::Accepted, Reason::Result);
    }
    if reading.is_page {
        // A page comes from something in front of the node: it can tell of itself only.
        return rules::of_the_endpoint(text)
            .map(by_phrase)
            .or_else(|| by_status(answer.status))
            .unwrap_or((AnswerClass::Unknown, Reason::Nothing));
    }
    if let Some(said) = reverts::said_in(text) {
        // What stands before the EVM's word is the node's own, and may keep it alive.
        return match rules::alive(&text[..said.at]) {
            Some(hit) => by_phrase(hit),
            None => (AnswerClass::Reverted, Reason::Evm(said.phrase)),
        };
    }
    if reverts::is_revert_data(reading.data.as_deref()) {
        return (AnswerClass::Reverted, Reason::RevertData);
    }
    if let Some(phrase) = reverts::reason_in(text, answer.code) {
        return (AnswerClass::Reverted, Reason::Evm(phrase));
    }
    let numbers =
        nonces::compare(text).map(|(class, ours, wanted)| (class, Reason::Nonces(ours, wanted)));
    let clear = rules::find(text);
    if let Some((class, phrase)) = clear
        && class.may_lead_to_rejection()
    {
        return numbers.unwrap_or_else(|| alive_or_dead(text, (class, phrase)));
    }
    clear
        .map(by_phrase)
        .or(numbers)
        .or_else(|| rules::last_resort(text).map(by_phrase))
        .or_else(|| by_status(answer.status))
        .or_else(|| by_code(answer.code))
        .or_else(|| rules::flaw(text, answer.code).map(|hit| alive_or_dead(text, hit)))
        .unwrap_or((AnswerClass::Unknown, Reason::Nothing))
}

/// A verdict that may end a transaction, unless another part of the text, or a word of those that
/// live, contradicts it.
fn alive_or_dead(text: &str, hit: rule::Hit) -> (AnswerClass, Reason) {
    match rules::alive_beside(text, hit.1) {
        Some(alive) => by_phrase(alive),
        None if rules::is_about_a_living_one(text, hit.1) => {
            (AnswerClass::Unknown, Reason::Nothing)
        }
        None => by_phrase(hit),
    }
}

fn by_phrase((class, phrase): rule::Hit) -> (AnswerClass, Reason) {
    (class, Reason::Phrase(phrase))
}

/// Where the text is silent. A status tells how the endpoint is, never how the transaction is.
fn by_status(status: Option<u16>) -> Option<(AnswerClass, Reason)> {
    let status = status?;
    let class = match status {
        429 => AnswerClass::RateLimited,
        408 | 425 | 500..=599 => AnswerClass::Transient,
        _ => return None,
    };
    Some((class, Reason::Status(status)))
}

/// Where the text and the status are silent. Of the codes, only those count that mean the same to
/// everybody who sends them without a text, and only for what keeps a transaction alive.
fn by_code(code: Option<i64>) -> Option<(AnswerClass, Reason)> {
    let code = code?;
    let class = match code {
        // EIP-1474's "limit exceeded", and the status that some put here
        -32005 | 429 => AnswerClass::RateLimited,
        // no JSON, no such method: nobody has looked at the transaction
        -32700 | -32601 => AnswerClass::Unknown,
        _ => return None,
    };
    Some((class, Reason::Code(code)))
}
