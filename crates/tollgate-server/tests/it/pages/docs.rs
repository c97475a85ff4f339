//! Requests that the page of the API's documentation sends with the session of its reader.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tollgate_model::access::Role;
use tollgate_testkit::wait;

use super::{get, key, log_in, read, site_with_keys, with_cookie};
use crate::site::{Answer, SENDER, Site, TARGET};

/// A request as the script of the page sends it, with other headers where a test gives them.
async fn send(site: &Site, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let body = match method {
        "GET" => Body::empty(),
        _ => Body::from(json!({ "reason": "from the docs" }).to_string()),
    };
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8550");
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    site.call(request.body(body).unwrap()).await
}

fn token(page: &str) -> String {
    let (_, rest) = page.split_once("data-csrf=\"").expect("the token of the session");
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn docs_page_asks_for_a_key_only_where_there_is_no_session() {
    let site = site_with_keys().await;
    let (_, secret) = key(&site, 1, Role::Operate).await;
    let page = read(&site.0, get("/docs")).await.text;
    assert!(page.contains("id=\"key\"") && !page.contains("data-csrf"), "{page}");
    let cookie = log_in(&site, &secret).await;
    let page = read(&site.0, with_cookie(get("/docs"), &cookie)).await.text;
    assert!(!page.contains("id=\"key\"") && page.contains("the session of night shift"), "{page}");
    let open = read(&Site::new().await.0, get("/docs")).await.text;
    assert!(!open.contains("id=\"key\"") && !open.contains("data-csrf"), "no key is asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_with_a_session_needs_its_token_and_the_nodes_own_origin() {
    let site = site_with_keys().await;
    let (stored, secret) = key(&site, 1, Role::Operate).await;
    let cookie = log_in(&site, &secret).await;
    let other = log_in(&site, &secret).await;
    let csrf = token(&read(&site.0, with_cookie(get("/docs"), &cookie)).await.text);
    let foreign = token(&read(&site.0, with_cookie(get("/docs"), &other)).await.text);
    let pause = format!("/api/v1/submitters/{SENDER}/pause");
    let own = ("origin", "http://localhost:8550");
    wait::until("the first block", || async {
        (site.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    for (method, path) in [("GET", "/api/v1/submitters"), ("POST", &*pause)] {
        let session = ("cookie", &*cookie);
        for refused in [
            vec![session, own],
            vec![session, own, ("x-csrf-token", "")],
            vec![session, own, ("x-csrf-token", &foreign)],
            vec![session, ("x-csrf-token", &csrf), ("origin", "https://evil.example")],
            vec![session, ("x-csrf-token", &csrf), ("sec-fetch-site", "cross-site")],
            vec![session, ("x-csrf-token", &csrf), ("sec-fetch-site", "same-site")],
        ] {
            let answer = send(&site, method, path, &refused).await;
            answer.refused(403, "cross_origin");
        }
        for nobody in [
            vec![own, ("x-csrf-token", &*csrf)],
            vec![own, ("x-csrf-token", &*csrf), ("cookie", "tollgate-session=0123")],
        ] {
            send(&site, method, path, &nobody).await.refused(401, "unauthenticated");
        }
        let sent = [session, own, ("x-csrf-token", &*csrf), ("sec-fetch-site", "same-origin")];
        send(&site, method, path, &sent).await.with(200);
    }
    let session = [("cookie", &*cookie), own, ("x-csrf-token", &*csrf)];
    let create = Request::post("/api/v1/tx").header("content-type", "application/json");
    let create = session.iter().fold(create, |it, (name, value)| it.header(*name, *value));
    let create = create.header("host", "localhost:8550");
    let body = json!({ "submitter": SENDER, "payload": { "to": TARGET } }).to_string();
    let refused = site.call(create.body(Body::from(body)).unwrap()).await;
    refused.refused(403, "forbidden");
    let history = format!("/api/v1/submitters/{SENDER}/history");
    let history = send(&site, "GET", &history, &session).await.with(200);
    let wanted = format!("key:{} night shift: from the docs", stored.id);
    assert!(history.to_string().contains(&wanted), "{history}");
}
