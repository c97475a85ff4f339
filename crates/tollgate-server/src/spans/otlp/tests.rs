//! Spans as a collector gets them: ids and links, a queue that is full, refusals, sampling.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Value;
use tollgate_model::port::span::SpanKind;
use tollgate_testkit::wait::{until, within};

use super::*;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

type Keep = mpsc::UnboundedSender<Value>;

/// A collector that takes everything; its URL, and what it was sent.
async fn collector() -> (String, mpsc::UnboundedReceiver<Value>) {
    async fn take(State(keep): State<Keep>, body: String) -> &'static str {
        keep.send(serde_json::from_str(&body).unwrap()).unwrap();
        "{}"
    }
    let (keep, kept) = mpsc::unbounded_channel();
    let routes = Router::new().route("/v1/traces", post(take)).with_state(keep);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    (url, kept)
}

fn started(url: &str, sample_percent: u32) -> (OtlpSpans, Exporter, Arc<NodeMetrics>) {
    let metrics = Arc::<NodeMetrics>::default();
    let (url, node) = (url.to_owned(), "node-1".to_owned());
    let options = ExporterOptions { url, sample_percent, node };
    let (spans, exporter) = start(options, metrics.clone()).unwrap();
    (spans, exporter, metrics)
}

fn trace(header: &str) -> TraceParent {
    header.parse().unwrap()
}

/// A span below a trace's.
fn span(spans: &OtlpSpans, parent: TraceParent) -> Span {
    Span {
        context: spans.begin(Some(parent)).unwrap(),
        parent: Some(parent.span_id()),
        links: vec![trace(OTHER)],
        name: "commit batch",
        kind: SpanKind::Client,
        took: Duration::from_millis(3),
        failed: true,
        attributes: vec![("tollgate.tx_id", "7".to_owned())],
    }
}

fn count(metrics: &NodeMetrics, result: SpanResult) -> u64 {
    metrics.tollgate.trace_spans_total.get(result)
}

#[tokio::test]
async fn span_is_sent_with_its_ids_its_parent_and_its_links() {
    let (url, mut kept) = collector().await;
    let (spans, exporter, metrics) = started(&url, 100);
    let recorded = span(&spans, trace(TRACE));
    let own = recorded.context;
    spans.record(recorded);
    let request = within("a request", kept.recv()).await.unwrap();
    exporter.stop().await;
    let resource = &request["resourceSpans"][0];
    let name = &resource["resource"]["attributes"][0];
    assert_eq!(name["value"]["stringValue"], "tollgate");
    let span = &resource["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], TRACE[3..35]);
    assert_eq!(span["parentSpanId"], TRACE[36..52]);
    assert_eq!(span["spanId"], own.span_id().to_string());
    assert_ne!(span["spanId"], span["parentSpanId"]);
    assert_eq!(span["links"][0]["traceId"], OTHER[3..35]);
    assert_eq!(span["links"][0]["spanId"], OTHER[36..52]);
    assert_eq!((&span["name"], &span["kind"]), (&"commit batch".into(), &3.into()));
    assert_eq!(span["status"]["code"], 2);
    let nanos = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(nanos("endTimeUnixNano") - nanos("startTimeUnixNano"), 3_000_000);
    assert_eq!(count(&metrics, SpanResult::Exported), 1);
}

#[tokio::test]
async fn spans_that_wait_are_sent_when_the_node_stops() {
    let (url, mut kept) = collector().await;
    let (spans, exporter, metrics) = started(&url, 100);
    for _ in 0..BATCH_MAX + 1 {
        spans.record(span(&spans, trace(TRACE)));
    }
    exporter.stop().await;
    let mut sent = 0;
    while let Ok(request) = kept.try_recv() {
        sent += request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
    }
    assert_eq!(sent, BATCH_MAX + 1);
    assert_eq!(count(&metrics, SpanResult::Exported), sent as u64);
}

#[tokio::test]
async fn spans_beyond_the_queue_are_dropped_and_counted_and_nobody_waits() {
    // Nothing takes spans from the queue: the task runs only when this test waits.
    let (spans, _exporter, metrics) = started("http://127.0.0.1:1", 100);
    for _ in 0..QUEUE_MAX + 3 {
        spans.record(span(&spans, trace(TRACE)));
    }
    assert_eq!(count(&metrics, SpanResult::Dropped), 3);
}

#[tokio::test]
async fn spans_that_the_collector_refuses_are_counted_as_failed() {
    let routes = Router::new().route("/v1/traces", post(|| async { StatusCode::BAD_REQUEST }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    let (spans, _exporter, metrics) = started(&url, 100);
    spans.record(span(&spans, trace(TRACE)));
    until("the refusal", || async { (count(&metrics, SpanResult::Failed) == 1).then_some(()) })
        .await;
}

#[tokio::test]
async fn caller_decides_whether_its_trace_is_recorded_and_the_setting_decides_about_others() {
    let (all, _exporter, _) = started("http://127.0.0.1:1", 100);
    let (none, _exporter, _) = started("http://127.0.0.1:1", 0);
    let silent = trace(&TRACE.replace("-01", "-00"));
    for spans in [&all, &none] {
        let below = spans.begin(Some(trace(TRACE))).unwrap();
        assert_eq!(below.trace_id(), trace(TRACE).trace_id());
        assert_ne!(below.span_id(), trace(TRACE).span_id());
        assert_eq!(spans.begin(Some(silent)), None);
    }
    let (first, second) = (all.begin(None).unwrap(), all.begin(None).unwrap());
    assert!(first.is_sampled() && first.trace_id() != second.trace_id());
    assert!((0..100).all(|_| none.begin(None).is_none()));
}
