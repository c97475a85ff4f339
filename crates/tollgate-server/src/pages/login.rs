//! The login by key, and its end.

use std::collections::BTreeMap;
use std::net::IpAddr;

use askama::Template;
use axum::extract::{Form, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use tollgate_api::ErrorCode;
use tollgate_model::access::KeySecret;
use tracing::info;

use super::layout::{Frame, error_page, html, with_status};
use super::session::AGE_MAX;
use super::viewer::{self, Viewer, cookie_name, session_id};
use crate::http::{Caller, Chains, Problem, RemoteAddress};

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: String,
    refused: Option<String>,
}

fn login_page(chains: &Chains, next: String, refused: Option<String>) -> Response {
    let is_refused = refused.is_some();
    let page = html(&LoginPage { frame: Frame::without_viewer(chains), next, refused });
    if is_refused { with_status(StatusCode::UNAUTHORIZED, page) } else { page }
}

/// A page of this node: a path of one slash, so that nobody is led to another host.
pub(super) fn own_path(next: Option<&String>) -> String {
    let is_own = |next: &&String| {
        next.starts_with('/')
            && !next.starts_with("//")
            && !next.contains(['\\', '\r', '\n', '\t'])
            && !next.starts_with("/login")
    };
    next.filter(is_own).cloned().unwrap_or_else(|| "/".to_owned())
}

pub(crate) async fn form(
    State(chains): State<Chains>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    if let Err(problem) = viewer::refuse_callers_listener(&parts) {
        return problem.into_response();
    }
    let next = own_path(query.get("next"));
    match viewer::find(&chains, &parts).await {
        Ok(Some(_)) => Redirect::to(&next).into_response(),
        Ok(None) => login_page(&chains, next, None),
        Err(problem) => error_page(&chains, None, &problem),
    }
}

/// Begins a session. The origin was checked before (`http/browser.rs`). Nobody is logged in yet, so that there is no
/// session whose token the form could carry.
pub(crate) async fn log_in(
    State(chains): State<Chains>,
    is_tls: OverTlsOrNot,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Response {
    let next = own_path(fields.get("next"));
    let given = fields.get("key").map(|key| key.trim()).unwrap_or_default();
    match check(&chains, given, &is_tls).await {
        Ok(Ok(cookie)) => {
            let value = set_cookie(is_tls.0, &cookie, AGE_MAX.as_secs());
            ([(header::SET_COOKIE, value)], Redirect::to(&next)).into_response()
        }
        Ok(Err(why)) => login_page(&chains, next, Some(why)),
        Err(problem) => error_page(&chains, None, &problem),
    }
}

/// Checks a key and begins a session; its id.
async fn check(
    chains: &Chains,
    given: &str,
    OverTlsOrNot(_, remote): &OverTlsOrNot,
) -> Result<Result<String, String>, Problem> {
    let Some(keys) = chains.api_keys() else {
        return Err(Problem::new(ErrorCode::NotFound, "this node asks for no key"));
    };
    let key = match keys.authenticate(given).await {
        Ok(key) => key,
        Err(problem) if problem.code == ErrorCode::Unauthenticated => {
            let key_id = KeySecret::parse(given).ok().map(|secret| secret.id().to_string());
            info!(key_id, ?remote, error = problem.body.detail, "login refused");
            return Ok(Err(
                "This key is not valid: it is unknown, mistyped, expired or revoked.".to_owned()
            ));
        }
        Err(problem) => return Err(problem),
    };
    let caller = Caller::with_key(key.key(), *remote);
    if !caller.is_operator() {
        let roles = &caller.rights().roles;
        return Ok(Err(format!(
            "The pages need a key with the role operate; this key has {roles}."
        )));
    }
    let id = chains.pages().sessions.begin(key.id().clone()).map_err(|_| Problem::defect())?;
    info!(key_id = %key.id(), remote = ?caller.remote(), "logged in");
    Ok(Ok(id.as_str().to_owned()))
}

pub(crate) async fn log_out(
    State(chains): State<Chains>,
    viewer: Viewer,
    headers: HeaderMap,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Response {
    if let Err(problem) = viewer.check_csrf(fields.get("csrf").map(String::as_str)) {
        return error_page(&chains, Some(&viewer), &problem);
    }
    if let Some(id) = session_id(&headers, viewer.is_tls) {
        chains.pages().sessions.end(&id);
    }
    let value = set_cookie(viewer.is_tls, "", 0);
    ([(header::SET_COOKIE, value)], Redirect::to("/login")).into_response()
}

fn set_cookie(is_tls: bool, id: &str, seconds: u64) -> HeaderValue {
    let secure = if is_tls { "; Secure" } else { "" };
    let name = cookie_name(is_tls);
    let text = format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// TLS or not, and the address of the connection.
pub(crate) struct OverTlsOrNot(bool, Option<IpAddr>);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for OverTlsOrNot {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        _: &S,
    ) -> Result<Self, Problem> {
        viewer::refuse_callers_listener(parts)?;
        let remote = parts.extensions.get().map(|RemoteAddress(address)| *address);
        Ok(Self(viewer::is_tls(parts), remote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_leads_to_pages_of_this_node_only() {
        let lead = |next: &str| own_path(Some(&next.to_owned()));
        assert_eq!(lead("/tx?state=STUCK"), "/tx?state=STUCK");
        for elsewhere in ["//evil.example", "https://evil.example", "/\\evil.example", "", "/login"]
        {
            assert_eq!(lead(elsewhere), "/", "{elsewhere}");
        }
        assert_eq!(own_path(None), "/");
    }

    #[test]
    fn cookie_is_for_this_host_and_its_pages_alone() {
        let plain = set_cookie(false, "ab", 5);
        let expected = "tollgate-session=ab; Path=/; HttpOnly; SameSite=Strict; Max-Age=5";
        assert_eq!(plain, expected);
        let secure = set_cookie(true, "ab", 5);
        assert!(secure.to_str().unwrap().starts_with("__Host-tollgate-session=ab; Path=/;"));
        assert!(secure.to_str().unwrap().ends_with("; Secure"));
    }
}
