//! A POST and its answer.

use std::error::Error as _;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;

use crate::tls;

/// Idle connections are closed before most proxies would do it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Bounds (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// Connections that are kept for later.
    pub idle_max: usize,
    /// The longest answer that is read.
    pub response_bytes_max: usize,
}

/// Posts. Owns a pool of connections.
pub struct Poster {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    response_bytes_max: usize,
}

/// What came back, whatever it says.
#[derive(Debug)]
pub struct Posted {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, all of it.
    pub body: Bytes,
}

/// Why nothing came back that could be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PostError {
    /// No connection: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// It may have been heard.
    #[error("{0}")]
    NoAnswer(String),
    /// The answer is longer than what is read of one.
    #[error("the answer is longer than {max} bytes")]
    TooLong {
        /// Its status.
        status: u16,
        /// The limit.
        max: usize,
    },
    /// The answer ended before its end.
    #[error("the answer was cut off: {why}")]
    CutOff {
        /// Its status.
        status: u16,
        /// What was wrong.
        why: String,
    },
}

impl Poster {
    /// A pool without connections yet.
    pub fn new(limits: &Limits) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(IDLE_TIMEOUT));
        connector.set_connect_timeout(Some(limits.connect_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*tls::client_config()).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(limits.idle_max)
            .build(connector);
        Self { client, response_bytes_max: limits.response_bytes_max }
    }

    /// Sends one request and reads its answer.
    pub async fn post(
        &self,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Posted, PostError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let response = self.client.request(request).await.map_err(|error| {
            let why = deepest(&error);
            if error.is_connect() { PostError::Unreachable(why) } else { PostError::NoAnswer(why) }
        })?;
        let status = response.status().as_u16();
        let (head, body) = response.into_parts();
        let max = self.response_bytes_max;
        let body = Limited::new(body, max).collect().await.map_err(|error| match error
            .is::<LengthLimitError>(
        ) {
            true => PostError::TooLong { status, max },
            false => PostError::CutOff { status, why: error.to_string() },
        })?;
        Ok(Posted { status, headers: head.headers, body: body.to_bytes() })
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
