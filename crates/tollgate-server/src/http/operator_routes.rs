//! The routes that are for operators: which of them a listener for callers does not answer.

use axum::http::Method;
use tollgate_api::path;

/// Returns whether a request is an operator's: it acts on a transaction that was accepted, or changes accounts
/// and pools. Creates, reads and reservations of nonces are for callers.
pub(crate) fn is_operator_route(method: &Method, path: &str) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return false;
    }
    let below = |root: &str| {
        let rest = path.strip_prefix(root)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
    };
    if let Some(rest) = below(path::TX) {
        // `{txId}/cancel` and its like.
        return rest.contains('/');
    }
    if let Some(rest) = below(path::SUBMITTERS) {
        let of_account = rest.split_once('/').map_or("", |(_, action)| action);
        return of_account != "nonces" && !of_account.starts_with("nonces/");
    }
    below(path::POOLS).is_some() || below(path::API_KEYS).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_routes_are_actions_and_changes_of_accounts_and_pools() {
        let address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
        for (method, path) in [
            (Method::POST, "/api/v1/tx/0193/cancel".to_owned()),
            (Method::POST, "/api/v1/tx/0193/resolve".to_owned()),
            (Method::POST, "/api/v1/submitters".to_owned()),
            (Method::PATCH, format!("/api/v1/submitters/{address}")),
            (Method::DELETE, format!("/api/v1/submitters/{address}")),
            (Method::POST, format!("/api/v1/submitters/{address}/pause")),
            (Method::POST, format!("/api/v1/submitters/{address}/advance")),
            (Method::PUT, "/api/v1/pools/payouts".to_owned()),
            (Method::DELETE, "/api/v1/pools/payouts".to_owned()),
            (Method::POST, "/api/v1/api-keys".to_owned()),
        ] {
            assert!(is_operator_route(&method, &path), "{method} {path}");
        }
        for (method, path) in [
            (Method::POST, "/api/v1/tx".to_owned()),
            (Method::POST, "/api/v1/tx/batch".to_owned()),
            (Method::GET, "/api/v1/tx/0193/history".to_owned()),
            (Method::GET, "/api/v1/submitters".to_owned()),
            (Method::POST, format!("/api/v1/submitters/{address}/nonces")),
            (Method::POST, format!("/api/v1/submitters/{address}/nonces/7/used")),
            (Method::GET, "/livez".to_owned()),
            (Method::GET, "/readyz".to_owned()),
        ] {
            assert!(!is_operator_route(&method, &path), "{method} {path}");
        }
    }
}
