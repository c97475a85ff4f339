//! The pages, in a real browser and as plain requests.

mod browser;
mod docs;
mod guard;
mod layout;
mod notes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tollgate_model::access::{ApiKey, KeyId, KeySecret, Rights, Role, Roles, Tenant};
use tollgate_model::port::ApiKeyStore;
use tollgate_model::port::clock::Clock;
use tollgate_model::{Text, Timestamp};
use tollgate_server::ApiOptions;
use tollgate_testkit::clock::TestClock;
use tollgate_testkit::fake_chain::FakeChain;
use tollgate_testkit::http::request;
use tollgate_testkit::{rpc, wait};
use tower::ServiceExt;

use crate::dev::Dev;
use crate::site::{SENDER, Site, TARGET};
use browser::Browser;

/// Calls the API of a node.
async fn api(dev: &Dev, method: &str, path: &str, body: &Value) -> Value {
    let host = dev.url.strip_prefix("http://").unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = request(host, method, path, &body).await.unwrap();
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{path}: {}", answer.body))
}

async fn first_account(dev: &Dev) -> (u64, String) {
    wait::until("a chain", || async {
        let ready = api(dev, "GET", "/readyz", &Value::Null).await;
        (ready["status"] == "ready").then_some(())
    })
    .await;
    let found = api(dev, "GET", "/api/v1/submitters", &Value::Null).await;
    let first = &found["items"][0];
    (first["chainId"].as_u64().unwrap(), first["address"].as_str().unwrap().to_owned())
}

async fn create(dev: &Dev, of: &str, more: Value) -> String {
    let mut body =
        json!({ "submitter": of, "payload": { "to": TARGET, "value": "7", "gas": 30_000 } });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = api(dev, "POST", "/api/v1/tx", &body).await;
    made["txId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn cell_of_a_new_tx_becomes_confirmed_without_a_reload() {
    let dev = Dev::start().await;
    let (chain, account) = first_account(&dev).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/submitters/{chain}/{account}", dev.url)).await;
    browser
        .until("the page to listen", "return document.querySelector('.pulse.on') !== null")
        .await;
    browser.run("window.isTheSamePage = true; return true").await;
    let tx_id = create(&dev, &account, json!({})).await;
    let cell = format!(
        "const cell = document.querySelector('.ladder a[href=\"/tx/{tx_id}\"]'); \
         return cell !== null && cell.classList.contains('confirmed') && window.isTheSamePage === true"
    );
    browser.until("the cell to be confirmed", &cell).await;
    browser.open(&format!("{}/tx/{tx_id}", dev.url)).await;
    let text = browser.text().await;
    assert!(text.contains("Executed, and final.") && text.contains("CONFIRMED"), "{text}");
    assert_eq!(browser.complaints().await, [""; 0], "the policy lets the pages do what they do");
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_head_is_cancelled_by_a_button_and_the_reason_is_in_its_history() {
    let dev = Dev::start().await;
    let (chain, account) = first_account(&dev).await;
    rpc::call(&dev.rpc_url, "devchain_pauseMining", json!([])).await;
    let tx_id = create(&dev, &account, json!({})).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/submitters/{chain}/{account}", dev.url)).await;
    let head =
        format!("return document.querySelector('.ladder a.head[href=\"/tx/{tx_id}\"]') !== null");
    browser.until("the head of the line to be marked", &head).await;
    browser.open(&format!("{}/tx/{tx_id}", dev.url)).await;
    let sent = "return document.querySelector('[data-state]').textContent === 'TRACKING/PENDING'";
    browser.until("it to be sent", sent).await;
    let why = browser.text().await;
    assert!(why.contains("A node has it; no block includes it yet."), "{why}");
    browser.click(&format!("a[href='/tx/{tx_id}/cancel']")).await;
    let asked = browser.text().await;
    assert!(asked.contains(&format!("tollgate tx cancel {tx_id} --reason <REASON>")), "{asked}");
    browser.write("input[name=reason]", "wrong receiver <b>").await;
    browser.click(".dialog button.grave").await;
    browser.until("the page of the tx", "return document.querySelector('.done') !== null").await;
    rpc::call(&dev.rpc_url, "devchain_resumeMining", json!([])).await;
    let over =
        "return document.querySelector('[data-state]').textContent === 'FAILED_FINAL/CANCELLED'";
    browser.until("the cancellation to be final, without a reload", over).await;
    let told = browser.run("return document.querySelector('#history').innerText").await;
    assert!(told.as_str().unwrap().contains("wrong receiver <b>"), "{told}");
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_of_callers_and_contracts_is_shown_as_text() {
    let dev = Dev::start().await;
    let (_, account) = first_account(&dev).await;
    let markup = "<script>window.isHurt = 1</script><img src=x onerror='window.isHurt=1'>\"'";
    let revert = json!([TARGET, "revert", markup]);
    rpc::call(&dev.rpc_url, "devchain_setBehaviour", revert).await;
    let more = json!({ "requestId": markup, "metadata": { markup: markup } });
    let tx_id = create(&dev, &account, more).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/tx/{tx_id}", dev.url)).await;
    let over =
        "return document.querySelector('[data-state]').textContent === 'FAILED_FINAL/REVERTED'";
    browser.until("the revert to be final", over).await;
    let reason = "return document.querySelector('#facts').innerText.includes('onerror=')";
    browser.until("the revert reason", reason).await;
    for path in [format!("/tx/{tx_id}"), "/tx".to_owned(), "/search?q=%3Cscript%3E".to_owned()] {
        browser.open(&format!("{}{path}", dev.url)).await;
        let is_hurt = browser.run("return window.isHurt === 1").await;
        assert_eq!(is_hurt, false, "{path}");
        assert_eq!(browser.complaints().await, [""; 0], "{path}: nothing was even tried");
    }
    let text = browser.text().await;
    assert!(text.contains("<script>"), "{text}");
}

// --- as plain requests ------------------------------------------------------

/// A page as a browser without scripts reads it.
struct Read {
    status: StatusCode,
    head: Response<()>,
    text: String,
}

async fn read(router: &Router, request: Request<Body>) -> Read {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Read { status: parts.status, head: Response::from_parts(parts, ()), text }
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost:8550").body(Body::empty()).unwrap()
}

fn form(path: &str, fields: &str) -> Request<Body> {
    let form = "application/x-www-form-urlencoded";
    let request = Request::post(path).header("host", "localhost:8550").header("content-type", form);
    request.header("origin", "http://localhost:8550").body(Body::from(fields.to_owned())).unwrap()
}

fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form with a token");
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_a_strict_policy_and_needs_nothing_from_elsewhere() {
    let site = Site::new().await;
    let made = site.post(
        "/api/v1/tx",
        json!({ "submitter": SENDER, "payload": { "to": TARGET } }).to_string(),
    );
    let tx_id = made.await.with(202)["txId"].as_str().unwrap().to_owned();
    for path in [
        "/".to_owned(),
        "/tx".to_owned(),
        "/submitters".to_owned(),
        format!("/submitters/7/{SENDER}"),
        format!("/submitters/7/{SENDER}/pause"),
        format!("/tx/{tx_id}"),
        format!("/tx/{tx_id}/cancel"),
        "/search?q=nothing".to_owned(),
        "/docs".to_owned(),
    ] {
        let page = read(&site.0, get(&path)).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        let headers = page.head.headers();
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}: {policy}");
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        for bad in
            [" style=", "<style", " onclick=", "src=\"http", "href=\"http", "src=\"//", "href=\"//"]
        {
            assert!(!page.text.contains(bad), "{path}: {bad}");
        }
        for asset in page.text.split('"').filter(|text| text.starts_with("/assets/")) {
            let found = read(&site.0, get(asset)).await;
            assert_eq!(found.status, 200, "{asset}");
            assert!(found.head.headers()["cache-control"].to_str().unwrap().contains("immutable"));
        }
    }
    let gone = read(&site.0, get("/assets/pages.0000000000000000.js")).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn form_without_its_token_is_refused_and_changes_nothing() {
    let site = Site::new().await;
    let path = format!("/submitters/7/{SENDER}/pause");
    for fields in ["reason=x", "reason=x&csrf=", "reason=x&csrf=0123"] {
        let refused = read(&site.0, form(&path, fields)).await;
        assert_eq!(refused.status, 403, "{fields}: {}", refused.text);
    }
    let token = csrf(&read(&site.0, get(&path)).await.text);
    let mut foreign = form(&path, &format!("reason=x&csrf={token}"));
    foreign.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(read(&site.0, foreign).await.status, 403);
    let without = read(&site.0, form(&path, &format!("reason=%20&csrf={token}"))).await;
    assert_eq!(without.status, 422, "a reason is needed: {}", without.text);
    let shown = site.get(&format!("/api/v1/submitters/{SENDER}")).await.json();
    assert_eq!(shown["status"], "ACTIVE");
    let done = read(&site.0, form(&path, &format!("reason=key+rotation&csrf={token}"))).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let shown = site.get(&format!("/api/v1/submitters/{SENDER}")).await.json();
    assert_eq!(
        (&shown["status"], &shown["statusReason"]),
        (&json!("PAUSED"), &json!("key rotation"))
    );
}

// --- with keys --------------------------------------------------------------

/// A key with a role, and its secret.
async fn key(site: &Site, number: u8, role: Role) -> (ApiKey, String) {
    key_of(site, number, role, None).await
}

/// A key with a role, perhaps of a tenant, and its secret.
async fn key_of(site: &Site, number: u8, role: Role, tenant: Option<&str>) -> (ApiKey, String) {
    let tenant = tenant.map(|name| Tenant::new(name).unwrap());
    let secret = KeySecret::from_random(KeyId::from_random([number; 12]), [number; 32]);
    let key = ApiKey {
        id: secret.id().clone(),
        name: Text::lossy("night shift"),
        hash: secret.hash(),
        rights: Rights { roles: Roles::new([role]).unwrap(), tenant, ..Rights::all() },
        rate: None,
        created_at: Timestamp::EPOCH,
        created_by: Text::lossy("cli"),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    assert!(site.store.put_api_key(&key, None).await.unwrap().is_some());
    (key, secret.reveal().to_owned())
}

async fn site_with_keys() -> Site {
    let clock: Arc<dyn Clock> = Arc::new(TestClock::default());
    let options = ApiOptions { api_keys: Some(clock), ..ApiOptions::default() };
    Site::with(FakeChain::new(), None, options).await
}

fn with_cookie(mut request: Request<Body>, cookie: &str) -> Request<Body> {
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    request
}

async fn log_in(site: &Site, secret: &str) -> String {
    let done = read(&site.0, form("/login", &format!("key={secret}&next=%2Ftx"))).await;
    assert_eq!(
        (done.status.as_u16(), &done.head.headers()["location"]),
        (303, &"/tx".parse().unwrap())
    );
    let cookie = done.head.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_asks_for_a_login_and_a_wrong_key_has_none() {
    let site = site_with_keys().await;
    let submitter = format!("/submitters/7/{SENDER}");
    for path in ["/", "/tx", "/tx/x", "/tx/x/cancel", "/submitters", &submitter, "/search", "/live"]
    {
        let asked = read(&site.0, get(path)).await;
        assert_eq!(asked.status, 303, "{path}: {}", asked.text);
        let location = asked.head.headers()["location"].to_str().unwrap();
        assert!(location.starts_with("/login?next=%2F"), "{path}: {location}");
        let forged = read(&site.0, with_cookie(get(path), "tollgate-session=0123")).await;
        assert_eq!(forged.status, 303, "{path}");
    }
    for path in ["/tx/x/cancel".to_owned(), format!("{submitter}/pause"), "/logout".to_owned()] {
        let asked = read(&site.0, form(&path, "reason=x")).await;
        assert_eq!(asked.status, 303, "{path}: {}", asked.text);
    }
    let (_, reader) = key(&site, 2, Role::Read).await;
    for (secret, why) in [("nonsense", "not valid"), (reader.as_str(), "role operate")] {
        let refused = read(&site.0, form("/login", &format!("key={secret}"))).await;
        assert_eq!(refused.status, 401);
        assert!(refused.text.contains(why) && !refused.text.contains(secret), "{}", refused.text);
        assert!(refused.head.headers().get("set-cookie").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_sees_pages_until_it_logs_out() {
    let site = site_with_keys().await;
    let (_, secret) = key(&site, 1, Role::Operate).await;
    let cookie = log_in(&site, &secret).await;
    let page = read(&site.0, with_cookie(get("/"), &cookie)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("night shift"), "{}", page.text);
    let api = read(&site.0, with_cookie(get("/api/v1/submitters"), &cookie)).await;
    assert_eq!(api.status, 403, "a session alone is not enough for the API: {}", api.text);
    let without = read(&site.0, with_cookie(form("/logout", ""), &cookie)).await;
    assert_eq!(without.status, 403, "a log-out has a token as well");
    let token = csrf(&page.text);
    let out = read(&site.0, with_cookie(form("/logout", &format!("csrf={token}")), &cookie)).await;
    assert_eq!(out.status, 303, "{}", out.text);
    let page = read(&site.0, with_cookie(get("/"), &cookie)).await;
    assert_eq!(page.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn action_of_a_session_is_refused_without_its_own_token() {
    let site = site_with_keys().await;
    let (_, secret) = key(&site, 1, Role::Operate).await;
    let (mine, other) = (log_in(&site, &secret).await, log_in(&site, &secret).await);
    let path = format!("/submitters/7/{SENDER}/pause");
    let page = wait::until("the form", || async {
        let page = read(&site.0, with_cookie(get(&path), &other)).await;
        (page.status == 200).then_some(page)
    })
    .await;
    let fields = format!("reason=x&csrf={}", csrf(&page.text));
    let refused = read(&site.0, with_cookie(form(&path, &fields), &mine)).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let done = read(&site.0, with_cookie(form(&path, &fields), &other)).await;
    assert_eq!(done.status, 303, "{}", done.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_of_a_revoked_key_ends_within_five_seconds() {
    let site = site_with_keys().await;
    let (key, secret) = key(&site, 1, Role::Operate).await;
    let cookie = log_in(&site, &secret).await;
    let known = site.store.api_key(&key.id).await.unwrap().unwrap().revision;
    let revoked = ApiKey { revoked_at: Some(Timestamp::EPOCH), ..key };
    assert!(site.store.put_api_key(&revoked, Some(known)).await.unwrap().is_some());
    let begun = Instant::now();
    wait::until("the session to end", || async {
        let page = read(&site.0, with_cookie(get("/tx"), &cookie)).await;
        (page.status == 303).then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_by_id_request_hash_nonce_and_address() {
    let site = Site::new().await;
    let body = json!({ "submitter": SENDER, "requestId": "order 17", "payload": { "to": TARGET } });
    let made = site.post("/api/v1/tx", body.to_string()).await.with(202);
    let tx_id = made["txId"].as_str().unwrap();
    let place = format!("/tx/{tx_id}");
    let hash = made["txHash"].as_str().unwrap();
    for (asked, found) in [
        (tx_id, place.as_str()),
        ("order%2017", &place),
        (hash, &place),
        ("0", &place),
        (SENDER, &format!("/submitters/7/{SENDER}")),
    ] {
        let answer = read(&site.0, get(&format!("/search?q={asked}"))).await;
        assert_eq!(answer.status, 303, "{asked}: {}", answer.text);
        let location = answer.head.headers()["location"].to_str().unwrap();
        assert!(location.eq_ignore_ascii_case(found), "{asked}: {location}");
    }
    let nothing = read(&site.0, get("/search?q=order%2018")).await;
    assert!(nothing.text.contains("Nothing was found for"), "{}", nothing.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn search_of_an_operator_without_a_tenant_finds_the_requests_of_all_and_names_them() {
    let site = site_with_keys().await;
    let body = json!({ "submitter": SENDER, "requestId": "order-17", "payload": { "to": TARGET } });
    let mut made = Vec::new();
    for (number, tenant) in [(1, "north"), (2, "south")] {
        let (_, secret) = key_of(&site, number, Role::Submit, Some(tenant)).await;
        let request = Request::post("/api/v1/tx").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {secret}"));
        let answer = site.call(request.body(Body::from(body.to_string())).unwrap()).await;
        made.push(answer.with(202)["txId"].as_str().unwrap().to_owned());
    }
    let (_, operator) = key(&site, 3, Role::Operate).await;
    let cookie = log_in(&site, &operator).await;
    let found = read(&site.0, with_cookie(get("/search?q=order-17"), &cookie)).await;
    assert_eq!(found.status, 200, "{}", found.text);
    for (tx_id, tenant) in made.iter().zip(["north", "south"]) {
        assert!(found.text.contains(&format!("/tx/{tx_id}")), "{tenant}: {}", found.text);
        let place = format!("/tx/{tx_id}");
        for page in [&found.text, &read(&site.0, with_cookie(get(&place), &cookie)).await.text] {
            assert!(page.contains(&format!(">{tenant}<")), "{tenant}: {page}");
        }
    }
    let (_, own) = key_of(&site, 4, Role::Operate, Some("south")).await;
    let cookie = log_in(&site, &own).await;
    let found = read(&site.0, with_cookie(get("/search?q=order-17"), &cookie)).await;
    assert_eq!(found.head.headers()["location"], format!("/tx/{}", made[1]), "{}", found.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn problem_of_a_page_is_a_page() {
    let site = Site::new().await;
    let missing = read(&site.0, get("/tx/01890a5d-ac96-774b-bcce-b302099a8057")).await;
    assert_eq!(missing.status, 404);
    assert!(missing.text.contains("/docs/errors/not_found"), "{}", missing.text);
    let bad = read(&site.0, get("/tx?state=NONSENSE")).await;
    assert_eq!(bad.status, 422, "{}", bad.text);
    assert!(bad.text.contains("NONSENSE") && bad.text.contains("<html"), "{}", bad.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn ladder_of_a_wide_window_is_drawn_in_bounded_time_and_size() {
    let site = Site::new().await;
    let begun = Instant::now();
    let page =
        read(&site.0, get(&format!("/submitters/7/{SENDER}?from=0&to=18446744073709551615"))).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(page.text.len() < 400_000, "{}", page.text.len());
    assert!(page.text.contains("One cell stands for 100 nonces"), "{}", page.text);
}
