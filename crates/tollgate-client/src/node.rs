//! Single requests to one node, without retries.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use tollgate_api::header::{CHAIN_ID, PREFER};
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits, TlsFiles};

use crate::client::ClientError;

/// A connection pool that also trusts the CA and presents the certificate that are given, if any.
///
/// # Errors
/// [`ClientError::InvalidConfig`]: a file can't be read or contains nothing that can be used.
pub fn connect(limits: &Limits, files: &TlsFiles) -> Result<Arc<HttpClient>, ClientError> {
    let tls = files.client_config();
    let tls = tls.map_err(|error| ClientError::InvalidConfig(error.to_string()))?;
    Ok(Arc::new(HttpClient::with_tls(limits, &tls)))
}

/// One node's API. Clones share their connections.
#[derive(Clone)]
pub struct Node {
    http: Arc<HttpClient>,
    url: String,
    headers: HeaderMap,
}

impl Node {
    /// A node by its URL: `http://127.0.0.1:8550`. A path in it is put before all paths.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: not an `http` or `https` URL.
    pub fn new(url: &str, http: Arc<HttpClient>) -> Result<Self, ClientError> {
        Self::check(url)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), headers })
    }

    /// Checks that a text is the URL of a node.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: not an `http` or `https` URL.
    pub fn check(url: &str) -> Result<(), ClientError> {
        let wrong = |why: &str| Err(ClientError::InvalidConfig(format!("{url:?}: {why}")));
        match url.parse::<Uri>() {
            Err(error) => wrong(&error.to_string()),
            Ok(uri) => match (uri.scheme_str(), uri.authority()) {
                (Some("http" | "https"), Some(_)) => Ok(()),
                _ => wrong("must be http://… or https://…"),
            },
        }
    }

    /// Sends an API key as a bearer token.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: the key contains characters that a header can't hold.
    pub fn with_api_key(self, key: &str) -> Result<Self, ClientError> {
        let value = HeaderValue::from_str(&format!("Bearer {key}"));
        let mut value =
            value.map_err(|_| ClientError::InvalidConfig("the API key is not text".to_owned()))?;
        value.set_sensitive(true);
        Ok(self.with_header(AUTHORIZATION.as_str(), value))
    }

    /// Says in every request which chain it is for.
    #[must_use]
    pub fn with_chain(self, chain_id: u64) -> Self {
        self.with_header(CHAIN_ID, HeaderValue::from(chain_id))
    }

    /// Asks in every request for a transaction to hold the answer back until it is final, for so many
    /// seconds at most. A node may answer earlier.
    #[must_use]
    pub fn with_wait(self, seconds: u32) -> Self {
        let wait = HeaderValue::from_str(&format!("wait={seconds}"));
        match wait {
            Ok(wait) => self.with_header(PREFER, wait),
            Err(_) => self,
        }
    }

    /// Asks in every request for an answer of this media type, like `text/csv`.
    #[must_use]
    pub fn with_accept(self, media_type: &'static str) -> Self {
        self.with_header(ACCEPT.as_str(), HeaderValue::from_static(media_type))
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The URL, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request and waits for the response.
    ///
    /// # Errors
    /// [`HttpError`]; [`HttpError::NoAnswer`] after the time-out.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpResponse, HttpError> {
        let uri: Uri = format!("{}{path}", self.url)
            .parse()
            .map_err(|error| HttpError::Unreachable(format!("{path}: {error}")))?;
        let response = self.http.send(method, &uri, self.headers.clone(), body);
        let late = |_| HttpError::NoAnswer(format!("nothing within {timeout:?}"));
        tokio::time::timeout(timeout, response).await.map_err(late)?
    }
}
