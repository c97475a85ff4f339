//! Sends a question to a URL, again if there is no answer, within limits.

use std::sync::Arc;

use async_trait::async_trait;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tollgate_api::HookQuestion;
use tollgate_api::header::TRACEPARENT;
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use tollgate_model::{Timestamp, TraceParent};
use tracing::warn;

use crate::answer;
use crate::options::{HookOptions, pause_before};

/// Questions at a time (I13): many submitters of a node may be stuck for the same reason, and the
/// receiver must not get all their questions at once.
const CONCURRENCY: usize = 16;

/// A policy that asks a URL.
pub struct HttpHook {
    options: HookOptions,
    clock: Arc<dyn Clock>,
    http: HttpClient,
    places: Semaphore,
}

/// The result of one try.
enum TryOutcome {
    /// An answer.
    Decided(StuckDecision),
    /// An answer that can't be used; a retry would bring the same.
    Refused(String),
    /// No answer, or a temporary failure.
    Failed(String),
}

impl HttpHook {
    /// A hook; nothing is asked yet.
    pub fn new(options: HookOptions, clock: Arc<dyn Clock>) -> Self {
        let limits = Limits {
            connect_timeout: options.timeout,
            idle_max: CONCURRENCY,
            response_bytes_max: answer::BYTES_MAX,
        };
        let http = match options.allows_link_local {
            true => HttpClient::new(&limits),
            false => HttpClient::refusing_link_local(&limits),
        };
        Self { options, clock, http, places: Semaphore::new(CONCURRENCY) }
    }

    /// The answer, or why there is none.
    async fn ask(&self, context: &StuckContext) -> Result<StuckDecision, String> {
        let id = id(context);
        let body = serde_json::to_vec(&HookQuestion::new(id.clone(), context))
            .map_err(|error| format!("the question can't be written: {error}"))?;
        let body = Bytes::from(body);
        let place = timeout(self.options.timeout, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err("too many questions wait for the hook".to_owned());
        };
        let mut retries = 0;
        loop {
            let why = match self.try_once(&id, context.trace, body.clone()).await {
                TryOutcome::Decided(decision) => return Ok(decision),
                TryOutcome::Refused(why) => return Err(why),
                TryOutcome::Failed(why) => why,
            };
            if retries == self.options.retries {
                let tries = match retries {
                    0 => "once".to_owned(),
                    more => format!("{} times", more + 1),
                };
                return Err(format!("{why}; tried {tries}"));
            }
            retries += 1;
            sleep(pause_before(retries)).await;
        }
    }

    async fn try_once(&self, id: &str, trace: Option<TraceParent>, body: Bytes) -> TryOutcome {
        let headers = match self.headers(id, trace, &body) {
            Ok(headers) => headers,
            Err(error) => {
                return TryOutcome::Refused(format!("the question has no header: {error}"));
            }
        };
        let limit = self.options.timeout;
        let posted = timeout(limit, self.http.post(&self.options.uri, headers, body)).await;
        match posted {
            Err(_) => TryOutcome::Failed(format!("the hook did not answer within {limit:?}")),
            Ok(Err(error)) => no_answer(&error),
            Ok(Ok(posted)) => judge(&posted),
        }
    }

    /// Signed anew for each try, because receivers refuse what is old; the id stays.
    fn headers(
        &self,
        id: &str,
        trace: Option<TraceParent>,
        body: &[u8],
    ) -> Result<HeaderMap, hyper::header::InvalidHeaderValue> {
        let unix_seconds = self.clock.now().since(Timestamp::EPOCH).as_secs();
        let signature = self.options.secret.sign(id, unix_seconds, body);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("tollgate"));
        headers.insert("webhook-id", HeaderValue::from_str(id)?);
        headers.insert("webhook-timestamp", HeaderValue::from(unix_seconds));
        headers.insert("webhook-signature", HeaderValue::from_str(&signature)?);
        if let Some(trace) = trace {
            headers.insert(TRACEPARENT, HeaderValue::from_str(&trace.to_string())?);
        }
        Ok(headers)
    }
}

/// Every try at a question has the same id, and no other question has it, because an owner counts its
/// questions under its fencing token.
fn id(context: &StuckContext) -> String {
    let StuckContext { question, tx, .. } = context;
    format!("{}:{}:{question}", tx.tx_id, tx.fencing_token)
}

fn no_answer(error: &HttpError) -> TryOutcome {
    match error {
        HttpError::Unreachable(why) => {
            TryOutcome::Failed(format!("the hook can't be reached: {why}"))
        }
        HttpError::NoAnswer(why) => TryOutcome::Failed(format!("the hook did not answer: {why}")),
        HttpError::CutOff { .. } => TryOutcome::Failed(format!("the hook: {error}")),
        HttpError::TooLong { .. } => TryOutcome::Refused(format!("the hook: {error}")),
    }
}

fn judge(posted: &HttpResponse) -> TryOutcome {
    match posted.status {
        200 => match answer::read(&posted.body) {
            Ok(decision) => TryOutcome::Decided(decision),
            Err(why) => TryOutcome::Refused(format!("the hook's answer can't be used: {why}")),
        },
        status if is_temporary(status) => TryOutcome::Failed(format!("the hook answered {status}")),
        // Whom the question is for was configured; a redirect would have somebody else decide.
        status @ 300..=399 => {
            TryOutcome::Refused(format!("the hook answered {status}, a redirect"))
        }
        status => TryOutcome::Refused(format!("the hook answered {status}")),
    }
}

const fn is_temporary(status: u16) -> bool {
    status == 429 || status >= 500
}

#[async_trait]
impl StuckPolicy for HttpHook {
    async fn decide(&self, context: &StuckContext) -> StuckDecision {
        match self.ask(context).await {
            Ok(decision) => decision,
            Err(why) => {
                let submitter = &context.tx.submitter;
                warn!(%submitter, tx_id = %context.tx.tx_id, error = why, "stuck hook gave no decision");
                StuckDecision { failed: true, ..StuckDecision::new(StuckAction::Noop, &why) }
            }
        }
    }
}
