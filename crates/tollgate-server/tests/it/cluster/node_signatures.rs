//! Requests between nodes are believed by their signature: nothing else makes a request a node's.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_api::limit::BODY_BYTES_MAX;
use tollgate_model::Submitter;
use tollgate_model::port::PeerKey;

use super::seats::{Room, Seat, acquainted, create, unnamed};
use crate::site::Answer;

const FORWARDED: [(&str, &str); 2] = [("tollgate-forwarded", "1"), ("tollgate-chain-id", "31337")];

/// Two nodes that know each other, and an account that the first one owns.
async fn owner_and_other(room: &Room) -> (Seat, Seat, Submitter) {
    let (a, b) = (room.seat("a").await, room.seat("b").await);
    acquainted(&[&a, &b]).await;
    let (of, owner, other) = match room.preferring(&[&a, &b]).first() {
        Some(of) => (*of, a, b),
        None => (room.preferring(&[&b, &a])[0], b, a),
    };
    owner.post("/api/v1/tx", &create(of, "first")).await.with(202);
    (owner, other, of)
}

async fn post(seat: &Seat, headers: &[(String, String)], body: &Value) -> Answer {
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    seat.post_with("/api/v1/tx", &headers, body).await
}

/// Changes the value of a header.
fn with(headers: &[(String, String)], name: &str, value: &str) -> Vec<(String, String)> {
    let changed = |(of, old): &(String, String)| {
        let value = if of == name { value } else { old };
        (of.clone(), value.to_owned())
    };
    headers.iter().map(changed).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_forwarded_and_routed_headers_are_ignored() {
    let room = Room::new().await;
    let (owner, other, of) = owner_and_other(&room).await;
    for name in ["tollgate-forwarded", "tollgate-routed"] {
        let forged = [(name, "1"), ("tollgate-chain-id", "31337")];
        let taken = other.post_with("/api/v1/tx", &forged, &create(of, name)).await;
        taken.with(202);
        assert_eq!(taken.header("tollgate-owner"), Some(owner.url()), "forwarded as usual");
        assert_eq!(taken.header("tollgate-forwarded"), Some("1"));
    }
    let heard = owner.heard().await;
    assert_eq!(heard.len(), 2);
    assert!(heard.iter().all(|call| call.headers.contains_key("tollgate-node")), "{heard:?}");
    // A caller's body is limited as a caller's.
    let padding = "x".repeat(BODY_BYTES_MAX);
    let large = json!({ "items": [], "padding": padding });
    for forged in [FORWARDED, [("tollgate-routed", "1"), FORWARDED[1]]] {
        let refused = other.post_with("/api/v1/tx/batch", &forged, &large).await;
        refused.refused(413, "body_too_large");
    }
    let believed = other.post_as_node("/api/v1/tx/batch", &FORWARDED, &large).await;
    assert_ne!(believed.code(), "body_too_large", "a node's may be larger");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_forwarded_header_without_a_chain_is_refused_as_that_of_an_old_node() {
    let room = Room::new().await;
    let (_, other, of) = owner_and_other(&room).await;
    let refused = other.post_with("/api/v1/tx", &FORWARDED[..1], &create(of, "second")).await;
    refused.refused(409, "not_owner");
}

/// A node of a version without signatures forwards to one with them, in both directions of ownership.
#[tokio::test(flavor = "multi_thread")]
async fn unsigned_request_of_an_older_node_is_carried_out_once_wherever_it_arrives() {
    let room = Room::new().await;
    let (owner, other, of) = owner_and_other(&room).await;
    let at_owner = owner.post_with("/api/v1/tx", &FORWARDED, &unnamed(of)).await;
    at_owner.with(202);
    assert_eq!(owner.heard().await.len(), 0, "carried out where it arrived");
    let elsewhere = other.post_with("/api/v1/tx", &FORWARDED, &unnamed(of)).await;
    elsewhere.with(202);
    assert_eq!(owner.heard().await.len(), 1, "brought to the owner, once");
    assert_eq!(other.heard().await.len(), 0, "and not back");
    let list = owner.door.get(&format!("/api/v1/tx?submitter={}", of.address)).await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 3, "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_is_believed_once_and_only_for_what_it_covers() {
    let room = Room::new().await;
    let (owner, other, of) = owner_and_other(&room).await;
    let body = unnamed(of);
    let signed = || owner.signed(&other, "/api/v1/tx", &FORWARDED, &body);
    // Believed: a node's request is not forwarded again.
    let genuine = signed();
    post(&other, &genuine, &body).await.refused(409, "not_owner");
    let is_ordinary = async |headers: &[(String, String)], body: &Value, why: &str| {
        let answer = post(&other, headers, body).await;
        assert_eq!(answer.status.as_u16(), 202, "{why}: {answer:?}");
        assert_eq!(answer.header("tollgate-owner"), Some(owner.url()), "{why}");
    };
    is_ordinary(&genuine, &body, "replayed").await;
    let mut altered = body.clone();
    altered["payload"]["value"] = json!("8");
    is_ordinary(&signed(), &altered, "another body").await;
    is_ordinary(&with(&signed(), "x-request-id", "another"), &body, "another header").await;
    let mut named = signed();
    named.push(("idempotency-key".into(), "added".into()));
    is_ordinary(&named, &body, "an added header").await;
    is_ordinary(&owner.signed(&owner, "/api/v1/tx", &FORWARDED, &body), &body, "for another node")
        .await;
    is_ordinary(&owner.signed(&other, "/api/v1/tx/batch", &FORWARDED, &body), &body, "for a path")
        .await;
    let text = signed().last().unwrap().1.clone();
    let words: Vec<&str> = text.split(' ').collect();
    for (place, value) in [
        (0, "v2"),
        (1, "stranger/0193"),
        (1, other.entry.node.as_str()),
        (2, "1"),
        (3, "7"),
        (4, &"0".repeat(64)),
        (5, &"0".repeat(64)),
        (5, "nonsense"),
    ] {
        let mut words = words.clone();
        words[place] = value;
        let forged = with(&signed(), "tollgate-node", &words.join(" "));
        is_ordinary(&forged, &body, &format!("{place} = {value}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_of_another_time_or_key_is_not_believed() {
    let room = Room::new().await;
    let (mut owner, other, of) = owner_and_other(&room).await;
    let body = unnamed(of);
    let ordinary = async |headers: &[(String, String)], why: &str| {
        let answer = post(&other, headers, &body).await;
        assert_eq!(answer.status.as_u16(), 202, "{why}: {answer:?}");
    };
    let stale = owner.signed(&other, "/api/v1/tx", &FORWARDED, &body);
    other.clock.advance(Duration::from_secs(61));
    ordinary(&stale, "stale").await;
    owner.clock.advance(Duration::from_secs(130));
    ordinary(&owner.signed(&other, "/api/v1/tx", &FORWARDED, &body), "of the future").await;
    other.clock.advance(Duration::from_secs(69));
    let genuine = owner.signed(&other, "/api/v1/tx", &FORWARDED, &body);
    post(&other, &genuine, &body).await.refused(409, "not_owner");
    owner.identity.key = PeerKey::new([7; 32]);
    ordinary(&owner.signed(&other, "/api/v1/tx", &FORWARDED, &body), "another key").await;
}

/// Clocks that differ make every signature worthless: what would go to and fro is refused.
#[tokio::test(flavor = "multi_thread")]
async fn request_that_too_many_nodes_have_forwarded_is_refused() {
    let room = Room::new().await;
    let (owner, other, of) = owner_and_other(&room).await;
    let hops = async |hops: &str| {
        let named = create(of, &format!("hops-{hops}"));
        other.post_with("/api/v1/tx", &[("tollgate-hops", hops)], &named).await
    };
    hops("2").await.with(202);
    assert_eq!(owner.heard().await[0].headers["tollgate-hops"], "3", "each node adds one");
    hops("4").await.refused(503, "unavailable");
    // The owner refuses what the other one adds to the most that is allowed.
    hops("3").await.refused(503, "unavailable");
    hops("nonsense").await.with(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_clocks_differ_still_carry_requests_out() {
    let room = Room::new().await;
    let (owner, other, of) = owner_and_other(&room).await;
    other.clock.advance(Duration::from_secs(3_600));
    let taken = other.post("/api/v1/tx", &create(of, "skewed")).await;
    taken.with(202);
    assert_eq!(taken.header("tollgate-owner"), Some(owner.url()));
    assert_eq!(owner.heard().await.len(), 1);
}
