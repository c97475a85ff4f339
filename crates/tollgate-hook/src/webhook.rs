//! Posts events to a URL, signed by the rules of Standard Webhooks. One call is one try.

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue, USER_AGENT};
use tokio::time::timeout;
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits, RefusedAddresses};
use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

use crate::options::{BadHook, HookOptions};
use crate::secret::HookSecret;

/// The longest answer that is read (I13). Nothing of it is used.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The receiver's URL, and the limits of a post.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The URL. Never shown: the path may hold a key of the receiver.
    pub url: String,
    /// Each event has a signature by each, so that a receiver can change its secret at any time.
    pub secrets: Vec<HookSecret>,
    /// The longest time for one try.
    pub timeout: Duration,
    /// Connections that are kept.
    pub connections: usize,
    /// Private, loopback and link-local addresses may be called.
    pub allows_private: bool,
}

/// The answer of a receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WebhookAnswer {
    /// 2xx: the event is the receiver's.
    Taken,
    /// Anything else, with the pause that the receiver asked for.
    NotTaken {
        /// The answer, or the failure.
        why: String,
        /// `Retry-After`, if there was one.
        retry_after: Option<Duration>,
    },
}

/// A receiver of events.
pub struct Webhook {
    uri: Uri,
    secrets: Vec<HookSecret>,
    timeout: Duration,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

impl Webhook {
    /// A receiver; nothing is posted yet.
    ///
    /// # Errors
    /// The URL can't be posted to.
    pub fn new(options: WebhookOptions, clock: Arc<dyn Clock>) -> Result<Self, BadHook> {
        let WebhookOptions { url, secrets, timeout, connections, allows_private } = options;
        let uri = HookOptions::check_url(&url)?;
        let limits = Limits {
            connect_timeout: timeout,
            idle_max: connections,
            response_bytes_max: ANSWER_BYTES_MAX,
        };
        let refused = match allows_private {
            true => RefusedAddresses::None,
            false => RefusedAddresses::Private,
        };
        let http = HttpClient::refusing(&limits, refused);
        Ok(Self { uri, secrets, timeout, http, clock })
    }

    /// Posts a message once.
    pub async fn post(&self, id: &str, body: Bytes) -> WebhookAnswer {
        let headers = match self.headers(id, &body) {
            Ok(headers) => headers,
            Err(error) => return not_taken(format!("the event has no header: {error}")),
        };
        match timeout(self.timeout, self.http.post(&self.uri, headers, body)).await {
            Err(_) => not_taken(format!("no answer within {:?}", self.timeout)),
            Ok(Ok(answer)) => judge(&answer),
            // The status says enough.
            Ok(Err(HttpError::TooLong { status: 200..=299, .. })) => WebhookAnswer::Taken,
            Ok(Err(error)) => not_taken(error.to_string()),
        }
    }

    /// Signed anew for each try, because receivers refuse what is old; the id stays.
    fn headers(&self, id: &str, body: &[u8]) -> Result<HeaderMap, InvalidHeaderValue> {
        let unix_seconds = self.clock.now().since(Timestamp::EPOCH).as_secs();
        let signatures: Vec<String> =
            self.secrets.iter().map(|secret| secret.sign(id, unix_seconds, body)).collect();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/cloudevents+json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("tollgate"));
        headers.insert("webhook-id", HeaderValue::from_str(id)?);
        headers.insert("webhook-timestamp", HeaderValue::from(unix_seconds));
        headers.insert("webhook-signature", HeaderValue::from_str(&signatures.join(" "))?);
        Ok(headers)
    }
}

fn not_taken(why: String) -> WebhookAnswer {
    WebhookAnswer::NotTaken { why, retry_after: None }
}

fn judge(answer: &HttpResponse) -> WebhookAnswer {
    let retry_after = answer.retry_after();
    match answer.status {
        200..=299 => WebhookAnswer::Taken,
        // Where events go was configured; a redirect would give them to somebody else.
        status @ 300..=399 => {
            WebhookAnswer::NotTaken { why: format!("HTTP {status}, a redirect"), retry_after }
        }
        status => WebhookAnswer::NotTaken { why: format!("HTTP {status}"), retry_after },
    }
}
