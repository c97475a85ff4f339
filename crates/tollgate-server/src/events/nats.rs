//! The receiver that is a stream of NATS JetStream. The form of messages is that of the binding of CloudEvents to
//! NATS, in structured mode.

use std::time::Duration;

use async_trait::async_trait;
use hyper::body::Bytes;
use tollgate_api::Event;
use tollgate_model::event::NumberedEvent;
use tollgate_nats::{NatsMessage, NatsOptions, NatsPublisher, NotStored};

use super::sink::{EventSink, NATS, NotTaken};
use crate::config::NatsSettings;
use crate::failure::Failure;

/// The longest time for one try.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONTENT_TYPE: &str = "application/cloudevents+json";

/// Publishes events.
pub(super) struct NatsSink {
    publisher: NatsPublisher,
    subject: String,
}

impl NatsSink {
    /// # Errors
    /// The settings can't be used.
    pub(super) fn new(settings: &NatsSettings) -> Result<Self, Failure> {
        let url = settings.url.as_ref().ok_or("events.mode: nats needs events.nats.url")?;
        let options = NatsOptions {
            url: url.0.clone(),
            stream: settings.stream.0.clone(),
            credentials_file: settings.credentials_file.clone(),
            timeout: TIMEOUT,
        };
        let publisher = NatsPublisher::new(options).map_err(|bad| format!("events.nats: {bad}"))?;
        Ok(Self { publisher, subject: settings.subject.0.clone() })
    }
}

#[async_trait]
impl EventSink for NatsSink {
    fn name(&self) -> &'static str {
        NATS
    }

    async fn deliver(&self, numbered: &NumberedEvent) -> Result<(), NotTaken> {
        let event = Event::from(numbered);
        let message = NatsMessage {
            subject: format!("{}.{}.{}", self.subject, event.data.chain_id, event.kind),
            // A type of texts and numbers: it can be written.
            body: Bytes::from(serde_json::to_vec(&event).unwrap_or_default()),
            id: event.id,
            content_type: CONTENT_TYPE,
        };
        let failed = |NotStored(why)| NotTaken { why, retry_after: None };
        self.publisher.publish(message).await.map_err(failed)
    }
}
