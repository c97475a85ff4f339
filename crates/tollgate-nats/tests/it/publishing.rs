//! Events that are published: successes, failures, and the content of the stream.

use std::time::Duration;

use serde_json::json;
use tollgate_nats::{NatsMessage, NatsOptions, NatsPublisher};
use tollgate_testkit::nats::NatsServer;
use tollgate_testkit::wait::until;

pub(crate) fn options(server: &NatsServer) -> NatsOptions {
    NatsOptions {
        url: server.url(),
        stream: "EVENTS".to_owned(),
        credentials_file: None,
        timeout: Duration::from_secs(10),
    }
}

pub(crate) fn message(id: &str, subject: &str) -> NatsMessage {
    NatsMessage {
        subject: subject.to_owned(),
        id: id.to_owned(),
        content_type: "application/cloudevents+json",
        body: format!("{{\"id\":\"{id}\"}}").into(),
    }
}

/// Publishes until the message is stored, as its caller does.
pub(crate) async fn stored(publisher: &NatsPublisher, message: NatsMessage) {
    until("the stream to store a message", || async {
        publisher.publish(message.clone()).await.ok()
    })
    .await;
}

/// Publishes until there is an answer that is not only about the connection being made; the reason.
pub(crate) async fn why_not(publisher: &NatsPublisher, message: NatsMessage) -> String {
    publisher.publish(message).await.unwrap_err().0
}

async fn connected_to(server: &NatsServer) -> NatsPublisher {
    let publisher = NatsPublisher::new(options(server)).unwrap();
    until("a connection", || async {
        match publisher.publish(message("connected", "none.takes.this")).await {
            Err(why) if why.0.contains("no connection") => None,
            _ => Some(()),
        }
    })
    .await;
    publisher
}

#[tokio::test]
async fn message_is_stored_with_its_id_and_media_type() {
    let server = NatsServer::start(&[]).await;
    server.create_stream("EVENTS", "events.>", json!({})).await;
    let publisher = NatsPublisher::new(options(&server)).unwrap();
    stored(&publisher, message("tx.1.TxAccepted", "events.1.TxAccepted")).await;

    let kept = server.message("EVENTS", 1).await;
    assert_eq!(kept.subject, "events.1.TxAccepted");
    assert_eq!(kept.headers["nats-msg-id"], "tx.1.TxAccepted");
    assert_eq!(kept.headers["content-type"], "application/cloudevents+json");
    assert_eq!(kept.body, br#"{"id":"tx.1.TxAccepted"}"#);
}

#[tokio::test]
async fn message_that_is_published_again_is_a_success_and_stored_once() {
    let server = NatsServer::start(&[]).await;
    server.create_stream("EVENTS", "events.>", json!({})).await;
    let publisher = NatsPublisher::new(options(&server)).unwrap();
    for _ in 0..3 {
        stored(&publisher, message("1", "events.a")).await;
    }
    stored(&publisher, message("2", "events.a")).await;
    assert_eq!(server.message_count("EVENTS").await, 2);
    assert_eq!(server.message("EVENTS", 2).await.headers["nats-msg-id"], "2");
}

#[tokio::test]
async fn message_is_a_failure_while_the_server_is_down_and_stored_once_it_is_back() {
    let mut server = NatsServer::start(&[]).await;
    server.create_stream("EVENTS", "events.>", json!({})).await;
    let publisher = NatsPublisher::new(options(&server)).unwrap();
    stored(&publisher, message("1", "events.a")).await;

    server.kill();
    let why =
        until("a failure", || async { publisher.publish(message("2", "events.a")).await.err() })
            .await;
    assert!(!why.0.is_empty());
    server.resume().await;

    stored(&publisher, message("2", "events.a")).await;
    // Its answer was taken for lost, so it is published again.
    stored(&publisher, message("1", "events.a")).await;
    let ids = [server.message("EVENTS", 1).await, server.message("EVENTS", 2).await]
        .map(|kept| kept.headers["nats-msg-id"].clone());
    assert_eq!((ids, server.message_count("EVENTS").await), (["1".into(), "2".into()], 2));
}

#[tokio::test]
async fn message_is_a_failure_if_no_stream_or_another_one_takes_its_subject() {
    let server = NatsServer::start(&[]).await;
    let publisher = connected_to(&server).await;
    let why = why_not(&publisher, message("1", "events.a")).await;
    assert!(why.contains("no stream takes events.a") && why.contains("EVENTS"), "{why}");

    server.create_stream("OTHERS", "events.>", json!({})).await;
    let why = why_not(&publisher, message("1", "events.a")).await;
    assert_eq!(why, "the subject belongs to another stream than EVENTS");
    assert_eq!(server.message_count("OTHERS").await, 0);
}

#[tokio::test]
async fn message_that_a_full_stream_refuses_is_a_failure() {
    let server = NatsServer::start(&[]).await;
    server.create_stream("EVENTS", "events.>", json!({"max_msgs": 1})).await;
    let publisher = NatsPublisher::new(options(&server)).unwrap();
    stored(&publisher, message("1", "events.a")).await;
    let why = why_not(&publisher, message("2", "events.a")).await;
    assert!(why.contains("refused the message: maximum messages exceeded"), "{why}");
}
