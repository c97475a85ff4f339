//! Each page with the session that it needs, without one, and with one that is not enough.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;
use tollgate_model::access::{ApiKey, RateLimit, Role, Roles};
use tollgate_model::port::ApiKeyStore as _;
use tollgate_testkit::wait;
use tower::ServiceExt as _;

use super::{csrf, form, get, key, log_in, read, site_with_keys, with_cookie};
use crate::site::{SENDER, Site, TARGET};

/// The table of pages in docs/access.md: method, path, and whether a session is needed.
fn documented_pages() -> Vec<(String, String, bool)> {
    let page = include_str!("../../../../../docs/access.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let (method, path) = cells[0].trim_matches('`').split_once(' ')?;
        // Rows of the API have a column for each role.
        let is_page = cells.len() == 3 && path.starts_with('/');
        is_page.then(|| (method.to_owned(), path.to_owned(), cells[1] == "`operate`"))
    });
    rows.collect()
}

/// The status of an answer and where it leads; the body is not read, because some never end.
async fn answer(router: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let location = response.headers().get("location").map(|it| it.to_str().unwrap().to_owned());
    (response.status(), location.unwrap_or_default())
}

fn ask(method: &str, path: &str, fields: &str) -> Request<Body> {
    if method == "GET" { get(path) } else { form(path, fields) }
}

/// Gives a stored key other rights, and waits until the node knows.
async fn demote(site: &Site, stored: &ApiKey, cookie: &str) {
    let known = site.store.api_key(&stored.id).await.unwrap().unwrap();
    let mut key = known.key;
    key.rights.roles = Roles::new([Role::Read]).unwrap();
    site.store.put_api_key(&key, Some(known.revision)).await.unwrap().unwrap();
    wait::until("the change", || async {
        let (status, _) = answer(&site.0, with_cookie(get("/submitters"), cookie)).await;
        (status == 403).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_shown_to_sessions_of_operators_and_to_nobody_else() {
    let pages = documented_pages();
    assert!(pages.len() > 10, "{pages:?}");
    let site = site_with_keys().await;
    let (_, operator) = key(&site, 1, Role::Operate).await;
    let (demoted, reader) = key(&site, 2, Role::Operate).await;
    let weak = log_in(&site, &reader).await;
    demote(&site, &demoted, &weak).await;
    let create = json!({ "submitter": SENDER, "payload": { "to": TARGET } }).to_string();
    let (_, sender) = key(&site, 3, Role::Submit).await;
    let made = wait::until("a transaction", || async {
        let request = Request::post("/api/v1/tx").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {sender}"));
        let made = site.call(request.body(Body::from(create.clone())).unwrap()).await;
        (made.status == 202).then(|| made.json())
    })
    .await;
    for (method, path, needs_session) in pages {
        let action = if path.starts_with("/tx") { "cancel" } else { "pause" };
        let query = if path == "/live" { "?topic=all" } else { "" };
        let path = path
            .replace("{tx_id}", made["txId"].as_str().unwrap())
            .replace("{chain_id}", "7")
            .replace("{address}", SENDER)
            .replace("{action}", action)
            .replace("{name}", "unknown.css")
            + query;
        let what = format!("{method} {path}");
        let without = answer(&site.0, ask(&method, &path, "reason=x")).await;
        let forged = with_cookie(ask(&method, &path, "reason=x"), "tollgate-session=0123");
        assert_eq!(answer(&site.0, forged).await, without, "{what}: a made-up session is none");
        if !needs_session {
            assert!(!without.1.starts_with("/login"), "{what}: {without:?}");
            continue;
        }
        assert_eq!(without.0, 303, "{what}");
        assert!(without.1.starts_with("/login?next=%2F"), "{what}: {}", without.1);
        let refused = read(&site.0, with_cookie(ask(&method, &path, "reason=x"), &weak)).await;
        assert_eq!(refused.status, 403, "{what}: {}", refused.text);
        assert!(refused.text.contains("needs a key with the role operate"), "{what}");
        let cookie = log_in(&site, &operator).await;
        if method == "POST" {
            let (status, _) = answer(&site.0, with_cookie(form(&path, "reason=x"), &cookie)).await;
            assert_eq!(status, 403, "{what} without the token of the session");
        }
        let token = csrf(&read(&site.0, with_cookie(get("/"), &cookie)).await.text);
        let fields = format!("reason=x&csrf={token}");
        let shown = answer(&site.0, with_cookie(ask(&method, &path, &fields), &cookie)).await;
        let is_login = shown.1.starts_with("/login?");
        assert!(
            !is_login && ![401, 403, 404, 405].contains(&shown.0.as_u16()),
            "{what}: {shown:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_log_ins_count_against_the_rate_of_their_key() {
    let site = site_with_keys().await;
    let (stored, secret) = key(&site, 1, Role::Operate).await;
    let known = site.store.api_key(&stored.id).await.unwrap().unwrap().revision;
    let limited = ApiKey { rate: Some(RateLimit::new(1, 3).unwrap()), ..stored };
    site.store.put_api_key(&limited, Some(known)).await.unwrap().unwrap();
    let cookie = log_in(&site, &secret).await;
    let page = read(&site.0, with_cookie(get("/submitters"), &cookie)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let policy = &page.head.headers()["ratelimit-policy"];
    assert_eq!(policy, "\"key\";q=3;w=3");
    // A token comes back each second: a few requests more than the burst are enough.
    let mut refused = None;
    for _ in 0..10 {
        let page = read(&site.0, with_cookie(get("/submitters"), &cookie)).await;
        if page.status == 429 {
            refused = Some(page);
        }
    }
    let refused = refused.expect("a page beyond the rate");
    assert!(refused.text.contains("<html") && refused.text.contains("rate_limited"));
    assert_eq!(refused.head.headers()["retry-after"], "1");
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(read(&site.0, form("/login", &format!("key={secret}"))).await.status);
    }
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_in_and_log_out_stand_in_the_audit_log() {
    let site = site_with_keys().await;
    let (stored, secret) = key(&site, 1, Role::Admin).await;
    let cookie = log_in(&site, &secret).await;
    let token = csrf(&read(&site.0, with_cookie(get("/"), &cookie)).await.text);
    let out = with_cookie(form("/logout", &format!("csrf={token}")), &cookie);
    assert_eq!(read(&site.0, out).await.status, 303);
    let request = Request::get("/api/v1/audit").header("authorization", format!("Bearer {secret}"));
    let log = site.call(request.body(Body::empty()).unwrap()).await.with(200);
    let actions: Vec<_> = log["items"].as_array().unwrap().iter().collect();
    assert_eq!((&actions[0]["action"], &actions[1]["action"]), (&json!("logOut"), &json!("logIn")));
    assert!(actions.iter().all(|entry| entry["keyId"] == stored.id.as_str()), "{log}");
}
