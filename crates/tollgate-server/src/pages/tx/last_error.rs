//! The last error of a transaction, in the words of `docs/errors/send-answers.md`.

use tollgate_evm::{RpcAnswer, explain};
use tollgate_model::answer::AnswerClass;
use tollgate_model::hindrance::own_sentence;

use super::history::sentence;

/// An error of a node or of Tollgate's own, and what the classifier makes of it.
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
    if let Some(own) = own_sentence(&text) {
        let meaning = Meaning {
            class: sentence(&own.class.name().replace('_', " ")),
            words: own.meaning,
            response: own.response,
            why: "Tollgate wrote it itself, and no node".to_owned(),
        };
        return ErrorText { text, meaning: Some(meaning) };
    }
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
        let own = "price too low for the next block: it asks for 8 wei per gas, and the newest attempt \
                   offers 1 wei";
        let Meaning { class, words, response, .. } = error_text(own.to_owned()).meaning.unwrap();
        assert_eq!(class, "Fee too low");
        assert!(words.contains("less than the base fee"), "{words}");
        assert!(response.contains("speed-up` raises it"), "{response}");
        assert!(error_text("the moon is full".to_owned()).meaning.is_none());
    }
}
