//! The audit log: every call that changes something tells who asked for it, from where and why.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tollgate_engine::ReservationLimits;
use tollgate_http::{HttpClient, Limits};
use tollgate_server::{ConnectionLimits, serve};

use super::{Guarded, OTHER, TestKey, documented_calls, key, of_tenant, scoped, transfer};
use crate::contract::operations;
use crate::site::{SENDER, TARGET};

const LIMITS: ConnectionLimits = ConnectionLimits {
    max: 8,
    max_per_address: None,
    header_timeout: Duration::from_secs(60),
    body_timeout: Duration::from_secs(60),
    idle_timeout: Duration::from_secs(60),
};

/// A site that asks for keys, behind a socket: callers have an address.
struct Served {
    host: String,
    client: HttpClient,
    _guarded: Guarded,
    _stop: oneshot::Sender<()>,
}

impl Served {
    async fn with(keys: &[&TestKey]) -> Self {
        let guarded = Guarded::with_reservations(keys, Some(ReservationLimits::default())).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        tokio::spawn(serve(listener, guarded.site.0.clone(), LIMITS, stopped));
        let connect_timeout = Duration::from_secs(10);
        let limits = Limits { connect_timeout, idle_max: 1, response_bytes_max: 1 << 20 };
        let client = HttpClient::new(&limits);
        Self { host, client, _guarded: guarded, _stop: stop }
    }

    async fn call(&self, key: &TestKey, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut headers = HeaderMap::new();
        let secret = format!("Bearer {}", key.secret.reveal());
        headers.insert("authorization", secret.parse().unwrap());
        headers.insert("host", self.host.parse().unwrap());
        let body = if body.is_null() {
            Bytes::new()
        } else {
            headers.insert("content-type", "application/json".parse().unwrap());
            body.to_string().into()
        };
        let uri = format!("http://{}{path}", self.host).parse().unwrap();
        let method: Method = method.parse().unwrap();
        let answer = self.client.send(method, &uri, headers, body).await.unwrap();
        let body = serde_json::from_slice(&answer.body).unwrap_or_default();
        (answer.status, body)
    }

    async fn get(&self, key: &TestKey, path: &str) -> Value {
        let (status, body) = self.call(key, "GET", path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// A new transaction, which stays open: no block is mined.
    async fn tx(&self, key: &TestKey, request_id: &str) -> String {
        let (status, made) = self.call(key, "POST", "/api/v1/tx", &transfer(request_id)).await;
        assert_eq!(status, 202, "{made}");
        made["txId"].as_str().unwrap().to_owned()
    }
}

/// A request of a documented call that is carried out, and the subject of its entry. `None`: the call makes
/// transactions, whose own histories name their author.
struct Change {
    path: String,
    body: Value,
    subject: Option<String>,
    /// The call takes a reason, which [`REASON`] is.
    has_reason: bool,
}

const REASON: &str = "incident 7";

/// The request for a route. Every call that changes something has one here.
fn change(method: &str, route: &str, tx_id: &str, key_id: &str) -> Change {
    let owner_token = "2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11";
    let account = format!("7:{SENDER}");
    let path = route
        .replace("{txId}", tx_id)
        .replace("{address}", if method == "DELETE" { OTHER } else { SENDER })
        .replace("{nonce}", "7")
        .replace("{name}", "payouts")
        .replace("{keyId}", key_id);
    let with = |body: Value, subject: &str| {
        let mut body = body;
        let is_silent = route.ends_with("/nonces") || route.ends_with("/used");
        if !is_silent {
            body["reason"] = REASON.into();
        }
        let (path, subject) = (path.clone(), Some(subject.to_owned()));
        Change { path, body, subject, has_reason: !is_silent }
    };
    let bare = |subject: String| Change {
        path: format!("{path}?reason=incident%207"),
        body: Value::Null,
        subject: Some(subject),
        has_reason: true,
    };
    let create =
        |body: Value| Change { path: path.clone(), body, subject: None, has_reason: false };
    let action = route.rsplit('/').next().unwrap();
    match (method, route.split('/').nth(3).unwrap(), action) {
        ("POST", "tx", "tx") => create(transfer("single")),
        ("POST", "tx", "batch") => create(json!({ "items": [transfer("in a batch")] })),
        ("POST", "tx", "replace") => with(json!({ "maxFeePerGas": "60000000000" }), tx_id),
        ("POST", "tx", "cancel" | "speed-up" | "resubmit" | "resolve") => with(json!({}), tx_id),
        ("POST", "submitters", "submitters") => {
            with(json!({ "key": "caller", "address": OTHER }), &format!("7:{OTHER}"))
        }
        ("PATCH", "submitters", _) => with(json!({ "label": "payouts" }), &account),
        ("DELETE", "submitters", _) => bare(format!("7:{OTHER}")),
        ("POST", "submitters", "pause" | "resume" | "reconcile") => with(json!({}), &account),
        ("POST", "submitters", "mode") => with(json!({ "mode": "pipelined" }), &account),
        ("POST", "submitters", "fill") => {
            with(json!({ "first": 1, "last": 2, "with": "next" }), &account)
        }
        ("POST", "submitters", "advance") => with(json!({ "nextNonce": 1 }), &account),
        ("POST", "submitters", "nonces") => with(json!({}), &account),
        ("POST", "submitters", "used") => {
            let body = json!({ "ownerToken": owner_token, "txHash": format!("0x{:064}", 7) });
            with(body, &format!("{account} nonce 7"))
        }
        ("POST", "submitters", "recyclable") => {
            with(json!({ "ownerToken": owner_token }), &format!("{account} nonce 7"))
        }
        ("PUT", "pools", _) => with(json!({ "members": [SENDER] }), "7:payouts"),
        ("DELETE", "pools", _) => bare("7:payouts".to_owned()),
        ("POST", "api-keys", "api-keys") => with(json!({ "name": "x", "roles": ["read"] }), ""),
        ("POST", "api-keys", _) => with(json!({}), key_id),
        other => {
            panic!("{other:?} changes something: add a request and the entry that it must leave")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_that_changes_something_leaves_its_key_its_address_and_its_reason() {
    let (admin, ended, renewed) = (key(1, "admin"), key(2, "read"), key(3, "read"));
    let served = Served::with(&[&admin, &ended, &renewed]).await;
    let (id, author) =
        (admin.stored.id.to_string(), format!("key:{} test from 127.0.0.1", admin.stored.id));
    let mut walked = 0;
    for (method, route, _) in documented_calls() {
        if method == "GET" {
            continue;
        }
        walked += 1;
        let what = format!("{method} {route}");
        let tx_id = served.tx(&admin, &what).await;
        let of = if route.ends_with("/revoke") { &ended } else { &renewed };
        let Change { path, body, subject, has_reason } =
            change(&method, &route, &tx_id, of.stored.id.as_str());
        let (status, answer) = served.call(&admin, &method, &path, &body).await;
        assert!(![400, 401, 403, 404, 415, 422].contains(&status), "{what}: {status} {answer}");
        let Some(subject) = subject else {
            let made = if answer["txId"].is_string() { &answer } else { &answer["items"][0]["tx"] };
            let history = format!("/api/v1/tx/{}/history", made["txId"].as_str().unwrap());
            let first = served.get(&admin, &history).await["items"][0].clone();
            assert_eq!(
                (&first["event"], &first["detail"]),
                (&"created".into(), &author.clone().into()),
                "{what}"
            );
            continue;
        };
        let entry = served.get(&admin, "/api/v1/audit?limit=1").await["items"][0].clone();
        let operation = operations()
            .into_iter()
            .find(|(path, verb, _)| *path == route && verb.to_uppercase() == method);
        let (_, _, operation) = operation.unwrap();
        assert_eq!(entry["action"], operation["operationId"], "{what}: {entry}");
        assert_eq!((&entry["keyId"], &entry["author"]), (&json!(id), &json!("test")), "{what}");
        assert_eq!(entry["address"], "127.0.0.1", "{what}: {entry}");
        assert!(
            entry["subject"].as_str().unwrap().eq_ignore_ascii_case(&subject) || subject.is_empty(),
            "{what}: {entry}"
        );
        assert_eq!(entry["reason"], if has_reason { json!(REASON) } else { Value::Null }, "{what}");
    }
    assert!(walked > 20, "{walked} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_is_read_in_pages_and_an_administrator_with_a_tenant_sees_its_own_keys_alone() {
    let (admin, acme) = (key(1, "admin"), of_tenant(2, "admin", "acme"));
    let (agent, elsewhere) = (of_tenant(3, "operate", "acme"), of_tenant(4, "operate", "other"));
    let narrow = scoped(5, "admin", "", OTHER, "");
    let guarded = Guarded::with(&[&admin, &acme, &agent, &elsewhere, &narrow]).await;
    let pause = format!("/api/v1/submitters/{SENDER}/pause");
    for (key, reason) in [(&admin, "first"), (&agent, "second"), (&elsewhere, "third")] {
        guarded.post(key, &pause, json!({ "reason": reason })).await.with(200);
    }
    let reasons = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["reason"].as_str().unwrap().to_owned()).collect()
    };
    let page = guarded.get(&admin, "/api/v1/audit?limit=2").await.with(200);
    assert_eq!(reasons(&page), ["third", "second"], "newest first");
    let next = page["next"].as_str().unwrap();
    let page = guarded.get(&admin, &format!("/api/v1/audit?limit=2&cursor={next}")).await.with(200);
    assert_eq!((reasons(&page), &page["next"]), (vec!["first".to_owned()], &Value::Null));
    let page = guarded.get(&acme, "/api/v1/audit").await.with(200);
    assert_eq!(reasons(&page), ["second"], "of the tenant's keys: {page}");
    let page = guarded.get(&narrow, "/api/v1/audit").await.with(200);
    assert_eq!(page["items"], json!([]), "keys for all accounts are out of its sight");
    guarded.get(&agent, "/api/v1/audit").await.refused(403, "forbidden");
    guarded.get(&admin, "/api/v1/audit?cursor=x").await.refused(422, "invalid_cursor");
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_of_other_tenants_are_hidden_in_the_history_of_a_shared_account() {
    let (acme, other) = (of_tenant(1, "operate", "acme"), of_tenant(2, "operate", "other"));
    let staff = key(3, "operate");
    let guarded = Guarded::with(&[&acme, &other, &staff]).await;
    let submitter = format!("/api/v1/submitters/{SENDER}");
    for (key, action, reason) in [
        (&acme, "pause", "mine"),
        (&acme, "resume", "mine again"),
        (&other, "pause", "customer Miller"),
        (&other, "resume", "refund to Miller"),
        (&staff, "pause", "salary run"),
    ] {
        let body = json!({ "reason": reason });
        guarded.post(key, &format!("{submitter}/{action}"), body).await.with(200);
    }
    let history = format!("{submitter}/history");
    let seen = guarded.get(&acme, &history).await;
    let details: Vec<bool> = seen.with(200)["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["detail"].is_string())
        .collect();
    assert_eq!(details, [true, true, false, false, false], "{}", seen.text);
    assert!(seen.text.contains("mine again"), "{}", seen.text);
    let shown = guarded.get(&acme, &submitter).await;
    assert_eq!(shown.with(200)["statusReason"], Value::Null, "the reason of the pause is staff's");
    for text in [&seen.text, &shown.text] {
        assert!(!text.contains("Miller") && !text.contains("salary"), "{text}");
    }
    let all = guarded.get(&staff, &history).await;
    assert!(all.text.contains("customer Miller") && all.text.contains("mine"), "{}", all.text);
    let shown = guarded.get(&staff, &submitter).await.with(200);
    assert!(shown["statusReason"].as_str().unwrap().contains("salary run"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reason_of_a_change_without_a_history_is_kept_and_a_bad_one_refused() {
    let admin = key(1, "admin");
    let guarded = Guarded::with(&[&admin]).await;
    let reconcile = format!("/api/v1/submitters/{SENDER}/reconcile");
    let long = "x".repeat(501);
    guarded.post(&admin, &reconcile, json!({ "reason": long })).await.refused(422, "invalid_field");
    let pool = format!("/api/v1/pools/payouts?reason={long}");
    guarded.call(&admin, "DELETE", &pool, None).await.refused(422, "invalid_field");
    let page = guarded.get(&admin, "/api/v1/audit").await.with(200);
    assert_eq!(page["items"], json!([]), "nothing was asked for");
    guarded.post(&admin, &reconcile, json!({ "reason": "a doubt" })).await.with(200);
    let page = guarded.get(&admin, "/api/v1/audit").await.with(200);
    assert_eq!(page["items"][0]["reason"], "a doubt");
    let to = json!({ "to": TARGET });
    let create = json!({ "submitter": SENDER, "payload": to });
    guarded.post(&admin, "/api/v1/tx", create).await.with(202);
    let page = guarded.get(&admin, "/api/v1/audit").await.with(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "a create costs no row of its own");
}
