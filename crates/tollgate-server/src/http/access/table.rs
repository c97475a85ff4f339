//! The role that each call needs. A test compares the table with the OpenAPI document, so that no route is
//! missing in it.

use axum::http::Method;
use tollgate_api::ErrorCode;
use tollgate_model::access::Role;

use crate::http::middleware::no_route_problem;
use crate::http::problem::Problem;

/// The right that a call needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needed {
    /// No key.
    Public,
    /// A key with one of these roles.
    AnyOf(&'static [Role]),
}

const READ: Needed = Needed::AnyOf(&[Role::Read]);
const SUBMIT: Needed = Needed::AnyOf(&[Role::Submit]);
const OPERATE: Needed = Needed::AnyOf(&[Role::Operate]);
const SUBMIT_OR_OPERATE: Needed = Needed::AnyOf(&[Role::Submit, Role::Operate]);
const ADMIN: Needed = Needed::AnyOf(&[Role::Admin]);

/// Each route with its methods. `HEAD` is `GET`. A path in braces stands for one segment; a route without them
/// goes before one with them.
pub(crate) const CALLS: &[(&str, &str, Needed)] = &[
    ("GET", "/livez", Needed::Public),
    ("GET", "/readyz", Needed::Public),
    ("GET", "/openapi.json", Needed::Public),
    ("GET", "/docs", Needed::Public),
    ("GET", "/docs/errors/{code}", Needed::Public),
    ("GET", "/metrics", READ),
    ("GET", "/api/v1/chains", READ),
    ("GET", "/api/v1/nodes", READ),
    ("POST", "/api/v1/tx", SUBMIT),
    ("POST", "/api/v1/tx/batch", SUBMIT),
    ("GET", "/api/v1/tx", READ),
    ("GET", "/api/v1/tx/completions", READ),
    ("GET", "/api/v1/tx/by-request", READ),
    ("GET", "/api/v1/events", READ),
    ("GET", "/api/v1/tx/by-hash/{hash}", READ),
    ("GET", "/api/v1/tx/{txId}", READ),
    ("GET", "/api/v1/tx/{txId}/history", OPERATE),
    ("POST", "/api/v1/tx/{txId}/cancel", SUBMIT_OR_OPERATE),
    ("POST", "/api/v1/tx/{txId}/speed-up", OPERATE),
    ("POST", "/api/v1/tx/{txId}/resubmit", OPERATE),
    ("POST", "/api/v1/tx/{txId}/replace", OPERATE),
    ("POST", "/api/v1/tx/{txId}/resolve", OPERATE),
    ("GET", "/api/v1/reports/costs", READ),
    ("GET", "/api/v1/submitters", READ),
    ("POST", "/api/v1/submitters", ADMIN),
    ("GET", "/api/v1/submitters/{address}", READ),
    ("PATCH", "/api/v1/submitters/{address}", ADMIN),
    ("DELETE", "/api/v1/submitters/{address}", ADMIN),
    ("GET", "/api/v1/submitters/{address}/history", OPERATE),
    ("POST", "/api/v1/submitters/{address}/pause", OPERATE),
    ("POST", "/api/v1/submitters/{address}/resume", OPERATE),
    ("POST", "/api/v1/submitters/{address}/mode", OPERATE),
    ("POST", "/api/v1/submitters/{address}/reconcile", OPERATE),
    ("POST", "/api/v1/submitters/{address}/fill", OPERATE),
    ("POST", "/api/v1/submitters/{address}/advance", OPERATE),
    ("GET", "/api/v1/submitters/{address}/nonces", SUBMIT_OR_OPERATE),
    ("POST", "/api/v1/submitters/{address}/nonces", SUBMIT),
    ("POST", "/api/v1/submitters/{address}/nonces/{nonce}/used", SUBMIT),
    ("POST", "/api/v1/submitters/{address}/nonces/{nonce}/recyclable", SUBMIT),
    ("GET", "/api/v1/pools", READ),
    ("GET", "/api/v1/pools/{name}", READ),
    ("PUT", "/api/v1/pools/{name}", ADMIN),
    ("DELETE", "/api/v1/pools/{name}", ADMIN),
    ("GET", "/api/v1/api-keys", ADMIN),
    ("POST", "/api/v1/api-keys", ADMIN),
    ("POST", "/api/v1/api-keys/{keyId}/revoke", ADMIN),
    ("POST", "/api/v1/api-keys/{keyId}/rotate", ADMIN),
    ("GET", "/api/v1/audit", ADMIN),
];

/// Returns the role that a call needs. A path or method that is not in the table is refused for every key: a route that somebody
/// forgot to add answers nobody.
pub(crate) fn needed(method: &Method, path: &str) -> Result<Needed, Problem> {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let Some(route) = route_of(path) else { return Err(no_route_problem()) };
    let is_it = |call: &&(&str, &str, Needed)| call.0 == method && call.1 == route;
    CALLS.iter().find(is_it).map(|(_, _, needed)| *needed).ok_or_else(|| {
        let detail = "this method is not allowed here; the Allow header names those that are";
        Problem::new(ErrorCode::MethodNotAllowed, detail)
    })
}

/// The methods of a path, as the `Allow` header lists them.
pub(crate) fn methods(path: &str) -> String {
    let route = route_of(path);
    let mut allowed = Vec::new();
    for (method, _, _) in CALLS.iter().filter(|(_, listed, _)| Some(*listed) == route) {
        allowed.push(*method);
        allowed.extend((*method == "GET").then_some("HEAD"));
    }
    allowed.join(",")
}

/// The route of a path: an exact one first, as the router does.
fn route_of(path: &str) -> Option<&'static str> {
    let routes = || CALLS.iter().map(|(_, route, _)| *route);
    routes().find(|route| *route == path).or_else(|| routes().find(|route| is_like(route, path)))
}

/// Returns whether a path has the segments of a route.
pub(crate) fn is_like(route: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    let fits = route.split('/').all(|wanted| {
        segments.next().is_some_and(|given| match wanted.starts_with('{') {
            true => !given.is_empty(),
            false => wanted == given,
        })
    });
    fits && segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_found_by_method_and_segments() {
        let of = |method: Method, path: &str| needed(&method, path).map_err(|it| it.code.name());
        assert_eq!(of(Method::HEAD, "/livez"), Ok(Needed::Public));
        assert_eq!(of(Method::POST, "/api/v1/tx"), Ok(SUBMIT));
        assert_eq!(of(Method::GET, "/api/v1/tx/by-request"), Ok(READ));
        assert_eq!(of(Method::POST, "/api/v1/tx/0193/cancel"), Ok(SUBMIT_OR_OPERATE));
        assert_eq!(of(Method::DELETE, "/api/v1/pools/payouts"), Ok(ADMIN));
        for path in ["/", "/api/v1/tx/", "/api/v1//tx", "/api/v1/tx/a/b/c", "/LIVEZ", "/livez/"] {
            assert_eq!(of(Method::GET, path), Err("not_found"), "{path}");
        }
        // A request id that is the name of another route stands for itself.
        assert_eq!(of(Method::POST, "/api/v1/tx/batch"), Ok(SUBMIT));
        assert_eq!(of(Method::DELETE, "/api/v1/tx"), Err("method_not_allowed"));
        assert_eq!(of(Method::OPTIONS, "/api/v1/tx"), Err("method_not_allowed"));
    }

    #[test]
    fn every_documented_call_is_in_the_table_and_every_call_of_the_table_is_documented() {
        let document: serde_json::Value = serde_json::from_str(&crate::openapi()).unwrap();
        let mut documented: Vec<(String, String)> = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                documented.push((method.to_uppercase(), path.clone()));
            }
        }
        let listed =
            CALLS.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()));
        let mut listed: Vec<(String, String)> = listed.collect();
        documented.sort();
        listed.sort();
        assert_eq!(listed, documented, "add the route to CALLS, with the role that it needs");
        for (method, path) in documented {
            let example = path.replace(['{', '}'], "x");
            let method: Method = method.parse().unwrap();
            assert!(needed(&method, &example).is_ok(), "{method} {example}");
        }
    }
}
