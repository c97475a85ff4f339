//! Bad input gets a clear error with a stable code; never a 5xx, a row or a nonce.

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use serde_json::{Value, json};

use crate::site::{SENDER, Site, TARGET};

fn with(change: impl FnOnce(&mut Value)) -> String {
    let mut body = json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": "1" } });
    change(&mut body);
    body.to_string()
}

/// A body and the code that it gets.
fn bad_bodies() -> Vec<(String, &'static str)> {
    let set = |key: &'static str, value: Value| with(move |body| body[key] = value);
    let pay = |key: &'static str, value: Value| with(move |body| body["payload"][key] = value);
    let bad_checksum = "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    vec![
        (String::new(), "invalid_json"),
        ("{".into(), "invalid_json"),
        ("nonsense".into(), "invalid_json"),
        ("[]".into(), "invalid_body"),
        ("null".into(), "invalid_body"),
        ("[".repeat(100_000), "invalid_json"),
        (r#"{"submitter":"a","submitter":"b"}"#.into(), "invalid_body"),
        ("{}".into(), "missing_field"),
        (set("surprise", json!(1)), "invalid_body"),
        (pay("surprise", json!(1)), "invalid_body"),
        (set("submitter", json!(5)), "invalid_body"),
        (set("submitter", json!("0x12")), "invalid_address"),
        (set("submitter", json!(bad_checksum)), "invalid_address"),
        (set("submitter", json!(TARGET)), "unknown_submitter"),
        (set("payload", json!("0x")), "invalid_body"),
        (set("payload", json!([])), "invalid_body"),
        (pay("to", json!(["0x"])), "invalid_body"),
        (pay("to", json!("nobody")), "invalid_address"),
        (pay("to", json!(bad_checksum)), "invalid_address"),
        (pay("to", Value::Null), "missing_field"),
        (pay("value", json!("-1")), "invalid_number"),
        (pay("value", json!(-1)), "invalid_number"),
        (pay("value", json!(1.5)), "invalid_number"),
        (pay("value", json!("1.5")), "invalid_number"),
        (pay("value", json!("0x")), "invalid_number"),
        (pay("value", json!("0xzz")), "invalid_number"),
        (pay("value", json!("1".repeat(90))), "invalid_number"),
        (with(|body| body["payload"]["value"] = json!(1)).replace(":1", ":1e3"), "invalid_number"),
        (
            with(|body| body["payload"]["value"] = json!(1))
                .replace(":1", &format!(":{}", "1".repeat(90))),
            "invalid_number",
        ),
        (pay("value", json!("1\u{0}")), "invalid_number"),
        (pay("value", json!(true)), "invalid_body"),
        (pay("data", json!("12")), "invalid_hex"),
        (pay("data", json!("0x123")), "invalid_hex"),
        (pay("data", json!("0xgg")), "invalid_hex"),
        (pay("data", json!(format!("0x{}", "00".repeat(200_000)))), "invalid_field"),
        (pay("data", json!("0x\u{0}0")), "invalid_hex"),
        (pay("accessList", json!([{ "address": "0x1", "storageKeys": [] }])), "invalid_address"),
        (pay("accessList", json!([{ "address": TARGET, "storageKeys": ["0x1"] }])), "invalid_hex"),
        (pay("accessList", json!([{ "address": TARGET, "storageKeys": [1] }])), "invalid_body"),
        (pay("accessList", json!([{ "address": TARGET }])), "missing_field"),
        (pay("accessList", json!([[TARGET, []]])), "invalid_body"),
        (set("payload", json!([TARGET, "1"])), "invalid_body"),
        (json!([7, SENDER, "id", { "to": TARGET, "value": "1" }]).to_string(), "invalid_body"),
        (set("metadata", json!(1)).replace("a\":1", "a\":\"\\ud800\""), "invalid_body"),
        (set("metadata", json!(1)).replace("a\":1", "a\":1e999"), "invalid_body"),
        (pay("accessList", json!("0x")), "invalid_body"),
        (
            with(|body| {
                body["payload"]["type"] = json!("legacy");
                body["payload"]["accessList"] = json!([{ "address": TARGET, "storageKeys": [] }]);
            }),
            "invalid_field",
        ),
        (pay("maxPriorityFeePerGas", json!("-1")), "invalid_number"),
        (pay("gas", json!(0)), "invalid_number"),
        (pay("gas", json!("18446744073709551615")), "invalid_number"),
        (pay("gas", json!("99999999999999999999")), "invalid_number"),
        (pay("type", json!("blob")), "invalid_body"),
        (set("chainId", json!(8)), "wrong_chain"),
        (set("chainId", json!(0)), "wrong_chain"),
        (set("chainId", json!(-7)), "invalid_number"),
        (set("chainId", json!("seven")), "invalid_number"),
        (set("chainId", json!("0x8")), "wrong_chain"),
        (set("speed", json!("warp")), "invalid_body"),
        (set("requestId", json!(17)), "invalid_body"),
        (set("requestId", json!("")), "invalid_request_id"),
        (set("requestId", json!("   ")), "invalid_request_id"),
        (set("requestId", json!("a\u{0}b")), "invalid_request_id"),
        (set("requestId", json!("x".repeat(10_000))), "invalid_request_id"),
        (set("validUntil", json!("tomorrow")), "invalid_time"),
        (set("validUntil", json!(1_900_000_000)), "invalid_body"),
        (set("replaceable", json!("yes")), "invalid_body"),
        (set("metadata", json!("x".repeat(20_000))), "metadata_too_large"),
        (set("metadata", json!({ "a": "\u{0}" })), "invalid_body"),
        (set("maxFeePerGas", json!("9223372036854775808")), "invalid_number"),
        (set("rawTx", json!("0x02")), "invalid_raw_tx"),
        (json!({ "rawTx": "0x02" }).to_string(), "invalid_raw_tx"),
        (json!({ "rawTx": "0x03c0" }).to_string(), "invalid_raw_tx"),
        (json!({ "rawTx": "02f8" }).to_string(), "invalid_hex"),
        (json!({ "rawTx": 5 }).to_string(), "invalid_body"),
        (json!({ "rawTx": "0x", "speed": "fast" }).to_string(), "invalid_raw_tx"),
        (
            with(|body| {
                body["maxFeePerGas"] = json!("1");
                body["payload"]["maxPriorityFeePerGas"] = json!("2");
            }),
            "invalid_fees",
        ),
        (
            with(|body| {
                body["payload"]["type"] = json!("legacy");
                body["payload"]["maxPriorityFeePerGas"] = json!("2");
            }),
            "invalid_fees",
        ),
    ]
}

/// Words of the libraries that read bodies, which mean nothing to callers.
const RUST_WORDS: [&str; 8] =
    ["untagged", "variant", "struct", "invalid type", "u64", "sequence", "map", "column"];

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_body_gets_its_code_with_the_field_and_leaves_nothing() {
    let site = Site::new().await;
    for (body, code) in bad_bodies() {
        let short: String = body.chars().take(200).collect();
        let simulated = site.post("/api/v1/tx?simulate=true", body.clone()).await;
        let answer = site.post("/api/v1/tx", body).await;
        for answer in [&simulated, &answer] {
            assert!(answer.status.is_client_error(), "{short}: {answer:?}");
            assert_eq!(answer.code(), code, "{short}: {}", answer.text);
        }
        let problem = answer.json();
        assert_eq!(problem["type"], format!("/docs/errors/{code}"));
        let page = site.get(problem["type"].as_str().unwrap()).await;
        assert!(page.text.starts_with(&format!("# {code}")), "{page:?}");
        assert_eq!(problem["traceId"].as_str(), answer.header("x-request-id"));
        let detail = problem["detail"].as_str().unwrap();
        if code == "invalid_json" || detail.starts_with("the body is") {
            continue;
        }
        assert!(!RUST_WORDS.iter().any(|word| detail.contains(word)), "{detail}");
        let field = problem["field"].as_str().unwrap_or_else(|| panic!("{problem}"));
        assert!(detail.contains(field), "{field}: {detail}");
    }
    let not_utf8 = site.post("/api/v1/tx", vec![b'{', b'"', 0xff, b'"']).await;
    assert_eq!(not_utf8.code(), "invalid_json");
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn array_is_never_taken_for_an_object() {
    let site = Site::new().await;
    let tx = "/api/v1/tx/0198c0de-7a11-7000-8000-00000000cafe";
    let of = format!("/api/v1/submitters/{SENDER}");
    for path in [
        "/api/v1/tx".to_owned(),
        "/api/v1/tx/batch".to_owned(),
        format!("{tx}/cancel"),
        format!("{tx}/speed-up"),
        format!("{tx}/resubmit"),
        format!("{tx}/replace"),
        format!("{tx}/resolve"),
        format!("{of}/pause"),
        format!("{of}/resume"),
        format!("{of}/reconcile"),
        format!("{of}/mode"),
        format!("{of}/fill"),
        format!("{of}/advance"),
        format!("{of}/nonces"),
        format!("{of}/nonces/7/used"),
        format!("{of}/nonces/7/recyclable"),
    ] {
        for body in
            [json!(["evil"]), json!([]), json!(["2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11", "x"])]
        {
            let answer = site.post(&path, body.to_string()).await;
            assert_eq!(answer.code(), "invalid_body", "{path}: {answer:?}");
        }
    }
    assert_eq!(site.get(&of).await.json()["status"], "ACTIVE");
    let item = json!([7, SENDER, "id", { "to": TARGET, "value": "1" }]);
    let batch = site.post("/api/v1/tx/batch", json!({ "items": [item] }).to_string()).await.json();
    assert_eq!(batch["items"][0]["error"]["code"], "invalid_body");
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_key_in_the_place_of_an_address_is_not_repeated() {
    let site = Site::new().await;
    let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    for body in [
        with(|body| body["submitter"] = json!(format!("0x{key}"))),
        with(|body| body["payload"]["to"] = json!(key)),
        with(|body| body["payload"]["value"] = json!(format!("0x{key}{key}"))),
        with(|body| body["speed"] = json!(key)),
        with(|body| body[key] = json!(1)),
    ] {
        let answer = site.post("/api/v1/tx", body).await;
        assert_eq!(answer.status.as_u16(), 422);
        assert!(!answer.text.contains(&key[..20]), "{}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_of_a_batch_gets_the_code_that_it_would_get_alone() {
    let site = Site::new().await;
    let bad: Vec<(String, &str)> = bad_bodies()
        .into_iter()
        .filter(|(body, _)| serde_json::from_str::<Value>(body).is_ok())
        .collect();
    let items: Vec<&str> = bad.iter().map(|(body, _)| body.as_str()).collect();
    let batch = format!(r#"{{"items":[{}]}}"#, items.join(","));
    let answer = site.post("/api/v1/tx/batch", batch).await.json();
    for ((body, code), item) in bad.iter().zip(answer["items"].as_array().unwrap()) {
        assert_eq!(item["error"]["code"], *code, "{body}: {item}");
        assert_eq!(item["status"], item["error"]["status"], "{body}");
    }
    assert_eq!(answer["items"].as_array().unwrap().len(), bad.len());
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_batch_is_refused_as_a_whole() {
    let site = Site::new().await;
    let items = |count: usize| json!({ "items": vec![json!({}); count] }).to_string();
    for (body, code) in [
        (items(0), "invalid_batch"),
        (items(1_001), "invalid_batch"),
        (json!({ "items": {} }).to_string(), "invalid_body"),
        (json!({}).to_string(), "missing_field"),
        (json!({ "items": [], "more": 1 }).to_string(), "invalid_body"),
        (json!([]).to_string(), "invalid_body"),
        ("{\"items\":[".to_owned(), "invalid_json"),
    ] {
        let answer = site.post("/api/v1/tx/batch", body).await;
        assert_eq!(answer.code(), code, "{answer:?}");
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_idempotency_key_is_a_bad_request_id() {
    let site = Site::new().await;
    let long = "x".repeat(10_000);
    let named = with(|body| body["requestId"] = json!("mine"));
    for (key, body, code) in [
        (b"".as_slice(), with(|_| ()), "invalid_request_id"),
        (b"   ", with(|_| ()), "invalid_request_id"),
        (b"\xff\xfe", with(|_| ()), "invalid_request_id"),
        (long.as_bytes(), with(|_| ()), "invalid_request_id"),
        (b"yours", named, "request_id_mismatch"),
    ] {
        let key = HeaderValue::from_bytes(key).unwrap();
        let request = Request::post("/api/v1/tx").header("content-type", "application/json");
        let request = request.header("idempotency-key", key);
        site.call(request.body(Body::from(body)).unwrap()).await.refused(422, code);
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_ten_megabytes_is_not_read() {
    let site = Site::new().await;
    let answer = site.post("/api/v1/tx", vec![b'x'; 10 * 1024 * 1024]).await;
    assert_eq!(answer.status.as_u16(), 413);
    assert_eq!(answer.code(), "body_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_body_is_refused_and_identity_is_not() {
    let site = Site::new().await;
    let body: Value = serde_json::from_str(&with(|_| ())).unwrap();
    for encoding in ["gzip", "br", "", "identity, gzip"] {
        let answer = site.post_with("/api/v1/tx", &[("content-encoding", encoding)], &body).await;
        let told = (answer.status.as_u16(), answer.code());
        assert_eq!(told, (415, "unsupported_media_type".to_owned()), "{encoding:?}");
        assert_eq!(answer.json()["field"], "Content-Encoding");
    }
    site.assert_untouched().await;
    site.post_with("/api/v1/tx", &[("content-encoding", "Identity")], &body).await.with(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_beyond_a_limit_is_refused_with_the_limit() {
    let site = Site::new().await;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let create =
        |metadata: &str| with(|body| body["metadata"] = json!("*")).replace("\"*\"", metadata);
    for (metadata, word) in [
        (nested(101), "100 levels"),
        (nested(200), "100 levels"),
        ("1e309".to_owned(), "1.8e308"),
        ("[-1e400]".to_owned(), "1.8e308"),
        (format!("\"{}\"", "x".repeat(16_383)), "16384"),
    ] {
        let problem = site.post("/api/v1/tx", create(&metadata)).await.json();
        assert_eq!(problem["field"], "metadata", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    site.assert_untouched().await;
    for metadata in [nested(100), "1e308".to_owned(), "9".repeat(400)] {
        let taken = site.post("/api/v1/tx", create(&metadata)).await;
        if metadata.starts_with('9') {
            // A whole number of 400 digits is beyond what most readers hold as well.
            assert_eq!(taken.code(), "invalid_body", "{taken:?}");
        } else {
            assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_parameter_is_refused_with_those_that_are_known() {
    let site = Site::new().await;
    let problem = site.get("/api/v1/submitters?page=2").await.json();
    assert_eq!((&problem["code"], &problem["field"]), (&json!("invalid_query"), &json!("page")));
    assert_eq!(problem["detail"], "page: is not a parameter here; known are limit, cursor");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_query_gets_its_code() {
    let site = Site::new().await;
    for (path, code) in [
        ("/api/v1/tx?limit=0", "invalid_limit"),
        ("/api/v1/tx?limit=-1", "invalid_number"),
        ("/api/v1/tx?limit=9223372036854775808", "invalid_limit"),
        ("/api/v1/tx?limit=99999999999999999999", "invalid_number"),
        ("/api/v1/tx?limit=1&limit=2", "invalid_query"),
        ("/api/v1/tx?limit=1.5", "invalid_number"),
        ("/api/v1/tx?limit=", "invalid_number"),
        ("/api/v1/tx?limit=1001", "invalid_limit"),
        ("/api/v1/tx?cursor=tampered", "invalid_cursor"),
        ("/api/v1/tx?cursor=%00", "invalid_cursor"),
        ("/api/v1/tx?cursor=0198c0de-7a11-7000-8000-00000000cafe0", "invalid_cursor"),
        ("/api/v1/tx?state=DONE", "invalid_state"),
        ("/api/v1/tx?from=yesterday", "invalid_time"),
        ("/api/v1/tx?surprise=1", "invalid_query"),
        ("/api/v1/tx?submitter=0x1", "invalid_address"),
        ("/api/v1/tx?chainId=8", "wrong_chain"),
        ("/api/v1/tx/not-an-id", "invalid_tx_id"),
        ("/api/v1/tx/%00", "invalid_tx_id"),
        ("/api/v1/tx/%ff", "invalid_path"),
        ("/api/v1/tx/%ff/history", "invalid_path"),
        ("/api/v1/tx/0198c0de-7a11-7000-8000-00000000cafe?view=god", "invalid_query"),
        ("/api/v1/tx/0198c0de-7a11-7000-8000-00000000cafe/history?after=-1", "invalid_cursor"),
        ("/api/v1/tx/0198c0de-7a11-7000-8000-00000000cafe/history", "not_found"),
        ("/api/v1/tx/by-request?requestId=a", "missing_field"),
        (
            "/api/v1/tx/by-request?submitter=0x0101010101010101010101010101010101010101&requestId=%00",
            "invalid_request_id",
        ),
        (
            "/api/v1/tx/by-request?submitter=0x0101010101010101010101010101010101010101&requestId=+",
            "invalid_request_id",
        ),
        ("/api/v1/tx/00000000-0000-0000-0000-000000000000", "not_found"),
        (
            "/api/v1/tx/by-request?submitter=0x0101010101010101010101010101010101010101",
            "missing_field",
        ),
        ("/api/v1/tx/completions?after=-1", "invalid_cursor"),
        ("/api/v1/tx/completions?after=x", "invalid_cursor"),
        ("/api/v1/tx/completions?after=18446744073709551615", "invalid_cursor"),
        ("/api/v1/tx/completions?wait=61s", "invalid_duration"),
        ("/api/v1/tx/completions?wait=soon", "invalid_duration"),
        ("/api/v1/tx/completions?wait=18446744073709551615m", "invalid_duration"),
        ("/api/v1/submitters/0x1", "invalid_address"),
        ("/api/v1/submitters/%ff", "invalid_path"),
        ("/api/v1/submitters/0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "invalid_address"),
        ("/docs/errors/%ff", "invalid_path"),
        ("/api/v1/submitters?cursor=zz", "invalid_cursor"),
        (
            "/api/v1/tx/0198c0de-7a11-7000-8000-00000000cafe/history?after=4294967296",
            "invalid_cursor",
        ),
        (
            "/api/v1/submitters/0x0101010101010101010101010101010101010101/nonces?cursor=-1",
            "invalid_cursor",
        ),
        (
            "/api/v1/submitters/0x0101010101010101010101010101010101010101/history?after=last",
            "invalid_cursor",
        ),
    ] {
        let answer = site.get(path).await;
        assert!(answer.status.is_client_error(), "{path}: {answer:?}");
        assert_eq!(answer.code(), code, "{path}: {}", answer.text);
        assert!(answer.json()["field"].is_string(), "{path}: {}", answer.text);
    }
}
