//! Settings of sinks: what is refused, and that no secret is shown.

use tollgate_alert::{BadSink, Sink, SinkKind, SinkSender};
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{AlertKind, AlertPhase};

use crate::support::{notice, now, options, sink};

#[test]
fn sink_that_can_not_work_is_refused_with_the_reason() {
    use SinkKind::{DingTalk, PagerDuty, Slack, WeCom, Webhook};
    let key = "0123456789abcdef0123456789abcdef";
    for (kind, url, secret, expected) in [
        (Slack, None, None, BadSink::NoUrl),
        (Slack, Some("hooks.slack.com"), None, BadSink::Url),
        (Slack, Some("https://me:hunter2@a/"), None, BadSink::UserInUrl),
        (Slack, Some("https://a/"), Some("x"), BadSink::SecretUnused),
        (WeCom, Some("https://a/"), Some("x"), BadSink::SecretUnused),
        (Webhook, Some("https://a/"), None, BadSink::NoSecret),
        (Webhook, Some("https://a/"), Some("hunter2"), BadSink::WebhookSecret),
        (PagerDuty, None, None, BadSink::NoSecret),
        (PagerDuty, None, Some("short"), BadSink::RoutingKey),
        (DingTalk, None, Some("SEC"), BadSink::NoUrl),
    ] {
        let mut options = options(kind, "", secret);
        options.url = url.map(str::to_owned);
        let refused = Sink::new(options).unwrap_err();
        assert_eq!(refused, expected, "{kind:?}");
        assert!(!refused.to_string().contains("hunter2"));
    }
    let mut pagerduty = options(PagerDuty, "", Some(key));
    pagerduty.url = None;
    assert!(Sink::new(pagerduty).is_ok(), "its URL is known");
}

#[tokio::test]
async fn no_secret_is_shown_in_debug_output_or_errors() {
    let url = "http://127.0.0.1:9/topsecret?access_token=topsecret";
    let sink = sink(SinkKind::DingTalk, url, Some("SECtopsecret"));
    assert!(!format!("{sink:?}").contains("topsecret"));
    let failed = SinkSender::new(sink).send(&[notice(AlertPhase::Raised, "")], now()).await;
    let failed = failed.unwrap_err();
    assert!(failed.is_temporary && !failed.to_string().contains("topsecret"), "{failed}");
}

#[tokio::test]
async fn link_local_address_is_not_called() {
    let sink = sink(SinkKind::Slack, "http://169.254.169.254/latest", None);
    let failed = SinkSender::new(sink).send(&[notice(AlertPhase::Raised, "")], now()).await;
    assert!(failed.unwrap_err().why.contains("link-local"));
}

#[test]
fn sink_takes_the_levels_and_kinds_of_its_settings() {
    let mut some = options(SinkKind::Slack, "http://a/", None);
    some.min_level = AlertLevel::Warning;
    some.kinds = vec![AlertKind::Hole];
    let some = Sink::new(some).unwrap();
    assert!(some.wants(AlertKind::Hole, AlertLevel::Critical));
    assert!(!some.wants(AlertKind::Hole, AlertLevel::Info));
    assert!(!some.wants(AlertKind::Stuck, AlertLevel::Critical));
    assert!(sink(SinkKind::Slack, "http://a/", None).wants(AlertKind::Stuck, AlertLevel::Info));
}
