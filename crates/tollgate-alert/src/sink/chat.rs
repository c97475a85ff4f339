//! Chats: Slack, DingTalk, Feishu and WeCom.
//!
//! Texts from outside are made inert: a node's answer must not mention everybody or show a link.

use hyper::Uri;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{AlertNotice, AlertPhase};

use super::{SinkAnswer, SinkKind, SinkRequest, json_request, sign};
use crate::message::{Message, shortened};

/// The longest message of WeCom, in bytes.
const WECOM_BYTES_MAX: usize = 4_096;
/// The longest text of a block of Slack.
const SLACK_BLOCK_MAX: usize = 3_000;

/// Slack's text, in which three characters have a meaning.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(super) fn slack(notices: &[AlertNotice]) -> SinkRequest {
    let messages: Vec<Message> = notices.iter().map(Message::of).collect();
    let titles: Vec<String> = messages.iter().map(|it| slack_text(&it.title())).collect();
    let block = |message: &Message| {
        let (title, body) = (slack_text(&message.title()), slack_text(&message.body()));
        let text = shortened(&format!("*{title}*\n{body}"), SLACK_BLOCK_MAX);
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": text, "verbatim": true } })
    };
    let blocks: Vec<Value> = messages.iter().map(block).collect();
    json_request(&json!({ "text": titles.join("\n"), "blocks": blocks }))
}

/// Markdown of the alerts, each with its title in bold.
fn markdown(notices: &[AlertNotice], gap: &str) -> String {
    let part = |notice: &AlertNotice| {
        let message = Message::of(notice);
        format!("**{}**{gap}{}", message.title(), message.body().replace('\n', gap))
    };
    notices.iter().map(part).collect::<Vec<_>>().join("\n\n")
}

pub(super) fn dingtalk(
    uri: &Uri,
    secret: Option<&str>,
    notices: &[AlertNotice],
    unix_millis: u64,
) -> SinkRequest {
    let title = notices.first().map(|notice| Message::of(notice).title()).unwrap_or_default();
    // A line ends with an empty one.
    let text = markdown(notices, "\n\n");
    let mut request = json_request(&json!({
        "msgtype": "markdown",
        "markdown": { "title": title, "text": text },
        "at": { "isAtAll": false },
    }));
    if let Some(secret) = secret {
        let sign = sign::dingtalk(secret, unix_millis);
        let sign = utf8_percent_encode(&sign, NON_ALPHANUMERIC);
        let gap = if uri.query().is_some() { '&' } else { '?' };
        let signed = format!("{uri}{gap}timestamp={unix_millis}&sign={sign}");
        request.uri = signed.parse().unwrap_or_else(|_| uri.clone());
    }
    request
}

pub(super) fn feishu(
    secret: Option<&str>,
    notices: &[AlertNotice],
    unix_seconds: u64,
) -> SinkRequest {
    let all_over = notices.iter().all(|notice| notice.phase == AlertPhase::Resolved);
    let worst = notices.iter().map(|notice| notice.alert.level).max();
    let colour = match worst {
        _ if all_over => "green",
        Some(AlertLevel::Critical) => "red",
        Some(AlertLevel::Warning) => "orange",
        Some(AlertLevel::Info) | None => "blue",
    };
    let title = notices.first().map(|notice| Message::of(notice).title()).unwrap_or_default();
    let more = notices.len().saturating_sub(1);
    let title = if more > 0 { format!("{title} (+{more})") } else { title };
    // Plain text has no mentions and no links.
    let element = |notice: &AlertNotice| {
        let message = Message::of(notice);
        let content = format!("{}\n{}", message.title(), message.body());
        json!({ "tag": "div", "text": { "tag": "plain_text", "content": content } })
    };
    let elements: Vec<Value> = notices.iter().map(element).collect();
    let mut body = json!({
        "msg_type": "interactive",
        "card": {
            "header": {
                "template": colour,
                "title": { "tag": "plain_text", "content": title },
            },
            "elements": elements,
        },
    });
    if let Some(secret) = secret {
        body["timestamp"] = json!(unix_seconds.to_string());
        body["sign"] = json!(sign::feishu(secret, unix_seconds));
    }
    json_request(&body)
}

pub(super) fn wecom(notices: &[AlertNotice]) -> SinkRequest {
    let content = shortened(&markdown(notices, "\n"), WECOM_BYTES_MAX);
    json_request(&json!({ "msgtype": "markdown", "markdown": { "content": content } }))
}

/// Reads the code in the body of an answer. A body that can't be read is no proof that the message was taken.
pub(super) fn judge(kind: SinkKind, body: &[u8]) -> SinkAnswer {
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        return SinkAnswer::Later("answered with something that is not JSON".to_owned());
    };
    let names: &[&str] =
        if kind == SinkKind::Feishu { &["code", "StatusCode"] } else { &["errcode"] };
    let Some(code) = names.iter().find_map(|name| answer[name].as_i64()) else {
        return SinkAnswer::Later("answered without a code".to_owned());
    };
    let told = ["errmsg", "msg", "StatusMessage"].iter().find_map(|name| answer[name].as_str());
    let why = format!("answered {code}: {}", shortened(told.unwrap_or_default(), 150));
    match code {
        0 => SinkAnswer::Taken,
        // Busy, or too many messages: of all, of WeCom, of DingTalk (two), of Feishu.
        -1 | 45_009 | 130_101 | 410_100 | 11_232 => SinkAnswer::Later(why),
        _ => SinkAnswer::Refused(why),
    }
}
