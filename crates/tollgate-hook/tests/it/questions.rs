//! The questions that are sent: shape, signature, id.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollgate_model::FencingToken;
use tollgate_model::port::policy::StuckPolicy;

use crate::receiver::{Heard, Receiver, Reply, ok, status};
use crate::support::{SECRET, SUBMITTER, TX_ID, context, patient};

/// HMAC-SHA256 by its definition (RFC 2104), not by the library that signs.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// Checks a question as the standard asks of a receiver.
fn verify(heard: &Heard) {
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let header = |name: &str| heard.headers[name].as_str();
    let start = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
    let message = [start.as_bytes(), &heard.body].concat();
    let expected = format!("v1,{}", STANDARD.encode(hmac(&key, &message)));
    assert_eq!(header("webhook-signature"), expected);
}

#[tokio::test]
async fn a_question_says_all_that_is_known() {
    let receiver = Receiver::start(vec![ok(r#"{"action": "noop"}"#)]).await;
    patient(&receiver.url).decide(&context()).await;
    let heard = receiver.heard();
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].line, "POST /stuck?key=topsecret HTTP/1.1");
    assert_eq!(heard[0].headers["content-type"], "application/json");
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(heard[0].headers["traceparent"], trace, "the trace of the request");
    let question: Value = serde_json::from_slice(&heard[0].body).unwrap();
    assert_eq!(
        question,
        json!({
            "id": format!("{TX_ID}:4:3"),
            "trigger": "head_stuck",
            "chainId": 1,
            "submitter": SUBMITTER,
            "tx": {
                "txId": TX_ID,
                "requestId": "order-17",
                "nonce": 7,
                "state": "STUCK",
                "subState": "TIMED_OUT",
                "createdAt": "2027-01-15T07:43:20Z",
                "validUntil": "2027-01-15T09:00:00Z",
                "metadata": serde_json::from_str::<Value>(
                    "{\"order\":17,\"precise\":123456789012345678901234567890}").unwrap(),
                "replaceable": false,
                "payload": {
                    "to": "0x0303030303030303030303030303030303030303",
                    "value": "115792089237316195423570985008687907853269984665640564039457584007913129639935",
                    "data": "0xabcd",
                    "gas": null,
                },
            },
            "attempts": [
                {
                    "txHash": format!("0x{}", "01".repeat(32)),
                    "kind": "intent",
                    "fees": {"gas": "21000", "maxFeePerGas": "30000000000",
                             "maxPriorityFeePerGas": "1000000000"},
                    "createdAt": "2027-01-15T07:43:21Z",
                },
                {
                    "txHash": format!("0x{}", "02".repeat(32)),
                    "kind": "bump",
                    "fees": {"gas": "21000", "maxFeePerGas": "33750000000",
                             "maxPriorityFeePerGas": null},
                    "createdAt": "2027-01-15T07:43:22Z",
                },
            ],
            "lastError": "transaction underpriced",
            "lastAnswer": "underpriced",
            "diagnosis": "in_pool",
            "ageSeconds": 1000,
            "depth": 12,
        })
    );
    let text = String::from_utf8(heard[0].body.clone()).unwrap();
    assert!(text.contains("123456789012345678901234567890"), "metadata keeps its digits: {text}");
}

#[tokio::test]
async fn a_question_is_signed_and_another_body_would_not_pass() {
    let receiver = Receiver::start(vec![ok(r#"{"action": "noop"}"#)]).await;
    patient(&receiver.url).decide(&context()).await;
    let heard = receiver.heard().remove(0);
    verify(&heard);
    assert_eq!(heard.headers["webhook-timestamp"], "1800000000");
    assert_eq!(heard.headers["webhook-id"], format!("{TX_ID}:4:3"));
    let forged = Heard { body: b"{}".to_vec(), ..heard };
    assert!(std::panic::catch_unwind(|| verify(&forged)).is_err());
}

#[tokio::test]
async fn a_retry_is_the_same_question_with_a_signature_of_its_own() {
    let replies = vec![status("503 Unavailable", ""), Reply::Close, ok(r#"{"action": "cancel"}"#)];
    let receiver = Receiver::start(replies).await;
    patient(&receiver.url).decide(&context()).await;
    let heard = receiver.heard();
    assert_eq!(heard.len(), 3);
    for (again, seconds) in heard.iter().zip(1_800_000_000..) {
        verify(again);
        assert_eq!(again.headers["webhook-id"], heard[0].headers["webhook-id"]);
        assert_eq!(again.body, heard[0].body);
        assert_eq!(again.headers["webhook-timestamp"], seconds.to_string());
    }
}

#[tokio::test]
async fn a_question_that_is_put_again_later_is_another_one() {
    let receiver = Receiver::start(vec![ok(r#"{"action": "noop"}"#)]).await;
    let hook = patient(&receiver.url);
    let mut asked = context();
    hook.decide(&asked).await;
    hook.decide(&asked).await;
    asked.question += 1;
    hook.decide(&asked).await;
    asked.tx.fencing_token = FencingToken::new(5).unwrap();
    hook.decide(&asked).await;
    let ids: Vec<String> =
        receiver.heard().iter().map(|heard| heard.headers["webhook-id"].clone()).collect();
    let expected = ["4:3", "4:3", "4:4", "5:4"];
    assert_eq!(ids, expected.map(|end| format!("{TX_ID}:{end}")));
}

#[tokio::test]
async fn a_record_that_can_not_be_read_is_asked_about_without_its_payload() {
    let receiver = Receiver::start(vec![ok(r#"{"action": "resubmit"}"#)]).await;
    let mut asked = context();
    asked.tx.payload = b"\xff not an intent".to_vec().into();
    let decision = patient(&receiver.url).decide(&asked).await;
    assert!(!decision.failed);
    let question: Value = serde_json::from_slice(&receiver.heard()[0].body).unwrap();
    assert_eq!(question["tx"]["payload"], Value::Null);
    assert_eq!(question["tx"]["metadata"], Value::Null);
}
