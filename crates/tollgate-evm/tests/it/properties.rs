//! Properties of the classifier for any text.

use proptest::prelude::*;
use serde_json::json;
use tollgate_evm::{RpcAnswer, classify};
use tollgate_model::answer::AnswerClass;

use crate::{class_of, collected};

/// Words that endpoints and full pools use. None of them is about the transaction itself.
const GREY_WORDS: &str = "\
    429 502 again backend bad busy call capacity closed compute connection count daily deadline \
    down error exceeded exceeds failed full gateway internal is later limit load maintenance \
    many max mempool node not offline over overloaded pending per plan please pool queue queued \
    quota rate reached request requests reset response retry second sequencer server service \
    slots sync syncing temporarily the throttled time timeout too transactions try txpool \
    unavailable units upgrade upstream your . : ,";

fn grey_words() -> Vec<&'static str> {
    GREY_WORDS.split_whitespace().collect()
}

proptest! {
    #[test]
    fn classifier_does_not_panic_on_any_text(
        message in any::<String>(),
        data in proptest::option::of(any::<String>()),
        code in any::<Option<i64>>(),
        status in any::<Option<u16>>(),
    ) {
        classify(&RpcAnswer { code, status, message: &message, data: data.as_deref() });
    }

    #[test]
    fn classifier_does_not_panic_on_torn_json_or_pages(
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
    fn text_without_a_known_phrase_is_unknown(text in "[bcdfghjkmnpqstvwxz .:,\n]{0,300}") {
        prop_assert_eq!(class_of(&text), AnswerClass::Unknown);
    }

    #[test]
    fn words_of_the_grey_zone_never_make_a_dead_verdict(
        words in prop::collection::vec(prop::sample::select(grey_words()), 0..25),
    ) {
        let text = words.join(" ");
        let class = class_of(&text);
        prop_assert!(!class.may_lead_to_rejection(), "{} is {}", text, class);
    }

    #[test]
    fn random_words_never_make_a_dead_verdict(
        text in "[a-z]{1,9}( [a-z]{1,9}){0,30}",
        any in any::<String>(),
    ) {
        for text in [text, any] {
            let class = class_of(&text);
            prop_assert!(!class.may_lead_to_rejection(), "{} is {}", text, class);
        }
    }
}

/// Text that callers, proxies and loggers put around an answer.
const BEFORE: &[&str] = &[
    "",
    "failed to send tx: ",
    "rpc error: code = Unknown desc = ",
    "Error: ",
    "call failed: ",
    "[Request ID: 1] ",
    "could not broadcast: err: ",
    "INTERNAL_ERROR: ",
    "502 ",
    "Returned error: ",
    "ProviderError: ",
    "0x336394A3219e71D9d9bd18201d34E95C1Bb7122C nonce 17: ",
    "tx 0x7f657507aee0511e36d2d1972a6b22e917cc89f92b6c12c4dbd57eaabb236960 rejected: ",
    "upstream node-3 answered: ",
];

const AFTER: &[&str] = &[
    "",
    " (code=SERVER_ERROR, version=6.8.0)",
    " [request 4711, attempt 2 of 5]",
    ": address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 state: 8090",
    ". See https://docs.example.org/errors for more.",
    "\n    at sendTransaction (index.js:10:5)",
];

/// Texts that only a pool writes, and only about a transaction that lives.
const LIVING: [&str; 9] = [
    "already_known",
    "nonce_too_low",
    "nonce_too_high",
    "replacement_underpriced",
    "underpriced",
    "fee_too_low",
    "fee_too_high",
    "insufficient_funds",
    "pool_full",
];

/// Text between two answers. `.` and `;` are read as `:` is.
const JOINTS: [&str; 2] = [": ", ", "];

/// The collected messages of these classes that are read as such without a code.
fn of(classes: &[&str]) -> Vec<String> {
    let all = collected::all().into_iter();
    all.filter(|one| classes.contains(&one.class.as_str()) && !one.message.contains(['{', '<']))
        .filter(|one| class_of(&one.message).name() == one.class)
        .map(|one| one.message)
        .collect()
}

/// Joins a text with every one of a list, and returns those that are read as dead.
fn read_as_dead(first: &str, second: &[String]) -> Vec<String> {
    let joined = JOINTS
        .iter()
        .flat_map(|joint| second.iter().map(move |second| format!("{first}{joint}{second}")));
    let read = joined.map(|text| (class_of(&text), text));
    let dead = read.filter(|(class, _)| class.may_lead_to_rejection());
    dead.map(|(class, text)| format!("{text:?} is {class}")).collect()
}

/// Runs `check` on every item, on all of this machine's cores: there are hundreds of thousands of
/// texts. What it returns is wrong.
fn assert_none<T: Sync>(items: &[T], check: impl Fn(&T) -> Vec<String> + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(threads).max(1);
    let check = &check;
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let shares: Vec<_> = items
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().flat_map(check).collect::<Vec<_>>()))
            .collect();
        shares.into_iter().flat_map(|share| share.join().unwrap()).collect()
    });
    let shown = wrong[..wrong.len().min(20)].join("\n");
    assert!(wrong.is_empty(), "{}, among them:\n{shown}", wrong.len());
}

#[test]
fn letter_case_and_blanks_around_change_nothing() {
    // The keys, words and escapes of JSON have a case of their own.
    for one in collected::all().iter().filter(|one| !one.message.contains('{')) {
        let expected = classify(&one.answer());
        for text in [one.message.to_ascii_lowercase(), one.message.to_ascii_uppercase()] {
            for (before, after) in [("", ""), (" \t", "\n"), ("\r\n", "  \t")] {
                let message = format!("{before}{text}{after}");
                let got = classify(&RpcAnswer { message: &message, ..one.answer() });
                assert_eq!(got, expected, "{message:?}");
            }
        }
    }
}

#[test]
fn a_wrapper_around_an_answer_never_turns_it_dead() {
    let all: Vec<_> =
        collected::all().into_iter().filter(|one| !one.message.contains('<')).collect();
    assert_none(&all, |one| {
        if classify(&one.answer()).may_lead_to_rejection() {
            return Vec::new();
        }
        let mut cases = vec![one.message.clone()];
        if !one.message.contains('{') {
            cases.push(one.message.to_ascii_uppercase());
        }
        let mut dead = Vec::new();
        for (case, before) in cases.iter().flat_map(|case| BEFORE.iter().map(move |b| (case, b))) {
            for after in AFTER {
                let message = format!("{before}{case}{after}");
                let nested = json!({ "id": 1, "error": { "code": -32603, "message": message } });
                for message in [message, nested.to_string(), format!("500: {nested}")] {
                    let wrapped = classify(&RpcAnswer { message: &message, ..one.answer() });
                    if wrapped.may_lead_to_rejection() {
                        dead.push(format!("{message:?} is {wrapped}"));
                    }
                }
            }
        }
        dead
    });
}

#[test]
fn every_living_answer_before_a_dead_one_keeps_it_alive() {
    let dead = of(&["invalid", "gas_limit"]);
    assert_none(&of(&LIVING), |living| read_as_dead(living, &dead));
}

#[test]
fn every_living_answer_behind_a_dead_one_keeps_it_alive() {
    let living = of(&LIVING);
    assert_none(&of(&["invalid", "gas_limit"]), |dead| read_as_dead(dead, &living));
}

#[test]
fn nothing_said_is_nothing_known() {
    for nothing in ["", " ", "\n", ".", "{}", "null"] {
        assert_eq!(class_of(nothing), AnswerClass::Unknown, "{nothing:?}");
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
