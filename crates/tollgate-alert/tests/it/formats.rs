//! The request of each sink, judged as its receiver judges it by its manual.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tollgate_alert::{SendFailure, SinkKind, SinkSender};
use tollgate_hook::HookSecret;
use tollgate_model::port::{AlertNotice, AlertPhase};

use crate::receiver::{Answer, Received, Receiver};
use crate::support::{NOW, notice, now, sink};

const HOSTILE: &str = "<!channel> <@U1> [pay](http://evil) @all `x`\nnext";

fn mac(key: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

fn json(text: &str) -> Option<Answer> {
    Some((200, "", text.to_owned()))
}

async fn send(
    kind: SinkKind,
    url: &str,
    secret: Option<&str>,
    notices: &[AlertNotice],
) -> Result<(), SendFailure> {
    SinkSender::new(sink(kind, url, secret)).send(notices, now()).await
}

fn both() -> [AlertNotice; 2] {
    [notice(AlertPhase::Raised, HOSTILE), notice(AlertPhase::Resolved, "gone")]
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test]
async fn slack_gets_blocks_that_mention_nobody() {
    let receiver = Receiver::start(|received: &Received| {
        let body = received.json();
        let blocks = body["blocks"].as_array().cloned().unwrap_or_default();
        let good = |block: &Value| {
            let length = text(block, "/text/text").len();
            text(block, "/type") == "section"
                && text(block, "/text/type") == "mrkdwn"
                && (1..=3_000).contains(&length)
        };
        let is_good = (1..=50).contains(&blocks.len()) && blocks.iter().all(good);
        Some(match is_good && !text(&body, "/text").is_empty() {
            true => (200, "", "ok".to_owned()),
            false => (400, "", "invalid_blocks".to_owned()),
        })
    })
    .await;
    let url = format!("{}/services/T0/B0/xyz", receiver.url);
    send(SinkKind::Slack, &url, None, &both()).await.unwrap();
    let received = receiver.next().await;
    assert_eq!(received.path, "/services/T0/B0/xyz");
    assert!(received.header("content-type").starts_with("application/json"));
    let body = received.json();
    let first = text(&body, "/blocks/0/text/text");
    assert!(first.starts_with("*[CRITICAL] Transaction stuck: chain 8453 0x"), "{first}");
    assert!(first.contains("(pay)(http://evil) ＠all 'x' next"), "{first}");
    assert!(!first.contains(['<', '>', '@']) && first.contains("docs/operations/alerts.md#stuck"));
    assert!(text(&body, "/blocks/1/text/text").starts_with("*[RESOLVED] Transaction stuck"));
}

/// By the manual of DingTalk's custom robots: a signature of milliseconds not older than an hour.
#[tokio::test]
async fn dingtalk_gets_signed_markdown() {
    const SECRET: &str = "SECthis-is-the-secret";
    let receiver = Receiver::start(|received: &Received| {
        let (time, query) = (received.query.get("timestamp").cloned(), &received.query);
        let time = time.unwrap_or_default();
        let is_signed = query.get("sign") == Some(&mac(SECRET, &format!("{time}\n{SECRET}")))
            && query.get("access_token").is_some_and(|token| token == "abc");
        let is_recent =
            time.parse::<u64>().is_ok_and(|time| time.abs_diff(NOW * 1_000) < 3_600_000);
        let body = received.json();
        let is_markdown = text(&body, "/msgtype") == "markdown"
            && !text(&body, "/markdown/title").is_empty()
            && !text(&body, "/markdown/text").is_empty();
        match is_signed && is_recent && is_markdown {
            true => json(r#"{"errcode":0,"errmsg":"ok"}"#),
            false => json(r#"{"errcode":310000,"errmsg":"sign not match"}"#),
        }
    })
    .await;
    let url = format!("{}/robot/send?access_token=abc", receiver.url);
    send(SinkKind::DingTalk, &url, Some(SECRET), &both()).await.unwrap();
    let body = receiver.next().await.json();
    let told = text(&body, "/markdown/text");
    assert!(told.contains("(pay)(http://evil) ＠all 'x' next"), "{told}");
    assert!(!told.contains(['@', '<']), "{told}");
    assert_eq!(body["at"]["isAtAll"], false);
    let refused = send(SinkKind::DingTalk, &url, Some("SECother"), &both()).await.unwrap_err();
    assert!(!refused.is_temporary, "{refused}");
    assert!(refused.why.contains("310000") && !refused.why.contains("SECother"));
}

/// By the manual of Feishu's custom bots: the key is the time and the secret, and nothing is signed.
#[tokio::test]
async fn feishu_gets_a_signed_card() {
    const SECRET: &str = "feishu-secret";
    let receiver = Receiver::start(|received: &Received| {
        let body = received.json();
        let time = text(&body, "/timestamp");
        let is_signed = text(&body, "/sign") == mac(&format!("{time}\n{SECRET}"), "");
        let is_recent = time.parse::<u64>().is_ok_and(|time| time.abs_diff(NOW) < 3_600);
        let is_card = text(&body, "/msg_type") == "interactive"
            && text(&body, "/card/header/title/tag") == "plain_text"
            && body["card"]["elements"]
                .as_array()
                .is_some_and(|all| all.iter().all(|it| text(it, "/text/tag") == "plain_text"));
        match (is_signed && is_recent, is_card && received.body.len() <= 20_000) {
            (false, _) => json(
                r#"{"code":19021,"msg":"sign match fail or timestamp is not within one hour"}"#,
            ),
            (_, false) => json(r#"{"code":9499,"msg":"Bad Request"}"#),
            (true, true) => {
                json(r#"{"StatusCode":0,"StatusMessage":"success","code":0,"msg":"success"}"#)
            }
        }
    })
    .await;
    let url = format!("{}/open-apis/bot/v2/hook/id", receiver.url);
    send(SinkKind::Feishu, &url, Some(SECRET), &both()).await.unwrap();
    assert_eq!(receiver.next().await.json()["card"]["header"]["template"], "red");
    send(SinkKind::Feishu, &url, Some(SECRET), &both()[1..]).await.unwrap();
    assert_eq!(receiver.next().await.json()["card"]["header"]["template"], "green");
    let refused = send(SinkKind::Feishu, &url, None, &both()).await.unwrap_err();
    assert!(!refused.is_temporary && refused.why.contains("19021"), "{refused}");
}

#[tokio::test]
async fn wecom_gets_markdown_within_its_limit() {
    let receiver = Receiver::start(|received: &Received| {
        let body = received.json();
        let length = text(&body, "/markdown/content").len();
        match received.query.get("key").map(String::as_str) {
            Some("busy") => json(r#"{"errcode":45009,"errmsg":"api freq out of limit"}"#),
            Some("k") if text(&body, "/msgtype") == "markdown" && (1..=4_096).contains(&length) => {
                json(r#"{"errcode":0,"errmsg":"ok"}"#)
            }
            _ => json(r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#),
        }
    })
    .await;
    let url = |key: &str| format!("{}/cgi-bin/webhook/send?key={key}", receiver.url);
    let long = vec![notice(AlertPhase::Raised, &"余".repeat(166)); 10];
    send(SinkKind::WeCom, &url("k"), None, &long).await.unwrap();
    let refused = send(SinkKind::WeCom, &url("other"), None, &both()).await.unwrap_err();
    assert!(!refused.is_temporary);
    let busy = send(SinkKind::WeCom, &url("busy"), None, &both()).await.unwrap_err();
    assert!(busy.is_temporary, "{busy}");
}

#[tokio::test]
async fn pagerduty_gets_a_trigger_and_a_resolve_under_one_key() {
    const KEY: &str = "0123456789abcdef0123456789abcdef";
    let receiver = Receiver::start(|received: &Received| {
        let body = received.json();
        let action = text(&body, "/event_action");
        let is_event = text(&body, "/routing_key") == KEY
            && matches!(action, "trigger" | "acknowledge" | "resolve")
            && (1..=255).contains(&text(&body, "/dedup_key").len())
            && (1..=1_024).contains(&text(&body, "/payload/summary").len())
            && !text(&body, "/payload/source").is_empty()
            && ["critical", "error", "warning", "info"].contains(&text(&body, "/payload/severity"));
        Some(match is_event {
            true => (202, "", r#"{"status":"success"}"#.to_owned()),
            false => (400, "", r#"{"status":"invalid event"}"#.to_owned()),
        })
    })
    .await;
    let url = format!("{}/v2/enqueue", receiver.url);
    let [raised, resolved] = both();
    send(SinkKind::PagerDuty, &url, Some(KEY), &[raised]).await.unwrap();
    send(SinkKind::PagerDuty, &url, Some(KEY), &[resolved]).await.unwrap();
    let (trigger, resolve) = (receiver.next().await.json(), receiver.next().await.json());
    assert_eq!(
        (text(&trigger, "/event_action"), text(&resolve, "/event_action")),
        ("trigger", "resolve")
    );
    assert_eq!(trigger["dedup_key"], resolve["dedup_key"]);
    assert_eq!(trigger["payload"]["severity"], "critical");
}

#[tokio::test]
async fn webhook_is_signed_by_the_standard_under_an_id_that_stays() {
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let receiver = Receiver::start(|received: &Received| {
        let secret = HookSecret::parse(SECRET).unwrap();
        let time = received.header("webhook-timestamp").parse().unwrap_or_default();
        let signed = secret.sign(received.header("webhook-id"), time, &received.body);
        let is_good = received.header("webhook-signature") == signed && time == NOW;
        Some((if is_good { 204 } else { 401 }, "", String::new()))
    })
    .await;
    let [raised, resolved] = both();
    for notice in [&raised, &raised, &resolved] {
        let one = std::slice::from_ref(notice);
        send(SinkKind::Webhook, &receiver.url, Some(SECRET), one).await.unwrap();
    }
    let all = [receiver.next().await, receiver.next().await, receiver.next().await];
    assert_eq!(all[0].header("webhook-id"), all[1].header("webhook-id"));
    assert_ne!(all[0].header("webhook-id"), all[2].header("webhook-id"));
    let body = all[0].json();
    assert_eq!(text(&body, "/type"), "tollgate.alert.raised");
    assert_eq!((text(&body, "/data/kind"), &body["data"]["chainId"]), ("stuck", &8453.into()));
    assert_eq!(text(&body, "/data/detail"), HOSTILE, "a program gets the text as it is");
    assert_eq!(text(&all[2].json(), "/type"), "tollgate.alert.resolved");
}

#[tokio::test]
async fn answers_are_temporary_or_final_by_their_status() {
    for (status, header, is_temporary) in [
        (429, "retry-after: 7", true),
        (500, "", true),
        (503, "", true),
        (400, "", false),
        (404, "", false),
        (410, "", false),
        (302, "location: http://127.0.0.1:1/", false),
    ] {
        let receiver =
            Receiver::start(move |_: &Received| Some((status, header, String::new()))).await;
        let failed = send(SinkKind::Slack, &receiver.url, None, &both()).await.unwrap_err();
        assert_eq!(failed.is_temporary, is_temporary, "{status}: {failed}");
        assert_eq!(failed.retry_after.map(|it| it.as_secs()), (status == 429).then_some(7));
        assert_eq!(receiver.rest().await.len(), 1, "one request, no redirect is followed");
    }
    let receiver = Receiver::start(|_: &Received| json("<html>")).await;
    let failed = send(SinkKind::DingTalk, &receiver.url, None, &both()).await.unwrap_err();
    assert!(failed.is_temporary, "an answer that can't be read is no proof of anything");
}
