//! What must hold for any text.

use proptest::prelude::*;
use tollgate_evm::{RpcAnswer, classify};
use tollgate_model::answer::AnswerClass;

use crate::{class_of, collected};

/// Words that endpoints and full pools use. None of them is about the transaction itself.
const GREY_WORDS: &[&str] = &[
    "429",
    "502",
    "again",
    "backend",
    "bad",
    "busy",
    "call",
    "capacity",
    "closed",
    "compute",
    "connection",
    "count",
    "daily",
    "deadline",
    "down",
    "error",
    "exceeded",
    "exceeds",
    "failed",
    "full",
    "gateway",
    "internal",
    "is",
    "later",
    "limit",
    "load",
    "maintenance",
    "many",
    "max",
    "mempool",
    "node",
    "not",
    "offline",
    "over",
    "overloaded",
    "pending",
    "per",
    "plan",
    "please",
    "pool",
    "queue",
    "queued",
    "quota",
    "rate",
    "reached",
    "request",
    "requests",
    "reset",
    "response",
    "retry",
    "second",
    "sequencer",
    "server",
    "service",
    "slots",
    "sync",
    "syncing",
    "temporarily",
    "the",
    "throttled",
    "time",
    "timeout",
    "too",
    "transactions",
    "try",
    "txpool",
    "unavailable",
    "units",
    "upgrade",
    "upstream",
    "your",
    ".",
    ":",
    ",",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        message in any::<String>(),
        data in proptest::option::of(any::<String>()),
        code in any::<Option<i64>>(),
        status in any::<Option<u16>>(),
    ) {
        classify(&RpcAnswer { code, status, message: &message, data: data.as_deref() });
    }

    #[test]
    fn no_torn_json_or_page_makes_it_panic(
        one in 0..collected::all().len(),
        start in any::<prop::sample::Index>(),
        insert in "[{}\\[\\]\"\\\\<>|:,.'0x\u{0}é ]{0,12}",
    ) {
        let message = &collected::all()[one].message;
        let at = message.floor_char_boundary(start.index(message.len() + 1));
        let (before, after) = message.split_at(at);
        class_of(&format!("{before}{insert}{after}"));
        class_of(&format!("{insert}{after}"));
    }

    #[test]
    fn letter_case_and_blanks_around_change_nothing(
        one in 0..collected::all().len(),
        before in "[ \t\r\n]{0,5}",
        after in "[ \t\r\n]{0,5}",
    ) {
        let all = collected::all();
        // The keys, words and escapes of JSON have a case of their own.
        prop_assume!(!all[one].message.contains('{'));
        let expected = classify(&all[one].answer());
        let padded = |text: String| format!("{before}{text}{after}");
        for message in [
            padded(all[one].message.to_ascii_lowercase()),
            padded(all[one].message.to_ascii_uppercase()),
        ] {
            let got = classify(&RpcAnswer { message: &message, ..all[one].answer() });
            prop_assert_eq!(got, expected, "{}", message);
        }
    }

    #[test]
    fn text_without_a_known_phrase_is_unknown(text in "[bcdfghjkmnpqstvwxz .:,\n]{0,300}") {
        prop_assert_eq!(class_of(&text), AnswerClass::Unknown);
    }

    #[test]
    fn words_of_the_grey_zone_never_make_a_dead_verdict(
        words in prop::collection::vec(prop::sample::select(GREY_WORDS), 0..25),
    ) {
        let text = words.join(" ");
        let class = class_of(&text);
        prop_assert!(!class.may_lead_to_rejection(), "{} is {}", text, class);
    }

    #[test]
    fn a_wrapper_around_an_answer_never_turns_it_dead(
        one in 0..collected::all().len(),
        wrapper in prop::sample::select(&[
            "failed to send tx: ", "rpc error: code = Unknown desc = ", "Error: ", "call failed: ",
            "[Request ID: 1] ", "could not broadcast: err: ", "INTERNAL_ERROR: ", "502 ",
        ][..]),
    ) {
        let all = collected::all();
        prop_assume!(!all[one].message.contains('<'));
        let bare = classify(&all[one].answer());
        let message = format!("{wrapper}{}", all[one].message);
        let wrapped = classify(&RpcAnswer { message: &message, ..all[one].answer() });
        prop_assert!(
            bare.may_lead_to_rejection() || !wrapped.may_lead_to_rejection(),
            "{} is {}, bare {}", message, wrapped, bare
        );
    }
}

#[test]
fn a_megabyte_is_read_as_far_as_it_matters() {
    let noise = "zzz ".repeat(256 * 1024);
    assert_eq!(class_of(&noise), AnswerClass::Unknown);
    assert_eq!(class_of(&format!("nonce too low {noise}")), AnswerClass::NonceTooLow);
    for unit in ["{", "\"{\\\"", "<", "é", "fee .. ", "nonce ", "[[", "\\\""] {
        class_of(&unit.repeat(1024 * 1024 / unit.len()));
    }
}
