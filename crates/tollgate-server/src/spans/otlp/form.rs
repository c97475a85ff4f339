//! The JSON form of spans, as OTLP defines it: ids in hexadecimal, 64-bit numbers as text.

use serde_json::{Value, json};
use tollgate_model::TraceParent;
use tollgate_model::port::span::SpanKind;

use super::Ended;

/// The status of a span that failed.
const STATUS_ERROR: u8 = 2;

/// An export request.
pub(super) fn request(node: &str, batch: &[Ended]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        attribute("service.name", "tollgate"),
        attribute("service.version", version),
        attribute("service.instance.id", node),
    ];
    let spans: Vec<Value> = batch.iter().map(span).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "tollgate", "version": version }, "spans": spans }],
        }]
    })
}

fn span(Ended { span, at }: &Ended) -> Value {
    let attributes: Vec<Value> =
        span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let links: Vec<Value> = span.links.iter().map(link).collect();
    let ended = nanos(at.unix_micros());
    let begun = nanos(at.before(span.took).unix_micros());
    let mut value = json!({
        "traceId": span.context.trace_id().to_string(),
        "spanId": span.context.span_id().to_string(),
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": begun,
        "endTimeUnixNano": ended,
        "attributes": attributes,
        "links": links,
    });
    if let Some(parent) = span.parent {
        value["parentSpanId"] = json!(parent.to_string());
    }
    if span.failed {
        value["status"] = json!({ "code": STATUS_ERROR });
    }
    value
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn link(to: &TraceParent) -> Value {
    json!({ "traceId": to.trace_id().to_string(), "spanId": to.span_id().to_string() })
}

fn nanos(micros: i64) -> String {
    (i128::from(micros.max(0)) * 1_000).to_string()
}

const fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    }
}
