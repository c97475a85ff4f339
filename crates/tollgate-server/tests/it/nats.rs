//! Events of the real binary to a real `nats-server` with JetStream.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::nats::{NatsServer, StoredMessage};
use tollgate_testkit::wait::{until, within};

use crate::program::{Ran, command, http_post};
use crate::start::{Ground, chain};

const STREAM: &str = "EVENTS";

/// A file of settings with a server.
fn settings(server: &NatsServer) -> String {
    format!(
        "[events]\nenabled = true\nmode = \"nats\"\n\n[events.nats]\nurl = \"{}\"\nstream = \"{STREAM}\"\n\
         subject = \"pay.events\"\n",
        server.url()
    )
}

/// Creates a transaction; its id.
async fn create(port: u16, request_id: &str) -> String {
    let create = json!({
        "submitter": dev_accounts()[0].address,
        "requestId": request_id,
        "payload": { "to": dev_accounts()[1].address, "value": "1", "gas": 21_000 },
    })
    .to_string();
    let answer = within("an answer", async {
        loop {
            let answer = http_post(port, "/api/v1/tx", &create).await;
            if let Some(answer) = answer.filter(|answer| answer.contains(" 202 ")) {
                return answer;
            }
        }
    });
    let body = answer.await.split("\r\n\r\n").nth(1).unwrap().to_owned();
    serde_json::from_str::<Value>(&body).unwrap()["txId"].as_str().unwrap().to_owned()
}

/// All messages, as soon as the stream has a number of them that ends with the end of a transaction.
async fn messages_until_final(server: &NatsServer, tx_id: &str) -> Vec<StoredMessage> {
    let end = format!("{tx_id}.");
    until("the last event of a transaction", || async {
        let mut messages = Vec::new();
        for place in 1..=server.message_count(STREAM).await {
            messages.push(server.message(STREAM, place).await);
        }
        let is_end = |message: &StoredMessage| {
            let id = &message.headers["nats-msg-id"];
            id.starts_with(&end) && id.ends_with(".TxConfirmed")
        };
        messages.iter().any(is_end).then_some(messages)
    })
    .await
}

/// The kinds of a transaction's messages, in the order of the stream.
fn kinds(messages: &[StoredMessage], tx_id: &str) -> Vec<String> {
    let of_tx =
        messages.iter().map(|message| serde_json::from_slice::<Value>(&message.body).unwrap());
    of_tx
        .filter(|it| it["subject"] == tx_id)
        .map(|it| it["type"].as_str().unwrap().to_owned())
        .collect()
}

const LIFE: [&str; 4] = ["TxAccepted", "TxSubmitted", "TxReceiptUpdated", "TxConfirmed"];

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_the_stream_in_order_and_once_over_an_outage_and_a_replay() {
    let (mut server, ground, chain) = (NatsServer::start(&[]).await, Ground::new(), chain().await);
    server.create_stream(STREAM, "pay.>", json!({})).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.toml");
    std::fs::write(&file, settings(&server)).unwrap();
    let flags = ["--config", file.to_str().unwrap(), "--finality", "confirmations:2"];
    let _node = ground.started(&mut ground.serve(&chain.url(), &flags)).await;

    let first = create(ground.port, "order-1").await;
    let messages = messages_until_final(&server, &first).await;
    assert_eq!(kinds(&messages, &first), LIFE);
    for message in &messages {
        let event: Value = serde_json::from_slice(&message.body).unwrap();
        let kind = event["type"].as_str().unwrap();
        assert_eq!(message.subject, format!("pay.events.{}.{kind}", event["data"]["chainId"]));
        assert_eq!(message.headers["nats-msg-id"], event["id"].as_str().unwrap());
        assert_eq!(message.headers["content-type"], "application/cloudevents+json");
        assert_eq!((&event["specversion"], &event["subject"]), (&json!("1.0"), &json!(first)));
    }

    server.kill();
    let second = create(ground.port, "order-2").await;
    server.resume().await;
    let messages = messages_until_final(&server, &second).await;
    assert_eq!(kinds(&messages, &second), LIFE);

    // Everything is published again, and the stream knows all of it.
    let database = ground.database_url();
    let args = ["events", "replay", "--from", "1", "--database-url", &database, "--config"];
    let replayed = Ran::of(command().args(args).arg(&file));
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let third = create(ground.port, "order-3").await;
    let messages = messages_until_final(&server, &third).await;
    let ids: BTreeSet<_> = messages.iter().map(|it| it.headers["nats-msg-id"].clone()).collect();
    assert_eq!(
        (messages.len(), ids.len()),
        (3 * LIFE.len(), 3 * LIFE.len()),
        "none is there twice"
    );
}

#[test]
fn settings_of_nats_that_can_not_be_used_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.toml");
    let refusal = |settings: &str| {
        std::fs::write(&file, settings).unwrap();
        let checked =
            Ran::of(command().args(["config", "check", "--no-auth", "--config"]).arg(&file));
        assert_eq!(checked.code, Some(1), "{checked:?}");
        assert!(!checked.err.contains("s3cret") && !checked.out.contains("s3cret"), "{checked:?}");
        checked.err
    };
    let mode = "[events]\nenabled = true\nmode = \"nats\"\n";
    for (nats, expected) in [
        ("", "nats needs events.nats.url, which is not given"),
        ("[events.nats]\nurl = \"http://me:s3cret@127.0.0.1\"", "nats://"),
        (
            "[events.nats]\nurl = \"nats://me:s3cret@h\"\nstream = \"a.b\"",
            "must be a name without blanks",
        ),
        (
            "[events.nats]\nurl = \"nats://me:s3cret@h\"\nsubject = \"a..b\"",
            "must be names with a .",
        ),
        (
            "[events.nats]\nurl = \"nats://me:s3cret@h\"\nsubject = \"a.>\"",
            "must be names with a .",
        ),
    ] {
        let told = refusal(&format!("{mode}{nats}\n"));
        assert!(told.contains(expected), "{nats}: {told}");
    }
}
