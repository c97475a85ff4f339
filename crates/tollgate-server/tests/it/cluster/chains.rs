//! Nodes of two chains on one database: each works on its own chain alone, and knows of no other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_devchain::chain::ChainConfig;
use tollgate_devchain::{DevChainOptions, dev_accounts};
use tollgate_model::Submitter;
use tollgate_model::port::Store;
use tollgate_testkit::store_fixture::NodeOptions;
use tollgate_testkit::{StoreKind, outcome, wait};

use super::seats::{ACCOUNTS, Room, Seat, acquainted};
use crate::dev_site::target;

/// A chain with two nodes that know each other.
struct Side {
    room: Room,
    first: Seat,
    second: Seat,
    chain_id: u64,
}

/// Two chains with the same accounts and keys on one database. Everybody has read the list of nodes
/// since everybody was on it.
async fn two_chains(store: &Arc<dyn Store>) -> (Side, Side) {
    let (one, other) = (room(store, 31_337).await, room(store, 31_338).await);
    let (one_first, other_first) = (one.seat("one-1").await, other.seat("other-1").await);
    let (one_second, other_second) = (one.seat("one-2").await, other.seat("other-2").await);
    acquainted(&[&one_first, &one_second]).await;
    acquainted(&[&other_first, &other_second]).await;
    let one = Side { room: one, first: one_first, second: one_second, chain_id: 31_337 };
    let other = Side { room: other, first: other_first, second: other_second, chain_id: 31_338 };
    (one, other)
}

async fn room(store: &Arc<dyn Store>, chain_id: u64) -> Room {
    let chain = DevChainOptions::default();
    let chain = DevChainOptions {
        block_interval: Some(Duration::from_millis(50)),
        chain: ChainConfig { chain_id, ..chain.chain },
        ..chain
    };
    Room::on(store.clone(), chain).await
}

impl Side {
    fn of(&self, account: usize) -> Submitter {
        Submitter::new(self.first.engine.chain_id(), dev_accounts()[account].address)
    }

    fn submitter_path(&self, account: usize, rest: &str) -> String {
        format!("/api/v1/submitters/{}{rest}", dev_accounts()[account].address)
    }

    /// The value of each transaction on the chain.
    async fn paid(&self) -> BTreeSet<u64> {
        let mut paid = BTreeSet::new();
        for value in outcome::paid(&self.room.chain.url()).await {
            assert!(paid.insert(value), "paid twice: {value}");
        }
        paid
    }

    /// The values that are on the chain as soon as there are as many as expected.
    async fn paid_in_the_end(&self, expected: usize) -> BTreeSet<u64> {
        wait::until("everything to be mined", || async {
            let paid = self.paid().await;
            (paid.len() >= expected).then_some(paid)
        })
        .await
    }
}

/// A create that does not say which chain it is for.
fn create(account: usize, value: u64) -> Value {
    json!({
        "submitter": dev_accounts()[account].address,
        "requestId": format!("order-{value}"),
        "payload": { "to": target(9), "value": value.to_string(), "gas": 30_000 },
    })
}

async fn creates_are_mined_on_the_chain_of_the_node_that_was_asked(store: Arc<dyn Store>) {
    let (one, other) = two_chains(&store).await;
    let values = |batch: u64| (0..20).map(move |n| batch * 100 + n);
    let account = |value: u64| ACCOUNTS[usize::try_from(value).unwrap() % ACCOUNTS.len()];
    for side in [&one, &other] {
        for value in values(1) {
            // The same request id on both chains: they are different requests.
            let answer = side.first.post("/api/v1/tx", &create(account(value), value)).await;
            assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
            assert_eq!(answer.json()["chainId"], side.chain_id, "{answer:?}");
        }
        let items: Vec<Value> = values(2).map(|value| create(account(value), value)).collect();
        let answer = side.first.post("/api/v1/tx/batch", &json!({ "items": items })).await;
        for item in answer.json()["items"].as_array().unwrap() {
            assert_eq!(
                (&item["status"], &item["tx"]["chainId"]),
                (&json!(202), &json!(side.chain_id))
            );
        }
    }
    // Something only one of them has: what went to the wrong chain would be missing here.
    let only = other.first.post("/api/v1/tx", &create(0, 999)).await;
    assert_eq!(only.json()["chainId"], other.chain_id);
    let both: BTreeSet<u64> = values(1).chain(values(2)).collect();
    assert_eq!(one.paid_in_the_end(both.len()).await, both);
    let and_one: BTreeSet<u64> = both.iter().copied().chain([999]).collect();
    assert_eq!(other.paid_in_the_end(and_one.len()).await, and_one);
    for side in [&one, &other] {
        let feed = wait::until("everything to be final", || async {
            let page = side.second.door.get("/api/v1/tx/completions?limit=1000").await.json();
            let items = page["items"].as_array().unwrap().clone();
            (items.len() >= both.len()).then_some(items)
        })
        .await;
        assert!(feed.iter().all(|item| item["chainId"] == side.chain_id), "{feed:?}");
        for path in ["/api/v1/tx?limit=1000", "/api/v1/submitters?limit=1000"] {
            let page = side.second.door.get(path).await.json();
            let items = page["items"].as_array().unwrap();
            assert!(!items.is_empty());
            assert!(items.iter().all(|item| item["chainId"] == side.chain_id), "{page}");
        }
        // Each node of a chain works for some of its accounts, and nobody else does.
        for n in ACCOUNTS {
            let owner = side.room.owner(side.of(n)).await.unwrap().node;
            assert!([&side.first, &side.second].iter().any(|seat| seat.entry.node == owner));
        }
    }
}

async fn action_on_a_submitter_affects_one_chain_only(store: Arc<dyn Store>) {
    let (one, other) = two_chains(&store).await;
    let status = async |side: &Side, n: usize| {
        let shown = side.second.door.get(&side.submitter_path(n, "")).await.json();
        assert_eq!(shown["chainId"], side.chain_id, "{shown}");
        shown["status"].as_str().unwrap().to_owned()
    };
    let why = json!({ "reason": "test" });
    for n in ACCOUNTS {
        let paused = one.first.post(&one.submitter_path(n, "/pause"), &why).await;
        assert_eq!(paused.status.as_u16(), 200, "{paused:?}");
        assert_eq!(paused.json()["chainId"], one.chain_id, "{paused:?}");
        assert_eq!(
            (status(&one, n).await, status(&other, n).await),
            ("PAUSED".into(), "ACTIVE".into())
        );
        let paused = other.first.post(&other.submitter_path(n, "/pause"), &why).await;
        assert_eq!(paused.json()["chainId"], other.chain_id, "{paused:?}");
        one.first.post(&one.submitter_path(n, "/resume"), &why).await.with(200);
        assert_eq!(
            (status(&one, n).await, status(&other, n).await),
            ("ACTIVE".into(), "PAUSED".into())
        );
        one.first.post(&one.submitter_path(n, "/nonces"), &json!({})).await.with(201);
        let held = async |side: &Side| {
            let page = side.second.door.get(&side.submitter_path(n, "/nonces")).await.json();
            page["items"].as_array().unwrap().len()
        };
        assert_eq!((held(&one).await, held(&other).await), (1, 0));
        let compared = other.first.post(&other.submitter_path(n, "/reconcile"), &json!({})).await;
        assert_eq!(compared.json()["chainId"], other.chain_id, "{compared:?}");
    }
}

async fn a_request_for_another_chain_is_carried_out_by_a_node_of_that_chain(store: Arc<dyn Store>) {
    let (one, other) = two_chains(&store).await;
    let why = json!({ "reason": "test" });
    other.first.post(&other.submitter_path(0, "/pause"), &why).await.with(200);
    let waits = other.first.post("/api/v1/tx", &create(0, 1)).await.json();
    let tx_id = waits["txId"].as_str().unwrap();
    // What its own nodes have passed on to each other so far.
    let _ = (other.first.heard().await, other.second.heard().await);
    for path in ["", "?view=operator", "/history"] {
        let shown = one.first.door.get(&format!("/api/v1/tx/{tx_id}{path}")).await;
        assert_eq!(shown.status.as_u16(), 200, "{shown:?}");
        assert!(path == "/history" || shown.json()["chainId"] == other.chain_id, "{shown:?}");
    }
    let cancelled = one.first.post(&format!("/api/v1/tx/{tx_id}/cancel"), &why).await;
    assert_eq!(cancelled.status.as_u16(), 200, "{cancelled:?}");
    assert_eq!(cancelled.json()["tx"]["chainId"], other.chain_id, "{cancelled:?}");
    let by_request =
        format!("/api/v1/tx/by-request?submitter={}&requestId=order-1", dev_accounts()[0].address);
    assert_eq!(other.second.door.get(&by_request).await.json()["txId"], tx_id);
    assert_eq!(one.first.door.get(&by_request).await.code(), "not_found");
    let found = one.first.door.get(&format!("{by_request}&chainId=31338")).await;
    assert_eq!(found.json()["txId"], tx_id, "{found:?}");
    let mut meant = create(2, 2);
    meant["chainId"] = json!(31_338);
    let taken = one.first.post("/api/v1/tx", &meant).await;
    assert_eq!((taken.status.as_u16(), &taken.json()["chainId"]), (202, &json!(31_338)));
    let taken = one.first.post("/api/v1/tx?chainId=31338", &create(2, 3)).await;
    assert_eq!((taken.status.as_u16(), &taken.json()["chainId"]), (202, &json!(31_338)));
    let items = json!({ "items": [meant, create(3, 4)] });
    let answered = one.first.post("/api/v1/tx/batch", &items).await.json();
    let of = |place: usize| {
        let item = &answered["items"][place];
        (item["status"].as_u64().unwrap(), item["tx"]["chainId"].as_u64().unwrap())
    };
    assert_eq!((of(0), of(1)), ((200, 31_338), (202, 31_337)), "{answered}");
    assert_eq!(other.paid_in_the_end(2).await, BTreeSet::from([2, 3]));
    assert_eq!(one.paid_in_the_end(1).await, BTreeSet::from([4]));
    // Nobody serves this one.
    let refused = one.first.post("/api/v1/tx?chainId=31339", &create(0, 5)).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "wrong_chain"));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("31339") && detail.contains("31337"), "{detail}");
    // A request that was passed on once is not passed on again.
    let routed = [("tollgate-routed", "1"), ("tollgate-chain-id", "31338")];
    let refused = one.first.post_as_node("/api/v1/tx", &routed, &create(0, 6)).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "wrong_chain"));
}

async fn a_forwarded_request_without_its_chain_or_for_another_one_is_not_carried_out(
    store: Arc<dyn Store>,
) {
    let (one, _other) = two_chains(&store).await;
    let (tx, batch) = (create(0, 1), json!({ "items": [create(0, 1)] }));
    let (pause, why) = (one.submitter_path(0, "/pause"), json!({ "reason": "test" }));
    let nonces = one.submitter_path(0, "/nonces");
    for (path, body) in [
        ("/api/v1/tx", &tx),
        ("/api/v1/tx/batch", &batch),
        (pause.as_str(), &why),
        (nonces.as_str(), &json!({})),
        // Read before anything else: not even a body that is no request matters.
        ("/api/v1/tx", &json!("nonsense")),
    ] {
        for headers in [
            &[("tollgate-forwarded", "1")][..],
            &[("tollgate-forwarded", "1"), ("tollgate-chain-id", "31338")],
            &[("tollgate-forwarded", "1"), ("tollgate-chain-id", "")],
        ] {
            let refused = one.first.post_as_node(path, headers, body).await;
            refused.refused(409, "not_owner");
            assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        }
        let direct = [("tollgate-chain-id", "31339")];
        let refused = one.first.post_with(path, &direct, body).await;
        refused.refused(422, "wrong_chain");
        assert_eq!(refused.json()["field"], "tollgate-chain-id");
    }
    let page = one.first.door.get("/api/v1/tx").await.json();
    assert_eq!(page["items"], json!([]), "nothing was done");
    let both = [("tollgate-forwarded", "1"), ("tollgate-chain-id", "31337")];
    one.first.post_as_node("/api/v1/tx", &both, &create(0, 2)).await.with(202);
    one.first.post_with("/api/v1/tx", &both[1..], &create(0, 3)).await.with(202);
}

async fn a_node_that_stops_is_followed_by_one_of_its_own_chain(store: Arc<dyn Store>) {
    let (mut one, other) = two_chains(&store).await;
    let count = ACCOUNTS.len() as u64;
    for (n, value) in ACCOUNTS.into_iter().zip(1..) {
        one.first.post("/api/v1/tx", &create(n, value)).await.with(202);
    }
    one.second.engine.stop().await;
    one.second.vanish(&one.room).await;
    wait::until("the first one to be alone", || async {
        one.first.engine.is_alone().then_some(())
    })
    .await;
    for n in ACCOUNTS {
        wait::until("the first one to have everything", || async {
            let value = 10 + n as u64;
            let taken = one.first.post("/api/v1/tx", &create(n, value)).await;
            let owner = one.room.owner(one.of(n)).await?;
            (taken.status.is_success() && owner.node == one.first.entry.node).then_some(())
        })
        .await;
    }
    assert_eq!(one.paid_in_the_end(2 * count as usize).await.len(), 2 * count as usize);
    assert!(other.paid().await.is_empty(), "nothing of it is on the other chain");
    // The nodes of the other chain are there, and are no help.
    assert!(!one.first.engine.has_peer().await);
    one.first.engine.stop().await;
    one.first.post("/api/v1/tx", &create(0, 99)).await.refused(503, "draining");
    assert!(other.first.engine.has_peer().await, "they have each other");
}

macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            use tollgate_testkit::StoreKind;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::on(StoreKind::Sqlite, super::$name).await;
            })+
        }
        mod postgres {
            use tollgate_testkit::StoreKind;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::on(StoreKind::Postgres, super::$name).await;
            })+
        }
    };
}

async fn on(kind: StoreKind, test: impl AsyncFnOnce(Arc<dyn Store>)) {
    let fixture = kind.start().await;
    test(fixture.open(NodeOptions::default()).await.unwrap()).await;
}

on_both_stores! {
    creates_are_mined_on_the_chain_of_the_node_that_was_asked,
    action_on_a_submitter_affects_one_chain_only,
    a_request_for_another_chain_is_carried_out_by_a_node_of_that_chain,
    a_forwarded_request_without_its_chain_or_for_another_one_is_not_carried_out,
    a_node_that_stops_is_followed_by_one_of_its_own_chain,
}
