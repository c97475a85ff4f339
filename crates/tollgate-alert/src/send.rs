//! Sends one message to one sink.

use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;
use tollgate_http::{HttpClient, HttpError, Limits};
use tollgate_model::alert::{AlertLevel, AlertSubject};
use tollgate_model::port::{AlertKind, AlertNotice, AlertPhase, StoredAlert};
use tollgate_model::{Text, Timestamp};
use uuid::Uuid;

use crate::sink::{Sink, SinkAnswer};

/// The longest answer that is read, in bytes (I13).
const ANSWER_MAX: usize = 64 * 1024;
/// Connections of a sink that are kept.
const IDLE_MAX: usize = 1;

/// The reason why a message was not taken. Holds no URL and no secret.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{why}")]
pub struct SendFailure {
    /// The cause.
    pub why: String,
    /// Another try may succeed.
    pub is_temporary: bool,
    /// The pause that the receiver asks for.
    pub retry_after: Option<Duration>,
}

/// A sink with its connections.
pub struct SinkSender {
    pub(crate) sink: Sink,
    http: HttpClient,
}

impl SinkSender {
    /// A sender; nothing is connected yet.
    pub fn new(sink: Sink) -> Self {
        let limits = Limits {
            connect_timeout: sink.timeout,
            idle_max: IDLE_MAX,
            response_bytes_max: ANSWER_MAX,
        };
        let http = match sink.allows_link_local {
            true => HttpClient::new(&limits),
            false => HttpClient::refusing_link_local(&limits),
        };
        Self { sink, http }
    }

    /// Sends one message about these notices.
    ///
    /// # Errors
    /// [`SendFailure`]: the receiver has not said that it took the message.
    pub async fn send(&self, notices: &[AlertNotice], now: Timestamp) -> Result<(), SendFailure> {
        let request = self.sink.request(notices, now);
        let limit = self.sink.timeout;
        let post = self.http.post(&request.uri, request.headers, request.body);
        let failed =
            |why: String, is_temporary| SendFailure { why, is_temporary, retry_after: None };
        let answer = match timeout(limit, post).await {
            Err(_) => return Err(failed(format!("no answer within {limit:?}"), true)),
            Ok(Err(HttpError::TooLong { status, .. })) if (200..300).contains(&status) => {
                return Err(failed("the answer is too long".to_owned(), false));
            }
            Ok(Err(error)) => return Err(failed(format!("can't be reached: {error}"), true)),
            Ok(Ok(answer)) => answer,
        };
        match self.sink.judge(&answer) {
            SinkAnswer::Taken => Ok(()),
            SinkAnswer::Later(why) => {
                let retry_after = answer.retry_after();
                Err(SendFailure { why, is_temporary: true, retry_after })
            }
            SinkAnswer::Refused(why) => Err(failed(why, false)),
        }
    }
}

/// A notice about nothing, for a try of a sink.
pub fn test_notice(node: &str, now: Timestamp, phase: AlertPhase, alert_id: Uuid) -> AlertNotice {
    let alert = StoredAlert {
        alert_id,
        kind: AlertKind::EndpointDown,
        subject: AlertSubject::node("test"),
        level: AlertLevel::Info,
        detail: Text::lossy("This is a test of the sink. Nothing is wrong."),
        node: node.to_owned(),
        raised_at: now,
        seen_at: now,
        resolved_at: (phase == AlertPhase::Resolved).then_some(now),
        times: 1,
        unseen: Duration::ZERO,
    };
    AlertNotice { alert, phase, tries: 0 }
}
