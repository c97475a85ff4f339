//! Limits that keep one key or tenant from harming the others.

use serde_json::json;
use tollgate_engine::ReservationLimits;
use tollgate_model::access::RateLimit;

use super::{Guarded, key, of_tenant, scoped, transfer};
use crate::site::SENDER;

#[tokio::test(flavor = "multi_thread")]
async fn batch_counts_as_many_requests_as_it_has_items() {
    let mut limited = key(1, "submit");
    limited.stored.rate = Some(RateLimit::new(1, 4).unwrap());
    let guarded = Guarded::with(&[&limited]).await;
    let batch = |count: usize| {
        let items: Vec<_> = (0..count).map(|place| transfer(&format!("item-{place}"))).collect();
        json!({ "items": items })
    };
    guarded.post(&limited, "/api/v1/tx/batch", batch(5)).await.refused(422, "invalid_batch");
    let taken = guarded.post(&limited, "/api/v1/tx/batch", batch(3)).await;
    assert_eq!(taken.status.as_u16(), 200, "{taken:?}");
    let refused = guarded.post(&limited, "/api/v1/tx/batch", batch(4)).await;
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    assert!(refused.header("ratelimit").unwrap().starts_with("\"key\";r=0;"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_continues_after_no_transaction_of_another_tenant() {
    let (acme, other) = (of_tenant(1, "submit", "acme"), of_tenant(2, "submit", "other"));
    let guarded = Guarded::with(&[&acme, &other]).await;
    for number in 0..2 {
        guarded.post(&other, "/api/v1/tx", transfer(&format!("{number}"))).await.with(202);
    }
    let own = guarded.post(&acme, "/api/v1/tx", transfer("own")).await.with(202);
    let page = guarded.get(&acme, "/api/v1/tx?limit=2").await.with(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert!(page["next"].is_null() || page["next"] == own["txId"], "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_are_reserved_by_keys_for_the_account_and_their_reasons_are_their_tenants() {
    let (acme, other) = (of_tenant(1, "submit", "acme"), of_tenant(2, "submit,operate", "other"));
    let through_pool = scoped(3, "submit", "", "", "payouts");
    let staff = key(4, "admin");
    let limits = Some(ReservationLimits::default());
    let guarded = Guarded::with_reservations(&[&acme, &other, &through_pool, &staff], limits).await;
    let pool = json!({ "members": [SENDER] });
    guarded.call(&staff, "PUT", "/api/v1/pools/payouts", Some(pool)).await.with(200);
    let nonces = format!("/api/v1/submitters/{SENDER}/nonces");
    guarded.post(&through_pool, &nonces, json!({})).await.refused(403, "forbidden");
    let reserved = guarded.post(&acme, &nonces, json!({})).await.with(201);
    let back = json!({ "ownerToken": reserved["ownerToken"], "reason": "the merger is off" });
    let path = format!("{nonces}/{}/recyclable", reserved["nonce"]);
    guarded.post(&acme, &path, back).await.with(200);
    for (reader, sees) in [(&acme, true), (&other, false), (&staff, true)] {
        let page = guarded.get(reader, &nonces).await.with(200);
        let reason = &page["items"][0]["reason"];
        let is_shown = reason.as_str().is_some_and(|reason| reason.contains("the merger is off"));
        assert_eq!(is_shown, sees, "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_reasons_that_disguise_themselves_are_refused() {
    let admin = key(1, "admin");
    let guarded = Guarded::with(&[&admin]).await;
    for name in ["ops\u{1b}[2J", "ops\u{202e}nimda", "o\u{200b}ps", "ops\u{e0041}"] {
        let new = json!({ "name": name, "roles": ["read"] });
        guarded.post(&admin, "/api/v1/api-keys", new).await.refused(422, "invalid_field");
        let path = format!("/api/v1/submitters/{SENDER}");
        let change = json!({ "label": name });
        let answer = guarded.call(&admin, "PATCH", &path, Some(change)).await;
        answer.refused(422, "invalid_field");
    }
    let pause = format!("/api/v1/submitters/{SENDER}/pause");
    let bell = json!({ "reason": "now\u{7}" });
    guarded.post(&admin, &pause, bell).await.refused(422, "invalid_field");
}
