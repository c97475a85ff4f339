//! The last error of a transaction, in the words of `docs/errors/send-answers.md`.

use tollgate_evm::{RpcAnswer, explain};
use tollgate_model::answer::AnswerClass;

use super::history::sentence;

/// An error of a node, and what the classifier makes of it.
pub(super) struct ErrorText {
    pub(super) text: String,
    pub(super) meaning: Option<Meaning>,
}

/// The class of an error in the words of `docs/errors/send-answers.md`.
pub(super) struct Meaning {
    pub(super) class: String,
    pub(super) words: &'static str,
    pub(super) response: &'static str,
    /// The part of the text that gave the class.
    pub(super) why: String,
}

/// An error, and what it means, where the classifier knows its text.
pub(super) fn error_text(text: String) -> ErrorText {
    let answer = RpcAnswer { code: None, status: None, message: &text, data: None };
    let explained = explain(&answer);
    let class = AnswerClass::from_name(explained.class).unwrap_or(AnswerClass::Unknown);
    let meaning = (class != AnswerClass::Unknown).then(|| Meaning {
        class: sentence(&class.name().replace('_', " ")),
        words: class.meaning(),
        response: class.response(),
        why: explained.why,
    });
    ErrorText { text, meaning }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_error_is_explained_and_an_unknown_one_is_left_alone() {
        let known = error_text("insufficient funds for gas * price + value".to_owned());
        let Meaning { class, words, response, why } = known.meaning.unwrap();
        assert_eq!(
            (class.as_str(), words),
            ("Insufficient funds", "the account can't pay for value and gas")
        );
        assert!(
            response.starts_with("holds, alerts, and sends the same bytes again"),
            "{response}"
        );
        assert!(why.contains("insufficient fund"), "{why}");
        assert!(error_text("the moon is full".to_owned()).meaning.is_none());
    }
}
