//! The viewer of a page: their rights, and the token that their forms carry.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, header};
use tollgate_api::ErrorCode;

use super::session::Token;
use crate::http::{
    CALLER, Caller, Chains, Counted, KnownKey, ListenerKind, OverTls, Problem, RemoteAddress,
};

/// Whoever looks at a page: an operator, whose session names a key, or anybody where no key is asked for.
#[derive(Clone)]
pub(crate) struct Viewer {
    pub(crate) caller: Caller,
    pub(crate) csrf: Token,
    pub(crate) is_tls: bool,
    /// The key of the session; `None` if none is asked for.
    pub(crate) key: Option<Arc<KnownKey>>,
}

impl Viewer {
    /// Returns whether all accounts and transactions are this viewer's to see.
    pub(crate) fn sees_everything(&self) -> bool {
        self.caller.rights().see_everything()
    }

    /// Counts a request against the rate of the key.
    pub(crate) fn count(&self) -> Counted {
        self.key.as_ref().map(|key| key.count()).unwrap_or_default()
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

    /// Refuses a request that does not carry this viewer's token: another site may have made it.
    pub(crate) fn check_csrf(&self, given: Option<&str>) -> Result<(), Problem> {
        if given.is_some_and(|given| self.csrf.is(given)) {
            return Ok(());
        }
        let detail = "the request does not carry the token of this session: open the page again";
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
        return Ok(Some(Viewer { caller, csrf, is_tls, key: None }));
    };
    let id = session_id(&parts.headers, is_tls);
    let Some((id, session)) = id.and_then(|id| pages.sessions.find(&id).map(|it| (id, it))) else {
        return Ok(None);
    };
    // The key is looked up for each request: a revoked one ends its sessions on all nodes within seconds.
    let key = match keys.known(&session.key).await {
        Ok(key) => key,
        Err(problem) if problem.code == ErrorCode::Unauthenticated => {
            pages.sessions.end(&id);
            return Ok(None);
        }
        Err(problem) => return Err(problem),
    };
    let (caller, csrf) = (Caller::with_key(key.key(), remote), session.csrf);
    Ok(Some(Viewer { caller, csrf, is_tls, key: Some(key) }))
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

/// The viewer that the guard of the pages has found (`pages/table.rs`). A handler beside it answers nobody.
impl<S: Send + Sync> FromRequestParts<S> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::defect)
    }
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
}
