//! The configuration of one endpoint.
//!
//! A URL often carries a provider's key in its path, so nothing here prints more of it than scheme,
//! host and port.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use hyper::Uri;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;
use thiserror::Error;

/// The use of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// Everything.
    #[default]
    Full,
    /// Sends only, for example a relay or a sequencer.
    SendOnly,
    /// Reads only: transactions are never sent to it.
    ReadOnly,
    /// Private transactions only, for example a relay to block builders. It gets their bytes, and the questions about
    /// them while they are not mined; nothing else is read from it.
    Private,
}

impl Role {
    /// Its name in the configuration and in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::SendOnly => "send_only",
            Self::ReadOnly => "read_only",
            Self::Private => "private",
        }
    }
}

/// One JSON-RPC endpoint and its limits (I13).
#[derive(Clone)]
pub struct EndpointConfig {
    /// `http(s)://` or `ws(s)://`.
    pub url: String,
    /// The use: reads, sends or both.
    pub role: Role,
    /// The time-out of a call, including the wait for a free place.
    pub timeout: Duration,
    /// The time-out of a new connection.
    pub connect_timeout: Duration,
    /// Calls in flight at once.
    pub concurrency: usize,
    /// The longest answer that is read, in bytes.
    pub response_bytes_max: usize,
    /// Transports calls in place of a socket.
    #[cfg(feature = "simulation")]
    pub carrier: Option<std::sync::Arc<dyn super::Carrier>>,
}

impl EndpointConfig {
    /// An endpoint with the default limits.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            role: Role::Full,
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            concurrency: 32,
            response_bytes_max: 64 * 1024 * 1024,
            #[cfg(feature = "simulation")]
            carrier: None,
        }
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Target::parse(&self.url).map_or_else(|_| "(bad URL)".to_owned(), |t| t.place);
        f.debug_struct("EndpointConfig")
            .field("url", &place)
            .field("role", &self.role)
            .field("timeout", &self.timeout)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// The reason why a URL can't be used. Holds none of it: it may carry a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadUrl {
    /// Not a URL with a host.
    #[error("not a URL with a scheme and a host")]
    Malformed,
    /// Another scheme.
    #[error("the scheme must be http, https, ws or wss")]
    Scheme,
    /// A limit is zero.
    #[error("a limit of the endpoint is zero")]
    ZeroLimit,
}

/// The parts of a URL.
#[derive(Clone)]
pub(super) struct Target {
    /// Without user and password.
    pub(super) uri: Uri,
    /// The connection uses TLS.
    pub(super) secure: bool,
    /// The connection is a WebSocket.
    pub(super) socket: bool,
    /// `Authorization`, from user and password.
    pub(super) authorization: Option<HeaderValue>,
    /// Scheme, host and port: what may be shown.
    pub(super) place: String,
    /// Parts that must be redacted from texts.
    pub(super) secrets: Vec<String>,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, BadUrl> {
        let full: Uri = url.trim().parse().map_err(|_| BadUrl::Malformed)?;
        let (secure, socket) = match full.scheme_str() {
            Some("http") => (false, false),
            Some("https") => (true, false),
            Some("ws") => (false, true),
            Some("wss") => (true, true),
            Some(_) => return Err(BadUrl::Scheme),
            None => return Err(BadUrl::Malformed),
        };
        let authority = full.authority().ok_or(BadUrl::Malformed)?.as_str();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let scheme = full.scheme_str().unwrap_or_default();
        let path = full.path_and_query().map_or("/", |path| path.as_str());
        let uri = format!("{scheme}://{host}{path}").parse().map_err(|_| BadUrl::Malformed)?;
        let basic = |user: &str| {
            let coded = base64::engine::general_purpose::STANDARD.encode(user);
            let mut value = HeaderValue::from_str(&format!("Basic {coded}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        let pieces = path
            .split(['/', '?', '&', '='])
            .chain(user.into_iter().flat_map(|user| user.split(':')));
        // A node may repeat what it was sent: the header, or a part of the URL without its escapes.
        let sent = user.map(|user| base64::engine::general_purpose::STANDARD.encode(user));
        let plain = pieces.clone().map(|piece| percent_decode_str(piece).decode_utf8_lossy());
        let secrets =
            pieces.clone().map(Cow::Borrowed).chain(plain).map(Cow::into_owned).chain(sent);
        Ok(Self {
            uri,
            secure,
            socket,
            authorization: user.and_then(basic),
            place: format!("{scheme}://{host}"),
            // Short pieces ("v3", "rpc") are no secrets, and would garble the text.
            secrets: longest_first(secrets.filter(|piece| piece.len() >= 8)),
        })
    }

    /// A text without the endpoint's secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

/// Each text once, those that contain another before it.
fn longest_first(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_url_has_scheme_host_and_port_only() {
        let url =
            "https://alice:hunter2hunter2@rpc.example.com:8545/v3/0123456789abcdef?k=topsecret9";
        let target = Target::parse(url).unwrap();
        assert_eq!(target.place, "https://rpc.example.com:8545");
        assert_eq!(target.uri.authority().unwrap().as_str(), "rpc.example.com:8545");
        assert!(target.authorization.is_some() && target.secure && !target.socket);
        let shown = format!("{:?} {}", EndpointConfig::new(url), target.redact(url));
        for secret in ["hunter2", "0123456789abcdef", "topsecret9"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn node_that_repeats_the_request_tells_no_secret() {
        let url =
            "https://alice:hunter2%2Fhunter2@rpc.example.com/v3/0123456789%2Fcdef?k=top%2Bsecret";
        let target = Target::parse(url).unwrap();
        let sent = target.authorization.as_ref().unwrap().to_str().unwrap();
        let told =
            format!("401 for {url} with {sent}, user hunter2/hunter2, 0123456789/cdef top+secret");
        let shown = target.redact(&told);
        let coded = sent.trim_start_matches("Basic ");
        for secret in [coded, "hunter2", "0123456789", "secret"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn url_with_another_scheme_or_without_host_is_refused() {
        assert_eq!(Target::parse("ftp://a/").err(), Some(BadUrl::Scheme));
        for url in ["", "localhost", "/path", "http://", "http:// a"] {
            assert_eq!(Target::parse(url).err(), Some(BadUrl::Malformed), "{url}");
        }
    }
}
