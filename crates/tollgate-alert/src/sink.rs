//! The sinks: their settings, and the request that each kind expects.
//!
//! One template makes the text of a message; each file below puts it into the format of one receiver and reads
//! that receiver's answer.

mod chat;
mod pagerduty;
mod sign;
mod webhook;

use std::fmt;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{StatusCode, Uri};
use thiserror::Error;
use tollgate_hook::HookSecret;
use tollgate_http::{BadUrl, HttpResponse, http_url};
use tollgate_model::Timestamp;
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{AlertKind, AlertNotice};
use zeroize::Zeroizing;

/// The URL at which PagerDuty takes events.
const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";
/// The length of a routing key of PagerDuty.
const ROUTING_KEY_LENGTH: usize = 32;

/// The format of a sink.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SinkKind {
    /// JSON with a signature of Standard Webhooks.
    Webhook,
    /// Slack's incoming webhooks.
    Slack,
    /// Robots of DingTalk.
    DingTalk,
    /// Bots of Feishu and Lark.
    Feishu,
    /// Robots of WeCom.
    WeCom,
    /// PagerDuty's Events API v2.
    PagerDuty,
}

impl SinkKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Webhook, Self::Slack, Self::DingTalk, Self::Feishu, Self::WeCom, Self::PagerDuty];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Slack => "slack",
            Self::DingTalk => "dingtalk",
            Self::Feishu => "feishu",
            Self::WeCom => "wecom",
            Self::PagerDuty => "pagerduty",
        }
    }

    /// Whoever knows the URL of such a sink can post to it.
    pub const fn has_secret_url(self) -> bool {
        match self {
            Self::Slack | Self::DingTalk | Self::Feishu | Self::WeCom => true,
            Self::Webhook | Self::PagerDuty => false,
        }
    }

    /// The most alerts in one message, by the receiver's limits on its length.
    pub(crate) const fn batch_max(self) -> u32 {
        match self {
            Self::Webhook | Self::PagerDuty => 1,
            Self::WeCom => 3,
            Self::Slack | Self::DingTalk | Self::Feishu => 10,
        }
    }
}

/// The settings of a sink.
#[derive(Clone)]
pub struct SinkOptions {
    /// Its name, the same at all nodes.
    pub name: String,
    /// Its format.
    pub kind: SinkKind,
    /// The URL that messages go to.
    pub url: Option<String>,
    /// The secret that signs messages; with PagerDuty the routing key.
    pub secret: Option<Zeroizing<String>>,
    /// Alerts below this level are not sent.
    pub min_level: AlertLevel,
    /// The kinds that are sent; empty: all.
    pub kinds: Vec<AlertKind>,
    /// Messages in a minute, of all nodes together.
    pub per_minute: u32,
    /// The longest time for one message.
    pub timeout: Duration,
    /// A link-local address may be called.
    pub allows_link_local: bool,
}

/// The reason why a sink can't be used. Holds nothing of what was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadSink {
    /// A URL is needed.
    #[error("needs a url")]
    NoUrl,
    /// Not a URL that can be posted to.
    #[error("url must start with http:// or https://")]
    Url,
    /// The secret belongs into `secret`.
    #[error("url must not hold a user or a password")]
    UserInUrl,
    /// A secret is needed.
    #[error("needs a secret")]
    NoSecret,
    /// The kind has no secret.
    #[error("takes no secret: its url is the secret")]
    SecretUnused,
    /// Not a secret of Standard Webhooks.
    #[error("secret must be whsec_ and 24 to 64 bytes in base64")]
    WebhookSecret,
    /// Not a routing key.
    #[error("secret must be a routing key of 32 letters and digits")]
    RoutingKey,
}

/// The secret that signs or authorises the messages of a sink.
#[derive(Clone)]
enum Credential {
    None,
    Webhook(HookSecret),
    Text(Zeroizing<String>),
}

/// A sink that can be used.
#[derive(Clone)]
pub struct Sink {
    name: String,
    kind: SinkKind,
    uri: Uri,
    credential: Credential,
    min_level: AlertLevel,
    kinds: Vec<AlertKind>,
    pub(crate) per_minute: u32,
    pub(crate) timeout: Duration,
    pub(crate) allows_link_local: bool,
}

/// A request to a receiver.
pub(crate) struct SinkRequest {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A receiver's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SinkAnswer {
    Taken,
    /// The receiver may take the message later.
    Later(String),
    /// The receiver will not take the message.
    Refused(String),
}

impl Sink {
    /// Checks the settings of a sink.
    ///
    /// # Errors
    /// [`BadSink`].
    pub fn new(options: SinkOptions) -> Result<Self, BadSink> {
        let SinkOptions { name, kind, url, secret, min_level, kinds, .. } = options;
        let url = match (url, kind) {
            (Some(url), _) => url,
            (None, SinkKind::PagerDuty) => PAGERDUTY_URL.to_owned(),
            (None, _) => return Err(BadSink::NoUrl),
        };
        let uri = http_url(&url).map_err(|bad| match bad {
            BadUrl::Form => BadSink::Url,
            BadUrl::User => BadSink::UserInUrl,
        })?;
        let credential = match (kind, secret) {
            (SinkKind::Webhook, Some(secret)) => {
                Credential::Webhook(HookSecret::parse(&secret).map_err(|_| BadSink::WebhookSecret)?)
            }
            (SinkKind::PagerDuty, Some(key)) => {
                let is_key = key.len() == ROUTING_KEY_LENGTH
                    && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
                match is_key {
                    true => Credential::Text(key),
                    false => return Err(BadSink::RoutingKey),
                }
            }
            (SinkKind::Webhook | SinkKind::PagerDuty, None) => return Err(BadSink::NoSecret),
            (SinkKind::Slack | SinkKind::WeCom, Some(_)) => return Err(BadSink::SecretUnused),
            (SinkKind::DingTalk | SinkKind::Feishu, Some(secret)) => Credential::Text(secret),
            (_, None) => Credential::None,
        };
        let (per_minute, timeout) = (options.per_minute.max(1), options.timeout);
        let allows_link_local = options.allows_link_local;
        Ok(Self {
            name,
            kind,
            uri,
            credential,
            min_level,
            kinds,
            per_minute,
            timeout,
            allows_link_local,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its format.
    pub const fn kind(&self) -> SinkKind {
        self.kind
    }

    /// Returns whether alerts of a kind and level go to it.
    pub fn wants(&self, kind: AlertKind, level: AlertLevel) -> bool {
        level >= self.min_level && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    /// The request for one message about these notices.
    pub(crate) fn request(&self, notices: &[AlertNotice], now: Timestamp) -> SinkRequest {
        let unix_millis = u64::try_from(now.unix_micros() / 1_000).unwrap_or_default();
        let mut request = match (self.kind, &self.credential) {
            (SinkKind::Webhook, Credential::Webhook(secret)) => {
                webhook::request(secret, notices, unix_millis / 1_000)
            }
            (SinkKind::Slack, _) => chat::slack(notices),
            (SinkKind::WeCom, _) => chat::wecom(notices),
            (SinkKind::DingTalk, credential) => {
                chat::dingtalk(&self.uri, credential.text(), notices, unix_millis)
            }
            (SinkKind::Feishu, credential) => {
                chat::feishu(credential.text(), notices, unix_millis / 1_000)
            }
            (SinkKind::PagerDuty | SinkKind::Webhook, credential) => {
                pagerduty::request(credential.text().unwrap_or_default(), notices)
            }
        };
        if request.uri == Uri::default() {
            request.uri = self.uri.clone();
        }
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        request.headers.insert(CONTENT_TYPE, json);
        request.headers.insert(USER_AGENT, HeaderValue::from_static("tollgate"));
        request
    }

    /// Reads a receiver's answer. Chats answer 200 whether they took the message or not.
    pub(crate) fn judge(&self, answer: &HttpResponse) -> SinkAnswer {
        let status = answer.status;
        match status {
            408 | 425 | 429 | 500.. => SinkAnswer::Later(format!("answered {}", words(status))),
            200..=299 => match self.kind {
                SinkKind::DingTalk | SinkKind::WeCom | SinkKind::Feishu => {
                    chat::judge(self.kind, &answer.body)
                }
                SinkKind::Webhook | SinkKind::Slack | SinkKind::PagerDuty => SinkAnswer::Taken,
            },
            _ => SinkAnswer::Refused(format!("answered {}", words(status))),
        }
    }
}

impl Credential {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::None | Self::Webhook(_) => None,
        }
    }
}

fn words(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

/// A request to the sink's own URL.
fn json_request(body: &serde_json::Value) -> SinkRequest {
    let body = Bytes::from(body.to_string());
    SinkRequest { uri: Uri::default(), headers: HeaderMap::new(), body }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.uri.host().unwrap_or_default();
        f.debug_struct("Sink")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("host", &host)
            .finish_non_exhaustive()
    }
}
