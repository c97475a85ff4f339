//! Results on the record, in the feed, as CSV and in reports.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tollgate_model::{Address, ChainId, StuckReason, Submitter, TxEvent};
use tollgate_server::ApiOptions;
use tollgate_testkit::builders::setup;
use tollgate_testkit::fake_chain::{FakeChain, Reorged};
use tollgate_testkit::node::TestNode;
use tollgate_testkit::wait;

use crate::site::{SENDER, Site, TARGET};

/// Creates a transfer and mines until it is final.
async fn paid(site: &Site, value: &str, metadata: Value) -> Value {
    let body = json!({
        "submitter": SENDER,
        "payload": { "to": TARGET, "value": value },
        "metadata": metadata,
    });
    let created = site.post("/api/v1/tx", body.to_string()).await.with(202);
    site.finish(created["txId"].as_str().unwrap()).await
}

async fn csv(site: &Site, path: &str) -> Vec<Vec<String>> {
    let request = Request::get(path).header("accept", "text/csv").body(Body::empty()).unwrap();
    let answer = site.call(request).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    answer.text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

async fn feed_of(site: &Site) -> Vec<Value> {
    let feed = site.get("/api/v1/tx/completions").await.with(200);
    feed["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn record_feed_and_csv_have_what_was_paid_and_when() {
    let site = Site::new().await;
    let tx = paid(&site, "5", json!(null)).await;
    let result = &tx["result"];
    assert_eq!((&tx["value"], &tx["to"]), (&json!("5"), &json!(tx["to"])));
    assert!(tx["to"].as_str().unwrap().eq_ignore_ascii_case(TARGET));
    assert!(result["blockTime"].as_str().unwrap().ends_with('Z'), "{tx}");
    assert_eq!((&result["transactionIndex"], &result["confirmations"]), (&json!(0), &json!(2)));
    site.chain.mine();
    let path = format!("/api/v1/tx/{}", tx["txId"].as_str().unwrap());
    wait::until("one more block", || async {
        let read = site.get(&path).await.json();
        (read["result"]["confirmations"] == 3).then_some(())
    })
    .await;
    assert!(tx.get("nonce").is_none() && tx.get("confirmations").is_none(), "not for callers");

    let entry = feed_of(&site).await.remove(0);
    assert_eq!((&entry["kind"], &entry["value"]), (&json!("final"), &json!("5")));
    assert_eq!((&entry["to"], &entry["result"]["fee"]), (&tx["to"], &result["fee"]));
    assert_eq!(entry["result"]["blockTime"], result["blockTime"]);

    let table = csv(&site, "/api/v1/tx?view=operator").await;
    let cell = |name: &str| {
        let place = table[0].iter().position(|column| column == name).unwrap();
        table[1][place].clone()
    };
    assert_eq!((&*cell("value"), &*cell("nonce"), &*cell("transactionIndex")), ("5", "0", "0"));
    assert_eq!((&json!(cell("to")), &json!(cell("fee"))), (&tx["to"], &result["fee"]));
    assert_eq!(json!(cell("blockTime")), result["blockTime"]);
    assert!(!csv(&site, "/api/v1/tx").await[0].contains(&"nonce".to_owned()), "not for callers");
    let listed = site.get("/api/v1/tx?view=operator").await.with(200);
    assert_eq!(listed["items"][0]["nonce"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_is_found_by_the_hash_of_any_attempt() {
    let site = Site::new().await;
    let body = json!({ "submitter": SENDER, "payload": { "to": TARGET } });
    let created = site.post("/api/v1/tx", body.to_string()).await.with(202);
    let tx_id = created["txId"].as_str().unwrap();
    let first = created["txHash"].as_str().unwrap().to_owned();
    wait::until("the first attempt to be with a node", || async {
        let read = site.get(&format!("/api/v1/tx/{tx_id}")).await.json();
        (read["state"] == "TRACKING").then_some(())
    })
    .await;
    let sped_up = site.post(&format!("/api/v1/tx/{tx_id}/speed-up"), "{}").await.with(202);
    let second = sped_up["txHash"].as_str().unwrap();
    assert_ne!(first, second);
    for hash in [&*first, second] {
        let found = site.get(&format!("/api/v1/tx/by-hash/{hash}?view=operator")).await.with(200);
        assert_eq!((&found["txId"], &found["nonce"]), (&json!(tx_id), &json!(0)));
    }
    let unknown = format!("/api/v1/tx/by-hash/0x{}", "7".repeat(64));
    site.get(&unknown).await.refused(404, "not_found");
    site.get("/api/v1/tx/by-hash/0x77").await.refused(422, "invalid_hex");
}

#[tokio::test(flavor = "multi_thread")]
async fn costs_are_summed_up_by_the_names_that_are_asked_for() {
    let site = Site::new().await;
    let mut fees = Vec::new();
    for (team, order) in [(json!("a"), 1), (json!("b"), 2), (json!("a"), 3), (json!(7), 4)] {
        let tx = paid(&site, "1", json!({ "team": team, "order": order })).await;
        fees.push(tx["result"]["fee"].as_str().unwrap().parse::<u128>().unwrap());
    }
    let from = "from=2020-01-01T00:00:00Z";
    let path = |rest: &str| format!("/api/v1/reports/costs?{from}{rest}");
    let whole = site.get(&path("")).await.with(200);
    let total = json!({
        "chainId": 7, "transactions": 4, "confirmed": 4, "gasUsed": (4 * 21_000).to_string(),
        "fee": fees.iter().sum::<u128>().to_string(), "unpriced": 0,
    });
    assert_eq!(whole["items"], json!([total]));

    let by_team = site.get(&path("&groupBy=submitter,day,metadata.team")).await.with(200);
    let items = by_team["items"].as_array().unwrap();
    let team = |item: &Value| item["metadata"]["team"].clone();
    assert!(items.iter().map(team).eq([json!("7"), json!("a"), json!("b")]), "{by_team}");
    assert_eq!((&items[1]["transactions"], &items[1]["day"]), (&json!(2), &items[0]["day"]));
    assert_eq!(items[1]["fee"], (fees[0] + fees[2]).to_string());
    assert!(items[0]["submitter"].as_str().unwrap().eq_ignore_ascii_case(SENDER));

    let table = csv(&site, &path("&groupBy=metadata.team,metadata.none")).await;
    let names = ["chainId", "metadata.team", "metadata.none", "transactions"];
    assert_eq!(table[0][..4], names);
    assert_eq!(table[3][..4], ["7", "b", "", "1"]);

    // The time at which the third became final splits the feed.
    let third = feed_of(&site).await[2]["time"].as_str().unwrap().to_owned();
    let since = site.get(&format!("/api/v1/reports/costs?from={third}")).await.with(200);
    assert_eq!(since["items"][0]["transactions"], 2);
    let before = site.get(&path(&format!("&to={third}"))).await.with(200);
    assert_eq!(before["items"][0]["transactions"], 2);
    let future = "/api/v1/reports/costs?from=2999-01-01T00:00:00Z";
    assert_eq!(site.get(future).await.with(200)["items"], json!([]));
    site.get(&path("&groupBy=colour")).await.refused(422, "invalid_query");
    site.get("/api/v1/reports/costs").await.refused(422, "missing_field");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_from_the_chain_and_only_if_asked_for() {
    let site = Site::new().await;
    let body = json!({ "submitter": SENDER, "payload": { "to": TARGET } });
    let created = site.post("/api/v1/tx", body.to_string()).await.with(202);
    let path = format!("/api/v1/tx/{}", created["txId"].as_str().unwrap());
    let none = json!({ "items": [], "truncated": false, "confirmed": true });
    assert_eq!(site.get(&format!("{path}?logs=true")).await.with(200)["logs"], none, "no receipt");
    site.finish(created["txId"].as_str().unwrap()).await;
    assert!(site.get(&path).await.with(200).get("logs").is_none());
    // This chain has no log entries to tell.
    site.get(&format!("{path}?logs=true")).await.refused(503, "unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn exposed_confirmations_grow_and_are_replaced_after_a_fork() {
    let options = ApiOptions { exposes_confirmations: true, ..ApiOptions::default() };
    let site = Site::with(FakeChain::new(), None, options).await;
    wait::until("the first block", || async {
        site.get("/readyz").await.status.is_success().then_some(())
    })
    .await;
    let body = json!({ "submitter": SENDER, "payload": { "to": TARGET } });
    let created = site.post("/api/v1/tx", body.to_string()).await.with(202);
    assert!(created.get("confirmations").is_none(), "it is in no block");
    let path = format!("/api/v1/tx/{}", created["txId"].as_str().unwrap());
    let mined = wait::until("the receipt", || async {
        let read = site.get(&path).await.json();
        if read["subState"] == "PENDING" && site.chain.pooled() > 0 {
            site.chain.mine();
        }
        (read["subState"] == "MINED").then_some(read)
    });
    let mined = mined.await;
    let list = &mined["confirmations"];
    assert_eq!((&list["newFork"], list["blocks"].as_array().unwrap().len()), (&json!(false), 1));
    assert_eq!(list["blocks"][0]["hash"], mined["result"]["blockHash"]);

    site.chain.reorg(1, Reorged::Remined);
    let forked = wait::until("the other branch", || async {
        let read = site.get(&path).await.json();
        let list = &read["confirmations"];
        (list["newFork"] == true && list["blocks"][0].is_object()).then_some(read)
    });
    let forked = forked.await;
    assert_ne!(forked["confirmations"]["blocks"][0], list["blocks"][0], "replaced as a whole");
    let done = site.finish(created["txId"].as_str().unwrap()).await;
    let list = &done["confirmations"];
    assert_eq!(
        (&list["newFork"], list["blocks"].as_array().unwrap().len() >= 2),
        (&json!(true), true)
    );
    assert_eq!(list["blocks"][0]["hash"], done["result"]["blockHash"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_entries_are_in_the_feed_of_readers_that_ask_for_all() {
    let site = Site::new().await;
    let node = TestNode::over(Arc::new(site.store.clone()), "other");
    let other = Submitter::new(ChainId::new(7).unwrap(), Address::repeat_byte(2));
    node.register_submitters(&[setup(other)]).await.unwrap();
    let lease = node.lease(other).await;
    let tx = node.fill(lease, 1).await.remove(0);
    node.step(lease, tx.tx_id, TxEvent::GaveUp(StuckReason::FeeCap)).await;
    paid(&site, "1", json!(null)).await;
    let waiting = site.get("/api/v1/tx/completions?kind=all&after=2&wait=60s");
    let mined = node.mine(lease, tx.tx_id, 7);
    let (grown, _) = tokio::join!(waiting, mined);
    assert_eq!(grown.with(200)["items"][0]["kind"], "unstuck");

    let all = site.get("/api/v1/tx/completions?kind=all").await.with(200);
    let kinds = all["items"].as_array().unwrap().iter().map(|item| {
        (
            item["seq"].as_u64().unwrap(),
            item["kind"].as_str().unwrap(),
            item["state"].as_str().unwrap(),
        )
    });
    let expected = [(1, "stuck", "STUCK"), (2, "final", "CONFIRMED"), (3, "unstuck", "TRACKING")];
    assert!(kinds.eq(expected), "{all}");
    assert_eq!(all["items"][0]["subState"], "FEE_CAP");
    assert_eq!(all["items"][0]["result"], Value::Null);
    for path in ["/api/v1/tx/completions", "/api/v1/tx/completions?kind=final"] {
        let finals = site.get(path).await.with(200);
        assert_eq!(finals["items"].as_array().unwrap().len(), 1);
        assert_eq!((&finals["items"][0]["seq"], &finals["next"]), (&json!(2), &json!(3)));
    }
    site.get("/api/v1/tx/completions?kind=some").await.refused(422, "invalid_query");
}
