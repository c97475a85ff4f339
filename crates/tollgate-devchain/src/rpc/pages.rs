//! Keeps web pages of other sites from using a dev chain through the browser of whoever runs it.
//!
//! A browser names the page's site in `Origin`, and the name under which the page reached the chain in
//! `Host`. Programs send no `Origin` and are not affected.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses what a page of another site may have sent: an `Origin` that is not on this machine and, where
/// the chain listens on loopback, a `Host` that is not loopback (DNS rebinding).
pub(super) async fn refuse_foreign(
    State(listens_on): State<IpAddr>,
    request: Request,
    next: Next,
) -> Response {
    if is_refused(request.headers(), listens_on) {
        let why =
            "a web page of another site may not use the dev chain: Origin and Host must be local";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

fn is_refused(headers: &HeaderMap, listens_on: IpAddr) -> bool {
    let is_local = |name: header::HeaderName, host: fn(&str) -> Option<String>| {
        let texts = headers.get_all(name).into_iter().map(|value| value.to_str().ok());
        texts.into_iter().all(|text| text.and_then(host).is_some_and(|host| is_loopback(&host)))
    };
    let origin = |text: &str| text.parse::<Uri>().ok()?.host().map(str::to_owned);
    let host = |text: &str| Some(text.parse::<Authority>().ok()?.host().to_owned());
    let is_host_checked = listens_on.is_loopback();
    !is_local(header::ORIGIN, origin) || is_host_checked && !is_local(header::HOST, host)
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_taken(listens_on: &str, headers: &[(header::HeaderName, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        !is_refused(&map, listens_on.parse().unwrap())
    }

    #[test]
    fn page_of_another_site_is_refused_and_a_program_is_not() {
        let (host, origin) = (header::HOST, header::ORIGIN);
        for listens_on in ["127.0.0.1", "::1"] {
            let taken = |headers: &[_]| is_taken(listens_on, headers);
            assert!(taken(&[]));
            for local in ["localhost:8545", "127.0.0.1:8545", "[::1]:8545", "LOCALHOST."] {
                assert!(taken(&[(host.clone(), local)]), "{local}");
            }
            for foreign in ["evil.example:8545", "10.0.0.1", "localhost.evil.example", ""] {
                assert!(!taken(&[(host.clone(), foreign)]), "{foreign}");
            }
            let local = (host.clone(), "localhost:8545");
            for (from, is_fine) in [
                ("http://localhost:3000", true),
                ("http://127.0.0.1:3000", true),
                ("https://evil.example", false),
                ("null", false),
                ("http://localhost.evil.example", false),
            ] {
                assert_eq!(taken(&[local.clone(), (origin.clone(), from)]), is_fine, "{from}");
            }
        }
        assert!(is_taken("0.0.0.0", &[(host.clone(), "chain.internal:8545")]));
        let page = [(host, "chain.internal:8545"), (origin, "http://chain.internal:8545")];
        assert!(!is_taken("0.0.0.0", &page), "a page that was rebound to it");
    }
}
