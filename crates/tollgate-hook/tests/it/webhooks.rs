//! Events that are posted: who can verify them, and where they never go.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use sha2::{Digest, Sha256};
use tollgate_hook::{HookSecret, Webhook, WebhookAnswer, WebhookOptions};
use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

use crate::receiver::{Heard, Receiver, Reply, ok};
use crate::support::SECRET;

const NEW_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &str = "{\"type\":\"TxConfirmed\",\"text\":\"提币\"}";
const NOW: i64 = 1_800_000_000;

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(NOW * 1_000_000)
    }
}

fn webhook(url: &str, secrets: &[&str], allows_private: bool) -> Webhook {
    let secrets = secrets.iter().map(|text| HookSecret::parse(text).unwrap()).collect();
    let (url, timeout) = (url.to_owned(), Duration::from_secs(20));
    let options = WebhookOptions { url, secrets, timeout, connections: 2, allows_private };
    Webhook::new(options, Arc::new(Noon)).unwrap()
}

async fn post(webhook: &Webhook) -> WebhookAnswer {
    webhook.post("019a.3.TxConfirmed", Bytes::from_static(BODY.as_bytes())).await
}

/// HMAC-SHA256 as RFC 2104 writes it, so that nothing is shared with what is tested.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// A receiver by the text of Standard Webhooks: it knows one secret, takes any of the signatures, and nothing old.
fn verifies(heard: &Heard, secret: &str, now: i64) -> bool {
    let header = |name: &str| heard.headers[name].as_str();
    let Ok(timestamp) = header("webhook-timestamp").parse::<i64>() else { return false };
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut signed = format!("{}.{timestamp}.", header("webhook-id")).into_bytes();
    signed.extend(&heard.body);
    let expected = format!("v1,{}", STANDARD.encode(hmac_sha256(&key, &signed)));
    let is_fresh = (now - timestamp).abs() <= 300;
    is_fresh && header("webhook-signature").split(' ').any(|given| given == expected)
}

#[test]
fn hmac_of_the_tests_is_that_of_rfc_4231() {
    let mac = hmac_sha256(b"Jefe", b"what do ya want for nothing?");
    let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

#[tokio::test]
async fn posted_event_is_verified_by_whoever_has_the_secret_and_by_nobody_else() {
    let receiver = Receiver::start(vec![ok("")]).await;
    assert_eq!(post(&webhook(&receiver.url, &[SECRET], true)).await, WebhookAnswer::Taken);
    let heard = receiver.heard().remove(0);
    assert_eq!(heard.headers["webhook-id"], "019a.3.TxConfirmed");
    assert_eq!(heard.headers["content-type"], "application/cloudevents+json");
    assert_eq!(heard.body, BODY.as_bytes());
    assert!(verifies(&heard, SECRET, NOW));
    assert!(!verifies(&heard, NEW_SECRET, NOW), "another secret");
    assert!(!verifies(&heard, SECRET, NOW + 301), "a replay");
    let changed = |change: fn(&mut Heard)| {
        let mut heard = heard.clone();
        change(&mut heard);
        verifies(&heard, SECRET, NOW)
    };
    assert!(!changed(|heard| heard.body.push(b' ')), "another body");
    assert!(!changed(|heard| heard.headers.get_mut("webhook-id").unwrap().push('1')), "another id");
    let later = (NOW + 1).to_string();
    let mut moved = heard.clone();
    moved.headers.insert("webhook-timestamp".to_owned(), later);
    assert!(!verifies(&moved, SECRET, NOW), "another time");
}

#[tokio::test]
async fn receiver_verifies_with_the_old_or_the_new_secret_while_it_is_replaced() {
    let receiver = Receiver::start(vec![ok("")]).await;
    let rotating = webhook(&receiver.url, &[NEW_SECRET, SECRET], true);
    assert_eq!(post(&rotating).await, WebhookAnswer::Taken);
    let heard = receiver.heard().remove(0);
    assert!(verifies(&heard, SECRET, NOW) && verifies(&heard, NEW_SECRET, NOW));
    assert_eq!(heard.headers["webhook-signature"].split(' ').count(), 2);
    assert_eq!(post(&webhook(&receiver.url, &[NEW_SECRET], true)).await, WebhookAnswer::Taken);
    let heard = receiver.heard().remove(1);
    assert!(verifies(&heard, NEW_SECRET, NOW) && !verifies(&heard, SECRET, NOW));
}

#[tokio::test]
async fn redirect_is_a_failure_and_nothing_is_posted_to_its_target() {
    let elsewhere = Receiver::start(vec![ok("")]).await;
    for status in
        ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let answer = format!(
            "HTTP/1.1 {status}\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
            elsewhere.url
        );
        let receiver = Receiver::start(vec![Reply::Bytes(answer.into_bytes())]).await;
        let WebhookAnswer::NotTaken { why, .. } =
            post(&webhook(&receiver.url, &[SECRET], true)).await
        else {
            panic!("{status} was taken for a delivery")
        };
        assert_eq!(why, format!("HTTP {}, a redirect", &status[..3]));
        assert_eq!(receiver.heard().len(), 1, "{status}");
    }
    assert!(elsewhere.heard().is_empty());
}

#[tokio::test]
async fn private_addresses_are_refused_by_number_and_by_name_unless_they_are_allowed() {
    let receiver = Receiver::start(vec![ok("")]).await;
    let port = receiver.url.rsplit(':').next().unwrap().split('/').next().unwrap();
    for host in
        ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "10.0.0.1", "169.254.169.254"]
    {
        let url = format!("http://{host}:{port}/hook");
        let answer = post(&webhook(&url, &[SECRET], false)).await;
        let WebhookAnswer::NotTaken { why, .. } = answer else { panic!("{host} was called") };
        assert!(why.contains("private"), "{host}: {why}");
    }
    assert!(receiver.heard().is_empty(), "not even a connection's worth of data");
    assert_eq!(post(&webhook(&receiver.url, &[SECRET], true)).await, WebhookAnswer::Taken);
}
