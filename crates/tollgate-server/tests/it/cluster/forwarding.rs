//! A request for another node's submitter is forwarded once, and answered word for word.

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_model::Submitter;
use tollgate_testkit::wait;

use super::seats::{Room, Seat, acquainted, create, unnamed};
use crate::dev_site::KEYLESS;
use crate::signed::signed_by;

async fn two(room: &Room) -> (Seat, Seat) {
    let (a, b) = (room.seat("a").await, room.seat("b").await);
    acquainted(&[&a, &b]).await;
    (a, b)
}

/// Takes a create at the node that should own the account; the owner's account and the id.
async fn owned_by(room: &Room, owner: &Seat, other: &Seat) -> Option<(Submitter, String)> {
    let of = *room.preferring(&[owner, other]).first()?;
    let taken = owner.post("/api/v1/tx", &create(of, "first")).await;
    assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
    assert_eq!(taken.header("tollgate-owner"), Some(owner.url()));
    assert_eq!(taken.header("tollgate-forwarded"), None);
    Some((of, taken.json()["txId"].as_str().unwrap().to_owned()))
}

/// Two nodes of which the first owns an account: ports are random, so one may have none.
async fn with_owner(room: &Room) -> (Seat, Seat, Submitter, String) {
    let (a, b) = two(room).await;
    if let Some((of, tx_id)) = owned_by(room, &a, &b).await {
        return (a, b, of, tx_id);
    }
    let (of, tx_id) = owned_by(room, &b, &a).await.unwrap();
    (b, a, of, tx_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_waits_waits_at_the_node_that_took_it() {
    let room = Room::new().await;
    let (owner, other, of, _) = with_owner(&room).await;
    let body = create(of, "patient");
    let prefer = "wait=60, until=submitted";
    let taken = other.post_with("/api/v1/tx", &[("prefer", prefer)], &body).await;
    assert_eq!(taken.with(202)["state"], "TRACKING", "{taken:?}");
    assert_eq!(taken.header("preference-applied"), Some(prefer));
    assert_eq!(taken.header("tollgate-forwarded"), Some("1"));
    assert!(taken.header("location").unwrap().starts_with("/api/v1/tx/"));
    let heard = owner.heard().await;
    assert!(!heard[0].headers.contains_key("prefer"), "the owner answers at once: {heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_at_another_node_is_the_owners_answer_word_for_word() {
    let room = Room::new().await;
    let (owner, other, of, _) = with_owner(&room).await;
    let body = unnamed(of);
    let headers = [("idempotency-key", "by-key"), ("x-request-id", "call-17")];
    let taken = other.post_with("/api/v1/tx", &headers, &body).await;
    assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
    assert_eq!(taken.json()["requestId"], "by-key");
    assert_eq!(taken.header("x-request-id"), Some("call-17"));
    assert_eq!(taken.header("tollgate-owner"), Some(owner.url()));
    assert_eq!(taken.header("tollgate-forwarded"), Some("1"));
    let heard = owner.heard().await;
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0].path, "/api/v1/tx");
    let chain = ("tollgate-chain-id", "31337");
    for (name, value) in [("tollgate-forwarded", "1"), chain, headers[0], headers[1]] {
        assert_eq!(heard[0].headers[name], value, "{name}");
    }
    // The same request again is the same transaction, wherever it is asked (I7).
    let again = owner.post("/api/v1/tx", &create(of, "by-key")).await;
    assert_eq!((again.status.as_u16(), &again.json()["txId"]), (200, &taken.json()["txId"]));
    let other_payload = {
        let mut body = create(of, "by-key");
        body["payload"]["value"] = json!("8");
        other.post("/api/v1/tx", &body).await
    };
    other_payload.refused(409, "request_id_conflict");
    assert_eq!(
        other_payload.json()["traceId"],
        other_payload.header("x-request-id").unwrap(),
        "the problem is the owner's, under the caller's name for the call"
    );
    assert_eq!(room.owner(of).await.unwrap().token.get(), 1, "the lease never moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_with_a_key_is_the_same_batch_at_every_node() {
    let room = Room::new().await;
    let (owner, other, of, _) = with_owner(&room).await;
    let item = || unnamed(of);
    // Only the second and the third leave for the owner.
    let batch = json!({ "items": [{ "nonsense": true }, item(), item()] });
    let key = [("idempotency-key", "\"salaries\"")];
    let there = other.post_with("/api/v1/tx/batch", &key, &batch).await.json();
    let here = owner.post_with("/api/v1/tx/batch", &key, &batch).await.json();
    for (place, name) in [(1, "batch:salaries:1"), (2, "batch:salaries:2")] {
        let (there, here) = (&there["items"][place], &here["items"][place]);
        assert_eq!((&there["status"], &here["status"]), (&json!(202), &json!(200)));
        assert_eq!(there["tx"]["requestId"], name);
        assert_eq!(there["tx"]["txId"], here["tx"]["txId"]);
    }
    let two = [("idempotency-key", "a"), ("idempotency-key", "b")];
    for path in ["/api/v1/tx", "/api/v1/tx/batch"] {
        let body = if path.ends_with("tx") { item() } else { batch.clone() };
        let refused = other.post_with(path, &two, &body).await;
        assert_eq!(refused.code(), "invalid_request_id", "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_at_another_node_is_answered_without_asking_the_owner() {
    let room = Room::new().await;
    let (mut owner, other, of, tx_id) = with_owner(&room).await;
    let raw = json!({ "rawTx": signed_by(KEYLESS, 0, 7, 31_337).await });
    let signed = owner.post("/api/v1/tx", &raw).await.with(202);
    owner.heard().await;
    // Neither an owner that is not reached nor a chain that is silent makes a difference.
    owner.cut_off().await;
    room.chain.view().call("devchain_goSilent", &json!([true])).unwrap();
    let again = other.post("/api/v1/tx", &create(of, "first")).await;
    assert_eq!((again.status.as_u16(), &again.json()["txId"]), (200, &json!(tx_id)), "{again:?}");
    assert_eq!(again.header("tollgate-owner"), Some(owner.url()));
    let again = other.post("/api/v1/tx", &raw).await;
    assert_eq!((again.status.as_u16(), &again.json()["txId"]), (200, &signed["txId"]));
    let mut changed = create(of, "first");
    changed["payload"]["value"] = json!("8");
    let conflict = other.post("/api/v1/tx", &changed).await;
    assert_eq!(conflict.code(), "request_id_conflict", "{conflict:?}");
    let batch = json!({ "items": [create(of, "first"), changed, raw, create(of, "new")] });
    let said = other.post("/api/v1/tx/batch", &batch).await.json();
    let items = said["items"].as_array().unwrap();
    assert_eq!((&items[0]["status"], &items[0]["tx"]["txId"]), (&json!(200), &json!(tx_id)));
    assert_eq!(items[1]["error"]["code"], "request_id_conflict", "{said}");
    assert_eq!((&items[2]["status"], &items[2]["tx"]["txId"]), (&json!(200), &signed["txId"]));
    assert_eq!(items[3]["error"]["code"], "not_owner", "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_that_request_ids_make_too_long_for_a_caller_is_passed_on() {
    let room = Room::new().await;
    let (owner, other, of, _) = with_owner(&room).await;
    let mut item = unnamed(of);
    item["metadata"] = json!("m".repeat(16_300));
    let count = 2 * 1024 * 1024 / (item.to_string().len() + 1) - 1;
    let batch = json!({ "items": vec![item; count] });
    let limit = 2 * 1024 * 1024;
    let key = "k".repeat(240);
    assert!(batch.to_string().len() <= limit && batch.to_string().len() + count * 250 > limit);
    let key = [("idempotency-key", key.as_str())];
    let said = other.post_with("/api/v1/tx/batch", &key, &batch).await.json();
    let items = said["items"].as_array().unwrap();
    assert_eq!(items.len(), count);
    assert!(items.iter().all(|item| item["status"] == 202), "{}", items[0]);
    assert_eq!(owner.heard().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_and_orders_go_to_the_owner_as_well() {
    let room = Room::new().await;
    let (owner, other, of, tx_id) = with_owner(&room).await;
    for (path, body, status) in [
        (format!("/api/v1/submitters/{}/pause", of.address), json!({ "reason": "audit" }), 200),
        (format!("/api/v1/submitters/{}/resume", of.address), json!({ "reason": "done" }), 200),
        (format!("/api/v1/submitters/{}/reconcile", of.address), json!({}), 200),
        (format!("/api/v1/submitters/{}/nonces", of.address), json!({}), 201),
        (
            format!("/api/v1/submitters/{}/mode", of.address),
            json!({ "mode": "strict", "reason": "test" }),
            409,
        ),
        (format!("/api/v1/tx/{tx_id}/cancel"), json!({ "reason": "withdrawn" }), 202),
    ] {
        let answer = other.post(&path, &body).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {answer:?}");
        assert_eq!(answer.header("tollgate-forwarded"), Some("1"), "{path}");
        assert_eq!(owner.heard().await.len(), 1, "{path}");
    }
    // Any node reads.
    let read = other.door.get(&format!("/api/v1/tx/{tx_id}")).await;
    assert_eq!((read.status.as_u16(), owner.heard().await.len()), (200, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn create_for_an_unowned_submitter_goes_to_the_preferred_node() {
    let room = Room::new().await;
    let (a, b) = two(&room).await;
    let (mut checked, nodes) = (0, [(&a, &b), (&b, &a)]);
    for (should, other) in nodes {
        for of in room.preferring(&[should, other]) {
            other.post("/api/v1/tx", &create(of, "first")).await.with(202);
            assert_eq!(room.owner(of).await.unwrap().node, should.entry.node);
            checked += 1;
        }
    }
    assert_eq!(checked, super::seats::ACCOUNTS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_request_is_never_forwarded_again() {
    let room = Room::new().await;
    let (owner, other, of, tx_id) = with_owner(&room).await;
    let forwarded = [("tollgate-forwarded", "1"), ("tollgate-chain-id", "31337")];
    for (path, body) in [
        ("/api/v1/tx".to_owned(), create(of, "second")),
        (format!("/api/v1/tx/{tx_id}/cancel"), json!({})),
    ] {
        let answer = other.post_as_node(&path, &forwarded, &body).await;
        answer.refused(409, "not_owner");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.json()["owner"], owner.url(), "it says where to go");
        assert_eq!(answer.header("tollgate-owner"), Some(owner.url()));
    }
    let batch = json!({ "items": [create(of, "third")] });
    let answer = other.post_as_node("/api/v1/tx/batch", &forwarded, &batch).await.json();
    assert_eq!(answer["items"][0]["error"]["code"], "not_owner", "{answer}");
    assert_eq!(owner.heard().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_to_each_owner_in_one_call_and_is_answered_in_order() {
    let room = Room::new().await;
    let (a, b) = two(&room).await;
    let (of_a, of_b) = (room.preferring(&[&a, &b]), room.preferring(&[&b, &a]));
    let all: Vec<Submitter> = of_a.iter().chain(&of_b).copied().collect();
    // Each account twice, all mixed up, and one that is nonsense.
    let mut items: Vec<Value> =
        (0..2).flat_map(|n| all.iter().map(move |of| create(*of, &format!("r{n}")))).collect();
    items.insert(1, json!({ "submitter": "nonsense" }));
    let answer = a.post("/api/v1/tx/batch", &json!({ "items": items })).await;
    let said = answer.json()["items"].as_array().unwrap().clone();
    assert_eq!(said.len(), items.len());
    for (item, said) in items.iter().zip(&said) {
        if item["submitter"] == "nonsense" {
            assert_eq!(
                (&said["status"], &said["error"]["code"]),
                (&json!(422), &json!("invalid_address"))
            );
            continue;
        }
        assert_eq!(said["status"], 202, "{said}");
        let (tx, asked) = (&said["tx"], &item["submitter"]);
        let same =
            |a: &Value, b: &Value| a.as_str().unwrap().eq_ignore_ascii_case(b.as_str().unwrap());
        assert!(same(&tx["submitter"], asked) && tx["requestId"] == item["requestId"], "{said}");
    }
    let calls = if of_b.is_empty() { 0 } else { 1 };
    assert_eq!(b.heard().await.len(), calls, "one call for all that is b's");
    for of in &of_b {
        assert_eq!(room.owner(*of).await.unwrap().node, b.entry.node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_not_reached_is_named_and_nothing_is_done() {
    let room = Room::new().await;
    let (mut owner, other, of, tx_id) = with_owner(&room).await;
    owner.cut_off().await;
    for (path, body) in [
        ("/api/v1/tx".to_owned(), create(of, "second")),
        (format!("/api/v1/tx/{tx_id}/cancel"), json!({})),
    ] {
        let answer = other.post(&path, &body).await;
        answer.refused(409, "not_owner");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.json()["owner"], owner.url());
    }
    let batch = json!({ "items": [create(of, "third")] });
    let answer = other.post("/api/v1/tx/batch", &batch).await.json();
    assert_eq!(answer["items"][0]["error"]["code"], "not_owner", "{answer}");
    let by_request = format!("/api/v1/tx/by-request?submitter={}&requestId=second", of.address);
    assert_eq!(other.door.get(&by_request).await.status.as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_for_an_unowned_submitter_runs_here_if_the_preferred_node_is_unreachable_or_has_no_key()
 {
    let room = Room::new().await;
    // Without keys, and with an address at which nobody listens: neither can take anything.
    let (mut mute, here) = (room.seat("mute").await, room.seat("here").await);
    let keyless = room.seat_with("keyless", &[]).await;
    acquainted(&[&mute, &here, &keyless]).await;
    mute.cut_off().await;
    for n in super::seats::ACCOUNTS {
        let of = Submitter::new(here.engine.chain_id(), dev_accounts()[n].address);
        here.post("/api/v1/tx", &create(of, "first")).await.with(202);
        assert_eq!(room.owner(of).await.unwrap().node, here.entry.node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_that_takes_only_signed_transactions_leaves_intents_to_a_node_with_the_key() {
    let room = Room::new().await;
    // Every node takes what this account has signed; one of them also has its key.
    let (without, with) = (room.seat_with("a", &[]).await, room.seat_saying("b", &[KEYLESS]).await);
    acquainted(&[&without, &with]).await;
    let of = Submitter::new(with.engine.chain_id(), dev_accounts()[KEYLESS].address);
    let stays = [("tollgate-forwarded", "1"), ("tollgate-chain-id", "31337")];
    let raw = json!({ "rawTx": signed_by(KEYLESS, 0, 7, 31_337).await });
    without.post_as_node("/api/v1/tx", &stays, &raw).await.with(202);
    for seat in [&without, &with] {
        let answer = seat.post("/api/v1/tx", &create(of, "one")).await;
        assert_eq!(answer.code(), "not_owner", "not unknown_submitter, and retryable: {answer:?}");
        assert!(answer.headers.contains_key("retry-after"));
    }
    without.engine.stop().await;
    with.post("/api/v1/tx", &create(of, "one")).await.with(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_items_for_an_unowned_submitter_run_here_if_the_preferred_node_can_not() {
    let room = Room::new().await;
    let (mut mute, here) = (room.seat("mute").await, room.seat("here").await);
    let keyless = room.seat_with("keyless", &[]).await;
    acquainted(&[&mute, &here, &keyless]).await;
    mute.cut_off().await;
    let of = |n: usize| Submitter::new(here.engine.chain_id(), dev_accounts()[n].address);
    let items: Vec<Value> = super::seats::ACCOUNTS.iter().map(|n| create(of(*n), "one")).collect();
    let answer = here.post("/api/v1/tx/batch", &json!({ "items": items })).await;
    let said = answer.json();
    for item in said["items"].as_array().unwrap() {
        assert_eq!(item["status"], 202, "{said}");
    }
    assert_eq!(answer.header("tollgate-owner"), Some(here.url()));
    for n in super::seats::ACCOUNTS {
        assert_eq!(room.owner(of(n)).await.unwrap().node, here.entry.node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_whose_owner_left_it_to_a_node_without_the_key_is_done_here() {
    let room = Room::new().await;
    let (owner, here) = (room.seat("owner").await, room.seat("here").await);
    let mut keyless = Vec::new();
    for name in ["k1", "k2", "k3", "k4"] {
        keyless.push(room.seat_with(name, &[]).await);
    }
    let all: Vec<&Seat> = keyless.iter().chain([&owner, &here]).collect();
    acquainted(&all).await;
    let prefer = |n: usize| {
        let first = std::iter::once(all[n]);
        let rest = all.iter().enumerate().filter(|(other, _)| *other != n).map(|(_, seat)| *seat);
        room.preferring(&first.chain(rest).collect::<Vec<_>>()).first().copied()
    };
    // Ports are random, but that no account prefers any of these happens once in 250 times.
    let Some(of) = (0..keyless.len()).find_map(prefer) else { return };
    let stays = [("tollgate-forwarded", "1"), ("tollgate-chain-id", "31337")];
    let first = owner.post_as_node("/api/v1/tx", &stays, &create(of, "first")).await;
    assert_eq!(first.status.as_u16(), 202, "{first:?}");
    let second = here.post("/api/v1/tx", &create(of, "second")).await;
    assert_eq!(second.header("tollgate-owner"), Some(owner.url()), "{second:?}");
    // What is known of owners is believed for a second: the owner is asked first, and then whoever is
    // preferred now.
    owner.engine.drain();
    owner.engine.stop().await;
    let batch = json!({ "items": [create(of, "third")] });
    let answer = here.post("/api/v1/tx/batch", &batch).await.json();
    assert_eq!(answer["items"][0]["status"], 202, "{answer}");
    assert_eq!(room.owner(of).await.unwrap().node, here.entry.node);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_whose_submitter_moved_meanwhile_are_brought_after_it() {
    let room = Room::new().await;
    let (owner, other, of, _) = with_owner(&room).await;
    // The other one believes for a while that the owner still is.
    let before = other.post("/api/v1/tx", &create(of, "before")).await;
    assert_eq!(before.header("tollgate-owner"), Some(owner.url()), "{before:?}");
    owner.heard().await;
    owner.engine.stop().await;
    let items = json!({ "items": [create(of, "one"), create(of, "two")] });
    let answer = other.post("/api/v1/tx/batch", &items).await;
    let said = answer.json();
    assert_eq!(
        (&said["items"][0]["status"], &said["items"][1]["status"]),
        (&json!(202), &json!(202))
    );
    assert_eq!(owner.heard().await.len(), 1, "it was asked first: {said}");
    assert_eq!(answer.header("tollgate-owner"), Some(other.url()));
    assert_eq!(room.owner(of).await.unwrap().node, other.entry.node);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_hands_over_and_passes_requests_on() {
    let room = Room::new().await;
    let (owner, other, of, _) = with_owner(&room).await;
    wait::until("readiness", || async {
        (owner.door.get("/readyz").await.status.as_u16() == 200).then_some(())
    })
    .await;
    // The other one knows who owns it, and does not know better when that one lets go.
    let forwarded = other.post("/api/v1/tx", &create(of, "before")).await;
    assert_eq!(forwarded.header("tollgate-owner"), Some(owner.url()), "{forwarded:?}");
    owner.engine.stop().await;
    let taken = other.post("/api/v1/tx", &create(of, "at-once")).await;
    assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
    assert_eq!(taken.header("tollgate-owner"), Some(other.url()));
    let ready = owner.door.get("/readyz").await;
    ready.refused(503, "draining");
    assert!(ready.headers.contains_key("retry-after"));
    // The lease is free: the next request is the other one's, wherever it comes in.
    let taken = owner.post("/api/v1/tx", &create(of, "second")).await;
    assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
    assert_eq!(taken.header("tollgate-owner"), Some(other.url()));
    assert_eq!(room.owner(of).await.unwrap().node, other.entry.node);
    let batch = json!({ "items": [create(of, "third")] });
    let batch = owner.post("/api/v1/tx/batch", &batch).await.json();
    assert_eq!(batch["items"][0]["status"], 202, "{batch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_node_that_stops_says_that_there_is_none() {
    let room = Room::new().await;
    let (owner, mut other, of, tx_id) = with_owner(&room).await;
    other.engine.stop().await;
    other.vanish(&room).await;
    wait::until("the node to be alone", || async { owner.engine.is_alone().then_some(()) }).await;
    owner.engine.stop().await;
    let answer = owner.post("/api/v1/tx", &create(of, "second")).await;
    answer.refused(503, "draining");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let batch = json!({ "items": [create(of, "third")] });
    let batch = owner.post("/api/v1/tx/batch", &batch).await.json();
    assert_eq!(batch["items"][0]["error"]["code"], "draining", "{batch}");
    // What was accepted before is answered until the end.
    let again = owner.post("/api/v1/tx", &create(of, "first")).await;
    assert_eq!((again.status.as_u16(), &again.json()["txId"]), (200, &json!(tx_id)), "{again:?}");
    let batch = json!({ "items": [create(of, "first")] });
    let batch = owner.post("/api/v1/tx/batch", &batch).await.json();
    assert_eq!(batch["items"][0]["tx"]["txId"], tx_id, "{batch}");
}
