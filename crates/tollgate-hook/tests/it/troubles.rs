//! Down, slow, nonsense: a noop that says why, in time, and nothing else.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tollgate_model::port::policy::{StuckAction, StuckPolicy};

use crate::receiver::{Receiver, Reply, hang, ok, status};
use crate::support::{context, fails, hook, patient};

const CANCEL: &str = r#"{"action": "cancel"}"#;

#[tokio::test]
async fn down_is_a_noop() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/topsecret", free.local_addr().unwrap());
    drop(free);
    let why = fails(&patient(&url)).await;
    assert!(why.contains("can't be reached") && why.contains("refused"), "{why}");
    assert!(why.ends_with("tried 3 times"), "{why}");
}

#[tokio::test]
async fn slow_is_a_noop_within_the_stated_time() {
    let receiver = Receiver::start(vec![hang()]).await;
    let began = Instant::now();
    let why = fails(&hook(&receiver.url, Duration::from_millis(100), 2)).await;
    let took = began.elapsed();
    assert_eq!(why, "the hook did not answer within 100ms; tried 3 times");
    // Three tries and two pauses; a machine that is busy may add to it.
    assert!(took >= Duration::from_millis(300 + 600), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(receiver.heard().len(), 3);
}

#[tokio::test]
async fn an_answer_that_never_ends_is_a_noop_within_the_stated_time() {
    let start = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"action\"".to_vec();
    let receiver = Receiver::start(vec![Reply::Stall(start)]).await;
    let why = fails(&hook(&receiver.url, Duration::from_millis(100), 0)).await;
    assert_eq!(why, "the hook did not answer within 100ms; tried once");
}

#[tokio::test]
async fn a_passing_trouble_is_asked_again() {
    for first in [
        status("500 Internal Server Error", CANCEL),
        status("503 Service Unavailable", ""),
        status("429 Too Many Requests", ""),
        Reply::Close,
        // Cut off in the middle.
        Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"action\": \"canc".to_vec()),
    ] {
        let receiver = Receiver::start(vec![first.clone(), ok(CANCEL)]).await;
        let decision = patient(&receiver.url).decide(&context()).await;
        assert_eq!(decision.action, StuckAction::Cancel, "{first:?}");
        assert_eq!(receiver.heard().len(), 2, "{first:?}");
    }
}

#[tokio::test]
async fn a_passing_trouble_that_stays_is_a_noop() {
    let receiver = Receiver::start(vec![status("500 Internal Server Error", CANCEL)]).await;
    let why = fails(&patient(&receiver.url)).await;
    assert_eq!(why, "the hook answered 500; tried 3 times");
    assert_eq!(receiver.heard().len(), 3);
}

#[tokio::test]
async fn no_retries_means_one_try() {
    let receiver = Receiver::start(vec![Reply::Close, ok(CANCEL)]).await;
    fails(&hook(&receiver.url, Duration::from_secs(20), 0)).await;
    assert_eq!(receiver.heard().len(), 1);
}

#[tokio::test]
async fn unusable_answer_is_not_asked_for_again() {
    let big = format!(r#"{{"action": "cancel", "x": "{}"}}"#, "x".repeat(64 * 1024));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let endless = format!("{chunked}{}", format!("1000\r\n{}\r\n", " ".repeat(0x1000)).repeat(17));
    let elsewhere =
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: /cancel\r\ncontent-length: 0\r\n\r\n";
    for (reply, why) in [
        (status("201 Created", CANCEL), "answered 201"),
        (status("202 Accepted", CANCEL), "answered 202"),
        (status("204 No Content", ""), "answered 204"),
        (Reply::Bytes(elsewhere.into()), "answered 307, a redirect"),
        (status("400 Bad Request", CANCEL), "answered 400"),
        (status("401 Unauthorized", CANCEL), "answered 401"),
        (status("404 Not Found", CANCEL), "answered 404"),
        (ok(&big), "longer than 65536 bytes"),
        (Reply::Bytes(endless.into()), "longer than 65536 bytes"),
        (ok(""), "not one JSON object"),
        (ok("yes"), "not one JSON object"),
        (ok(&format!("{CANCEL}{CANCEL}")), "trailing characters"),
        (ok(r#"{"action": "abandon"}"#), "action must be one of"),
        (ok(r#"{"action": "cancel", "maxFeePerGas": "1"}"#), "go with replace"),
    ] {
        let receiver = Receiver::start(vec![reply, ok(CANCEL)]).await;
        let told = fails(&patient(&receiver.url)).await;
        assert!(told.contains(why), "{told} is not {why}");
        assert_eq!(receiver.heard().len(), 1, "{why}");
    }
}

#[tokio::test]
async fn an_answer_of_just_the_longest_length_is_read() {
    let padding = " ".repeat(64 * 1024 - CANCEL.len());
    let receiver = Receiver::start(vec![ok(&format!("{CANCEL}{padding}"))]).await;
    let decision = patient(&receiver.url).decide(&context()).await;
    assert_eq!(decision.action, StuckAction::Cancel);
}

#[tokio::test]
async fn answer_that_is_not_http_is_a_noop() {
    let receiver = Receiver::start(vec![Reply::Bytes(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec())]).await;
    let why = fails(&patient(&receiver.url)).await;
    assert!(why.starts_with("the hook did not answer"), "{why}");
    let plain = Receiver::start(vec![ok(CANCEL)]).await;
    let secure = plain.url.replace("http://", "https://");
    // A server without TLS may wait for the rest of what it takes for a request.
    fails(&hook(&secure, Duration::from_millis(200), 0)).await;
    assert!(plain.heard().is_empty());
}

#[tokio::test]
async fn of_two_answers_one_counts() {
    // The second answer on the same connection, and the late answer to the first try.
    let both = |first: &str, second: &str| {
        let one = |body: &str| match ok(body) {
            Reply::Bytes(bytes) => bytes,
            Reply::Stall(_) | Reply::Close => Vec::new(),
        };
        Reply::Bytes([one(first), one(second)].concat())
    };
    let twice = both(r#"{"action": "resubmit"}"#, CANCEL);
    let receiver = Receiver::start(vec![twice, ok(r#"{"action": "noop"}"#)]).await;
    let hook = patient(&receiver.url);
    assert_eq!(hook.decide(&context()).await.action, StuckAction::Resubmit);
    // What was left over on the connection does not answer the next question.
    assert_eq!(hook.decide(&context()).await.action, StuckAction::Noop);
    assert_eq!(receiver.heard().len(), 2);
}

#[tokio::test]
async fn questions_that_would_wait_without_end_are_noops() {
    let receiver = Receiver::start(vec![hang()]).await;
    // Places are taken for two tries and a pause; nobody waits for one longer than for a try.
    let hook = hook(&receiver.url, Duration::from_millis(300), 1);
    let context = context();
    let asked = (0..20).map(|_| hook.decide(&context));
    let decisions = futures_util::future::join_all(asked).await;
    assert!(decisions.iter().all(|decision| decision.failed));
    let crowded = |reason: &str| reason == "too many questions wait for the hook";
    let crowded = decisions.iter().filter(|decision| crowded(decision.reason.as_str())).count();
    assert_eq!((crowded, receiver.heard().len()), (4, 32));
}
