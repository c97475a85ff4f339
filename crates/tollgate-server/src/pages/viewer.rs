//! The viewer of a page: their rights, and the token that their forms carry.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use tollgate_api::ErrorCode;

use super::layout::error_page;
use super::session::Token;
use crate::http::{CALLER, Caller, Chains, ListenerKind, OverTls, Problem, RemoteAddress};

/// Whoever looks at a page: an operator, whose session names a key, or anybody where no key is asked for.
#[derive(Clone)]
pub(crate) struct Viewer {
    pub(crate) caller: Caller,
    pub(crate) csrf: Token,
    pub(crate) is_tls: bool,
}

impl Viewer {
    /// Returns whether all accounts and transactions are this viewer's to see.
    pub(crate) fn sees_everything(&self) -> bool {
        self.caller.rights().see_everything()
    }

    /// The name of the key, or its id, for the header of pages.
    pub(crate) fn name(&self) -> Option<String> {
        let id = self.caller.key_id()?.to_string();
        Some(self.caller.key_name().filter(|name| !name.is_empty()).map_or(id, str::to_owned))
    }

    /// Makes a request one of this viewer's.
    pub(crate) fn sign(&self, request: &mut Request<Body>) {
        request.extensions_mut().insert(self.caller.clone());
        // The owner of the account may be another node, which is told who asks.
        request.headers_mut().extend(self.caller.passed_on().map(|named| (CALLER, named)));
    }

    /// Refuses a form that does not carry this viewer's token: another site may have made it.
    pub(crate) fn check_csrf(&self, given: Option<&str>) -> Result<(), Problem> {
        if given.is_some_and(|given| self.csrf.is(given)) {
            return Ok(());
        }
        let detail = "the form does not carry the token of this session: open the page again";
        Err(Problem::new(ErrorCode::CrossOrigin, detail))
    }
}

/// The name of the cookie. The prefix makes browsers refuse one that another host or an unencrypted page set.
pub(crate) const fn cookie_name(is_tls: bool) -> &'static str {
    if is_tls { "__Host-tollgate-session" } else { "tollgate-session" }
}

/// The id of the session that a request's cookies name.
pub(crate) fn session_id(headers: &HeaderMap, is_tls: bool) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs =
        cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == cookie_name(is_tls)).map(|(_, id)| id.to_owned()).next()
}

/// The viewer of a request; `None` if there is no session, or if its key may not be used any more.
pub(crate) async fn find(chains: &Chains, parts: &Parts) -> Result<Option<Viewer>, Problem> {
    let (pages, is_tls) = (chains.pages(), is_tls(parts));
    let remote = parts.extensions.get().map(|RemoteAddress(address)| *address);
    let Some(keys) = chains.api_keys() else {
        let (caller, csrf) = (Caller::without_key(remote), pages.open_csrf()?);
        return Ok(Some(Viewer { caller, csrf, is_tls }));
    };
    let id = session_id(&parts.headers, is_tls);
    let Some((id, session)) = id.and_then(|id| pages.sessions.find(&id).map(|it| (id, it))) else {
        return Ok(None);
    };
    // The key is looked up for each request: a revoked one ends its sessions on all nodes within seconds.
    let caller = match keys.known(&session.key).await {
        Ok(key) => Caller::with_key(key.key(), remote),
        Err(problem) if problem.code == ErrorCode::Unauthenticated => {
            pages.sessions.end(&id);
            return Ok(None);
        }
        Err(problem) => return Err(problem),
    };
    let csrf = session.csrf;
    Ok(caller.is_operator().then_some(Viewer { caller, csrf, is_tls }))
}

/// Pages are for operators: where those have a listener of their own, the callers' has no pages.
pub(crate) fn refuse_callers_listener(parts: &Parts) -> Result<(), Problem> {
    if parts.extensions.get() == Some(&ListenerKind::Callers) {
        return Err(Problem::new(ErrorCode::NotFound, "there is no such route"));
    }
    Ok(())
}

pub(crate) fn is_tls(parts: &Parts) -> bool {
    parts.extensions.get() == Some(&OverTls)
}

impl FromRequestParts<Chains> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, chains: &Chains) -> Result<Self, Response> {
        refuse_callers_listener(parts).map_err(IntoResponse::into_response)?;
        match find(chains, parts).await {
            Ok(Some(viewer)) => Ok(viewer),
            Ok(None) => Err(to_login(&parts.uri).into_response()),
            Err(problem) => Err(error_page(chains, None, &problem)),
        }
    }
}

/// The login, which leads back to the page that was asked for.
fn to_login(uri: &Uri) -> Redirect {
    let asked = uri.path_and_query().map_or("/", |path| path.as_str());
    Redirect::to(&tollgate_api::path::with_query("/login", &[("next", Some(asked.to_owned()))]))
}

/// The token of forms where no key is asked for: one for the life of the process.
pub(crate) fn new_csrf() -> Result<Token, Problem> {
    Token::random().map_err(|_| Problem::defect())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn session_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        let cookies = "theme=dark; tollgate-session=abc; __Host-tollgate-session=def";
        headers.insert(header::COOKIE, HeaderValue::from_static(cookies));
        assert_eq!(session_id(&headers, false).as_deref(), Some("abc"));
        assert_eq!(session_id(&headers, true).as_deref(), Some("def"));
        assert_eq!(session_id(&HeaderMap::new(), false), None);
    }

    #[test]
    fn login_leads_back_to_the_page_that_was_asked_for() {
        let response = to_login(&Uri::from_static("/tx?state=STUCK")).into_response();
        assert_eq!(response.headers()[header::LOCATION], "/login?next=%2Ftx%3Fstate%3DSTUCK");
    }
}
