//! Publishers prove who they are.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use tollgate_nats::{BadNats, NatsOptions, NatsPublisher};
use tollgate_testkit::nats::NatsServer;
use tollgate_testkit::wait::until;

use crate::publishing::{message, options, stored, why_not};

#[tokio::test]
async fn server_with_a_password_takes_a_message_from_who_knows_it_only() {
    let mut server = NatsServer::start(&[]).await;
    server.create_stream("EVENTS", "events.>", json!({})).await;
    server.kill();
    let server = server.with_args(&["--user", "tollgate", "--pass", "s3/cret"]).await;
    let place = format!("127.0.0.1:{}", server.port());
    let known = NatsPublisher::new(NatsOptions {
        url: format!("nats://tollgate:s3%2Fcret@{place}"),
        ..options(&server)
    })
    .unwrap();
    stored(&known, message("1", "events.a")).await;

    let stranger = NatsPublisher::new(NatsOptions {
        url: format!("nats://tollgate:wr0ng@{place}"),
        timeout: Duration::from_secs(1),
        ..options(&server)
    })
    .unwrap();
    let why = until("the server to refuse the stranger", || async {
        let why = why_not(&stranger, message("2", "events.a")).await;
        why.contains("authorization").then_some(why)
    })
    .await;
    assert!(why.starts_with(&format!("no connection to {place}: ")), "{why}");
    assert!(!format!("{stranger:?}").contains("wr0ng"), "no secret is shown");
}

#[test]
fn file_of_credentials_that_holds_none_is_refused_at_once_and_not_shown() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"SUAIO3FHUX5PNV2LQIIP7TZ3N4L7TX3W53MQGEIVYFIGA635OZCKEYHFLM").unwrap();
    let options = |credentials_file| NatsOptions {
        url: "nats://127.0.0.1:1".to_owned(),
        stream: "EVENTS".to_owned(),
        credentials_file,
        timeout: Duration::from_secs(1),
    };
    for path in [file.path().to_owned(), "no/such/file.creds".into()] {
        let refused = NatsPublisher::new(options(Some(path.clone()))).unwrap_err();
        assert!(matches!(refused, BadNats::Credentials { .. }), "{refused:?}");
        let why = refused.to_string();
        assert!(why.contains(&path.display().to_string()) && !why.contains("SUAIO"), "{why}");
    }
}

#[test]
fn url_without_a_scheme_of_nats_is_refused() {
    for url in ["http://127.0.0.1:4222", "127.0.0.1:4222", "ws://127.0.0.1", "nats://", ""] {
        assert!(matches!(NatsPublisher::check_url(url), Err(BadNats::Url)), "{url}");
    }
    for url in ["nats://127.0.0.1", "tls://nats.example.com:4222", "nats://user:pass@[::1]:4222"] {
        assert!(NatsPublisher::check_url(url).is_ok(), "{url}");
    }
}
