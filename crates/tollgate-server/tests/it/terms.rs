//! Terms of an intent: `validUntil` and `replaceable`.

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
    let plain = json!({ "submitter": SENDER, "payload": { "to": TARGET } });
    let plain = site.post("/api/v1/tx", plain.to_string()).await.json();
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
