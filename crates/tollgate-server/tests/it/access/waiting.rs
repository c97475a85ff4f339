//! Calls that wait while their key is revoked.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::json;
use tollgate_model::access::ApiKey;
use tollgate_model::port::ApiKeyStore as _;
use tollgate_testkit::wait;
use tower::ServiceExt as _;

use super::{Guarded, TestKey, key, now, transfer};
use crate::site::Answer;

/// Revokes a key, and waits until the node refuses it.
async fn revoke(guarded: &Guarded, key: &TestKey) {
    let stored = guarded.site.store.api_key(&key.stored.id).await.unwrap().unwrap();
    let revoked = ApiKey { revoked_at: Some(now()), ..stored.key };
    guarded.site.store.put_api_key(&revoked, Some(stored.revision)).await.unwrap().unwrap();
    wait::until("the refusal", || async {
        (guarded.get(key, "/api/v1/chains").await.status.as_u16() == 401).then_some(())
    })
    .await;
}

/// A call that waits for up to a minute for the outcome of a transaction.
async fn patient(
    guarded: &Guarded,
    key: &TestKey,
    request: axum::http::request::Builder,
    body: Body,
) -> Answer {
    let request = request
        .header("authorization", format!("Bearer {}", key.secret.reveal()))
        .header("prefer", "wait=60")
        .header("content-type", "application/json");
    guarded.site.call(request.body(body).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_without_events_ends_after_its_key_was_revoked() {
    let reader = key(1, "read");
    let guarded = Guarded::with(&[&reader]).await;
    let request = Request::get("/api/v1/events?kind=TxStuck")
        .header("authorization", format!("Bearer {}", reader.secret.reveal()))
        .header("accept", "text/event-stream");
    let stream = guarded.site.0.clone().oneshot(request.body(Body::empty()).unwrap());
    let stream = stream.await.unwrap();
    assert_eq!(stream.status(), 200);
    revoke(&guarded, &reader).await;
    // The stream says that it is alive every 15 seconds, and looks at the key then.
    let rest = tokio::time::timeout(Duration::from_secs(60), stream.into_body().collect());
    let rest = rest.await.expect("the end of the stream").unwrap().to_bytes();
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(rest.contains("the API key was revoked"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_waits_learns_nothing_new_after_its_key_was_revoked() {
    let (staff, reader, sender) = (key(1, "submit"), key(2, "read"), key(3, "submit"));
    let guarded = Guarded::with(&[&staff, &reader, &sender]).await;
    // From now on the node knows the keys, and lets the calls below in before their keys are revoked.
    for key in [&reader, &sender] {
        guarded.get(key, "/api/v1/chains").await.with(200);
    }
    let made = guarded.post(&staff, "/api/v1/tx", transfer("a")).await.with(202);
    let tx = format!("/api/v1/tx/{}", made["txId"].as_str().unwrap());
    let events = "/api/v1/events?from=end&kind=TxConfirmed&wait=60s";
    let create = Body::from(transfer("b").to_string());
    let (feed, events, read, created, ()) = tokio::join!(
        guarded.get(&reader, "/api/v1/tx/completions?wait=60s"),
        guarded.get(&reader, events),
        patient(&guarded, &reader, Request::get(&tx), Body::empty()),
        patient(&guarded, &sender, Request::post("/api/v1/tx"), create),
        async {
            revoke(&guarded, &reader).await;
            revoke(&guarded, &sender).await;
            wait::until("both outcomes", || async {
                guarded.site.chain.mine();
                let feed = guarded.get(&staff, "/api/v1/tx/completions").await.with(200);
                (feed["items"].as_array().unwrap().len() == 2).then_some(())
            })
            .await;
        }
    );
    for refused in [feed, events, read] {
        refused.refused(401, "unauthenticated");
        assert!(!refused.text.contains("CONFIRMED"), "{}", refused.text);
    }
    // What was made is answered, as it was before the wait.
    let created_tx = created.with(202);
    assert_ne!(created_tx["state"], "CONFIRMED", "{created_tx}");
    assert_eq!(created.header("preference-applied"), None);
    let page = guarded.get(&staff, &tx).await.with(200);
    assert_eq!(page["state"], json!("CONFIRMED"));
}
