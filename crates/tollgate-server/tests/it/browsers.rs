//! A web page of another site gets nothing done, whatever it makes a browser send.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::site::{SENDER, Site, TARGET};

fn create() -> String {
    json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": "1" } }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn create_of_a_foreign_page_is_refused_and_leaves_nothing() {
    let site = Site::new().await;
    let (json, own) = ("application/json", "http://localhost:8550");
    for (headers, status, code) in [
        // What a form or a fetch without a preflight can send.
        (vec![("content-type", "text/plain")], 415, "unsupported_media_type"),
        (
            vec![("content-type", "application/x-www-form-urlencoded")],
            415,
            "unsupported_media_type",
        ),
        (vec![], 415, "unsupported_media_type"),
        (vec![("content-type", json), ("origin", "https://evil.example")], 403, "cross_origin"),
        (vec![("content-type", json), ("origin", "null")], 403, "cross_origin"),
        (vec![("content-type", json), ("sec-fetch-site", "cross-site")], 403, "cross_origin"),
        (
            vec![("content-type", json), ("origin", own), ("sec-fetch-site", "same-site")],
            403,
            "cross_origin",
        ),
    ] {
        for path in ["/api/v1/tx", "/api/v1/tx/batch"] {
            let mut request = Request::post(path).header("host", "localhost:8550");
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            site.call(request.body(Body::from(create())).unwrap()).await.refused(status, code);
        }
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn action_without_a_body_is_refused_to_a_foreign_page_only() {
    let site = Site::new().await;
    let path = format!("/api/v1/submitters/{SENDER}/reconcile");
    let bare = || Request::post(&path).header("host", "localhost:8550");
    site.call(bare().body(Body::empty()).unwrap()).await.with(200);
    let fetched = bare().header("origin", "https://evil.example").body(Body::empty()).unwrap();
    assert_eq!(site.call(fetched).await.code(), "cross_origin");
    let form = bare().header("content-type", "application/x-www-form-urlencoded");
    let form = site.call(form.body(Body::empty()).unwrap()).await;
    assert_eq!(form.code(), "unsupported_media_type");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_the_node_itself_may_read_and_create() {
    let site = Site::new().await;
    let own = |request: axum::http::request::Builder| {
        request.header("host", "localhost:8550").header("sec-fetch-site", "same-origin")
    };
    let read = own(Request::get("/api/v1/submitters")).body(Body::empty()).unwrap();
    assert_eq!(site.call(read).await.status.as_u16(), 200);
    let post = own(Request::post("/api/v1/tx")).header("content-type", "application/json");
    let post = post.header("origin", "http://localhost:8550").body(Body::from(create())).unwrap();
    assert_eq!(site.call(post).await.status.as_u16(), 202);
}
