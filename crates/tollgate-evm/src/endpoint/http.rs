//! JSON-RPC over HTTP.
//!
//! Owns a pool of connections. Never repeats a call: whether to ask again is for those who know
//! what was asked.

use std::error::Error as _;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::config::{EndpointConfig, Target};
use super::error::{RpcError, RpcErrorKind};
use super::tls;

/// Idle connections are closed before most proxies would do it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    authorization: Option<HeaderValue>,
    response_bytes_max: usize,
}

/// What came back, JSON-RPC or not.
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

impl Http {
    pub(super) fn new(target: &Target, config: &EndpointConfig) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(IDLE_TIMEOUT));
        connector.set_connect_timeout(Some(config.connect_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*tls::client_config()).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(config.concurrency)
            .build(connector);
        Self {
            client,
            uri: target.uri.clone(),
            authorization: target.authorization.clone(),
            response_bytes_max: config.response_bytes_max,
        }
    }

    pub(super) async fn post(&self, body: Vec<u8>) -> Result<HttpAnswer, RpcError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let response = self.client.request(request).await.map_err(|error| {
            let kind = match error.is_connect() {
                true => RpcErrorKind::Unreachable,
                false => RpcErrorKind::NoAnswer,
            };
            RpcError::new(kind, deepest(&error))
        })?;
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let limited = Limited::new(response.into_body(), self.response_bytes_max);
        let body = limited.collect().await.map_err(|error| {
            let message = match error.is::<LengthLimitError>() {
                true => format!("the answer is longer than {} bytes", self.response_bytes_max),
                false => format!("the answer was cut off: {error}"),
            };
            RpcError { status: Some(status), ..RpcError::new(RpcErrorKind::Unreadable, message) }
        })?;
        Ok(HttpAnswer { status, retry_after, body: body.to_bytes() })
    }
}

/// The cause at the bottom: "connection refused" instead of "client error (Connect)".
fn deepest(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.source().is_some() { cause.to_string() } else { error.to_string() }
}

/// Seconds; the form with a date needs a clock that agrees with the endpoint's, and is rare.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
