//! Events that callers see.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use tollgate_model::access::ApiKey;
use tollgate_model::port::ApiKeyStore as _;
use tollgate_testkit::wait;
use tower::ServiceExt as _;

use super::{Guarded, OTHER, TestKey, key, now, of_tenant, scoped, transfer};
use crate::site::SENDER;

/// The request ids of the transactions of some events, and the next position.
async fn events_of(guarded: &Guarded, key: &TestKey, query: &str) -> (Vec<String>, u64) {
    let page = guarded.get(key, &format!("/api/v1/events?limit=1000{query}")).await.with(200);
    let items = page["items"].as_array().unwrap();
    let accepted = items.iter().filter(|event| event["type"] == "TxAccepted");
    let ids = accepted.map(|event| event["data"]["requestId"].as_str().unwrap().to_owned());
    (ids.collect(), page["next"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_shown_to_the_tenant_and_the_scope_that_see_their_transactions() {
    let all = key(1, "submit");
    let (acme, other) = (of_tenant(2, "submit", "acme"), of_tenant(3, "read", "other"));
    let (inside, outside) = (scoped(4, "read", "", SENDER, ""), scoped(5, "read", "", OTHER, ""));
    let guarded = Guarded::with(&[&all, &acme, &other, &inside, &outside]).await;
    guarded.post(&all, "/api/v1/tx", transfer("order-1")).await.with(202);
    guarded.post(&acme, "/api/v1/tx", transfer("order-2")).await.with(202);
    wait::until("both events", || async {
        (events_of(&guarded, &all, "&wait=1s").await.0.len() == 2).then_some(())
    })
    .await;
    let (both, end) = events_of(&guarded, &all, "").await;
    assert_eq!(both, ["order-1", "order-2"]);
    assert_eq!(events_of(&guarded, &inside, "").await.0, both, "its account");
    let (own, _) = events_of(&guarded, &acme, "").await;
    assert_eq!(own, ["order-2"], "the tenant's own");
    for stranger in [&other, &outside] {
        let (none, next) = events_of(&guarded, stranger, "").await;
        assert!(none.is_empty(), "{none:?}");
        assert!(next >= end, "what is hidden is passed over");
    }
    let marked = guarded.get(&all, "/api/v1/events?kind=TxAccepted").await.with(200);
    let tenants: Vec<_> = marked["items"].as_array().unwrap().iter().collect();
    assert_eq!(tenants[1]["data"]["tenant"], "acme", "ids of tenants are told apart");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_of_events_ends_when_its_key_is_revoked() {
    let (sender, reader) = (key(1, "submit"), key(2, "read"));
    let guarded = Guarded::with(&[&sender, &reader]).await;
    let request = Request::builder()
        .uri("/api/v1/events?after=0")
        .header("authorization", format!("Bearer {}", reader.secret.reveal()))
        .header("accept", "text/event-stream");
    let stream = guarded.site.0.clone().oneshot(request.body(Body::empty()).unwrap()).await;
    let mut stream = stream.unwrap().into_body();
    let stored = guarded.site.store.api_keys_after(0, 10).await.unwrap();
    let stored = stored.into_iter().find(|it| it.key.id == reader.stored.id).unwrap();
    let revoked = ApiKey { revoked_at: Some(now()), ..stored.key };
    guarded.site.store.put_api_key(&revoked, Some(stored.revision)).await.unwrap();
    wait::until("the key to be refused", || async {
        (guarded.get(&reader, "/api/v1/chains").await.status == 401).then_some(())
    })
    .await;
    guarded.post(&sender, "/api/v1/tx", transfer("order-1")).await.with(202);
    let mut seen = String::new();
    while let Some(frame) = stream.frame().await {
        seen += std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
    }
    assert!(seen.contains("the API key was revoked"), "{seen}");
    assert!(!seen.contains("event: "), "nothing after that: {seen}");
}
