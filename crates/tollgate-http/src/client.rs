//! One request and its response.

use std::error::Error as _;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;

use crate::policy::{RefusedAddresses, Resolver};
use crate::tls;

/// Idle connections are closed earlier than most proxies would close them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Bounds (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The time to establish a connection.
    pub connect_timeout: Duration,
    /// Idle connections that are kept per host.
    pub idle_max: usize,
    /// The longest response body.
    pub response_bytes_max: usize,
}

/// Sends HTTP requests. Owns a connection pool.
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    response_bytes_max: usize,
    refused: RefusedAddresses,
}

/// A complete response of any status.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

impl HttpResponse {
    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `Retry-After` in seconds; its date form is ignored.
    pub fn retry_after(&self) -> Option<Duration> {
        self.header(RETRY_AFTER.as_str())?.trim().parse().ok().map(Duration::from_secs)
    }
}

/// The reason why there is no complete response.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum HttpError {
    /// No connection: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have been processed.
    #[error("{0}")]
    NoAnswer(String),
    /// The response is longer than the limit.
    #[error("the answer is longer than {max} bytes")]
    TooLong {
        /// The response's status.
        status: u16,
        /// The limit.
        max: usize,
    },
    /// The connection ended within the response.
    #[error("the answer was cut off: {why}")]
    CutOff {
        /// The response's status.
        status: u16,
        /// The cause.
        why: String,
    },
}

impl HttpClient {
    /// A client that trusts the host's root certificates.
    pub fn new(limits: &Limits) -> Self {
        Self::with_tls(limits, &tls::client_config())
    }

    /// A client with TLS settings of its own, such as [`client_config_trusting`](crate::client_config_trusting).
    pub fn with_tls(limits: &Limits, tls: &rustls::ClientConfig) -> Self {
        Self::build(limits, tls, RefusedAddresses::None)
    }

    /// A client that calls no link-local address, by whatever name: for URLs of which nobody vouches that they
    /// lead to a service of the operator's own.
    pub fn refusing_link_local(limits: &Limits) -> Self {
        Self::refusing(limits, RefusedAddresses::LinkLocal)
    }

    /// A client that does not call some addresses, by whatever name.
    pub fn refusing(limits: &Limits, refused: RefusedAddresses) -> Self {
        Self::build(limits, &tls::client_config(), refused)
    }

    /// The same with TLS settings of its own.
    pub fn refusing_with_tls(
        limits: &Limits,
        refused: RefusedAddresses,
        tls: &rustls::ClientConfig,
    ) -> Self {
        Self::build(limits, tls, refused)
    }

    fn build(limits: &Limits, tls: &rustls::ClientConfig, refused: RefusedAddresses) -> Self {
        let resolver = Resolver { system: GaiResolver::new(), refused };
        let mut connector = HttpConnector::new_with_resolver(resolver);
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(IDLE_TIMEOUT));
        connector.set_connect_timeout(Some(limits.connect_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(limits.idle_max)
            .build(connector);
        Self { client, response_bytes_max: limits.response_bytes_max, refused }
    }

    /// Sends a POST request and reads its response.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn post(
        &self,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        self.send(Method::POST, uri, headers, body).await
    }

    /// Sends a request and reads its response.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn send(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        // An address is connected to without the resolver.
        if self.refused.named_by(uri) {
            return Err(HttpError::Unreachable(self.refused.reason()));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let response = self.client.request(request).await.map_err(|error| {
            let why = deepest(&error);
            if error.is_connect() { HttpError::Unreachable(why) } else { HttpError::NoAnswer(why) }
        })?;
        let status = response.status().as_u16();
        let (head, body) = response.into_parts();
        let max = self.response_bytes_max;
        let body = Limited::new(body, max).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => HttpError::TooLong { status, max },
            false => HttpError::CutOff { status, why: error.to_string() },
        })?;
        Ok(HttpResponse { status, headers: head.headers, body: body.to_bytes() })
    }
}

/// The root cause: "connection refused" instead of "client error (Connect)".
fn deepest(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.source().is_some() { cause.to_string() } else { error.to_string() }
}
