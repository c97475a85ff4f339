//! Keeps web pages from calling a node through the browser of somebody who can reach it.
//!
//! A page of another site can make a browser send requests to loopback and private addresses. It
//! can't set `Content-Type: application/json` on them without asking first, can't hide its
//! `Origin` and `Sec-Fetch-Site`, and, if it points its own name at the node's address (DNS
//! rebinding), can't hide that name in `Host`. Requests without these headers come from programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tollgate_api::{ErrorCode, quoted};

use super::Chains;
use super::connections::OverTls;
use super::problem::Problem;
use crate::pages::takes_forms;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The `Host` and `Origin` headers that a node accepts. The default accepts every host and the node's
/// own origin.
#[derive(Clone, Debug, Default)]
pub struct BrowserPolicy {
    /// Names and addresses besides loopback; `None` accepts every host.
    hosts: Option<Vec<String>>,
    /// Accepts an address that is not loopback as a host. A literal address can't be
    /// rebound by DNS.
    accepts_any_address: bool,
    origins: Vec<String>,
}

impl BrowserPolicy {
    /// The policy of a node that listens on `listen` and is known to the others as
    /// `advertise_url`. Accepted hosts are loopback, the host of `advertise_url`, `allowed_hosts` and,
    /// unless the node listens on loopback, every literal address.
    pub fn new(
        listen: IpAddr,
        advertise_url: &str,
        allowed_hosts: &[String],
        allowed_origins: &[String],
    ) -> Self {
        let advertised = advertise_url.parse::<Uri>().ok();
        let advertised = advertised.and_then(|uri| uri.host().map(normal_host));
        let hosts = allowed_hosts.iter().map(|host| normal_host(host)).chain(advertised);
        Self {
            hosts: Some(hosts.collect()),
            accepts_any_address: !listen.is_loopback(),
            origins: allowed_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect(),
        }
    }

    fn check(&self, request: &Request) -> Result<(), Problem> {
        let (method, headers) = (request.method(), request.headers());
        let authority = authority(request)?;
        self.check_host(authority.as_ref())?;
        let is_tls = request.extensions().get() == Some(&OverTls);
        let own = authority.as_ref().map(|authority| own_origin(authority, is_tls));
        self.check_origin(method, headers, own.as_deref())?;
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let is_empty = request.body().is_end_stream();
        check_content_type(headers, is_empty, takes_forms(request.uri().path()))?;
        check_content_encoding(headers)
    }

    /// A request without a host is not from a browser.
    fn check_host(&self, authority: Option<&Authority>) -> Result<(), Problem> {
        let (Some(allowed), Some(authority)) = (&self.hosts, authority) else { return Ok(()) };
        let host = normal_host(authority.host());
        let is_address = self.accepts_any_address && address_of(&host).is_some();
        if is_loopback(&host) || is_address || allowed.contains(&host) {
            return Ok(());
        }
        let detail = format!(
            "Host: {} is not a name of this node; allowed are {}, the host of advertise_url, and the \
             names in http.allowed_hosts",
            quoted(authority.as_str()),
            if self.accepts_any_address { "IP addresses" } else { "localhost, 127.0.0.1, [::1]" },
        );
        Err(Problem::new(ErrorCode::HostNotAllowed, detail).about("Host"))
    }

    fn check_origin(
        &self,
        method: &Method,
        headers: &HeaderMap,
        own: Option<&str>,
    ) -> Result<(), Problem> {
        let refused = |header: HeaderName, value: &str, why: &str| {
            let detail = format!("{header}: {} {why}", quoted(value));
            Err(Problem::new(ErrorCode::CrossOrigin, detail).about(header.as_str()))
        };
        for origin in headers.get_all(header::ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes()).to_ascii_lowercase();
            if self.origins.contains(&origin) {
                return Ok(());
            }
            if own != Some(origin.as_str()) {
                let why = "is not this node's own origin and not in http.allowed_origins";
                return refused(header::ORIGIN, &origin, why);
            }
        }
        let is = |name: &HeaderName, wanted: &str| {
            headers.get(name).is_some_and(|value| value.as_bytes() == wanted.as_bytes())
        };
        // A link on another site that a person follows: the other site can't read the answer.
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let follows_link =
            is_read && is(&SEC_FETCH_MODE, "navigate") && is(&SEC_FETCH_DEST, "document");
        for site in headers.get_all(SEC_FETCH_SITE) {
            let site = String::from_utf8_lossy(site.as_bytes());
            if !matches!(&*site, "same-origin" | "none") && !follows_link {
                let why = "is not allowed; pages may call this node from its own origin only";
                return refused(SEC_FETCH_SITE, &site, why);
            }
        }
        Ok(())
    }
}

/// Refuses what a page of another site may have sent.
pub(crate) async fn refuse_cross_site(
    State(chains): State<Chains>,
    request: Request,
    next: Next,
) -> Response {
    match chains.browsers().check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// An empty body needs no type; forms always send one. The forms of the pages carry a token instead
/// (`pages/viewer.rs`), and other sites can't read it.
fn check_content_type(headers: &HeaderMap, is_empty: bool, is_form: bool) -> Result<(), Problem> {
    let wanted = if is_form { "application/x-www-form-urlencoded" } else { "application/json" };
    let refused = |detail: String| {
        Err(Problem::new(ErrorCode::UnsupportedMediaType, detail).about("Content-Type"))
    };
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let (first, more) = (given.next(), given.next());
    match (first, more) {
        (None, _) if is_empty => Ok(()),
        (None, _) => refused(format!("Content-Type is missing; it must be {wanted}")),
        (Some(_), Some(_)) => refused("Content-Type is given more than once".to_owned()),
        (Some(value), None) => {
            let text = String::from_utf8_lossy(value.as_bytes());
            let (essence, parameters) = text.split_once(';').unwrap_or((&text, ""));
            let is_wanted = essence.trim().eq_ignore_ascii_case(wanted);
            match is_wanted && parameters.split(';').all(is_not_another_charset) {
                true => Ok(()),
                false => refused(format!(
                    "Content-Type: {} is not supported; it must be {wanted}, in UTF-8",
                    quoted(&text)
                )),
            }
        }
    }
}

/// JSON is UTF-8 (RFC 8259); a body in another encoding would be read as something else.
fn is_not_another_charset(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, "utf-8"));
    let value = value.trim().trim_matches('"');
    !name.trim().eq_ignore_ascii_case("charset")
        || ["utf-8", "utf8", "us-ascii"].iter().any(|known| value.eq_ignore_ascii_case(known))
}

/// Bodies are read as they are: one that was compressed would be called broken JSON.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let text = String::from_utf8_lossy(value.as_bytes());
        if !text.trim().eq_ignore_ascii_case("identity") {
            let what = format!(
                "{} is not supported; send the body without compression (identity)",
                quoted(&text)
            );
            return Err(Problem::of_field(
                ErrorCode::UnsupportedMediaType,
                "Content-Encoding",
                what,
            ));
        }
    }
    Ok(())
}

/// The host of a request: the target's own authority wins over `Host` (RFC 9112, 3.2.2).
fn authority(request: &Request) -> Result<Option<Authority>, Problem> {
    let refused = |why: &str| Err(Problem::new(ErrorCode::HostNotAllowed, why).about("Host"));
    let checked = |authority: Option<Authority>| match authority.filter(is_host_and_port) {
        Some(authority) => Ok(Some(authority)),
        None => refused("Host is not HOST or HOST:PORT"),
    };
    if let Some(authority) = request.uri().authority() {
        return checked(Some(authority.clone()));
    }
    let mut given = request.headers().get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => refused("Host is given more than once"),
        (Some(host), None) => checked(Authority::try_from(host.as_bytes()).ok()),
    }
}

/// The parser also takes user names, lists of hosts, and ports above 65535.
fn is_host_and_port(authority: &Authority) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let host = authority.host();
    let is_host = host.starts_with('[') || (!host.is_empty() && host.bytes().all(is_name));
    let port = authority.as_str().strip_prefix(host);
    is_host
        && port.is_some_and(|port| match port.strip_prefix(':') {
            Some(digits) => {
                digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<u16>().is_ok()
            }
            None => port.is_empty(),
        })
}

/// The origin of pages that this node serves.
fn own_origin(authority: &Authority, is_tls: bool) -> String {
    let place = authority.as_str().to_ascii_lowercase();
    let (scheme, port) = if is_tls { ("https", ":443") } else { ("http", ":80") };
    format!("{scheme}://{}", place.strip_suffix(port).unwrap_or(&place))
}

/// Without the dot at the end that DNS allows.
fn normal_host(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn address_of(host: &str) -> Option<IpAddr> {
    let six = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match six {
        Some(six) => six.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || address_of(host).is_some_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn on_loopback() -> BrowserPolicy {
        let own = "http://tollgate-1.internal:8550";
        let (hosts, origins) = (["gate.example".to_owned()], ["https://ops.example".to_owned()]);
        BrowserPolicy::new(Ipv4Addr::LOCALHOST.into(), own, &hosts, &origins)
    }

    fn code(
        policy: &BrowserPolicy,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> &'static str {
        let mut request = Request::builder().method(method).uri("/api/v1/tx");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        policy.check(&request).map_or_else(|problem| problem.code.name(), |()| "fine")
    }

    #[test]
    fn host_on_loopback_must_be_a_name_of_the_node() {
        let policy = on_loopback();
        for host in [
            "localhost",
            "LOCALHOST:1",
            "localhost.:9",
            "127.0.0.1:8550",
            "127.9.9.9",
            "[::1]:8550",
            "[::ffff:127.0.0.1]",
            "gate.example",
            "Gate.Example:443",
            "tollgate-1.internal:8550",
        ] {
            assert_eq!(code(&policy, "GET", &[("host", host)], ""), "fine", "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8550",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "0.0.0.0",
            "localhost@evil.example",
            "",
            "a b",
            "localhost,evil.example",
            "localhost:99999",
            "localhost:+80",
        ] {
            assert_eq!(code(&policy, "GET", &[("host", host)], ""), "host_not_allowed", "{host}");
        }
        let open = BrowserPolicy::default();
        for host in ["localhost,evil.example", "localhost:99999", "a@b"] {
            assert_eq!(code(&open, "GET", &[("host", host)], ""), "host_not_allowed", "{host}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(code(&policy, "GET", &two, ""), "host_not_allowed");
        assert_eq!(code(&policy, "GET", &[], ""), "fine", "HTTP/1.0 without a host");
    }

    #[test]
    fn name_that_nobody_listed_is_refused_on_every_address() {
        let listed = ["gate.example".to_owned()];
        for listen in ["0.0.0.0", "::", "10.0.0.7"] {
            let with = |hosts: &[String], host: &str| {
                let policy = BrowserPolicy::new(listen.parse().unwrap(), "http://a:1", hosts, &[]);
                let own = format!("http://{host}");
                // A page whose own name was pointed at the node's address.
                let page = [("host", host), ("origin", &own), ("content-type", "application/json")];
                code(&policy, "POST", &page, "{}")
            };
            for host in ["a:1", "10.0.0.7:8550", "[fd00::7]:8550", "localhost", "127.0.0.1:8550"] {
                assert_eq!(with(&[], host), "fine", "{host} on {listen}");
            }
            for host in ["gate.example", "evil.example:8550", "10.0.0.7.evil.example"] {
                assert_eq!(with(&[], host), "host_not_allowed", "{host} on {listen}");
            }
            assert_eq!(with(&listed, "gate.example"), "fine");
        }
    }

    #[test]
    fn origin_must_be_the_nodes_own_or_listed() {
        let policy = on_loopback();
        let with = |method: &str, host: &str, more: &[(&str, &str)]| {
            let headers = [&[("host", host), ("content-type", "application/json")], more].concat();
            code(&policy, method, &headers, "{}")
        };
        for method in ["GET", "POST", "OPTIONS"] {
            for (host, origin) in [
                ("localhost:8550", "http://localhost:8550"),
                ("localhost", "http://localhost"),
                ("localhost:80", "http://localhost"),
                ("127.0.0.1:8550", "https://ops.example"),
            ] {
                let more = [("origin", origin)];
                assert_eq!(with(method, host, &more), "fine", "{origin} on {host}");
            }
            for origin in [
                "null",
                "",
                "http://localhost:3000",
                "http://localhost",
                "https://localhost:8550",
                "http://127.0.0.1:8550",
                "http://evil.example",
                "http://localhost:8550.evil.example",
            ] {
                let more = [("origin", origin)];
                assert_eq!(with(method, "localhost:8550", &more), "cross_origin", "{origin}");
            }
        }
        let mixed = [("origin", "http://localhost:8550"), ("origin", "http://evil.example")];
        assert_eq!(with("POST", "localhost:8550", &mixed), "cross_origin");
    }

    #[test]
    fn origin_over_tls_is_https() {
        let of = |host: &str, is_tls: bool| own_origin(&host.parse().unwrap(), is_tls);
        assert_eq!(of("Gate.example:443", true), "https://gate.example");
        assert_eq!(of("gate.example:8550", true), "https://gate.example:8550");
        assert_eq!(of("gate.example:443", false), "http://gate.example:443");
        let policy = on_loopback();
        let code = |origin: &str| {
            let request = Request::post("/api/v1/tx").header("host", "localhost:8550");
            let request = request.header("content-type", "application/json").extension(OverTls);
            let request = request.header("origin", origin).body(Body::from("{}")).unwrap();
            policy.check(&request).map_or_else(|problem| problem.code.name(), |()| "fine")
        };
        assert_eq!(code("https://localhost:8550"), "fine");
        assert_eq!(code("http://localhost:8550"), "cross_origin");
    }

    #[test]
    fn fetch_of_another_site_is_refused_and_a_followed_link_is_not() {
        let policy = on_loopback();
        let with = |method: &str, more: &[(&str, &str)]| {
            let headers = [&[("host", "localhost"), ("content-type", "application/json")], more];
            code(&policy, method, &headers.concat(), "{}")
        };
        for site in ["same-origin", "none"] {
            assert_eq!(with("POST", &[("sec-fetch-site", site)]), "fine");
        }
        for site in ["cross-site", "same-site", "", "Same-Origin"] {
            for method in ["GET", "POST"] {
                assert_eq!(with(method, &[("sec-fetch-site", site)]), "cross_origin", "{site}");
            }
        }
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(with("GET", &link), "fine");
        assert_eq!(with("POST", &link), "cross_origin", "a form");
        let frame = [link[0], link[1], ("sec-fetch-dest", "iframe")];
        assert_eq!(with("GET", &frame), "cross_origin");
        let listed = [link[0], ("origin", "https://ops.example")];
        assert_eq!(with("POST", &listed), "fine");
    }

    #[test]
    fn content_type_of_a_change_must_be_json() {
        let policy = on_loopback();
        let with = |method: &str, types: &[&str], body: &str| {
            let headers: Vec<_> = types.iter().map(|one| ("content-type", *one)).collect();
            code(&policy, method, &headers, body)
        };
        for json in
            ["application/json", "Application/JSON; charset=\"UTF-8\"", " application/json ;a=b"]
        {
            assert_eq!(with("POST", &[json], "{}"), "fine", "{json}");
        }
        for other in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
            "application/jsonx",
            "application/json; charset=utf-16",
            "application/json; a=b; Charset = \"latin1\"",
            "application/json, text/plain",
            "",
        ] {
            for (method, body) in [("POST", "{}"), ("POST", ""), ("PUT", "{}"), ("DELETE", "{}")] {
                assert_eq!(with(method, &[other], body), "unsupported_media_type", "{other}");
            }
        }
        let two = ["application/json", "text/plain"];
        assert_eq!(with("POST", &two, "{}"), "unsupported_media_type");
        assert_eq!(with("POST", &[], "{}"), "unsupported_media_type");
        assert_eq!(with("POST", &[], ""), "fine", "an action without a body");
        assert_eq!(with("GET", &["text/plain"], ""), "fine");
    }
}
