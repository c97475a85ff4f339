//! JSON-RPC over HTTP.
//!
//! Owns a pool of connections. Never repeats a call: the caller knows whether that is safe.

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Uri};
use tollgate_http::{HttpClient, HttpError, Limits};

use super::config::{EndpointConfig, Target};
use super::error::{RpcError, RpcErrorKind};

pub(super) struct Http {
    http: HttpClient,
    #[cfg(feature = "simulation")]
    carrier: Option<std::sync::Arc<dyn super::Carrier>>,
    uri: Uri,
    authorization: Option<HeaderValue>,
}

/// An HTTP answer, JSON-RPC or not.
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

impl Http {
    pub(super) fn new(target: &Target, config: &EndpointConfig) -> Self {
        let http = HttpClient::new(&Limits {
            connect_timeout: config.connect_timeout,
            idle_max: config.concurrency,
            response_bytes_max: config.response_bytes_max,
        });
        Self {
            http,
            #[cfg(feature = "simulation")]
            carrier: config.carrier.clone(),
            uri: target.uri.clone(),
            authorization: target.authorization.clone(),
        }
    }

    pub(super) async fn post(&self, body: Vec<u8>) -> Result<HttpAnswer, RpcError> {
        #[cfg(feature = "simulation")]
        if let Some(carrier) = &self.carrier {
            let super::Carried { status, retry_after, body } = carrier.carry(body).await?;
            return Ok(HttpAnswer { status, retry_after, body: body.into() });
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let posted = self.http.post(&self.uri, headers, body.into()).await;
        let posted = posted.map_err(|error| {
            let (kind, status) = match &error {
                HttpError::Unreachable(_) => (RpcErrorKind::Unreachable, None),
                HttpError::NoAnswer(_) => (RpcErrorKind::NoAnswer, None),
                HttpError::TooLong { status, .. } | HttpError::CutOff { status, .. } => {
                    (RpcErrorKind::Unreadable, Some(*status))
                }
            };
            RpcError { status, ..RpcError::new(kind, error.to_string()) }
        })?;
        let retry_after = posted.retry_after();
        Ok(HttpAnswer { status: posted.status, retry_after, body: posted.body })
    }
}
