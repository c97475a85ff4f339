//! `traceparent`: from a create to the events about it, and to a collector of spans.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollgate_devchain::dev_accounts;
use tollgate_testkit::wait::{until, within};

use crate::program::{http, http_get};
use crate::site::{SENDER, Site, TARGET};
use crate::start::{Ground, chain};

const TRACEPARENT: &str = "traceparent";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn transfer(request_id: &str) -> Value {
    let payload = json!({ "to": TARGET, "value": "5" });
    json!({ "submitter": SENDER, "requestId": request_id, "payload": payload })
}

/// All events up to the end of one transaction.
async fn events_until_final(site: &Site, tx_id: &Value) -> Vec<Value> {
    site.finish(tx_id.as_str().unwrap()).await;
    let (mut items, mut after) = (Vec::new(), 0);
    let is_end = |it: &Value| it["type"] == "TxConfirmed" && it["subject"] == *tx_id;
    while !items.iter().any(is_end) {
        let page = site.get(&format!("/api/v1/events?after={after}&wait=10s")).await.with(200);
        after = page["next"].as_u64().unwrap();
        items.extend(page["items"].as_array().unwrap().clone());
    }
    items.retain(|it| it["subject"] == *tx_id);
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn events_carry_the_traceparent_of_the_first_request() {
    let site = Site::new().await;
    let create = async |trace: &str| {
        site.post_with("/api/v1/tx", &[(TRACEPARENT, trace)], &transfer("order-1")).await
    };
    let first = create(TRACE).await;
    assert_eq!(first.header("x-request-id"), Some(&TRACE[3..35]), "the caller's trace");
    let tx_id = first.with(202)["txId"].clone();
    assert_eq!(create(OTHER).await.with(200)["txId"], tx_id, "I7: the same request");
    let events = events_until_final(&site, &tx_id).await;
    assert_eq!(events.len(), 4, "{events:?}");
    for event in events {
        assert_eq!(event["traceparent"], TRACE, "{event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_no_traceparent_if_the_request_named_no_valid_one() {
    let site = Site::new().await;
    let none = site.post_with("/api/v1/tx", &[], &transfer("order-1")).await;
    let bad = [(TRACEPARENT, "00-00000000000000000000000000000000-00f067aa0ba902b7-01")];
    let bad = site.post_with("/api/v1/tx", &bad, &transfer("order-2")).await;
    let twice = [(TRACEPARENT, TRACE), (TRACEPARENT, OTHER)];
    let twice = site.post_with("/api/v1/tx", &twice, &transfer("order-3")).await;
    for created in [none, bad, twice] {
        let tx_id = created.with(202)["txId"].clone();
        for event in events_until_final(&site, &tx_id).await {
            assert!(event.get("traceparent").is_none(), "{event}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_transaction_of_a_batch_has_the_traceparent_of_the_batch() {
    let site = Site::new().await;
    let body = json!({ "items": [transfer("order-1"), transfer("order-2")] });
    let made = site.post_with("/api/v1/tx/batch", &[(TRACEPARENT, TRACE)], &body).await;
    let made = made.with(200);
    for item in made["items"].as_array().unwrap() {
        let events = events_until_final(&site, &item["tx"]["txId"]).await;
        assert!(events.iter().all(|event| event["traceparent"] == TRACE), "{events:?}");
    }
}

/// A collector of spans; its URL, and what it was sent.
async fn collector() -> (String, mpsc::UnboundedReceiver<Value>) {
    async fn take(State(keep): State<mpsc::UnboundedSender<Value>>, body: String) -> &'static str {
        let request: Value = serde_json::from_str(&body).unwrap();
        for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap() {
            keep.send(span.clone()).unwrap();
        }
        "{}"
    }
    let (keep, kept) = mpsc::unbounded_channel();
    let routes = Router::new().route("/v1/traces", post(take)).with_state(keep);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    (url, kept)
}

/// The steps of a life whose spans are looked for.
const STEPS: [&str; 7] = [
    "request",
    "transaction accepted",
    "commit batch",
    "transaction send",
    "transaction sent",
    "transaction mined",
    "transaction final",
];

#[tokio::test(flavor = "multi_thread")]
async fn collector_gets_a_span_of_every_step_below_the_request_of_the_caller() {
    let ((url, mut kept), ground, chain) = (collector().await, Ground::new(), chain().await);
    let mut serve = ground.serve(&chain.url(), &["--finality", "confirmations:2"]);
    serve.env("TOLLGATE_TRACES_OTLP_URL", &url).env("TOLLGATE_EVENTS_ENABLED", "true");
    let _node = ground.started(&mut serve).await;
    let create = json!({
        "submitter": dev_accounts()[0].address,
        "payload": { "to": dev_accounts()[1].address, "value": "1", "gas": 21_000 },
    })
    .to_string();
    let length = create.len();
    let request = format!(
        "POST /api/v1/tx HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntraceparent: {TRACE}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{create}"
    );
    until("an answer", || async { http(ground.port, &request).filter(|it| it.contains(" 202 ")) })
        .await;

    let mut spans: BTreeMap<String, Value> = BTreeMap::new();
    while !STEPS.iter().all(|step| spans.contains_key(*step)) {
        let span = within("a span", kept.recv()).await.unwrap();
        if span["traceId"] == TRACE[3..35] {
            spans.entry(span["name"].as_str().unwrap().to_owned()).or_insert(span);
        }
    }
    let request = &spans["request"];
    assert_eq!(request["parentSpanId"], TRACE[36..52], "the caller's span");
    assert_eq!(request["kind"], 2);
    for step in &STEPS[1..] {
        assert_eq!(spans[*step]["parentSpanId"], request["spanId"], "{step}");
    }
    // Receivers of events link to the same span.
    let own = format!("00-{}-{}-01", &TRACE[3..35], request["spanId"].as_str().unwrap());
    let linked = format!("\"traceparent\":\"{own}\"");
    until("an event with a link to it", async || {
        let events = http_get(ground.port, "/api/v1/events?after=0").await?;
        events.contains(&linked).then_some(())
    })
    .await;
}
