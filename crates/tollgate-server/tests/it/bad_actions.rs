//! Bad orders get a clear error with a stable code, before anything is asked of the engine.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tollgate_testkit::fake_chain::Query;

use crate::site::{SENDER, Site, TARGET};

const ACTIONS: [&str; 5] = ["cancel", "speed-up", "resubmit", "replace", "resolve"];
const NOBODY: &str = "0198c0de-7a11-7000-8000-00000000cafe";

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_nothing_is_told_so() {
    let site = Site::new().await;
    for word in ACTIONS {
        let body = json!({ "maxFeePerGas": "5" });
        let body = if word == "replace" { body.to_string() } else { String::new() };
        for (id, code, status) in
            [(NOBODY, "not_found", 404), ("17", "invalid_tx_id", 422), ("%ff", "invalid_path", 400)]
        {
            let answer = site.post(&format!("/api/v1/tx/{id}/{word}"), body.clone()).await;
            let told = (answer.status.as_u16(), answer.code());
            assert_eq!(told, (status, code.to_owned()), "{word} {id}");
        }
        let asked = site.post(&format!("/api/v1/tx/{NOBODY}/{word}?now=1"), body).await;
        assert_eq!(asked.code(), "invalid_query", "{word}");
        let read = site.get(&format!("/api/v1/tx/{NOBODY}/{word}")).await;
        assert_eq!(read.code(), "method_not_allowed", "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_has_a_limit_and_a_body_has_no_surprises() {
    let site = Site::new().await;
    for word in ACTIONS {
        let path = format!("/api/v1/tx/{NOBODY}/{word}");
        for (body, code) in [
            (json!({ "reason": "x".repeat(501), "maxFeePerGas": 1 }), "invalid_body"),
            (json!({ "reason": 5 }), "invalid_body"),
            (json!({ "why": "because" }), "invalid_body"),
            (json!([1]), "invalid_body"),
            (json!("cancel"), "invalid_body"),
        ] {
            let long = body["maxFeePerGas"] == 1;
            // What a replacement may hold is a surprise elsewhere.
            let code = if long && word == "replace" { "invalid_field" } else { code };
            site.post(&path, body.to_string()).await.refused(422, code);
        }
        assert_eq!(site.post(&path, "{").await.code(), "invalid_json", "{word}");
    }
    let long = json!({ "reason": "x".repeat(501) }).to_string();
    let path = format!("/api/v1/tx/{NOBODY}/cancel");
    assert_eq!(site.post(&path, long).await.code(), "invalid_field");
    let nul = json!({ "reason": "a\u{0}" }).to_string();
    assert_eq!(site.post(&path, nul).await.code(), "invalid_field");
    let fits = json!({ "reason": "x".repeat(500) }).to_string();
    assert_eq!(site.post(&path, fits).await.code(), "not_found", "500 bytes fit");
    let none = Request::post(&path).body(Body::empty()).unwrap();
    assert_eq!(site.call(none).await.code(), "not_found", "no body is needed");
    assert_eq!(site.post(&path, "null").await.code(), "not_found", "null is none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_says_with_what() {
    let site = Site::new().await;
    for (body, code) in [
        (json!({}), "missing_field"),
        (json!({ "reason": "dearer" }), "missing_field"),
        (json!({ "payload": {} }), "missing_field"),
        (json!({ "payload": { "value": "5" } }), "missing_field"),
        (json!({ "payload": { "to": "0x12" } }), "invalid_address"),
        (json!({ "payload": { "to": TARGET, "value": "-1" } }), "invalid_number"),
        (json!({ "payload": { "to": TARGET, "gas": 0 } }), "invalid_number"),
        (json!({ "payload": { "to": TARGET, "data": "12" } }), "invalid_hex"),
        (json!({ "payload": { "to": TARGET, "type": "legacy" } }), "invalid_body"),
        (json!({ "maxFeePerGas": "cheap" }), "invalid_number"),
        (json!({ "maxFeePerGas": "9223372036854775808" }), "invalid_number"),
        (json!({ "maxFeePerGas": "1", "maxPriorityFeePerGas": "2" }), "invalid_fees"),
        (json!({ "maxPriorityFeePerGas": "2" }), "not_found"),
        (json!({ "payload": { "data": "0x00" } }), "not_found"),
    ] {
        let answer = site.post(&format!("/api/v1/tx/{NOBODY}/replace"), body.to_string()).await;
        assert_eq!(answer.code(), code, "{body}: {answer:?}");
    }
    let nothing = site.post(&format!("/api/v1/tx/{NOBODY}/replace"), "").await;
    assert_eq!(nothing.code(), "missing_field");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_can_t_be_asked_is_no_reason_to_guess() {
    let site = Site::new().await;
    site.chain.fail(Query::AccountsFeesAndCalls, true);
    let path = format!("/api/v1/submitters/{SENDER}/reconcile");
    let answer = site.post(&path, "").await;
    answer.refused(503, "unavailable");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_pause_and_to_resume_take_a_reason() {
    let site = Site::new().await;
    let long = "x".repeat(501);
    for word in ["pause", "resume"] {
        let path = format!("/api/v1/submitters/{SENDER}/{word}");
        for (body, code) in [
            (String::new(), "missing_field"),
            ("null".to_owned(), "missing_field"),
            ("{}".to_owned(), "missing_field"),
            (json!({ "reason": null }).to_string(), "missing_field"),
            (json!({ "reason": "  " }).to_string(), "missing_field"),
            (json!({ "reason": long }).to_string(), "invalid_field"),
            (json!({ "reason": "a", "force": true }).to_string(), "invalid_body"),
        ] {
            let answer = site.post(&path, body.clone()).await;
            answer.refused(422, code);
        }
    }
    let reason = json!({ "reason": "because" }).to_string();
    for word in ["pause", "resume", "reconcile"] {
        for (address, code) in
            [("0x1", "invalid_address"), (TARGET, "unknown_submitter"), ("%ff", "invalid_path")]
        {
            let path = format!("/api/v1/submitters/{address}/{word}");
            let answer = site.post(&path, reason.clone()).await;
            assert_eq!(answer.code(), code, "{word}: {answer:?}");
        }
        let path = format!("/api/v1/submitters/{SENDER}/{word}?now=1");
        assert_eq!(site.post(&path, reason.clone()).await.code(), "invalid_query", "{word}");
    }
}
