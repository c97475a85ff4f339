//! PagerDuty: an event of the Events API v2, under a key that joins the trigger and its resolve.

use serde_json::json;
use tollgate_api::format_time;
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{AlertNotice, AlertPhase};

use super::{SinkRequest, json_request};
use crate::message::{Message, shortened};

/// The longest summary that PagerDuty takes.
const SUMMARY_MAX: usize = 1_024;

pub(super) fn request(routing_key: &str, notices: &[AlertNotice]) -> SinkRequest {
    let Some(notice) = notices.first() else { return json_request(&json!({})) };
    let AlertNotice { alert, phase, .. } = notice;
    let (info, message) = (alert.kind.info(), Message::of(notice));
    let summary = format!("{}: {}: {}", info.title, message.subject, message.detail);
    json_request(&json!({
        "routing_key": routing_key,
        "event_action": match phase {
            AlertPhase::Raised => "trigger",
            AlertPhase::Resolved => "resolve",
        },
        "dedup_key": format!("tollgate-{}", alert.alert_id.simple()),
        "client": "Tollgate",
        "payload": {
            "summary": shortened(&summary, SUMMARY_MAX),
            "source": alert.node,
            "severity": match alert.level {
                AlertLevel::Info => "info",
                AlertLevel::Warning => "warning",
                AlertLevel::Critical => "critical",
            },
            "timestamp": format_time(alert.raised_at),
            "component": message.subject,
            "class": alert.kind.name(),
            "custom_details": {
                "detail": message.detail,
                "meaning": info.meaning,
                "action": info.action,
                "docs": alert.kind.docs_path(),
                "times": alert.times,
            },
        },
    }))
}
