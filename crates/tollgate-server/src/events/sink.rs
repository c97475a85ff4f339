//! The receivers of events.

use std::time::Duration;

use async_trait::async_trait;
use hyper::body::Bytes;
use tollgate_api::Event;
use tollgate_hook::{Webhook, WebhookAnswer};
use tollgate_model::event::NumberedEvent;
use tracing::info;

/// The name of the webhook among the sinks of the database.
pub(crate) const WEBHOOK: &str = "webhook";
/// The name of the stream of NATS among them.
pub(crate) const NATS: &str = "nats";

/// The reason why a receiver did not take an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NotTaken {
    pub(super) why: String,
    pub(super) retry_after: Option<Duration>,
}

/// A receiver.
#[async_trait]
pub(super) trait EventSink: Send + Sync {
    /// Its name in the database, which keeps how far it has got.
    fn name(&self) -> &'static str;

    /// Delivers an event once.
    async fn deliver(&self, event: &NumberedEvent) -> Result<(), NotTaken>;
}

/// Writes events into the log.
pub(super) struct LogSink;

#[async_trait]
impl EventSink for LogSink {
    fn name(&self) -> &'static str {
        "log"
    }

    async fn deliver(&self, numbered: &NumberedEvent) -> Result<(), NotTaken> {
        let event = Event::from(numbered);
        let data = serde_json::to_string(&event.data).unwrap_or_default();
        info!(target: "tollgate::events", seq = event.seq, id = event.id, kind = &*event.kind, data, "event");
        Ok(())
    }
}

/// Posts events.
pub(super) struct WebhookSink(pub(super) Webhook);

#[async_trait]
impl EventSink for WebhookSink {
    fn name(&self) -> &'static str {
        WEBHOOK
    }

    async fn deliver(&self, numbered: &NumberedEvent) -> Result<(), NotTaken> {
        let event = Event::from(numbered);
        // A type of texts and numbers: it can be written.
        let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
        match self.0.post(&event.id, body).await {
            WebhookAnswer::Taken => Ok(()),
            WebhookAnswer::NotTaken { why, retry_after } => Err(NotTaken { why, retry_after }),
        }
    }
}
