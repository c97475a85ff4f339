//! Classifies a node's answer to a send.
//!
//! A transaction that may still be mined must never be classified as rejected, so the order of the rules
//! is a matter of safety: first the EVM's own errors (their reason is the contract's text, whatever it
//! sounds like), then rules that keep a transaction alive, then rules that may reject it, then what the
//! answer tells about the endpoint. An answer that no rule matches is [`AnswerClass::Unknown`]. Codes and
//! HTTP statuses are used only where the text matches nothing: the same number means a rate limit at one
//! provider and a gas limit at another client.
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

/// The parts of an endpoint's answer to a send.
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

/// A class and its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classification {
    /// The class of the answer.
    pub class: AnswerClass,
    /// The basis of the class.
    pub reason: Reason,
}

/// The reason of a verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The text contains this phrase. A `..` in it matches a few words.
    Phrase(&'static str),
    /// The EVM executed the transaction and failed, by this phrase.
    Evm(&'static str),
    /// The data is the ABI encoding of a revert.
    RevertData,
    /// The two nonces in the text: the transaction's and the expected one.
    Nonces(u64, u64),
    /// No rule matches the text; the HTTP status decides.
    Status(u16),
    /// Neither text nor status decides; the JSON-RPC code does.
    Code(i64),
    /// The body has a result and no error.
    Result,
    /// The configured override at this place in the list.
    Override(usize),
    /// No rule matches.
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

/// Classifies an answer.
pub fn classify(answer: &RpcAnswer<'_>) -> AnswerClass {
    judge(answer, &Overrides::default()).class
}

/// Classifies an answer on a chain with overrides.
pub fn classify_with(answer: &RpcAnswer<'_>, overrides: &Overrides) -> AnswerClass {
    judge(answer, overrides).class
}

/// Classifies an answer, with the reason.
pub fn judge(answer: &RpcAnswer<'_>, overrides: &Overrides) -> Classification {
    let reading = Reading::of(answer);
    let (class, reason) = built_in(answer, &reading);
    match overrides.find(&reading, class) {
        Some((place, class)) => Classification { class, reason: Reason::Override(place) },
        None => Classification { class, reason },
    }
}

fn built_in(answer: &RpcAnswer<'_>, reading: &Reading) -> (AnswerClass, Reason) {
    let text = reading.text.as_str();
    if reading.has_result {
        return (AnswerClass::Accepted, Reason::Result);
    }
    if reading.is_page {
        // A page comes from a proxy in front of the node: it tells only about the proxy.
        return rules::of_the_endpoint(text)
            .map(by_phrase)
            .or_else(|| by_status(answer.status))
            .unwrap_or((AnswerClass::Unknown, Reason::Nothing));
    }
    if let Some(said) = reverts::said_in(text) {
        // Text before the EVM's error is the node's own, and may keep the transaction alive.
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

/// A verdict that may reject a transaction, unless another part of the text, or a cue that the
/// transaction is alive, contradicts it.
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

/// The class by HTTP status, if no rule matches the text. A status tells about the endpoint, never about
/// the transaction.
fn by_status(status: Option<u16>) -> Option<(AnswerClass, Reason)> {
    let status = status?;
    let class = match status {
        429 => AnswerClass::RateLimited,
        408 | 425 | 500..=599 => AnswerClass::Transient,
        _ => return None,
    };
    Some((class, Reason::Status(status)))
}

/// The class by JSON-RPC code, if neither text nor status decides. Only codes that every client uses alike
/// count, and only for classes that keep a transaction alive.
fn by_code(code: Option<i64>) -> Option<(AnswerClass, Reason)> {
    let code = code?;
    let class = match code {
        // EIP-1474's "limit exceeded", and the status that some put here
        -32005 | 429 => AnswerClass::RateLimited,
        // no JSON, no such method: the transaction was not processed
        -32700 | -32601 => AnswerClass::Unknown,
        _ => return None,
    };
    Some((class, Reason::Code(code)))
}
