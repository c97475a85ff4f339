//! One kept-alive connection to a node.
//!
//! The plainest way to use hyper: no pool and no redirects, so that a caller costs little.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;

/// No answer of a node takes longer, a poll that waits included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest answer that is read, in bytes (I13).
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A node's address.
#[derive(Clone)]
pub(super) struct Target {
    url: String,
    place: String,
    host: HeaderValue,
    /// In front of all paths.
    base: String,
    authorization: Option<HeaderValue>,
}

impl Target {
    pub(super) fn parse(url: &str, api_key: Option<&str>) -> Result<Self, Failure> {
        let uri: Uri = url.parse().map_err(|_| format!("{url}: not a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(format!("{url}: must be http://…, next to the node and without TLS").into());
        }
        let host = uri.host().ok_or_else(|| format!("{url}: no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        let authorization = match api_key {
            Some(key) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self {
            url: url.to_owned(),
            place: format!("{host}:{port}"),
            host: HeaderValue::from_str(&format!("{host}:{port}"))?,
            base: uri.path().trim_end_matches('/').to_owned(),
            authorization,
        })
    }

    /// The node's URL, as it was given.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A path on this node.
    pub(super) fn uri(&self, path: &str) -> Result<Uri, Failure> {
        Ok(format!("{}{path}", self.base).parse()?)
    }
}

/// An answer, whatever it says.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    /// Where the node is that works for the submitter, if the answer says so.
    pub(super) owner: Option<HeaderValue>,
    /// Another node was asked for it.
    pub(super) forwarded: bool,
    pub(super) body: Bytes,
}

/// A connection that is made when it is needed.
pub(super) struct Client {
    target: Target,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(super) const fn new(target: Target) -> Self {
        Self { target, connection: None }
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        let uri = self.target.uri(path)?;
        self.call(Method::GET, uri, Bytes::new()).await
    }

    /// Asks; whatever goes wrong ends the connection, and the next call makes another one.
    pub(super) async fn call(
        &mut self,
        method: Method,
        uri: Uri,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let answer = match timeout(ANSWER_TIMEOUT, self.exchange(method, uri, body)).await {
            Ok(answer) => answer,
            Err(_) => Err("no answer in time".into()),
        };
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }

    async fn exchange(&mut self, method: Method, uri: Uri, body: Bytes) -> Result<Answer, Failure> {
        let mut request = Request::new(Full::new(body));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        let headers = request.headers_mut();
        headers.insert(HOST, self.target.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.target.authorization {
            headers.insert(AUTHORIZATION, key.clone());
        }
        let connection = self.connected().await?;
        let response = connection.send_request(request).await?;
        let status = response.status().as_u16();
        let seconds =
            response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let owner = response.headers().get(tollgate_client::OWNER).cloned();
        let forwarded = response.headers().contains_key(tollgate_client::FORWARDED);
        let retry_after = seconds.map(Duration::from_secs);
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
        Ok(Answer { status, retry_after, owner, forwarded, body })
    }

    async fn connected(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, Failure> {
        let usable = match &mut self.connection {
            Some(connection) => connection.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            let stream = TcpStream::connect(&self.target.place).await?;
            stream.set_nodelay(true)?;
            let (connection, driver) = handshake(TokioIo::new(stream)).await?;
            tokio::spawn(driver);
            self.connection = Some(connection);
        }
        self.connection.as_mut().ok_or_else(|| "no connection".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let target = Target::parse("http://127.0.0.1:8550/", Some("key")).unwrap();
        assert_eq!(target.place, "127.0.0.1:8550");
        assert_eq!(target.uri("/livez").unwrap(), "/livez");
        assert!(target.authorization.is_some());
        let behind = Target::parse("http://gate/toll", None).unwrap();
        assert_eq!((behind.place.as_str(), behind.base.as_str()), ("gate:80", "/toll"));
        for bad in ["https://a", "a", "/a", "ftp://a"] {
            assert!(Target::parse(bad, None).is_err(), "{bad}");
        }
    }
}
