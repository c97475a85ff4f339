//! Account pools: which member takes a create, and where its request is found again.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::Request;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_model::account_pool::PoolName;
use tollgate_model::{RequestId, U256};

use super::seats::{Room, Seat, acquainted};
use crate::dev_site::target;
use crate::site::Answer;

fn account(number: usize) -> String {
    dev_accounts()[number].address.to_checksum(None)
}

async fn call(seat: &Seat, method: &str, path: &str, body: &Value) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    seat.door.call(request.body(body).unwrap()).await
}

async fn set_pool(seat: &Seat, name: &str, members: &[usize]) -> Value {
    let members: Vec<String> = members.iter().map(|number| account(*number)).collect();
    let path = format!("/api/v1/pools/{name}");
    call(seat, "PUT", &path, &json!({ "members": members })).await.with(200)
}

fn payout() -> Value {
    let payload = json!({ "to": target(6), "value": "7", "gas": 30_000 });
    json!({ "submitter": "pool:payouts", "payload": payload })
}

fn named(request_id: &str) -> Value {
    let mut create = payout();
    create["requestId"] = json!(request_id);
    create
}

/// A node with a pool of these accounts.
async fn with_pool(room: &Room, members: &[usize]) -> Seat {
    let seat = room.seat("a").await;
    set_pool(&seat, "payouts", members).await;
    seat
}

async fn two_nodes(room: &Room, members: &[usize]) -> (Seat, Seat) {
    let (a, b) = (room.seat("a").await, room.seat("b").await);
    acquainted(&[&a, &b]).await;
    set_pool(&a, "payouts", members).await;
    (a, b)
}

async fn set_balance(room: &Room, number: usize, wei: U256) {
    let params = json!([account(number), format!("{wei:#x}")]);
    room.chain.view().call("devchain_setBalance", &params).unwrap();
}

fn submitters<'a>(answers: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for tx in answers {
        *counts.entry(tx["submitter"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_of_a_pool_spread_over_its_members_evenly() {
    let room = Room::new().await;
    let seat = with_pool(&room, &[0, 2, 3]).await;
    let (path, body) = ("/api/v1/tx", payout());
    let mut taken = Vec::new();
    for _ in 0..6 {
        taken.push(seat.post(path, &body).await.with(202));
    }
    let wanted = [0, 2, 3].map(|number| (account(number), 2));
    assert_eq!(submitters(&taken), BTreeMap::from(wanted));
    let at_once = join_all((0..12).map(|_| seat.post(path, &body))).await;
    let at_once: Vec<Value> = at_once.iter().map(|answer| answer.with(202)).collect();
    let counts = submitters(&at_once);
    assert!(counts.len() == 3 && counts.values().all(|count| *count >= 2), "{counts:?}");
    let shown = call(&seat, "GET", "/api/v1/pools/payouts", &Value::Null).await.with(200);
    let members = shown["members"].as_array().unwrap();
    assert!(members.iter().all(|one| one["availability"] == "available"), "{shown}");
    let open: u64 = members.iter().map(|one| one["open"].as_u64().unwrap()).sum();
    assert_eq!(open, 18);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_with_unequal_load_are_filled_up_to_the_same_level() {
    let room = Room::new().await;
    let seat = with_pool(&room, &[0, 2, 3]).await;
    for _ in 0..3 {
        let mut direct = payout();
        direct["submitter"] = json!(account(0));
        seat.post("/api/v1/tx", &direct).await.with(202);
    }
    let mut taken = Vec::new();
    for _ in 0..12 {
        taken.push(seat.post("/api/v1/tx", &payout()).await.with(202));
    }
    let wanted = [(0, 2), (2, 5), (3, 5)].map(|(number, count)| (account(number), count));
    assert_eq!(submitters(&taken), BTreeMap::from(wanted));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_of_a_pool_is_found_at_every_node_also_after_the_pool_changed() {
    let room = Room::new().await;
    let (a, b) = two_nodes(&room, &[0, 2, 3]).await;
    for number in 0..6 {
        let name = format!("order-{number}");
        let taken = a.post("/api/v1/tx", &named(&name)).await.with(202);
        let again = b.post("/api/v1/tx", &named(&name)).await.with(200);
        assert_eq!((&again["txId"], &again["submitter"]), (&taken["txId"], &taken["submitter"]));
        let path = format!("/api/v1/tx/by-request?submitter=pool:payouts&requestId={name}");
        let found = b.door.get(&path).await.with(200);
        assert_eq!(found["txId"], taken["txId"]);
    }
    let path = "/api/v1/tx";
    let taken = a.post(path, &named("order-0")).await.with(200);
    set_pool(&b, "payouts", &[4, 5]).await;
    for seat in [&a, &b] {
        assert_eq!(seat.post(path, &named("order-0")).await.with(200)["txId"], taken["txId"]);
    }
    let mut other = named("order-0");
    other["payload"]["value"] = json!("8");
    b.post(path, &other).await.refused(409, "request_id_conflict");
    assert_eq!(call(&b, "DELETE", "/api/v1/pools/payouts", &Value::Null).await.status, 204);
    for seat in [&a, &b] {
        assert_eq!(seat.post(path, &named("order-0")).await.with(200)["txId"], taken["txId"]);
    }
    b.post(path, &named("order-9")).await.refused(422, "unknown_submitter");
    let unknown = "/api/v1/tx/by-request?submitter=pool:payouts&requestId=order-9";
    b.door.get(unknown).await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_repeats_at_two_nodes_make_one_transaction() {
    let room = Room::new().await;
    let (a, b) = two_nodes(&room, &[0, 2, 3, 4]).await;
    for round in 0..3 {
        let body = named(&format!("order-{round}"));
        let post = |number: usize| [&a, &b][number % 2].post("/api/v1/tx", &body);
        let answers = join_all((0..20).map(post)).await;
        assert!(answers.iter().all(|answer| answer.status.is_success()), "{answers:?}");
        let ids = answers.iter().map(|answer| answer.json()["txId"].to_string());
        assert_eq!(ids.collect::<BTreeSet<_>>().len(), 1, "I7");
        let new = answers.iter().filter(|answer| answer.status.as_u16() == 202).count();
        assert_eq!(new, 1, "I7");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_can_not_pay_is_passed_over() {
    let room = Room::new().await;
    set_balance(&room, 2, U256::from(5)).await;
    set_balance(&room, 3, U256::ZERO).await;
    let seat = with_pool(&room, &[0, 2, 3]).await;
    let mut estimated = payout();
    estimated["payload"].as_object_mut().unwrap().remove("gas");
    for body in [payout(), payout(), estimated.clone(), estimated.clone()] {
        let taken = seat.post("/api/v1/tx", &body).await.with(202);
        assert_eq!(taken["submitter"], account(0));
    }
    set_pool(&seat, "payouts", &[2, 3]).await;
    for (body, knows_amounts) in [(named("order"), true), (estimated, false)] {
        let refused = seat.post("/api/v1/tx", &body).await;
        refused.refused(422, "insufficient_funds");
        let refused = refused.json();
        assert!(refused["detail"].as_str().unwrap().contains("pool payouts"), "{refused}");
        assert_eq!(refused["field"], "submitter");
        if knows_amounts {
            assert_eq!(refused["funds"]["available"], "5", "of the richest member: {refused}");
        }
    }
    // Nothing was assigned, so that another member can take the repeat.
    set_pool(&seat, "payouts", &[0, 2, 3]).await;
    let taken = seat.post("/api/v1/tx", &named("order")).await.with(202);
    assert_eq!(taken["submitter"], account(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn funds_that_creates_use_up_are_counted_before_they_are_read_again() {
    let room = Room::new().await;
    let ether = |count: u64| U256::from(count) * U256::from(10_u64.pow(18));
    // Two of these creates fit the balance of account 0, and one that of each of the others.
    for number in [2, 3] {
        set_balance(&room, number, ether(5_000)).await;
    }
    let seat = with_pool(&room, &[0, 2, 3]).await;
    let mut large = payout();
    large["payload"]["value"] = json!(ether(4_000).to_string());
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(seat.post("/api/v1/tx", &large).await.with(202));
    }
    let wanted = [(0, 2), (2, 1), (3, 1)].map(|(number, count)| (account(number), count));
    assert_eq!(submitters(&taken), BTreeMap::from(wanted));
    seat.post("/api/v1/tx", &large).await.refused(422, "insufficient_funds");
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_and_paused_members_are_passed_over() {
    let room = Room::new().await;
    let seat = with_pool(&room, &[0, 2, 3]).await;
    let path = |number: usize| format!("/api/v1/submitters/{}", account(number));
    call(&seat, "PATCH", &path(0), &json!({ "enabled": false })).await.with(200);
    let paused = seat.post(&format!("{}/pause", path(2)), &json!({ "reason": "audit" })).await;
    paused.with(200);
    set_pool(&seat, "payouts", &[0, 2, 3]).await;
    for _ in 0..4 {
        let taken = seat.post("/api/v1/tx", &payout()).await.with(202);
        assert_eq!(taken["submitter"], account(3));
    }
    let shown = set_pool(&seat, "payouts", &[0, 2]).await;
    let members = shown["members"].as_array().unwrap().iter();
    let mut kinds: Vec<_> = members.map(|one| one["availability"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["disabled", "not_active"]);
    let refused = seat.post("/api/v1/tx", &payout()).await;
    refused.refused(422, "submitter_disabled");
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("1 disabled, 1 paused or in PROTECT"), "{detail}");
}

/// As after a crash between the assignment and the create.
#[tokio::test(flavor = "multi_thread")]
async fn assigned_request_without_a_transaction_goes_to_its_member_alone() {
    let room = Room::new().await;
    let seat = with_pool(&room, &[0, 2, 3]).await;
    let pool = PoolName::new("payouts").unwrap();
    let assign = async |request: &str, member: usize| {
        let (request, member) = (RequestId::new(request).unwrap(), dev_accounts()[member].address);
        let chain_id = seat.entry.chain_id;
        room.store.assign_request(chain_id, &pool, &request, member).await.unwrap();
    };
    assign("crashed", 3).await;
    let taken = seat.post("/api/v1/tx", &named("crashed")).await.with(202);
    assert_eq!(taken["submitter"], account(3));
    assign("poor", 2).await;
    set_balance(&room, 2, U256::from(5)).await;
    seat.post("/api/v1/tx", &named("poor")).await.refused(422, "insufficient_funds");
    let path = format!("/api/v1/submitters/{}", account(2));
    call(&seat, "PATCH", &path, &json!({ "enabled": false })).await.with(200);
    seat.post("/api/v1/tx", &named("poor")).await.refused(422, "submitter_disabled");
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_a_batch_are_spread_and_refused_one_by_one() {
    let room = Room::new().await;
    let (a, b) = two_nodes(&room, &[0, 2, 3]).await;
    let mut unknown = payout();
    unknown["submitter"] = json!("pool:nobody");
    let mut wrong = payout();
    wrong["submitter"] = json!("pool:no body");
    let mut items: Vec<Value> = (0..6).map(|_| payout()).collect();
    items.extend([unknown, wrong, named("order")]);
    let batch = json!({ "items": items });
    let key = [("idempotency-key", "salaries")];
    let taken = a.post_with("/api/v1/tx/batch", &key, &batch).await.with(200);
    let statuses = |answer: &Value| -> Vec<u64> {
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|item| item["status"].as_u64().unwrap()).collect()
    };
    assert_eq!(statuses(&taken), [202, 202, 202, 202, 202, 202, 422, 422, 202], "{taken}");
    assert_eq!(taken["items"][6]["error"]["code"], "unknown_submitter");
    assert_eq!(taken["items"][7]["error"]["code"], "invalid_field");
    let six: Vec<Value> = (0..6).map(|place| taken["items"][place]["tx"].clone()).collect();
    assert_eq!(submitters(&six).len(), 3, "{taken}");
    let again = b.post_with("/api/v1/tx/batch", &key, &batch).await.with(200);
    assert_eq!(statuses(&again), [200, 200, 200, 200, 200, 200, 422, 422, 200], "{again}");
    for (one, other) in (0..9).map(|place| (&taken["items"][place], &again["items"][place])) {
        assert_eq!(one["tx"]["txId"], other["tx"]["txId"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn simulation_names_a_member_and_assigns_nothing() {
    let room = Room::new().await;
    let seat = with_pool(&room, &[2]).await;
    let path = "/api/v1/tx?simulate=true";
    let simulated = seat.post(path, &named("order")).await.with(200);
    assert_eq!(simulated["submitter"], account(2));
    set_pool(&seat, "payouts", &[3]).await;
    let taken = seat.post("/api/v1/tx", &named("order")).await.with(202);
    assert_eq!(taken["submitter"], account(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_are_listed_and_wrong_ones_are_refused() {
    let room = Room::new().await;
    let seat = with_pool(&room, &[2, 0]).await;
    set_pool(&seat, "a-1", &[3]).await;
    let listed = seat.door.get("/api/v1/pools").await.with(200);
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["a-1", "payouts"]);
    let page = seat.door.get("/api/v1/pools?limit=1").await.with(200);
    assert_eq!(
        (page["items"][0]["members"][0].as_str(), page["next"].as_str()),
        (Some(account(3).as_str()), Some("a-1"))
    );
    let page = seat.door.get("/api/v1/pools?limit=1&cursor=a-1").await.with(200);
    assert_eq!(page["items"][0]["name"], "payouts");
    let put = async |name: &str, members: Value| {
        let path = format!("/api/v1/pools/{name}");
        call(&seat, "PUT", &path, &json!({ "members": members })).await
    };
    put("payouts", json!([])).await.refused(422, "invalid_field");
    put("payouts", json!(["0x12"])).await.refused(422, "invalid_address");
    put("payouts", json!([target(9)])).await.refused(422, "unknown_submitter");
    put("pay.outs", json!([account(0)])).await.refused(422, "invalid_field");
    let shown = seat.door.get("/api/v1/pools/payouts").await.with(200);
    assert_eq!(shown["members"].as_array().unwrap().len(), 2, "as it was");
    seat.door.get("/api/v1/pools/nobody").await.refused(404, "not_found");
    let gone = call(&seat, "DELETE", "/api/v1/pools/nobody", &Value::Null).await;
    gone.refused(404, "not_found");
    let create = async |submitter: &str| {
        let mut body = payout();
        body["submitter"] = json!(submitter);
        seat.post("/api/v1/tx", &body).await
    };
    create("pool:nobody").await.refused(422, "unknown_submitter");
    create("pool:").await.refused(422, "invalid_field");
    create("pools").await.refused(422, "invalid_address");
    let raw = json!({ "submitter": "pool:payouts", "rawTx": "0x00" });
    seat.post("/api/v1/tx", &raw).await.refused(422, "invalid_raw_tx");
}
