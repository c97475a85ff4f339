//! The connection to a server, and the publishing of one message.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, Request, RequestErrorKind, ServerAddr};
use hyper::body::Bytes;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use tokio::sync::OnceCell;

use crate::ack;

/// Messages on their way to the socket (I13). A caller publishes far fewer at a time.
const UNSENT_MAX: usize = 512;
/// A message with this id is stored once for as long as the stream remembers ids (its duplicate window).
const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The server refuses a message whose subject belongs to another stream.
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";

/// The server and the stream, and the limit of a try.
#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://…` or `tls://…`. May hold a password, so it is never shown.
    pub url: String,
    /// The stream that must store the messages.
    pub stream: String,
    /// A file of credentials (`.creds`) as NATS tools write it.
    pub credentials_file: Option<PathBuf>,
    /// The longest time for one try.
    pub timeout: Duration,
}

/// A message.
#[derive(Clone, Debug)]
pub struct NatsMessage {
    /// The subject, which the stream must take.
    pub subject: String,
    /// The same for every try at a message, and of no other one.
    pub id: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The content.
    pub body: Bytes,
}

/// The reason why a server can't be used.
#[derive(Debug, Error)]
pub enum BadNats {
    /// The URL is none of NATS.
    #[error("must be nats://… or tls://…, with a host")]
    Url,
    /// The file of credentials can't be used.
    #[error("credentials file {}: {why}", file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// The reason, without the content.
        why: String,
    },
}

/// The stream may lack the message: the reason.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct NotStored(pub String);

/// Publishes to one stream.
pub struct NatsPublisher {
    address: ServerAddr,
    stream: String,
    credentials: Option<String>,
    timeout: Duration,
    client: OnceCell<Client>,
    trouble: Trouble,
}

/// The last thing that went wrong with the connection, for the reason why a message is not stored.
#[derive(Clone, Default)]
struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    fn note(&self, event: &Event) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Connected => *last = None,
            Event::ServerError(_) | Event::ClientError(_) => *last = Some(event.to_string()),
            Event::Disconnected
            | Event::LameDuckMode
            | Event::Draining
            | Event::Closed
            | Event::SlowConsumer(_) => {}
        }
    }

    fn said(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default()
    }
}

impl NatsPublisher {
    /// A publisher; nothing is connected yet.
    ///
    /// # Errors
    /// The options can't be used.
    pub fn new(options: NatsOptions) -> Result<Self, BadNats> {
        let NatsOptions { url, stream, credentials_file, timeout } = options;
        let address = Self::check_url(&url)?;
        let credentials = credentials_file.as_deref().map(credentials).transpose()?;
        Ok(Self {
            address,
            stream,
            credentials,
            timeout,
            client: OnceCell::new(),
            trouble: Trouble::default(),
        })
    }

    /// The server of a URL.
    ///
    /// # Errors
    /// It is none of NATS.
    pub fn check_url(url: &str) -> Result<ServerAddr, BadNats> {
        let has_scheme = ["nats://", "tls://"].iter().any(|scheme| url.starts_with(scheme));
        match url.parse::<ServerAddr>() {
            Ok(address) if has_scheme && !address.host().is_empty() => Ok(address),
            Ok(_) | Err(_) => Err(BadNats::Url),
        }
    }

    /// Publishes a message once. A message that is not stored in time may be stored later: the stream drops it if
    /// another try with the same id came first.
    ///
    /// # Errors
    /// The stream has not said that it has the message.
    pub async fn publish(&self, message: NatsMessage) -> Result<(), NotStored> {
        let client = self.connected().await?;
        let NatsMessage { subject, id, content_type, body } = message;
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, id);
        headers.insert(EXPECTED_STREAM, self.stream.as_str());
        headers.insert("content-type", content_type);
        let request = Request::new().headers(headers).payload(body).timeout(Some(self.timeout));
        match client.send_request(subject.clone(), request).await {
            Ok(answer) => ack::read(&self.stream, &answer.payload).map_err(NotStored),
            Err(error) => Err(NotStored(match error.kind() {
                RequestErrorKind::NoResponders => format!(
                    "no stream takes {subject}: create the stream {} with this subject, and JetStream on",
                    self.stream
                ),
                RequestErrorKind::TimedOut => format!("no answer within {:?}", self.timeout),
                RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded
                | RequestErrorKind::Other => error.to_string(),
            })),
        }
    }

    /// The client, if it has a connection: without one a message would wait in memory (I13). The client looks for
    /// the server by itself.
    async fn connected(&self) -> Result<&Client, NotStored> {
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        match client.connection_state() {
            State::Connected => Ok(client),
            State::Pending | State::Disconnected => {
                let (host, port) = (self.address.host(), self.address.port());
                let why = self.trouble.said();
                Err(NotStored(format!("no connection to {host}:{port}{why}")))
            }
        }
    }

    async fn connect(&self) -> Result<Client, NotStored> {
        let trouble = self.trouble.clone();
        let mut options = ConnectOptions::new()
            .event_callback(move |event| {
                trouble.note(&event);
                std::future::ready(())
            })
            .name("tollgate")
            .client_capacity(UNSENT_MAX)
            .connection_timeout(self.timeout)
            .retry_on_initial_connect();
        if let (Some(user), password) = (self.address.username(), self.address.password()) {
            let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            options = options.user_and_password(plain(user), plain(password.unwrap_or_default()));
        }
        if let Some(credentials) = &self.credentials {
            let bad = |error: std::io::Error| NotStored(error.to_string());
            options = options.credentials(credentials).map_err(bad)?;
        }
        // Connects in the background.
        options.connect(self.address.clone()).await.map_err(|error| NotStored(error.to_string()))
    }
}

impl fmt::Debug for NatsPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPublisher").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Reads a file of credentials, and checks that it holds some.
fn credentials(file: &Path) -> Result<String, BadNats> {
    let bad = |error: std::io::Error| BadNats::Credentials {
        file: file.to_owned(),
        why: error.to_string(),
    };
    let text = std::fs::read_to_string(file).map_err(bad)?;
    ConnectOptions::new().credentials(&text).map_err(bad)?;
    Ok(text)
}
