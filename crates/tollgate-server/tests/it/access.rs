//! Access control: which key may make which call, and what it sees.

mod audit;
mod events;
mod limits;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};
use tollgate_engine::ReservationLimits;
use tollgate_model::access::{
    ApiKey, KeyId, KeyScope, KeySecret, RateLimit, Rights, Role, Roles, Tenant,
};
use tollgate_model::port::ApiKeyStore as _;
use tollgate_model::port::clock::Clock;
use tollgate_model::{Text, Timestamp};
use tollgate_server::ApiOptions;
use tollgate_testkit::fake_chain::FakeChain;
use tollgate_testkit::wait;

use crate::contract::operations;
use crate::site::{Answer, SENDER, Site, TARGET};

const OTHER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

fn now() -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(1_800_000_000))
}

/// Stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        now()
    }
}

/// The key of a test, made from a number.
#[derive(Clone)]
struct TestKey {
    secret: KeySecret,
    stored: ApiKey,
}

fn key(seed: u8, roles: &str) -> TestKey {
    let secret = KeySecret::from_random(KeyId::from_random([seed; 12]), [seed; 32]);
    let stored = ApiKey {
        id: secret.id().clone(),
        name: Text::lossy("test"),
        hash: secret.hash(),
        rights: Rights { roles: Roles::parse(roles).unwrap(), ..Rights::all() },
        rate: None,
        created_at: now(),
        created_by: Text::lossy("cli"),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    TestKey { secret, stored }
}

fn of_tenant(seed: u8, roles: &str, tenant: &str) -> TestKey {
    let mut key = key(seed, roles);
    key.stored.rights.tenant = Some(Tenant::new(tenant).unwrap());
    key
}

fn scoped(seed: u8, roles: &str, chains: &str, submitters: &str, pools: &str) -> TestKey {
    let mut key = key(seed, roles);
    key.stored.rights.scope = KeyScope::parse(chains, submitters, pools).unwrap();
    key
}

/// A site that asks for keys.
struct Guarded {
    site: Site,
}

impl Guarded {
    async fn with(keys: &[&TestKey]) -> Self {
        Self::with_reservations(keys, None).await
    }

    async fn with_reservations(keys: &[&TestKey], limits: Option<ReservationLimits>) -> Self {
        let options = ApiOptions { api_keys: Some(Arc::new(Still)), ..ApiOptions::default() };
        let site = Site::with(FakeChain::new(), limits, options).await;
        for key in keys {
            site.store.put_api_key(&key.stored, None).await.unwrap();
        }
        wait::until("the first block", || async {
            site.get("/readyz").await.status.is_success().then_some(())
        })
        .await;
        Self { site }
    }

    async fn call(&self, key: &TestKey, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.with_header(Some(&format!("Bearer {}", key.secret.reveal())), method, path, body).await
    }

    async fn with_header(
        &self,
        authorization: Option<&str>,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method.parse::<Method>().unwrap()).uri(path);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.site.call(request.body(body).unwrap()).await
    }

    async fn get(&self, key: &TestKey, path: &str) -> Answer {
        self.call(key, "GET", path, None).await
    }

    async fn post(&self, key: &TestKey, path: &str, body: Value) -> Answer {
        self.call(key, "POST", path, Some(body)).await
    }
}

fn transfer(request_id: &str) -> Value {
    json!({"submitter": SENDER, "requestId": request_id, "payload": {"to": TARGET, "value": "1"}})
}

/// The table of docs/access.md: call, and the answer for each role; `None` needs no key.
fn documented_calls() -> Vec<(String, String, Option<[bool; 4]>)> {
    let page = include_str!("../../../../docs/access.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        // Rows of pages have fewer columns.
        let [call, _, _, _, _] = cells[..] else { return None };
        let (method, path) = call.trim_matches('`').split_once(' ')?;
        let allowed = match cells[1] {
            "-" => None,
            _ => Some([1, 2, 3, 4].map(|cell| cells[cell] == "yes")),
        };
        Some((method.to_owned(), path.to_owned(), allowed))
    };
    let calls = page.lines().filter(|line| line.starts_with("| `") && line.contains(" /"));
    calls.filter_map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_answered_to_the_roles_of_the_documented_table_and_to_nobody_else() {
    let calls = documented_calls();
    let mut listed: Vec<(String, String)> =
        calls.iter().map(|(method, path, _)| (method.to_lowercase(), path.clone())).collect();
    let mut served: Vec<(String, String)> =
        operations().into_iter().map(|(path, method, _)| (method.into(), path.into())).collect();
    listed.sort();
    served.sort();
    assert_eq!(listed, served, "docs/access.md lists every call once");

    let roles = Role::ALL.map(|role| key(role as u8 + 1, role.name()));
    let (mut revoked, mut expired) = (key(11, "admin"), key(12, "admin"));
    revoked.stored.revoked_at = Some(now());
    expired.stored.expires_at = Some(now());
    let unknown = key(13, "admin");
    let forged = KeySecret::from_random(roles[3].secret.id().clone(), [99; 32]);
    let all = [&roles[0], &roles[1], &roles[2], &roles[3], &revoked, &expired];
    let guarded = Guarded::with(&all).await;
    let refused = [
        None,
        Some(format!("Bearer {}", revoked.secret.reveal())),
        Some(format!("Bearer {}", expired.secret.reveal())),
        Some(format!("Bearer {}", unknown.secret.reveal())),
        Some(format!("Bearer {}", forged.reveal())),
        Some("Bearer tg_live_x".to_owned()),
        Some(format!("Basic {}", roles[3].secret.reveal())),
    ];
    for (method, path, allowed) in calls {
        let path = path
            .replace("{txId}", "0198c0de-7a11-7000-8000-00000000cafe")
            .replace("{address}", SENDER)
            .replace("{nonce}", "7")
            .replace("{name}", "payouts")
            .replace("{keyId}", "aaaaaaaaaaaa")
            .replace("{code}", "busy")
            .replace("{hash}", &format!("0x{}", "a".repeat(64)));
        let what = format!("{method} {path}");
        let body = (method != "GET").then(|| json!({}));
        for authorization in &refused {
            let answer =
                guarded.with_header(authorization.as_deref(), &method, &path, body.clone()).await;
            match allowed {
                None => assert!(answer.status.is_success(), "{what}: {answer:?}"),
                Some(_) => {
                    answer.refused(401, "unauthenticated");
                    let challenge = answer.header("www-authenticate");
                    assert_eq!(challenge, Some("Bearer realm=\"tollgate\""), "{what}");
                }
            }
        }
        for (place, key) in roles.iter().enumerate() {
            let answer = guarded.call(key, &method, &path, body.clone()).await;
            let is_allowed = allowed.is_none_or(|allowed| allowed[place]);
            let (role, status) = (Role::ALL[place].name(), answer.status.as_u16());
            match is_allowed {
                true => assert!(![401, 403].contains(&status), "{what} as {role}: {answer:?}"),
                false => {
                    answer.refused(403, "forbidden");
                    assert!(answer.text.contains("needs a key with the role"), "{what}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_path_or_method_is_answered_to_nobody_without_a_key() {
    let admin = key(1, "admin");
    let guarded = Guarded::with(&[&admin]).await;
    for (method, path) in [("GET", "/api/v1/secrets"), ("DELETE", "/api/v1/tx")] {
        guarded.with_header(None, method, path, None).await.refused(401, "unauthenticated");
    }
    guarded.get(&admin, "/api/v1/secrets").await.refused(404, "not_found");
    let answer = guarded.call(&admin, "DELETE", "/api/v1/tx", None).await;
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("POST,GET,HEAD"));
}

#[tokio::test(flavor = "multi_thread")]
async fn key_in_the_query_or_another_header_is_not_read() {
    let admin = key(1, "admin");
    let guarded = Guarded::with(&[&admin]).await;
    let secret = admin.secret.reveal();
    let path = format!("/api/v1/tx?apiKey={secret}");
    let answer = guarded.with_header(None, "GET", &path, None).await;
    answer.refused(401, "unauthenticated");
    assert!(!answer.text.contains(secret));
    let caller = format!("{} 127.0.0.1", admin.stored.id);
    for (name, value) in [("x-api-key", secret), ("tollgate-caller", &caller), ("cookie", secret)] {
        let request = Request::get("/api/v1/tx").header(name, value);
        let request = request.header("tollgate-forwarded", "1").header("tollgate-chain-id", "7");
        let answer = guarded.site.call(request.body(Body::empty()).unwrap()).await;
        answer.refused(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_use_the_same_request_id_and_never_see_each_other() {
    let (acme, other) =
        (of_tenant(1, "submit,operate", "acme"), of_tenant(2, "submit,operate", "other"));
    let staff = key(3, "submit,operate");
    let guarded = Guarded::with(&[&acme, &other, &staff]).await;
    let mut ids = Vec::new();
    for (key, tenant) in [(&acme, json!("acme")), (&other, json!("other")), (&staff, Value::Null)] {
        let made = guarded.post(key, "/api/v1/tx", transfer("order-17")).await.with(202);
        assert_eq!((&made["requestId"], &made["tenant"]), (&json!("order-17"), &tenant));
        let again = guarded.post(key, "/api/v1/tx", transfer("order-17")).await.with(200);
        assert_eq!(again["txId"], made["txId"], "a repeat is answered within the tenant");
        let by_request = format!("/api/v1/tx/by-request?submitter={SENDER}&requestId=order-17");
        assert_eq!(guarded.get(key, &by_request).await.with(200)["txId"], made["txId"]);
        ids.push(made["txId"].as_str().unwrap().to_owned());
    }
    let mut unnamed = transfer("");
    unnamed.as_object_mut().unwrap().remove("requestId");
    let unnamed = guarded.post(&acme, "/api/v1/tx", unnamed).await.with(202);
    assert!(unnamed["requestId"].is_string(), "every transaction of a tenant has a request id");
    ids.push(unnamed["txId"].as_str().unwrap().to_owned());

    for id in &ids {
        wait::until("the end", || async {
            let tx = guarded.get(&staff, &format!("/api/v1/tx/{id}")).await.with(200);
            guarded.site.chain.mine();
            (tx["state"] == "CONFIRMED").then_some(())
        })
        .await;
    }
    let own = [&ids[0], &ids[3]];
    for id in &ids {
        let is_own = own.contains(&id);
        let hash = guarded.get(&staff, &format!("/api/v1/tx/{id}")).await.json();
        let hash = hash["txHash"].as_str().unwrap().to_owned();
        for path in [
            format!("/api/v1/tx/{id}"),
            format!("/api/v1/tx/{id}?view=operator"),
            format!("/api/v1/tx/{id}/history"),
            format!("/api/v1/tx/by-hash/{hash}"),
        ] {
            let status = guarded.get(&acme, &path).await.status.as_u16();
            assert_eq!(status, if is_own { 200 } else { 404 }, "{path}");
        }
        for action in ["cancel", "speed-up", "resubmit", "resolve"] {
            let path = format!("/api/v1/tx/{id}/{action}");
            let status = guarded.post(&acme, &path, json!({})).await.status.as_u16();
            assert_eq!(status == 404, !is_own, "{path}: {status}");
        }
    }
    let items_of = |page: Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["txId"].as_str().unwrap().to_owned()).collect()
    };
    let listed = items_of(guarded.get(&acme, "/api/v1/tx").await.with(200));
    assert_eq!(listed, [ids[3].clone(), ids[0].clone()]);
    let page = guarded.get(&acme, "/api/v1/tx?limit=1").await.with(200);
    let cursor = page["next"].as_str().unwrap().to_owned();
    let page = guarded.get(&acme, &format!("/api/v1/tx?limit=1&cursor={cursor}")).await.with(200);
    assert_eq!(items_of(page), [ids[0].clone()], "what is hidden is passed over");
    let feed = guarded.get(&acme, "/api/v1/tx/completions").await.with(200);
    assert_eq!(feed["next"], 4, "the cursor passes over what is hidden");
    assert_eq!(items_of(feed).len(), 2);
    assert_eq!(items_of(guarded.get(&staff, "/api/v1/tx/completions").await.with(200)).len(), 4);
    let costs = "/api/v1/reports/costs?from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z";
    assert_eq!(guarded.get(&acme, costs).await.with(200)["items"][0]["transactions"], 2);
    assert_eq!(guarded.get(&staff, costs).await.with(200)["items"][0]["transactions"], 4);
    let csv = Request::get("/api/v1/tx").header("accept", "text/csv");
    let csv = csv.header("authorization", format!("Bearer {}", acme.secret.reveal()));
    let csv = guarded.site.call(csv.body(Body::empty()).unwrap()).await;
    assert_eq!(csv.text.lines().count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_with_a_scope_uses_and_sees_its_accounts_alone() {
    let elsewhere = scoped(1, "submit,operate,admin", "", OTHER, "");
    let other_chain = scoped(2, "submit,operate,admin", "8453", "", "");
    let here = scoped(3, "submit", "7", SENDER, "");
    let guarded = Guarded::with(&[&elsewhere, &other_chain, &here]).await;
    let made = guarded.post(&here, "/api/v1/tx", transfer("a")).await.with(202);
    let id = made["txId"].as_str().unwrap();
    for key in [&elsewhere, &other_chain] {
        let refused = guarded.post(key, "/api/v1/tx", transfer("b")).await;
        refused.refused(403, "forbidden");
        assert_eq!(refused.json()["field"], "submitter");
        let simulated = guarded.post(key, "/api/v1/tx?simulate=true", transfer("b")).await;
        simulated.refused(403, "forbidden");
        let batch = json!({"items": [transfer("c"), transfer("d")]});
        let answer = guarded.post(key, "/api/v1/tx/batch", batch).await.with(200);
        for item in answer["items"].as_array().unwrap() {
            assert_eq!(item["error"]["code"], "forbidden");
        }
        let pool = json!({"submitter": "pool:payouts", "payload": {"to": TARGET, "value": "1"}});
        guarded.post(key, "/api/v1/tx", pool).await.refused(403, "forbidden");
        guarded.get(key, &format!("/api/v1/tx/{id}")).await.refused(404, "not_found");
        let submitter = format!("/api/v1/submitters/{SENDER}");
        guarded.get(key, &submitter).await.refused(404, "not_found");
        let pause = guarded.post(key, &format!("{submitter}/pause"), json!({"reason": "x"})).await;
        pause.refused(404, "not_found");
        let list = guarded.get(key, "/api/v1/submitters").await.with(200);
        assert_eq!(list["items"], json!([]));
        guarded.get(key, "/api/v1/pools/payouts").await.refused(404, "not_found");
        let members = json!({"members": [SENDER]});
        let pool = guarded.call(key, "PUT", "/api/v1/pools/payouts", Some(members)).await;
        pool.refused(404, "not_found");
    }
    assert_eq!(guarded.get(&other_chain, "/api/v1/chains").await.with(200)["items"], json!([]));
    assert_eq!(guarded.get(&here, "/api/v1/submitters").await.with(200)["items"][0]["chainId"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_and_tokens_are_shown_to_operators_alone() {
    let (submit, operate) = (key(1, "submit"), key(2, "operate"));
    let guarded = Guarded::with(&[&submit, &operate]).await;
    let made = guarded.post(&submit, "/api/v1/tx", transfer("a")).await.with(202);
    let path = format!("/api/v1/tx/{}", made["txId"].as_str().unwrap());
    guarded.get(&submit, &format!("{path}?view=operator")).await.refused(403, "forbidden");
    guarded.get(&submit, "/api/v1/tx?view=operator").await.refused(403, "forbidden");
    assert!(guarded.get(&operate, &format!("{path}?view=operator")).await.with(200)["nonce"] == 0);
    let submitter = format!("/api/v1/submitters/{SENDER}");
    for (key, is_operator) in [(&submit, false), (&operate, true)] {
        let one = guarded.get(key, &submitter).await.with(200);
        let list = guarded.get(key, "/api/v1/submitters").await.with(200);
        for shown in [&one, &list["items"][0]] {
            for field in ["nextNonce", "fencingToken"] {
                assert_eq!(shown[field].is_number(), is_operator, "{field} of {shown}");
            }
        }
        assert!(is_operator || (one["holes"].is_null() && one["chainNonce"].is_null()));
    }
    let cancelled = guarded.post(&submit, &format!("{path}/cancel"), json!({})).await;
    assert!(cancelled.status.is_success(), "{cancelled:?}");
    for hidden in ["\"nonce\"", "fencingToken", "attempts", "lastError"] {
        assert!(!cancelled.text.contains(hidden), "{hidden} in {}", cancelled.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_stands_in_the_history_with_the_key_that_asked_for_it() {
    let operate = key(1, "operate");
    let guarded = Guarded::with(&[&operate]).await;
    let submitter = format!("/api/v1/submitters/{SENDER}");
    let pause = format!("{submitter}/pause");
    guarded.post(&operate, &pause, json!({"reason": "night"})).await.with(200);
    let history = guarded.get(&operate, &format!("{submitter}/history")).await.with(200);
    let wanted = format!("key:{} test: night", operate.stored.id);
    let is_there = |entry: &Value| entry["detail"].as_str().is_some_and(|it| it.contains(&wanted));
    assert!(history["items"].as_array().unwrap().iter().any(is_there), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_key_is_refused_within_five_seconds_and_a_new_one_is_known_at_once() {
    let (first, second) = (key(1, "read"), key(2, "read"));
    let guarded = Guarded::with(&[&first]).await;
    guarded.get(&first, "/api/v1/tx").await.with(200);
    guarded.site.store.put_api_key(&second.stored, None).await.unwrap();
    guarded.get(&second, "/api/v1/tx").await.with(200);
    let stored = guarded.site.store.api_key(&first.stored.id).await.unwrap().unwrap();
    let revoked = ApiKey { revoked_at: Some(now()), ..stored.key };
    guarded.site.store.put_api_key(&revoked, Some(stored.revision)).await.unwrap();
    let begun = Instant::now();
    wait::until("the refusal", || async {
        (guarded.get(&first, "/api/v1/tx").await.status.as_u16() == 401).then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    guarded.get(&second, "/api/v1/tx").await.with(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_beyond_its_rate_is_refused_with_the_standard_headers_and_others_are_not() {
    let (mut slow, fast) = (key(1, "read"), key(2, "read"));
    slow.stored.rate = Some(RateLimit::new(1, 2).unwrap());
    let guarded = Guarded::with(&[&slow, &fast]).await;
    let first = guarded.get(&slow, "/api/v1/tx").await;
    first.with(200);
    assert_eq!(first.header("ratelimit-policy"), Some("\"key\";q=2;w=2"));
    assert_eq!(first.header("ratelimit"), Some("\"key\";r=1;t=1"));
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(guarded.get(&slow, "/api/v1/tx").await);
    }
    let refused = answers.iter().find(|answer| answer.status.as_u16() == 429).unwrap();
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let other = guarded.get(&fast, "/api/v1/tx").await;
    assert_eq!((other.status.as_u16(), other.header("ratelimit")), (200, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn administrator_makes_lists_rotates_and_revokes_keys_within_its_own_rights() {
    let (admin, mut narrow) = (key(1, "admin"), scoped(2, "admin", "7", SENDER, ""));
    narrow.stored.expires_at = Some(now().after(Duration::from_secs(3_600)));
    let guarded = Guarded::with(&[&admin, &narrow]).await;
    let made =
        guarded.post(&admin, "/api/v1/api-keys", json!({"name": "billing", "roles": ["submit"]}));
    let made = made.await.with(201);
    let secret = KeySecret::parse(made["secret"].as_str().unwrap()).unwrap();
    let billing = TestKey { secret, stored: admin.stored.clone() };
    guarded.post(&billing, "/api/v1/tx", transfer("a")).await.with(202);
    let id = made["key"]["keyId"].as_str().unwrap();
    let listed = guarded.get(&admin, "/api/v1/api-keys").await;
    assert!(listed.text.contains(id) && !listed.text.contains(billing.secret.reveal()));
    let seen = guarded.get(&narrow, "/api/v1/api-keys").await.with(200);
    assert_eq!(seen["items"].as_array().unwrap().len(), 1, "its own alone: {seen}");
    let soon = "2027-01-15T08:30:00Z";
    for (body, allowed) in [
        (json!({"name": "x", "roles": ["read"], "expiresAt": soon}), false),
        (json!({"name": "x", "roles": ["read"], "chains": [7], "submitters": [SENDER]}), false),
        (
            json!({"name": "x", "roles": ["read"], "chains": [7], "submitters": [OTHER], "expiresAt": soon}),
            false,
        ),
        (
            json!({"name": "x", "roles": ["read"], "chains": [7], "submitters": [SENDER], "expiresAt": soon}),
            true,
        ),
    ] {
        let answer = guarded.post(&narrow, "/api/v1/api-keys", body.clone()).await;
        match allowed {
            true => assert_eq!(answer.status.as_u16(), 201, "{body}: {answer:?}"),
            false => answer.refused(403, "forbidden"),
        }
    }
    for action in ["revoke", "rotate"] {
        let path = format!("/api/v1/api-keys/{id}/{action}");
        guarded.call(&narrow, "POST", &path, None).await.refused(404, "not_found");
    }
    let path = format!("/api/v1/api-keys/{id}/rotate");
    let next = guarded.post(&admin, &path, json!({"grace": "1h"})).await.with(201);
    let secret = KeySecret::parse(next["secret"].as_str().unwrap()).unwrap();
    let next = TestKey { secret, stored: admin.stored.clone() };
    guarded.get(&next, "/api/v1/tx").await.with(200);
    guarded.get(&billing, "/api/v1/tx").await.with(200);
    let path = format!("/api/v1/api-keys/{id}/revoke");
    assert!(guarded.call(&admin, "POST", &path, None).await.with(200)["revokedAt"].is_string());
    wait::until("the refusal", || async {
        (guarded.get(&billing, "/api/v1/tx").await.status.as_u16() == 401).then_some(())
    })
    .await;
}
