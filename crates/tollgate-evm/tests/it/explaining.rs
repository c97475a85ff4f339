//! Explanations for people and pipes.

use serde_json::{Value, json};
use tollgate_evm::{Overrides, RpcAnswer, explain, explain_line, explain_lines};

fn line(line: &str) -> Value {
    serde_json::from_str(&explain_line(line, &Overrides::default())).unwrap()
}

#[test]
fn an_explanation_has_the_class_the_action_and_the_reason() {
    let answer = RpcAnswer { message: "nonce too low", ..RpcAnswer::default() };
    assert_eq!(
        serde_json::to_value(explain(&answer)).unwrap(),
        json!({
            "class": "nonce_too_low",
            "action": "find_receipts",
            "possibly_sent": true,
            "why": "the text says \"nonce too low\"",
        })
    );
}

#[test]
fn a_line_may_leave_out_everything_but_the_message() {
    let full = r#"{"code":-32000,"status":200,"message":"already known","data":null,"more":1}"#;
    for said in [full, r#"{"message":"already known"}"#] {
        let read = line(said);
        assert_eq!((&read["class"], &read["action"]), (&json!("already_known"), &json!("track")));
    }
    let revert = line(r#"{"code":3,"message":"no","data":{"message":"execution reverted"}}"#);
    assert_eq!(revert["class"], "reverted");
}

#[test]
fn a_broken_line_is_answered_with_an_error() {
    for broken in ["", "nonce too low", "{}", r#"{"message":5}"#, r#"{"message":"a"#, "\u{0}"] {
        let answer = line(broken);
        assert!(answer["error"].is_string(), "{broken:?}: {answer}");
        assert!(answer.get("class").is_none());
    }
}

#[test]
fn every_line_gets_its_line_and_a_broken_one_stops_nothing() {
    let mut input = b"{\"message\":\"already known\"}\n\nbroken \xff\n{\"message\":\"\"}".to_vec();
    input.extend(b"\n{\"message\":\"");
    input.extend(vec![b'x'; 5 * 1024 * 1024]);
    input.extend(b"\"}\n{\"message\":\"nonce too low\"}");
    let mut output = Vec::new();
    explain_lines(&mut input.as_slice(), &mut output, &Overrides::default()).unwrap();
    let lines: Vec<Value> = String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let classes: Vec<_> = lines.iter().map(|line| line["class"].as_str()).collect();
    let (known, low) = (Some("already_known"), Some("nonce_too_low"));
    assert_eq!(classes, [known, None, Some("unknown"), None, low]);
}
