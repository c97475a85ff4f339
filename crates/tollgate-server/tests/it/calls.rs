//! Calls of callers, and their answers.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;

use crate::dev_site::{DevSite, sender, target};
use tollgate_testkit::fake_chain::Query;

use crate::site::{SENDER, Site, TARGET};

fn transfer(request_id: &str, value: &str) -> String {
    json!({
        "submitter": SENDER,
        "requestId": request_id,
        "payload": { "to": TARGET, "value": value },
        "metadata": { "order": 17 },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_goes_from_accepted_to_confirmed() {
    let site = Site::new().await;
    let created = site.post("/api/v1/tx", transfer("order-1", "0x10")).await;
    assert_eq!(created.status, StatusCode::ACCEPTED, "{created:?}");
    let tx = created.json();
    let tx_id = tx["txId"].as_str().unwrap();
    assert_eq!(tx["requestId"], "order-1");
    assert_eq!(tx["metadata"]["order"], 17);
    assert!(tx.get("nonce").is_none(), "callers do not see nonces");

    let done = site.finish(tx_id).await;
    assert_eq!(done["state"], "CONFIRMED");
    assert_eq!(done["result"]["status"], "success");
    assert!(done["txHash"].as_str().unwrap().starts_with("0x"));

    let operator = site.get(&format!("/api/v1/tx/{tx_id}?view=operator")).await.json();
    assert_eq!(operator["nonce"], 0);
    assert_eq!(operator["attempts"].as_array().unwrap().len(), 1);
    let path = format!("/api/v1/tx/by-request?submitter={SENDER}&requestId=order-1");
    assert_eq!(site.get(&path).await.json()["txId"], tx_id);
    let history = site.get(&format!("/api/v1/tx/{tx_id}/history")).await.json();
    let events: Vec<_> =
        history["items"].as_array().unwrap().iter().map(|e| e["event"].clone()).collect();
    assert_eq!(events.first().unwrap(), "created");
    assert_eq!(events.last().unwrap(), "finalised");
    let feed = site.get("/api/v1/tx/completions?after=0&wait=1s").await.json();
    assert_eq!(feed["items"][0]["txId"], tx_id);
    assert_eq!(feed["next"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_again_is_the_same_transaction_and_another_payload_is_refused() {
    let site = Site::new().await;
    let first = site.post("/api/v1/tx", transfer("order", "1")).await;
    let again = site.post("/api/v1/tx", transfer("order", "1")).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.json()["txId"], first.json()["txId"]);
    let other = site.post("/api/v1/tx", transfer("order", "2")).await;
    assert_eq!(
        (other.status, other.code().as_str()),
        (StatusCode::CONFLICT, "request_id_conflict")
    );
    let body = json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": "1" },
                       "metadata": { "order": 17 } });
    for key in ["order", "\"order\""] {
        let keyed = site.post_with("/api/v1/tx", &[("idempotency-key", key)], &body).await;
        assert_eq!(keyed.status, StatusCode::OK, "the header is the request id: {keyed:?}");
    }
    let two = [("idempotency-key", "order"), ("idempotency-key", "order")];
    site.post_with("/api/v1/tx", &two, &body).await.refused(422, "invalid_request_id");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_with_an_idempotency_key_can_be_repeated() {
    let site = Site::new().await;
    let item = |n: u32| json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": n.to_string() } });
    let mut named = item(2);
    named["requestId"] = json!("mine");
    let batch = json!({ "items": [item(1), named, item(1)] });
    let post = async |key: &str, batch: &serde_json::Value| {
        let answer = site.post_with("/api/v1/tx/batch", &[("idempotency-key", key)], batch).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.json()["items"].as_array().unwrap().clone()
    };
    let status = |items: &[serde_json::Value]| -> Vec<u64> {
        items.iter().map(|item| item["status"].as_u64().unwrap()).collect()
    };
    let first = post("salaries", &batch).await;
    assert_eq!(status(&first), [202, 202, 202], "equal items are items of their own");
    let ids = [0, 1, 2].map(|n: usize| first[n]["tx"]["requestId"].clone());
    assert_eq!(ids, ["batch:salaries:0", "mine", "batch:salaries:2"].map(|id| json!(id)));
    for key in ["salaries", "\"salaries\""] {
        let again = post(key, &batch).await;
        assert_eq!(status(&again), [200, 200, 200]);
        for (one, other) in first.iter().zip(&again) {
            assert_eq!(one["tx"]["txId"], other["tx"]["txId"]);
        }
    }
    let changed = post("salaries", &json!({ "items": [item(1), named, item(3)] })).await;
    assert_eq!(status(&changed), [200, 200, 409]);
    assert_eq!(changed[2]["error"]["code"], "request_id_conflict");
    assert_eq!(status(&post("bonuses", &batch).await), [202, 200, 202]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_idempotency_key_of_a_batch_refuses_all_of_it() {
    let site = Site::new().await;
    let item = json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": "1" } });
    let batch = json!({ "items": [item] });
    let long = "x".repeat(247);
    for headers in [
        vec![("idempotency-key", "a"), ("idempotency-key", "b")],
        vec![("idempotency-key", "\"a")],
        vec![("idempotency-key", "")],
        vec![("idempotency-key", long.as_str())],
    ] {
        let answer = site.post_with("/api/v1/tx/batch", &headers, &batch).await;
        assert_eq!(answer.code(), "invalid_request_id", "{answer:?}");
        assert_eq!(answer.json()["field"], "Idempotency-Key");
    }
    site.assert_untouched().await;
    let fits = [("idempotency-key", &long[1..])];
    let taken = site.post_with("/api/v1/tx/batch", &fits, &batch).await.json();
    assert_eq!(taken["items"][0]["status"], 202, "246 bytes fit");
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_come_back_byte_for_byte() {
    let site = Site::new().await;
    for (number, given) in [
        r#"{ "amount": 18446744073709551617, "b": 1, "a": 2 }"#,
        r#"{"rate":0.10000000000000000555,"list":[1.0, 1e2, -0]}"#,
        r#"{"same":1,"same":2}"#,
        r#""\u0041\/""#,
        "[[], {},null]",
    ]
    .into_iter()
    .enumerate()
    {
        let body = |metadata: &str| {
            let payload = json!({ "to": TARGET, "value": "1" });
            format!(
                r#"{{"submitter":"{SENDER}","requestId":"{number}","payload":{payload},"metadata":{metadata}}}"#
            )
        };
        let taken = site.post("/api/v1/tx", body(given)).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
        let wanted = format!(r#""metadata":{given}"#);
        let tx_id = taken.json()["txId"].as_str().unwrap().to_owned();
        let shown = [
            taken,
            site.get(&format!("/api/v1/tx/{tx_id}")).await,
            site.get(&format!("/api/v1/tx/{tx_id}?view=operator")).await,
            site.get("/api/v1/tx").await,
            site.get(&format!("/api/v1/tx/by-request?submitter={SENDER}&requestId={number}")).await,
            site.post("/api/v1/tx", body(given)).await,
            site.post("/api/v1/tx/batch", format!("{{\"items\":[{}]}}", body(given))).await,
        ];
        for answer in shown {
            assert!(answer.status.is_success(), "{answer:?}");
            assert!(answer.text.contains(&wanted), "{wanted} is not in {}", answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_with_other_metadata_is_a_conflict_and_with_other_white_space_is_not() {
    let site = Site::new().await;
    let post = async |metadata: &str| {
        let body = format!(
            r#"{{"submitter":"{SENDER}","requestId":"a","payload":{{"to":"{TARGET}"}},"metadata":{metadata}}}"#
        );
        site.post("/api/v1/tx", body).await
    };
    let first = post(r#"{"amount":18446744073709551617,"of":1}"#).await;
    assert_eq!(first.status, StatusCode::ACCEPTED, "{first:?}");
    let same = post(r#"{ "of": 1, "amount": 18446744073709551617 }"#).await;
    assert_eq!(same.status, StatusCode::OK, "{same:?}");
    assert!(same.text.contains(r#""metadata":{"amount":18446744073709551617,"of":1}"#));
    for other in [
        r#"{"amount":18446744073709551618,"of":1}"#,
        r#"{"amount":18446744073709551616,"of":1}"#,
        r#"{"amount":1.8446744073709552e19,"of":1}"#,
        r#"{"amount":18446744073709551617,"of":1,"of":1}"#,
    ] {
        assert_eq!(post(other).await.code(), "request_id_conflict", "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_an_accepted_request_is_answered_whatever_the_chain_says_by_then() {
    let site = Site::new().await;
    let first = site.post("/api/v1/tx", transfer("order", "1")).await.json();
    site.finish(first["txId"].as_str().unwrap()).await;
    let batch = |value: &str| format!("{{\"items\": [{}]}}", transfer("order", value));
    let faults: [fn(&Site); 2] = [
        |site| site.chain.revert_all_calls(),
        |site| site.chain.fail(Query::AccountsFeesAndCalls, true),
    ];
    for (mood, refused) in faults.into_iter().zip(["would_revert", "unavailable"]) {
        mood(&site);
        let new = site.post("/api/v1/tx", transfer("another", "1")).await;
        assert_eq!(new.code(), refused, "{new:?}");
        for path in ["/api/v1/tx", "/api/v1/tx?simulate=true"] {
            let again = site.post(path, transfer("order", "1")).await;
            assert_eq!((again.status, &again.json()["txId"]), (StatusCode::OK, &first["txId"]));
            let other = site.post(path, transfer("order", "2")).await;
            assert_eq!(other.code(), "request_id_conflict", "{path}: {other:?}");
        }
        let again = site.post("/api/v1/tx/batch", batch("1")).await.json();
        assert_eq!(
            (&again["items"][0]["status"], &again["items"][0]["tx"]["txId"]),
            (&json!(200), &first["txId"]),
            "{again}"
        );
        let other = site.post("/api/v1/tx/batch", batch("2")).await.json();
        assert_eq!(other["items"][0]["error"]["code"], "request_id_conflict", "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_each_item_and_one_bad_item_harms_no_other() {
    let site = Site::new().await;
    let good = |n: u32| json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": n.to_string() } });
    let bad = json!({ "submitter": "0x12", "payload": { "to": TARGET } });
    let body = json!({ "items": [good(1), bad, good(2), { "nonsense": true }] });
    let answer = site.post("/api/v1/tx/batch", body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let items = answer.json()["items"].clone();
    let status = |n: usize| items[n]["status"].as_u64().unwrap();
    assert_eq!((status(0), status(1), status(2), status(3)), (202, 422, 202, 422));
    assert_eq!(items[1]["error"]["code"], "invalid_address");
    assert_eq!(items[3]["error"]["code"], "invalid_body");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_of_a_batch_follow_its_order_when_estimates_do_not() {
    let site = Site::new().await;
    site.chain.delay_one_wei_calls();
    let item =
        |value: &str| json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": value } });
    let batch = json!({ "items": [item("1"), item("2")] });
    let answer = site.post("/api/v1/tx/batch", batch.to_string()).await.json();
    for (place, item) in answer["items"].as_array().unwrap().iter().enumerate() {
        let tx_id = item["tx"]["txId"].as_str().unwrap();
        let tx = site.get(&format!("/api/v1/tx/{tx_id}?view=operator")).await.json();
        assert_eq!(tx["nonce"], place, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_of_two_payloads_with_one_request_id_wins_in_a_batch() {
    let site = Site::new().await;
    site.chain.delay_one_wei_calls();
    let item = |value| serde_json::from_str(&transfer("order", value)).unwrap();
    let items: [serde_json::Value; 2] = [item("1"), item("2")];
    let answer = site.post("/api/v1/tx/batch", json!({ "items": items }).to_string()).await.json();
    let status: Vec<_> = (0..2).map(|place| answer["items"][place]["status"].clone()).collect();
    assert_eq!(status, [202, 409], "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_twice_in_a_batch_is_made_once_and_each_is_answered() {
    let site = Site::new().await;
    let item = |request: &str, value: &str| {
        let payload = json!({ "to": TARGET, "value": value });
        json!({ "submitter": SENDER, "requestId": request, "payload": payload })
    };
    let items = [item("a", "1"), item("b", "2"), item("a", "1"), item("a", "3"), item("c", "4")];
    let answer = site.post("/api/v1/tx/batch", json!({ "items": items }).to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let answers = answer.json()["items"].as_array().unwrap().clone();
    let with = |status: u64| {
        let places = (0..answers.len()).filter(|n| answers[*n]["status"] == status);
        places.collect::<Vec<_>>()
    };
    // Which of the three named "a" comes first is not promised; that there is one is.
    assert_eq!(with(202).len(), 3, "{answers:?}");
    assert!(with(202).contains(&1) && with(202).contains(&4), "the others are untouched");
    let made = answers.iter().filter(|answer| answer["tx"]["requestId"] == "a");
    let made: Vec<_> = made.map(|answer| answer["tx"]["txId"].clone()).collect();
    assert!(made.iter().all(|id| *id == made[0]), "one transaction: {answers:?}");
    assert!(!with(409).is_empty(), "the same id with another payload: {answers:?}");
    assert_eq!(with(202).len() + with(200).len() + with(409).len(), 5);
    let submitter = site.get(&format!("/api/v1/submitters/{SENDER}")).await.json();
    assert_eq!(submitter["nextNonce"], 3, "duplicates use no nonce");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_any_letter_case_is_one_submitter_with_one_line_of_nonces() {
    let site = DevSite::new().await;
    let digits = sender().split_off(2);
    let spellings =
        [sender(), format!("0x{}", digits.to_lowercase()), format!("0x{}", digits.to_uppercase())];
    for (nonce, spelling) in spellings.iter().enumerate() {
        let tx_id = site.create(json!({ "submitter": spelling })).await;
        assert_eq!(site.seen(&tx_id).await["nonce"], nonce, "{spelling}");
    }
    // A request is the same one, whoever writes down the address.
    let named = site.create(json!({ "submitter": spellings[0], "requestId": "order" })).await;
    for spelling in &spellings {
        let body = json!({ "submitter": spelling, "requestId": "order",
                           "payload": { "to": target(2), "value": "7", "gas": 30_000 } });
        let again = site.post("/api/v1/tx", body.to_string()).await;
        assert_eq!((again.status, &again.json()["txId"]), (StatusCode::OK, &json!(named)));
        let path = format!("/api/v1/tx/by-request?submitter={spelling}&requestId=order");
        assert_eq!(site.get(&path).await.json()["txId"], json!(named), "{spelling}");
        let shown = site.get(&format!("/api/v1/submitters/{spelling}")).await.json();
        assert_eq!((&shown["address"], &shown["nextNonce"]), (&json!(sender()), &json!(4)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_pages_filters_and_csv() {
    let site = Site::new().await;
    for n in 0..5 {
        site.post("/api/v1/tx", transfer(&format!("r{n}"), "1")).await;
    }
    let mut path = "/api/v1/tx?limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = site.get(&path).await.json();
        for tx in page["items"].as_array().unwrap() {
            seen.push(tx["requestId"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/tx?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["r4", "r3", "r2", "r1", "r0"], "newest first, none twice");
    let none = site.get("/api/v1/tx?state=CONFIRMED").await.json();
    assert_eq!(none["items"], json!([]));
    let request = Request::get("/api/v1/tx").header("accept", "text/csv");
    let csv = site.call(request.body(Body::empty()).unwrap()).await;
    assert_eq!(csv.text.lines().count(), 6);
    assert!(csv.text.starts_with("txId,chainId,submitter,"));
}

#[tokio::test(flavor = "multi_thread")]
async fn submitters_show_owner_cursor_and_load() {
    let site = Site::new().await;
    site.post("/api/v1/tx", transfer("r", "1")).await;
    let one = site.get(&format!("/api/v1/submitters/{SENDER}")).await.json();
    assert_eq!(one["nextNonce"], 1);
    assert_eq!(one["mode"], "pipelined");
    assert_eq!(one["status"], "ACTIVE");
    assert!(one["owner"].as_str().unwrap().starts_with("site/"));
    let all = site.get("/api/v1/submitters").await.json();
    assert_eq!(all["items"][0]["address"], one["address"]);
    let unknown = site.get(&format!("/api/v1/submitters/{TARGET}")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_and_every_answer_has_a_trace_id() {
    let site = Site::new().await;
    assert_eq!(site.get("/livez").await.status, StatusCode::OK);
    assert_eq!(site.get("/readyz").await.status, StatusCode::OK);
    let lost = site.get("/nowhere").await;
    assert_eq!((lost.status, lost.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    assert_eq!(lost.headers["content-type"], "application/problem+json");
    let id = lost.headers["x-request-id"].to_str().unwrap();
    assert_eq!(lost.json()["traceId"], id);
    let named = Request::get("/livez").header("x-request-id", "mine");
    let named = site.call(named.body(Body::empty()).unwrap()).await;
    assert_eq!(named.headers["x-request-id"], "mine");
}
