//! Answers: what is taken, what is refused, and that nothing else can happen.

use proptest::prelude::*;
use tollgate_model::Address;

use tollgate_model::{Bytes, GasPrice, U256};

use super::*;

fn taken(body: &str) -> StuckDecision {
    read(body.as_bytes()).unwrap_or_else(|why| panic!("{body}: {why}"))
}

#[test]
fn every_action_can_be_answered_with_nothing_but_its_name() {
    for action in StuckAction::ALL {
        let decision = taken(&format!("{{\"action\": \"{}\"}}", action.name()));
        let expected = StuckDecision::new(action, "the hook gave no reason");
        assert_eq!(decision, expected);
    }
}

#[test]
fn a_whole_answer_is_understood_and_unknown_names_are_passed_over() {
    let decision = taken(
        r#" {"action": "replace", "reason": "customer paid for speed", "maxFeePerGas": "0x2540be400",
             "maxPriorityFeePerGas": 1000000000, "ticket": {"a": [1]},
             "payload": {"to": "0x0303030303030303030303030303030303030303", "value": "7",
                         "data": "0xabcd", "gas": 90000},
             "fields": {"by": "rule 7", "amount": 123456789012345678901234567890}} "#,
    );
    assert_eq!(decision.action, StuckAction::Replace);
    assert_eq!(decision.reason.as_str(), "customer paid for speed");
    let Replacement { max_fee_per_gas, max_priority_fee_per_gas, call } = decision.replacement;
    assert_eq!(max_fee_per_gas.map(GasPrice::wei), Some(10_000_000_000));
    assert_eq!(max_priority_fee_per_gas.map(GasPrice::wei), Some(1_000_000_000));
    let expected = NewCall {
        to: Some(Address::repeat_byte(3)),
        value: U256::from(7),
        data: Bytes::from_static(&[0xab, 0xcd]),
        gas: Some(90_000),
    };
    assert_eq!(call, Some(expected));
    let fields = decision.fields.unwrap();
    assert_eq!(
        fields.as_str(),
        r#"{"by": "rule 7", "amount": 123456789012345678901234567890}"#,
        "as they are"
    );
    assert!(!decision.failed);
}

#[test]
fn null_is_the_same_as_nothing() {
    let decision =
        taken(r#"{"action": "cancel", "reason": null, "payload": null, "fields": null}"#);
    assert_eq!(decision, StuckDecision::new(StuckAction::Cancel, "the hook gave no reason"));
}

#[test]
fn a_reason_of_any_length_is_cut_to_what_is_kept() {
    let body = format!("{{\"action\": \"noop\", \"reason\": \"{}\"}}", "x".repeat(5_000));
    assert_eq!(taken(&body).reason.as_str().len(), 500);
}

#[test]
fn invalid_answer_is_refused_with_what_is_wrong() {
    let long = format!(r#"{{"action": "noop", "fields": "{}"}}"#, "x".repeat(2_000));
    let deep = format!(r#"{{"action": "noop", "fields": {}{}}}"#, "[".repeat(900), "]".repeat(900));
    for (body, why) in [
        ("", "not one JSON object"),
        ("cancel", "does not start with {"),
        ("\"cancel\"", "does not start with {"),
        ("[\"cancel\"]", "does not start with {"),
        ("[\"cancel\", null, null, null, null, null]", "does not start with {"),
        ("null", "does not start with {"),
        ("<html>{\"action\": \"cancel\"}</html>", "does not start with {"),
        (r#"{"action": "cancel""#, "EOF"),
        (r#"{"action": "cancel"} {"action": "cancel"}"#, "trailing characters"),
        (r#"{"action": "noop", "action": "cancel"}"#, "duplicate field"),
        ("{}", "action is missing"),
        (r#"{"action": null}"#, "action is missing"),
        (r#"{"Action": "cancel"}"#, "action is missing"),
        (r#"{"action": "abandon"}"#, "action must be one of noop, resubmit"),
        (r#"{"action": "CANCEL"}"#, "action must be one of"),
        (r#"{"action": " cancel"}"#, "action must be one of"),
        (r#"{"action": 3}"#, "action must be a text"),
        (r#"{"action": ["cancel"]}"#, "action must be a text"),
        (r#"{"action": "noop", "reason": 5}"#, "reason must be a text"),
        (r#"{"action": "cancel", "maxFeePerGas": "5"}"#, "go with replace, not with cancel"),
        (
            r#"{"action": "noop", "payload": {"to": "0x0303030303030303030303030303030303030303"}}"#,
            "go with replace, not with noop",
        ),
        (r#"{"action": "replace", "maxFeePerGas": -5}"#, "maxFeePerGas must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": 1.5}"#, "maxFeePerGas must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": 1e9}"#, "maxFeePerGas must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": "5 gwei"}"#, "must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": "0x"}"#, "must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": ""}"#, "must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": {}}"#, "must be a whole number"),
        (r#"{"action": "replace", "maxFeePerGas": "99999999999999999999"}"#, "must be from 0 to"),
        (r#"{"action": "replace", "maxFeePerGas": 5, "maxPriorityFeePerGas": 6}"#, "is above max"),
        (r#"{"action": "replace", "payload": "0x"}"#, "payload: it does not start with {"),
        (
            r#"{"action": "replace", "payload": ["0x0303030303030303030303030303030303030303"]}"#,
            "payload: it does not start with {",
        ),
        (r#"{"action": "replace", "payload": {}}"#, "payload.to is missing"),
        (r#"{"action": "replace", "payload": {"to": "0x03"}}"#, "payload.to must be an address"),
        (r#"{"action": "replace", "payload": {"to": 5}}"#, "to and data must be text"),
        (r#"{"action": "replace", "payload": {"data": "abcd"}}"#, "payload.data must be 0x"),
        (r#"{"action": "replace", "payload": {"data": "0xabc"}}"#, "payload.data must be 0x"),
        (
            r#"{"action": "replace", "payload": {"data": "0xab", "gas": 0}}"#,
            "payload.gas must be from 1 to",
        ),
        (r#"{"action": "replace", "payload": {"data": "0xab", "valeu": 1}}"#, "unknown field"),
        (&long, "fields are longer than 2000 bytes"),
        (&deep, "fields can't be read back"),
    ] {
        let told = read(body.as_bytes()).unwrap_err();
        assert!(told.contains(why), "{body}: {told}");
    }
    assert!(read(b"{\"action\": \"cancel\", \"x\": \"\xff\"}").unwrap_err().contains("UTF-8"));
}

/// Members that are right, nearly right, or wrong.
fn member() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "action",
        "reason",
        "maxFeePerGas",
        "maxPriorityFeePerGas",
        "payload",
        "fields",
        "other",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec![
            "\"noop\"",
            "\"cancel\"",
            "\"replace\"",
            "\"placeholder\"",
            "\"resubmit\"",
            "\"7\"",
            "\"0xff\"",
            "7",
            "-1",
            "1e400",
            "null",
            "{}",
            "[]",
            "{\"data\": \"0xab\"}",
            "\"",
            "tru",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,12}",
    ];
    (name, value).prop_map(|(name, value)| format!("\"{name}\": {value}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn bytes_of_any_kind_do_no_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
        // Random bytes are no JSON object with an action.
        prop_assert!(read(&body).is_err());
    }

    #[test]
    fn only_replace_brings_anything_and_an_action_is_always_the_one_that_was_named(
        members in prop::collection::vec(member(), 0..5),
    ) {
        let body = format!("{{{}}}", members.join(", "));
        if let Ok(decision) = read(body.as_bytes()) {
            let named = format!("\"action\": \"{}\"", decision.action.name());
            prop_assert!(members.contains(&named), "{}", body);
            prop_assert_eq!(body.matches("\"action\"").count(), 1);
            let plain = decision.replacement == Replacement::default();
            prop_assert!(plain || decision.action == StuckAction::Replace, "{}", body);
            prop_assert!(!decision.failed);
        }
    }
}
