//! The fuzz target of pages (`docs/fuzzing.md`): forms, filters and cookies of a browser.

#![cfg_attr(
    not(feature = "fuzzing"),
    allow(unreachable_pub, reason = "the feature makes it public")
)]

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Form, FromRequest, Query};
use axum::http::{HeaderMap, HeaderValue, Request, Uri, header};
use futures_util::FutureExt;
use tollgate_api::path;

use super::actions::fuzzing::read_forms;
use super::login::own_path;
use super::search::number;
use super::viewer::session_id;
use crate::http::Problem;

type Fields = BTreeMap<String, String>;

/// Reads bytes as the body of a form, as the query string of a page, and as cookies.
///
/// # Panics
/// If a reader does, if a login leads to another host, if a refusal is not the form's fault, or if an address that
/// a page makes of its fields can't be read.
pub fn page_forms(data: &[u8]) {
    if let Ok(cookies) = HeaderValue::from_bytes(data) {
        let headers = HeaderMap::from_iter([(header::COOKIE, cookies)]);
        let found = [true, false].map(|is_tls| session_id(&headers, is_tls));
        assert!(
            found.iter().flatten().all(|id| !id.contains(';')),
            "a cookie ends at its semicolon"
        );
    }
    let form = Request::post("/login")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(data.to_vec()));
    let Ok(form) = form else { return };
    if let Some(Ok(Form(fields))) = Form::<Fields>::from_request(form, &()).now_or_never() {
        read(&fields);
    }
    let uri =
        std::str::from_utf8(data).ok().and_then(|text| format!("/tx?{text}").parse::<Uri>().ok());
    if let Some(Ok(Query(fields))) = uri.map(|uri| Query::<Fields>::try_from_uri(&uri)) {
        read(&fields);
    }
}

fn read(fields: &Fields) {
    let next = own_path(fields.get("next"));
    assert!(
        next.starts_with('/') && !next[1..].starts_with(['/', '\\']),
        "{next:?} is another host"
    );
    read_forms(fields, |problem: Problem| {
        assert!(problem.status().is_client_error(), "{}", problem.status());
    });
    for text in fields.values() {
        let onward = path::with_query("/tx", &[("submitter", Some(text.clone()))]);
        assert!(onward.parse::<Uri>().is_ok(), "{onward}");
        number(text);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn page_forms_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("page_forms", super::page_forms);
    }
}
