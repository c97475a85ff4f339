//! Nonces for callers that send by themselves, over HTTP; and the audit trail of a submitter.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_engine::ReservationLimits;
use tollgate_testkit::wait;

use crate::site::{Answer, SENDER, Site, TARGET};

const HASH: &str = "0x88df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe6a713944b";
const OTHER: &str = "0x99df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe6a713944b";

async fn open() -> Site {
    let limits = ReservationLimits {
        hold_max: Duration::from_secs(300),
        outstanding_max: 3,
        ..ReservationLimits::default()
    };
    Site::with_reservations(Some(limits)).await
}

fn path(rest: &str) -> String {
    format!("/api/v1/submitters/{SENDER}/nonces{rest}")
}

async fn reserve(site: &Site) -> Value {
    site.post(&path(""), "").await.with(201)
}

async fn used(site: &Site, of: &Value, hash: &str) -> Answer {
    let body = json!({ "ownerToken": of["ownerToken"], "txHash": hash }).to_string();
    site.post(&path(&format!("/{}/used", of["nonce"])), body).await
}

async fn give_back(site: &Site, of: &Value) -> Answer {
    let body = json!({ "ownerToken": of["ownerToken"], "reason": "not needed" }).to_string();
    site.post(&path(&format!("/{}/recyclable", of["nonce"])), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_is_reserved_used_and_said_again() {
    let site = open().await;
    let mine = reserve(&site).await;
    assert_eq!((&mine["nonce"], &mine["state"]), (&json!(0), &json!("RESERVED")));
    assert!(mine["deadline"].as_str().unwrap().ends_with('Z'), "{mine}");
    for _ in 0..2 {
        let spent = used(&site, &mine, HASH).await.with(200);
        assert_eq!((&spent["state"], &spent["txHash"]), (&json!("USED"), &json!(HASH)));
        assert_eq!(spent["ownerToken"], Value::Null, "the token is told once");
    }
    used(&site, &mine, OTHER).await.refused(409, "stale_owner_token");
    assert_eq!(reserve(&site).await["nonce"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_was_given_back_goes_out_again_and_the_old_token_is_stale() {
    let site = open().await;
    let (first, second) = (reserve(&site).await, reserve(&site).await);
    let back = give_back(&site, &first).await.with(200);
    assert_eq!((&back["state"], &back["reason"]), (&json!("RECYCLABLE"), &json!("not needed")));
    let listed = site.get(&path("")).await;
    assert!(!listed.text.contains(second["ownerToken"].as_str().unwrap()), "no tokens: {listed:?}");
    let states: Vec<_> = listed.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["nonce"].as_u64().unwrap(), one["state"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(states, [(0, "RECYCLABLE".to_owned()), (1, "RESERVED".to_owned())]);
    let one = site.get(&path("?limit=1")).await.json();
    let rest = site.get(&path(&format!("?cursor={}", one["next"].as_str().unwrap()))).await.json();
    assert_eq!((&rest["items"][0]["nonce"], &rest["next"]), (&json!(1), &Value::Null));

    let again = reserve(&site).await;
    assert_eq!(again["nonce"], 0, "the lowest first");
    assert_ne!(again["ownerToken"], first["ownerToken"]);
    for late in [used(&site, &first, HASH).await, give_back(&site, &first).await] {
        late.refused(409, "stale_owner_token");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reservation_beyond_the_limit_is_refused_with_retry_after() {
    let site = open().await;
    for _ in 0..3 {
        reserve(&site).await;
    }
    let refused = site.post(&path(""), "").await;
    refused.refused(429, "too_many_reservations");
    assert!(refused.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reservation_where_disabled_is_refused_and_uses_no_nonce() {
    let site = Site::new().await;
    site.post(&path(""), "{}").await.refused(409, "reservations_disabled");
    site.assert_untouched().await;
    assert_eq!(site.get(&path("")).await.json(), json!({ "items": [], "next": null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_reservation_request_gets_its_code() {
    let site = open().await;
    let stranger = "/api/v1/submitters/0x2222222222222222222222222222222222222222/nonces";
    let token = "2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11";
    let used = json!({ "ownerToken": token, "txHash": HASH }).to_string();
    let used_with = |token: &str, hash: &str| json!({ "ownerToken": token, "txHash": hash });
    let back = json!({ "ownerToken": token, "reason": " " }).to_string();
    let cases = [
        (path(""), r#"{"holdSeconds": 0}"#.to_owned(), "invalid_duration"),
        (path(""), r#"{"holdSeconds": 301}"#.to_owned(), "invalid_duration"),
        (path(""), r#"{"holdSeconds": "soon"}"#.to_owned(), "invalid_number"),
        (path(""), r#"{"hold": 1}"#.to_owned(), "invalid_body"),
        (path("?surprise=1"), String::new(), "invalid_query"),
        (stranger.to_owned(), String::new(), "unknown_submitter"),
        ("/api/v1/submitters/0x1/nonces".to_owned(), String::new(), "invalid_address"),
        (path("/0/used"), used.clone(), "stale_owner_token"),
        (path("/first/used"), used, "invalid_number"),
        (path("/0/used"), used_with("me", HASH).to_string(), "invalid_field"),
        (path("/0/used"), used_with(token, "0x12").to_string(), "invalid_hex"),
        (path("/0/recyclable"), back, "missing_field"),
        (path("/0/recyclable"), "{}".to_owned(), "missing_field"),
        (path("/0/used"), "{}".to_owned(), "missing_field"),
    ];
    for (path, body, code) in cases {
        let answer = site.post(&path, body.clone()).await;
        assert_eq!(answer.code(), code, "{path} {body}: {answer:?}");
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_of_a_submitter_is_read_in_pages() {
    let site = Site::new().await;
    let of = format!("/api/v1/submitters/{SENDER}");
    for (action, why) in [("pause", "one"), ("resume", "two"), ("pause", "three")] {
        let body = json!({ "reason": why }).to_string();
        site.post(&format!("{of}/{action}"), body).await.with(200);
    }
    let first = site.get(&format!("{of}/history?limit=2")).await.json();
    let events: Vec<_> = first["items"].as_array().unwrap().iter().collect();
    assert_eq!((&events[0]["event"], &events[0]["detail"]), (&json!("paused"), &json!("one")));
    assert_eq!((&events[1]["event"], &events[1]["fencingToken"]), (&json!("resumed"), &json!(1)));
    let rest = site.get(&format!("{of}/history?after={}", first["next"])).await.json();
    assert_eq!((&rest["items"][0]["detail"], &rest["next"]), (&json!("three"), &Value::Null));
    let nobody = "/api/v1/submitters/0x2222222222222222222222222222222222222222/history";
    assert_eq!(site.get(nobody).await.code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn returned_nonce_below_an_open_transaction_is_a_hole_and_callers_nonces_are_not() {
    let site = open().await;
    let (spent, back) = (reserve(&site).await, reserve(&site).await);
    reserve(&site).await;
    used(&site, &spent, HASH).await;
    let create = json!({ "submitter": SENDER, "payload": { "to": TARGET } });
    site.post("/api/v1/tx", create.to_string()).await.with(202);
    give_back(&site, &back).await;
    let shown = site.get(&format!("/api/v1/submitters/{SENDER}")).await.json();
    assert_eq!((&shown["nextNonce"], &shown["holes"]), (&json!(4), &json!([1])));
    assert_eq!(shown["holeCount"], 1);
    let compared = site.post(&format!("/api/v1/submitters/{SENDER}/reconcile"), "{}").await.json();
    assert_eq!(compared["steps"], json!(["hole at nonce 1"]), "{compared}");
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholder_of_a_fill_is_in_the_feed_without_a_request_id_and_known_by_its_metadata() {
    let site = open().await;
    let back = reserve(&site).await;
    give_back(&site, &back).await;
    let fill = json!({ "first": 0, "last": 0, "with": "placeholder", "reason": "drill" });
    site.post(&format!("/api/v1/submitters/{SENDER}/fill"), fill.to_string()).await.with(200);
    let items = wait::until("the placeholder to be final", || async {
        site.chain.mine();
        let feed = site.get("/api/v1/tx/completions?after=0").await.json();
        feed["items"].as_array().filter(|items| !items.is_empty()).cloned()
    })
    .await;
    assert_eq!((items.len(), &items[0]["requestId"]), (1, &Value::Null), "{items:?}");
    let tx = site.get(&format!("/api/v1/tx/{}", items[0]["txId"].as_str().unwrap())).await.json();
    assert_eq!(tx["metadata"], json!({ "placeholder": 0 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn final_transaction_that_the_chain_lacks_is_no_hole_for_reads_and_reconcile() {
    let site = Site::new().await;
    let of = format!("/api/v1/submitters/{SENDER}");
    let create = json!({ "submitter": SENDER, "payload": { "to": TARGET } }).to_string();
    let first = site.post("/api/v1/tx", create.clone()).await.json();
    site.finish(first["txId"].as_str().unwrap()).await;
    site.chain.lag_counts(site.chain.height());
    site.post("/api/v1/tx", create).await;
    let shown = site.get(&of).await.json();
    // Its slot is used, whatever the endpoints count: nothing may be put there.
    assert_eq!((&shown["chainNonce"], &shown["holes"]), (&json!(0), &json!([])), "{shown}");
    let compared = site.post(&format!("{of}/reconcile"), "{}").await.json();
    assert!(!compared["steps"].to_string().contains("hole"), "{compared}");
    let fill = json!({ "first": 0, "last": 0, "with": "placeholder", "reason": "drill" });
    let filled = site.post(&format!("{of}/fill"), fill.to_string()).await.json();
    assert_eq!((&filled["handedBack"], &filled["counted"]), (&json!(0), &json!(1)), "{filled}");
}
