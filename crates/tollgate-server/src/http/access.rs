//! Access control: who makes a request, and whether a key allows it (`docs/access.md`).
//!
//! [`control`] is the layer around all routes. It finds the key of a request ([`keys`]), counts it against the
//! key's rate ([`rate`]), looks the needed role up ([`table`]) and leaves a [`Caller`] among the extensions.
//! Which transactions and accounts a caller sees is asked by the handlers ([`sight`]).
//!
//! A request that another node forwards carries no key: the node that took it has checked the key, and names it
//! in `tollgate-caller`, which counts under that node's signature alone. This node reads the rights of the key
//! itself.

mod caller;
pub(crate) mod keys;
mod rate;
mod record;
pub(crate) mod shares;
pub(crate) mod sight;
pub(crate) mod table;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use tollgate_api::ErrorCode;
use tollgate_model::access::KeyId;

use super::Chains;
use super::connections::RemoteAddress;
use super::forward::FORWARDED;
use super::node_auth::FromNode;
use super::problem::Problem;
use crate::pages::viewer;
pub(crate) use caller::Caller;
use keys::{ApiKeys, KnownKey};
pub(crate) use rate::Counted;
use table::Needed;

/// On a request of another node: the key that the caller has shown there, and the caller's address.
pub(crate) const CALLER: HeaderName = HeaderName::from_static(tollgate_api::header::CALLER);
/// On a request of a page with a session: the session's token.
const CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");
/// A read that took this long has waited for something, and its key is looked at again.
const WAITED: Duration = Duration::from_secs(1);
/// The scheme of the `Authorization` header.
const SCHEME: &str = "bearer";

/// On an answer: the key of the request, for the log.
#[derive(Clone)]
pub(crate) struct AnsweredTo(pub(crate) KeyId);

/// On a request: its key, whose rate counts the items of a batch.
#[derive(Clone)]
pub(crate) struct RatedKey(pub(crate) Arc<KnownKey>);

/// Lets a request through if its key allows it.
pub(crate) async fn control(
    State(chains): State<Chains>,
    mut request: Request,
    next: Next,
) -> Response {
    let remote = request.extensions().get().map(|RemoteAddress(address)| *address);
    let Some(keys) = chains.api_keys() else {
        request.extensions_mut().insert(Caller::without_key(remote));
        return next.run(request).await;
    };
    let needed = match table::needed(request.method(), request.uri().path()) {
        Ok(Needed::Public) => return next.run(request).await,
        // Pages ask for a session instead of a key, and call the API with what its key allows.
        Err(_) if crate::pages::is_page(request.uri().path()) => return next.run(request).await,
        other => other,
    };
    let (parts, body) = request.into_parts();
    let admitted = match admit(&chains, keys, &parts, remote).await {
        Ok(admitted) => admitted,
        Err(problem) => return unauthenticated(problem),
    };
    let request = Request::from_parts(parts, body);
    let key_id = admitted.key.id().clone();
    let counted = if admitted.is_forwarded { Counted::default() } else { admitted.key.count() };
    let (begun, is_read) = (Instant::now(), *request.method() == Method::GET);
    let mut response = match counted.check() {
        Err(problem) => problem.into_response(),
        Ok(()) => run(needed.clone(), admitted, request, next).await,
    };
    // A key may be revoked while its request waits. What was changed before is answered all the same.
    if is_read
        && begun.elapsed() >= WAITED
        && let Err(problem) = still_allowed(keys, &key_id, needed).await
    {
        response = unauthenticated(problem);
    }
    response.extensions_mut().insert(AnsweredTo(key_id));
    let counted = response.extensions_mut().remove::<Counted>().unwrap_or(counted);
    counted.write(response.headers_mut());
    response
}

/// A request with a valid key.
struct Admitted {
    key: Arc<KnownKey>,
    caller: Caller,
    /// Another node has forwarded it, and has counted it.
    is_forwarded: bool,
}

async fn run(
    needed: Result<Needed, Problem>,
    admitted: Admitted,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = admitted.caller;
    let allowed = needed.and_then(|needed| match needed {
        Needed::Public => Ok(()),
        Needed::AnyOf(roles) => caller.require(roles),
    });
    if let Err(problem) = allowed {
        let is_method = problem.code == ErrorCode::MethodNotAllowed;
        let mut response = problem.into_response();
        if is_method {
            let allow = HeaderValue::try_from(table::methods(request.uri().path())).ok();
            response.headers_mut().extend(allow.map(|allow| (header::ALLOW, allow)));
        }
        return response;
    }
    // Nothing behind this layer has a use for the secret; another node is told the key's id instead.
    let headers = request.headers_mut();
    headers.remove(header::AUTHORIZATION);
    headers.remove(header::COOKIE);
    headers.remove(CSRF_TOKEN);
    headers.remove(CALLER);
    headers.extend(caller.passed_on().map(|named| (CALLER, named)));
    request.extensions_mut().insert(caller);
    if !admitted.is_forwarded && admitted.key.has_rate() {
        request.extensions_mut().insert(RatedKey(admitted.key));
    }
    next.run(request).await
}

/// Finds the key of a request.
async fn admit(
    chains: &Chains,
    keys: &ApiKeys,
    request: &Parts,
    remote: Option<IpAddr>,
) -> Result<Admitted, Problem> {
    let headers = &request.headers;
    // Only a request that a node has signed still has the header here.
    if request.extensions.get::<FromNode>().is_some()
        && let Some((id, address)) = headers.get(CALLER).and_then(read_caller)
    {
        let key = keys.known(&id).await?;
        let caller = Caller::with_key(key.key(), address);
        let is_vouched = headers.contains_key(FORWARDED);
        let caller = if is_vouched { caller.vouched() } else { caller };
        return Ok(Admitted { key, caller, is_forwarded: true });
    }
    if let Some(admitted) = by_session(chains, request).await? {
        return Ok(admitted);
    }
    let key = keys.authenticate(secret_in(headers)?).await?;
    let caller = Caller::with_key(key.key(), remote);
    Ok(Admitted { key, caller, is_forwarded: false })
}

/// The caller of a page of this node, whose session stands in a cookie: the page of the API's documentation sends
/// requests this way. `None` if the request shows a key, or has no session.
///
/// Browsers send cookies by themselves, so the request must carry the session's token as well, which pages of other
/// origins can't read, in a header that they can't set.
async fn by_session(chains: &Chains, request: &Parts) -> Result<Option<Admitted>, Problem> {
    let headers = &request.headers;
    if headers.contains_key(header::AUTHORIZATION)
        || viewer::refuse_callers_listener(request).is_err()
    {
        return Ok(None);
    }
    let Some(viewer) = viewer::find(chains, request).await? else { return Ok(None) };
    let Some(key) = viewer.key.clone() else { return Ok(None) };
    let token = headers.get(CSRF_TOKEN).and_then(|token| token.to_str().ok());
    viewer.check_csrf(token)?;
    Ok(Some(Admitted { key, caller: viewer.caller, is_forwarded: false }))
}

/// Refuses an answer to a key that ended, or lost its role, while its request waited.
async fn still_allowed(
    keys: &ApiKeys,
    id: &KeyId,
    needed: Result<Needed, Problem>,
) -> Result<(), Problem> {
    let known = keys.known(id).await?;
    match needed? {
        Needed::Public => Ok(()),
        Needed::AnyOf(roles) => Caller::with_key(known.key(), None).require(roles),
    }
}

/// The id of a key and the address of its caller, as another node names them.
pub(super) fn read_caller(value: &HeaderValue) -> Option<(KeyId, Option<IpAddr>)> {
    let mut words = value.to_str().ok()?.split(' ');
    let id = KeyId::new(words.next()?).ok()?;
    let address = words.next().and_then(|address| address.parse().ok());
    words.next().is_none().then_some((id, address))
}

/// The secret in `Authorization: Bearer …`.
pub(crate) fn secret_in(headers: &HeaderMap) -> Result<&str, Problem> {
    let refused = |why: &str| Err(Problem::new(ErrorCode::Unauthenticated, why));
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (given.next(), given.next()) {
        (Some(value), None) => value.to_str().unwrap_or_default(),
        (None, _) => {
            return refused(
                "the request has no API key; send it as Authorization: Bearer tg_live_…",
            );
        }
        (Some(_), Some(_)) => return refused("Authorization is given more than once"),
    };
    match value.split_once(' ') {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case(SCHEME) => Ok(secret.trim()),
        Some(_) | None => refused("Authorization must be: Bearer, a blank, and the API key"),
    }
}

/// The answer without a valid key.
fn unauthenticated(problem: Problem) -> Response {
    let is_key = problem.code == ErrorCode::Unauthenticated;
    let mut response = problem.into_response();
    if is_key {
        let challenge = HeaderValue::from_static("Bearer realm=\"tollgate\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(values: &[&str]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        secret_in(&headers).map(str::to_owned).map_err(|problem| problem.body.detail)
    }

    #[test]
    fn secret_is_read_from_one_bearer_header_only() {
        assert_eq!(given(&["Bearer a"]).as_deref(), Ok("a"));
        assert_eq!(given(&["bearer  a "]).as_deref(), Ok("a"));
        for bad in [&[][..], &["Bearer a", "Bearer a"], &["Basic YTpi"], &["a"], &[""]] {
            let detail = given(bad).unwrap_err();
            assert!(!detail.contains("YTpi"), "{detail}");
        }
    }

    #[test]
    fn caller_that_a_node_names_has_a_key_and_perhaps_an_address() {
        let read = |text: &'static str| read_caller(&HeaderValue::from_static(text));
        let (id, address) = read("abcdefghijkm 10.0.0.7").unwrap();
        assert_eq!((id.as_str(), address), ("abcdefghijkm", "10.0.0.7".parse().ok()));
        assert_eq!(read("abcdefghijkm").unwrap().1, None);
        for bad in ["", "short", "abcdefghijkm 10.0.0.7 x"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
