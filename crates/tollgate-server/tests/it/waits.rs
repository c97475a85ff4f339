//! `Prefer: wait`: answers that are held back until a transaction has come as far as its caller wants.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tollgate_testkit::wait;

use crate::site::{Answer, SENDER, Site, TARGET};

fn transfer(request_id: &str) -> Value {
    json!({ "submitter": SENDER, "requestId": request_id, "payload": { "to": TARGET } })
}

async fn create(site: &Site, request_id: &str, prefer: &str) -> Answer {
    site.post_with("/api/v1/tx", &[("prefer", prefer)], &transfer(request_id)).await
}

async fn get(site: &Site, path: &str, prefer: &str) -> Answer {
    let request = Request::get(path).header("prefer", prefer).body(Body::empty()).unwrap();
    site.call(request).await
}

/// Mines until the transaction of a request is final.
async fn finish(site: &Site, request_id: &str) {
    let path = format!("/api/v1/tx/by-request?submitter={SENDER}&requestId={request_id}");
    let created = wait::until("the create", || async {
        Some(site.get(&path).await).filter(|answer| answer.status.is_success())
    });
    let tx_id = created.await.json()["txId"].as_str().unwrap().to_owned();
    site.finish(&tx_id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_waits_is_answered_when_its_transaction_is_final() {
    let site = Site::new().await;
    let prefer = "respond-async, wait=60";
    let (created, ()) = tokio::join!(create(&site, "a", prefer), finish(&site, "a"));
    let tx = created.with(202);
    assert_eq!((&tx["state"], &tx["result"]["status"]), (&"CONFIRMED".into(), &"success".into()));
    assert_eq!(created.header("preference-applied"), Some("wait=60"));
    let location = format!("/api/v1/tx/{}", tx["txId"].as_str().unwrap());
    assert_eq!(created.header("location"), Some(&*location));

    let again = create(&site, "a", "wait=60").await;
    assert_eq!(again.with(200), tx, "the same answer as a read, and at once");
    assert_eq!(again.header("location"), None);
    assert_eq!(site.get(&location).await.json(), tx);
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_that_is_over_is_answered_with_the_state_of_then() {
    let site = Site::new().await;
    let begun = Instant::now();
    let created = create(&site, "a", "wait=1").await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(created.with(202)["state"], "TRACKING", "it was sent meanwhile");
    assert_eq!(created.header("preference-applied"), Some("wait=1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn read_that_waits_for_a_receipt_ends_before_finality() {
    let site = Site::new().await;
    let created = create(&site, "a", "wait=60, until=submitted").await.with(202);
    assert_eq!(created["state"], "TRACKING");
    let path = format!("/api/v1/tx/{}?view=operator", created["txId"].as_str().unwrap());
    let mine = async {
        wait::until("the receipt", || async {
            let state = site.get(&path).await.json()["subState"].clone();
            if state == "PENDING" {
                site.chain.mine();
            }
            (state == "MINED").then_some(())
        })
        .await;
    };
    let (read, ()) = tokio::join!(get(&site, &path, "wait=60, until=mined"), mine);
    let tx = read.with(200);
    assert_eq!((&tx["state"], &tx["subState"]), (&"TRACKING".into(), &"MINED".into()));
    assert_eq!(tx["nonce"], 0, "in the view that was asked for");
    assert_eq!(read.header("preference-applied"), Some("wait=60, until=mined"));
}

#[tokio::test(flavor = "multi_thread")]
async fn preference_that_can_not_be_applied_is_ignored() {
    let site = Site::new().await;
    let created = create(&site, "a", "wait=soon").await;
    assert_eq!((created.status.as_u16(), created.header("preference-applied")), (202, None));
    let tx_id = created.json()["txId"].as_str().unwrap().to_owned();
    for path in ["/api/v1/tx".to_owned(), format!("/api/v1/tx/{tx_id}/history")] {
        let answer = get(&site, &path, "wait=60").await;
        assert_eq!((answer.status.as_u16(), answer.header("preference-applied")), (200, None));
    }
    let simulate = "/api/v1/tx?simulate=true";
    let simulated = site.post_with(simulate, &[("prefer", "wait=60")], &transfer("b")).await;
    assert_eq!((simulated.status.as_u16(), simulated.header("preference-applied")), (200, None));
    let unknown = "/api/v1/tx/0198c0de-7a11-7000-8000-00000000cafe";
    get(&site, unknown, "wait=60").await.refused(404, "not_found");
}
