//! The generic sink: JSON with a signature of Standard Webhooks.

use hyper::header::HeaderValue;
use serde_json::json;
use tollgate_api::format_time;
use tollgate_hook::HookSecret;
use tollgate_model::port::AlertNotice;

use super::{SinkRequest, json_request};

/// The request about one notice; the id is the same in every try.
pub(super) fn request(
    secret: &HookSecret,
    notices: &[AlertNotice],
    unix_seconds: u64,
) -> SinkRequest {
    let Some(notice) = notices.first() else { return json_request(&json!({})) };
    let AlertNotice { alert, phase, .. } = notice;
    let info = alert.kind.info();
    let request = json_request(&json!({
        "type": format!("tollgate.alert.{phase}"),
        "timestamp": format_time(alert.resolved_at.unwrap_or(alert.raised_at)),
        "data": {
            "alertId": alert.alert_id.to_string(),
            "kind": alert.kind.name(),
            "level": alert.level.name(),
            "title": info.title,
            "chainId": alert.subject.chain_id.map(|id| id.get()),
            "submitter": alert.subject.account.map(|account| account.to_string()),
            "part": alert.subject.part.as_ref().map(|part| part.as_str()),
            "detail": alert.detail.as_str(),
            "node": alert.node,
            "raisedAt": format_time(alert.raised_at),
            "resolvedAt": alert.resolved_at.map(format_time),
            "times": alert.times,
            "meaning": info.meaning,
            "action": info.action,
            "docs": alert.kind.docs_path(),
        },
    }));
    let id = format!("alert_{}_{phase}", alert.alert_id.simple());
    let signature = secret.sign(&id, unix_seconds, &request.body);
    let mut request = request;
    for (name, value) in [
        ("webhook-id", id),
        ("webhook-timestamp", unix_seconds.to_string()),
        ("webhook-signature", signature),
    ] {
        // Hex digits, words and base64: always a header.
        if let Ok(value) = HeaderValue::from_str(&value) {
            request.headers.insert(name, value);
        }
    }
    request
}
