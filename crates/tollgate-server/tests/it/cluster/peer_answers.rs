//! Answers of another node, and their absence: a request that may have been received is never
//! done a second time. The creates have no request id: nothing but the node's own care keeps them from
//! being done twice.

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_model::Submitter;

use super::seats::{Room, Seat, acquainted, unnamed};
use super::stub_peer::{Reply, StubPeer};

fn problem(code: &str, status: u16) -> Value {
    json!({
        "type": format!("/docs/errors/{code}"),
        "title": code,
        "status": status,
        "code": code,
        "detail": "said by the stub",
        "traceId": "stub",
        "retryable": true,
    })
}

/// The transactions of an account, as any node reads them.
async fn stored(seat: &Seat, of: Submitter) -> usize {
    let list = seat.door.get(&format!("/api/v1/tx?submitter={}", of.address)).await.json();
    list["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_a_peer_has_read_without_answering_is_not_done_here() {
    for reply in [Reply::HangUp, Reply::BreakOff] {
        let room = Room::new().await;
        let seat = room.seat("here").await;
        let (peer, of) = StubPeer::preferred_to(&seat, &room, reply.clone()).await;
        let answer = seat.post("/api/v1/tx", &unnamed(of)).await;
        answer.refused(503, "unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        assert_eq!(peer.heard().await.len(), 1, "{reply:?}: asked once");
        assert_eq!(stored(&seat, of).await, 0, "{reply:?}: the peer may have done it");
        assert_eq!(room.owner(of).await, None, "{reply:?}: nobody reached for it here");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_items_that_a_peer_has_read_without_answering_are_not_done_here() {
    for reply in [Reply::HangUp, Reply::BreakOff] {
        let room = Room::new().await;
        let seat = room.seat("here").await;
        let (peer, of) = StubPeer::preferred_to(&seat, &room, reply.clone()).await;
        let batch = json!({ "items": [unnamed(of), unnamed(of)] });
        let said = seat.post("/api/v1/tx/batch", &batch).await.json();
        for item in said["items"].as_array().unwrap() {
            let code = &item["error"]["code"];
            assert_eq!((&item["status"], code), (&json!(503), &json!("unavailable")), "{said}");
        }
        assert_eq!(peer.heard().await.len(), 1, "{reply:?}: asked once for both");
        assert_eq!(stored(&seat, of).await, 0, "{reply:?}: the peer may have done it");
        assert_eq!(room.owner(of).await, None, "{reply:?}: nobody reached for it here");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_to_a_batch_that_does_not_fit_it_counts_as_none() {
    let room = Room::new().await;
    let seat = room.seat("here").await;
    let fewer = Reply::Answer(200, "", json!({ "items": [] }));
    let (peer, of) = StubPeer::preferred_to(&seat, &room, fewer).await;
    let said = seat.post("/api/v1/tx/batch", &json!({ "items": [unnamed(of)] })).await.json();
    assert_eq!(said["items"][0]["error"]["code"], "unavailable", "{said}");
    assert_eq!((peer.heard().await.len(), stored(&seat, of).await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_a_draining_peer_refuses_is_done_here_once() {
    let room = Room::new().await;
    let seat = room.seat("here").await;
    let refusal = Reply::Answer(503, "retry-after: 1\r\n", problem("draining", 503));
    let (peer, of) = StubPeer::preferred_to(&seat, &room, refusal).await;
    let answer = seat.post("/api/v1/tx", &unnamed(of)).await;
    assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
    assert_eq!(answer.header("tollgate-owner"), Some(seat.url()));
    assert_eq!((peer.heard().await.len(), stored(&seat, of).await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_items_that_a_draining_peer_refuses_are_done_here_once() {
    let item = json!({ "items": [{ "status": 503, "error": problem("draining", 503) }] });
    for (status, body) in [(503, problem("draining", 503)), (200, item)] {
        let room = Room::new().await;
        let seat = room.seat("here").await;
        let reply = Reply::Answer(status, "", body.clone());
        let (peer, of) = StubPeer::preferred_to(&seat, &room, reply).await;
        let said = seat.post("/api/v1/tx/batch", &json!({ "items": [unnamed(of)] })).await.json();
        assert_eq!(said["items"][0]["status"], 202, "{body}: {said}");
        assert_eq!((peer.heard().await.len(), stored(&seat, of).await), (1, 1), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_of_a_peers_refusal_reaches_the_caller() {
    let room = Room::new().await;
    let seat = room.seat("here").await;
    let refusal = Reply::Answer(429, "retry-after: 17\r\n", problem("busy", 429));
    let (peer, of) = StubPeer::preferred_to(&seat, &room, refusal).await;
    let answer = seat.post("/api/v1/tx", &unnamed(of)).await;
    answer.refused(429, "busy");
    assert_eq!(answer.header("retry-after"), Some("17"), "word for word");
    assert_eq!(answer.header("tollgate-forwarded"), Some("1"));
    assert_eq!(answer.header("tollgate-owner"), Some(peer.url()));
    assert_eq!((peer.heard().await.len(), stored(&seat, of).await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn account_that_only_another_node_serves_is_asked_for_there_and_never_called_unknown() {
    let room = Room::new().await;
    let (keyless, mut serving) =
        (room.seat_saying("keyless", &[]).await, room.seat_saying("serving", &[0, 2]).await);
    // It never gets as far as a connection, so nothing of it can have been heard.
    let unconnected = room.seat_saying("unconnected", &[]).await;
    acquainted(&[&keyless, &serving, &unconnected]).await;
    let of = |n: usize| Submitter::new(keyless.engine.chain_id(), dev_accounts()[n].address);
    let taken = keyless.post("/api/v1/tx", &unnamed(of(0))).await;
    assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
    assert_eq!(taken.header("tollgate-owner"), Some(serving.url()));
    let simulated = keyless.post("/api/v1/tx?simulate=true", &unnamed(of(2))).await;
    assert_eq!(simulated.status.as_u16(), 200, "any node can try it: {simulated:?}");
    serving.cut_off().await;
    // Owned by the node that is not reached, and owned by nobody.
    for n in [0, 2] {
        let answer = unconnected.post("/api/v1/tx", &unnamed(of(n))).await;
        answer.refused(409, "not_owner");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.json()["owner"], serving.url());
        let batch = json!({ "items": [unnamed(of(n))] });
        let said = unconnected.post("/api/v1/tx/batch", &batch).await.json();
        assert_eq!(said["items"][0]["error"]["code"], "not_owner", "{n}: {said}");
    }
    let nobodys = unconnected.post("/api/v1/tx", &unnamed(of(5))).await;
    assert_eq!(nobodys.code(), "unknown_submitter", "{nobodys:?}");
}
