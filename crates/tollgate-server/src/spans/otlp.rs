//! Sends spans to a collector: OTLP over HTTP, as JSON.
//!
//! A bounded queue stands between transactions and the collector. Nobody waits for either: a span that finds the
//! queue full is dropped and counted.

mod form;

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tollgate_http::{HttpClient, Limits};
use tollgate_metrics::{NodeMetrics, SpanResult};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::span::{Span, SpanSink};
use tollgate_model::trace::{SpanId, TraceId};
use tollgate_model::{Timestamp, TraceParent};
use tracing::{info, warn};
use uuid::Uuid;

use crate::clock::SystemClock;
use crate::failure::Failure;

/// Spans that wait for the collector (I13).
const QUEUE_MAX: usize = 8_192;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// The longest wait of a span for others that go with it.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// The longest time for one request.
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between tries to send a batch; then it is lost.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// The longest time for what waits when the node stops.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The collector, and who sends.
pub(super) struct ExporterOptions {
    /// The URL below which `/v1/traces` is. Never shown: it may hold a key.
    pub(super) url: String,
    /// Requests without a `traceparent` that begin a trace, of 100.
    pub(super) sample_percent: u32,
    pub(super) node: String,
}

/// A span and when it ended.
struct Ended {
    span: Span,
    at: Timestamp,
}

/// Puts spans into the queue.
pub(super) struct OtlpSpans {
    queue: mpsc::Sender<Ended>,
    sample_percent: u32,
    metrics: Arc<NodeMetrics>,
}

impl SpanSink for OtlpSpans {
    fn is_on(&self) -> bool {
        true
    }

    fn begin(&self, parent: Option<TraceParent>) -> Option<TraceParent> {
        let random = Uuid::new_v4().into_bytes();
        let span_id = SpanId::new(*random.first_chunk()?)?;
        match parent {
            Some(parent) => parent.is_sampled().then(|| parent.with_span(span_id)),
            // A byte of the random number that is not in the id of the span.
            None => {
                let is_chosen = u32::from(random[15]) * 100 < self.sample_percent * 256;
                let trace_id = || TraceId::new(Uuid::new_v4().into_bytes());
                is_chosen.then(trace_id)?.map(|trace_id| TraceParent::new(trace_id, span_id, true))
            }
        }
    }

    fn record(&self, span: Span) {
        let ended = Ended { span, at: SystemClock.now() };
        if self.queue.try_send(ended).is_err() {
            self.metrics.tollgate.trace_spans_total.inc(SpanResult::Dropped);
        }
    }
}

/// The task that sends.
pub(super) struct Exporter {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Sends what waits, and ends.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        let abort = self.task.abort_handle();
        if timeout(STOP_WAIT, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Starts the task.
pub(super) fn start(
    options: ExporterOptions,
    metrics: Arc<NodeMetrics>,
) -> Result<(OtlpSpans, Exporter), Failure> {
    let ExporterOptions { url, sample_percent, node } = options;
    let uri = format!("{}/v1/traces", url.trim_end_matches('/'));
    let uri: Uri = uri.parse().map_err(|_| "traces.otlp_url is no URL")?;
    let limits =
        Limits { connect_timeout: POST_TIMEOUT, idle_max: 1, response_bytes_max: ANSWER_BYTES_MAX };
    let (queue, inbox) = mpsc::channel(QUEUE_MAX);
    let (stop, stopped) = watch::channel(false);
    let sender = Sender {
        http: HttpClient::new(&limits),
        uri,
        node,
        metrics: metrics.clone(),
        is_down: false,
    };
    let task = tokio::spawn(sender.run(inbox, stopped));
    Ok((OtlpSpans { queue, sample_percent, metrics }, Exporter { stop, task }))
}

struct Sender {
    http: HttpClient,
    uri: Uri,
    node: String,
    metrics: Arc<NodeMetrics>,
    /// The last batch was lost.
    is_down: bool,
}

impl Sender {
    async fn run(mut self, mut inbox: mpsc::Receiver<Ended>, mut stopped: watch::Receiver<bool>) {
        loop {
            let mut batch = Vec::new();
            let is_last = tokio::select! {
                count = inbox.recv_many(&mut batch, BATCH_MAX) => count == 0,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            if is_last {
                inbox.close();
                while inbox.recv_many(&mut batch, BATCH_MAX).await > 0 {
                    self.send(std::mem::take(&mut batch)).await;
                }
                return;
            }
            let full_at = Instant::now() + BATCH_WAIT;
            while batch.len() < BATCH_MAX && !*stopped.borrow() {
                let room = BATCH_MAX - batch.len();
                match timeout_at(full_at, inbox.recv_many(&mut batch, room)).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
            self.send(batch).await;
        }
    }

    /// Sends a batch, again if the collector is in trouble.
    async fn send(&mut self, batch: Vec<Ended>) {
        let count = batch.len() as u64;
        let body = Bytes::from(form::request(&self.node, &batch).to_string());
        let mut pauses = PAUSES.iter();
        let result = loop {
            match self.post(body.clone()).await {
                Ok(()) => break SpanResult::Exported,
                Err(why) => match pauses.next() {
                    Some(pause) if why.may_pass => sleep(*pause).await,
                    _ => {
                        if !self.is_down {
                            warn!(
                                error = why.said,
                                "spans are lost: the collector does not take them"
                            );
                        }
                        break SpanResult::Failed;
                    }
                },
            }
        };
        if self.is_down && result == SpanResult::Exported {
            info!("the collector takes spans again");
        }
        self.is_down = result != SpanResult::Exported;
        self.metrics.tollgate.trace_spans_total.add(result, count);
    }

    async fn post(&self, body: Bytes) -> Result<(), NotTaken> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("tollgate"));
        let posted = timeout(POST_TIMEOUT, self.http.post(&self.uri, headers, body)).await;
        let (said, may_pass) = match posted {
            Ok(Ok(answer)) if (200..300).contains(&answer.status) => return Ok(()),
            Ok(Ok(answer)) => {
                (format!("HTTP {}", answer.status), [429, 502, 503, 504].contains(&answer.status))
            }
            Ok(Err(error)) => (error.to_string(), true),
            Err(_) => (format!("no answer within {POST_TIMEOUT:?}"), true),
        };
        Err(NotTaken { said, may_pass })
    }
}

/// The reason why a batch was not taken.
struct NotTaken {
    said: String,
    /// The same may be taken later.
    may_pass: bool,
}

#[cfg(test)]
mod tests;
