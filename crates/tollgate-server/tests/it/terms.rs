//! Terms of an intent: `validUntil`, `notBefore` and `replaceable`.

use std::time::Duration;

use serde_json::json;

use crate::site::{SENDER, Site, TARGET};

fn until(time: &str) -> String {
    json!({
        "submitter": SENDER,
        "requestId": "timed",
        "payload": { "to": TARGET, "value": "1" },
        "validUntil": time,
        "replaceable": true,
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_and_the_leave_to_replace_are_kept_and_shown() {
    let site = Site::new().await;
    let taken = site.post("/api/v1/tx", until("2999-12-31T23:59:59.5+01:00")).await.with(202);
    let tx_id = taken["txId"].as_str().unwrap().to_owned();
    let shown = site.get(&format!("/api/v1/tx/{tx_id}")).await.json();
    for tx in [taken, shown] {
        assert_eq!(tx["validUntil"], "2999-12-31T22:59:59.5Z", "in UTC");
        assert_eq!(tx["replaceable"], true);
    }
    let again = site.post("/api/v1/tx", until("2999-12-31T22:59:59.500Z")).await;
    assert_eq!(again.status.as_u16(), 200, "the same instant is the same request: {again:?}");
    let later = site.post("/api/v1/tx", until("3000-01-01T00:00:00Z")).await;
    assert_eq!(later.code(), "request_id_conflict", "{later:?}");
    let plain = site.post("/api/v1/tx", plain()).await.json();
    assert_eq!((&plain["validUntil"], &plain["replaceable"]), (&json!(null), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_at_the_end_of_the_year_9999_is_taken_and_shown() {
    let site = Site::new().await;
    let taken = site.post("/api/v1/tx", until("9999-12-31T23:59:59Z")).await.with(202);
    assert_eq!(taken["validUntil"], "9999-12-31T23:59:59Z");
    let refused = site.post("/api/v1/tx", until("9999-12-31T23:59:59-01:00")).await;
    assert_eq!(
        (refused.code().as_str(), &refused.json()["field"]),
        ("invalid_time", &json!("validUntil"))
    );
    let found = site.get("/api/v1/tx?to=9999-12-31T23:59:59Z").await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_is_past_its_time_is_refused_and_leaves_nothing() {
    let site = Site::new().await;
    for path in ["/api/v1/tx", "/api/v1/tx?simulate=true"] {
        site.post(path, until("2020-01-01T00:00:00Z")).await.refused(422, "expired");
    }
    let item: serde_json::Value = serde_json::from_str(&until("2020-01-01T00:00:00Z")).unwrap();
    let batch = json!({ "items": [item] }).to_string();
    let answer = site.post("/api/v1/tx/batch", batch).await.json();
    assert_eq!(answer["items"][0]["error"]["code"], "expired", "{answer}");
    site.assert_untouched().await;
}

fn plain() -> String {
    json!({ "submitter": SENDER, "payload": { "to": TARGET } }).to_string()
}

fn starting(time: &str) -> serde_json::Value {
    json!({
        "submitter": SENDER,
        "requestId": "scheduled",
        "payload": { "to": TARGET, "value": "1" },
        "notBefore": time,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_transaction_is_queued_shown_and_part_of_its_requests_identity() {
    let site = Site::new().await;
    let created = site.post("/api/v1/tx", plain()).await.with(202)["createdAt"].clone();
    let created = tollgate_api::parse_time(created.as_str().unwrap()).unwrap();
    let start = tollgate_api::format_time(created.after(Duration::from_secs(3_600)));
    let taken = site.post("/api/v1/tx", starting(&start).to_string()).await.with(202);
    assert_eq!((&taken["notBefore"], &taken["state"]), (&json!(start), &json!("QUEUED")));
    let tx_id = taken["txId"].as_str().unwrap();
    let shown = site.get(&format!("/api/v1/tx/{tx_id}")).await.json();
    assert_eq!((&shown["notBefore"], &shown["txHash"]), (&json!(start), &json!(null)));
    let other = starting("2020-01-01T00:00:00Z").to_string();
    site.post("/api/v1/tx", other).await.refused(409, "request_id_conflict");
    let later = site.post("/api/v1/tx", plain()).await.with(202);
    assert_eq!((&later["notBefore"], &later["state"]), (&json!(null), &json!("ALLOCATED")));
}

#[tokio::test(flavor = "multi_thread")]
async fn start_that_is_no_time_too_far_ahead_or_after_the_expiry_is_refused() {
    let site = Site::new().await;
    let mut expiring = starting("2999-01-01T00:00:00Z");
    expiring["validUntil"] = json!("2999-01-01T00:00:00Z");
    for body in [starting("soon"), starting("2999-01-01T00:00:00Z"), expiring] {
        for path in ["/api/v1/tx", "/api/v1/tx?simulate=true"] {
            let refused = site.post(path, body.to_string()).await;
            assert_eq!(refused.json()["field"], "notBefore", "{refused:?}");
            refused.refused(422, "invalid_time");
        }
    }
    site.assert_untouched().await;
}
