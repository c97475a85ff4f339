//! Configured corrections of the classifier for one chain.
//!
//! An ordered list of phrases and classes, checked before the rules decide. An override may turn any
//! answer into a class that keeps the transaction alive. It may reject a transaction only where the rules
//! reject it too or don't match: a careless phrase must not reject a transaction that a node has. A
//! phrase of a few letters is refused.

use thiserror::Error;
use tollgate_model::answer::AnswerClass;

use super::normalise::normalise;
use super::pattern::occurs;
use super::unwrap::Reading;

/// The longest list.
const COUNT_MAX: usize = 256;

/// The longest phrase, in bytes.
const PHRASE_MAX: usize = 200;

/// The fewest letters of a phrase, and of one that can reject a transaction.
const LETTERS_MIN: usize = 3;
const LETTERS_MIN_FOR_REJECTION: usize = 8;

/// A phrase and its class on this chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Override {
    /// The phrase, in any letter case. `..` matches a few words.
    pub phrase: String,
    /// The class of answers with this phrase.
    pub class: AnswerClass,
}

/// A chain's overrides, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overrides(Vec<Override>);

/// The reason why an override is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadOverride {
    /// There are too many overrides.
    #[error("{0} overrides, and at most {COUNT_MAX} are allowed: join some with `..`")]
    TooMany(usize),
    /// The phrase is too long.
    #[error(
        "override {0} is longer than {PHRASE_MAX} bytes: keep the part that is always the same"
    )]
    TooLong(usize),
    /// The phrase is too short: it would match nearly everything.
    #[error("override {0} has fewer than {1} letters and digits: it would fit what it is not for")]
    TooShort(usize, usize),
    /// An error is not an acceptance.
    #[error("override {0} says `accepted`: an error text means `already_known` at best")]
    Accepted(usize),
}

impl Overrides {
    /// Checks a list. The places in errors count from one.
    ///
    /// # Errors
    /// The first override that is refused.
    pub fn new(list: Vec<Override>) -> Result<Self, BadOverride> {
        if list.len() > COUNT_MAX {
            return Err(BadOverride::TooMany(list.len()));
        }
        let mut checked = Vec::with_capacity(list.len());
        for (place, Override { phrase, class }) in (1..).zip(list) {
            if class == AnswerClass::Accepted {
                return Err(BadOverride::Accepted(place));
            }
            if phrase.len() > PHRASE_MAX {
                return Err(BadOverride::TooLong(place));
            }
            let phrase = normal_phrase(&phrase);
            let letters = phrase.bytes().filter(u8::is_ascii_alphanumeric).count();
            let letters_min = match class.may_lead_to_rejection() {
                true => LETTERS_MIN_FOR_REJECTION,
                false => LETTERS_MIN,
            };
            if letters < letters_min {
                return Err(BadOverride::TooShort(place, letters_min));
            }
            checked.push(Override { phrase, class });
        }
        Ok(Self(checked))
    }

    /// The place and class of the first override that matches a normalised text and may change its class.
    pub(super) fn find(
        &self,
        reading: &Reading,
        built_in: AnswerClass,
    ) -> Option<(usize, AnswerClass)> {
        // A page is not the node's answer, whatever it quotes.
        let may_kill = !reading.is_page
            && (built_in.may_lead_to_rejection() || built_in == AnswerClass::Unknown);
        let text = reading.text.as_str();
        self.0.iter().enumerate().find_map(|(place, Override { phrase, class })| {
            let allowed = may_kill || !class.may_lead_to_rejection();
            (allowed && occurs(text, phrase)).then_some((place, *class))
        })
    }
}

/// Normalises a phrase piece by piece, so that it matches normalised text.
fn normal_phrase(phrase: &str) -> String {
    let pieces: Vec<String> =
        phrase.split("..").map(normalise).filter(|piece| !piece.is_empty()).collect();
    pieces.join(" .. ")
}
