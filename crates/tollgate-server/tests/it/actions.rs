//! Cancel, speed up, resubmit, replace and resolve: what operators ask for, on a real chain.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::dev_site::{DevSite, KEYLESS, target};
use crate::signed::signed_by;
use crate::site::Answer;

/// Status and outcome, or status and code.
fn told(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let word = body["outcome"].as_str().or(body["code"].as_str()).unwrap();
    (answer.status.as_u16(), word.to_owned())
}

fn is(status: u16, word: &str) -> (u16, String) {
    (status, word.to_owned())
}

fn price(attempt: &Value) -> u128 {
    attempt["fees"]["maxFeePerGas"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_queued_transaction_withdraws_it_at_once() {
    let site = DevSite::with_window(1).await;
    let first = site.pending(json!({})).await;
    let second = site.create(json!({})).await;
    site.until(&second, "QUEUED", "WAITING").await;

    let cancelled = site.act(&second, "cancel", json!({ "reason": "not needed" })).await;
    assert_eq!(told(&cancelled), is(200, "withdrawn"), "{cancelled:?}");
    let tx = &cancelled.json()["tx"];
    assert_eq!((&tx["state"], &tx["subState"]), (&json!("FAILED_FINAL"), &json!("CANCELLED")));
    assert_eq!((&tx["nonce"], &tx["attempts"]), (&Value::Null, &json!([])));
    assert_eq!(told(&site.act(&second, "cancel", json!({})).await), is(200, "done"));

    assert_eq!(site.finish(&first).await["state"], "CONFIRMED");
    let feed = site.get("/api/v1/tx/completions?after=0").await.json();
    assert_eq!(feed["items"][0]["txId"], second.as_str(), "{feed}");
    let history = site.get(&format!("/api/v1/tx/{second}/history")).await.text;
    assert!(history.contains("not needed"), "the reason is kept: {history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_pending_transaction_sends_a_self_transfer_in_its_slot() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let cancelled = site.act(&tx_id, "cancel", json!({ "reason": "changed my mind" })).await;
    assert_eq!(told(&cancelled), is(202, "signed"), "{cancelled:?}");
    let answer = cancelled.json();
    let attempt = &answer["tx"]["attempts"][1];
    assert_eq!(attempt["kind"], "cancellation");
    assert_eq!(attempt["txHash"], answer["txHash"]);
    assert!(price(attempt) > price(&answer["tx"]["attempts"][0]), "{answer}");
    assert_eq!(told(&site.act(&tx_id, "cancel", json!({})).await), is(200, "under_way"));
    let replaced = site.act(&tx_id, "replace", json!({ "maxFeePerGas": "900000000000" })).await;
    assert_eq!(told(&replaced), is(409, "tx_closing"));

    site.until_pooled(&answer["txHash"]).await;
    let done = site.finish(&tx_id).await;
    assert_eq!((&done["state"], &done["subState"]), (&json!("FAILED_FINAL"), &json!("CANCELLED")));
    assert_eq!(done["txHash"], answer["txHash"]);
    assert_eq!(done["attempts"][0]["outcome"], "superseded");
    assert_eq!(told(&site.act(&tx_id, "cancel", json!({})).await), is(200, "done"));
    let next = site.create(json!({})).await;
    assert_eq!(site.finish(&next).await["nonce"], 1, "the slot was used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_races_with_a_block_ends_as_the_chain_says() {
    let site = DevSite::new().await;
    for round in 0..8 {
        let tx_id = site.pending(json!({})).await;
        let (answer, _) =
            tokio::join!(site.act(&tx_id, "cancel", json!({})), async { site.chain.mine(1) });
        let known = [is(202, "signed"), is(409, "tx_mined"), is(409, "tx_final")];
        assert!(known.contains(&told(&answer)), "{round}: {answer:?}");
        let done = site.finish(&tx_id).await;
        let mined = site.chain_says("eth_getTransactionByHash", json!([done["txHash"]])).await;
        let to_self = mined["to"] == mined["from"];
        let state = if to_self { "FAILED_FINAL" } else { "CONFIRMED" };
        assert_eq!(done["state"], state, "{round}: {done}");
        assert_eq!(done["nonce"], round, "no slot is lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_on_a_mined_or_final_transaction_is_refused() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let replacement = json!({ "maxFeePerGas": "900000000000" });
    site.chain.mine(1);
    site.until(&tx_id, "TRACKING", "MINED").await;
    let actions = ["cancel", "speed-up", "resubmit"].map(|word| (word, json!({})));
    for (word, body) in actions.iter().chain([&("replace", replacement.clone())]) {
        assert_eq!(
            told(&site.act(&tx_id, word, body.clone()).await),
            is(409, "tx_mined"),
            "{word}"
        );
    }
    site.finish(&tx_id).await;
    for (word, body) in actions.iter().chain([&("replace", replacement)]) {
        assert_eq!(
            told(&site.act(&tx_id, word, body.clone()).await),
            is(409, "tx_final"),
            "{word}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_on_a_transaction_without_a_slot_is_refused_but_for_cancel() {
    let site = DevSite::with_window(1).await;
    site.pending(json!({})).await;
    let waits = site.create(json!({})).await;
    let replacement = json!({ "maxFeePerGas": "900000000000" });
    for (word, body) in [("speed-up", json!({})), ("resubmit", json!({})), ("replace", replacement)]
    {
        let answer = site.act(&waits, word, body).await;
        assert_eq!(told(&answer), is(409, "tx_not_allocated"), "{word}");
        assert!(answer.headers.contains_key("retry-after"), "{word}");
    }
    site.until(&waits, "QUEUED", "WAITING").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speed_up_offers_more_and_either_attempt_is_recognised() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let answer = site.act(&tx_id, "speed-up", json!({ "reason": "in a hurry" })).await;
    assert_eq!(told(&answer), is(202, "signed"), "{answer:?}");
    let answer = answer.json();
    let attempts = answer["tx"]["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[1]["kind"]), (2, &json!("bump")));
    assert!(price(&attempts[1]) * 8 >= price(&attempts[0]) * 9, "nodes want 10% more: {answer}");
    site.until_pooled(&answer["txHash"]).await;
    let done = site.finish(&tx_id).await;
    assert_eq!((&done["state"], &done["txHash"]), (&json!("CONFIRMED"), &answer["txHash"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn resubmit_sends_a_transaction_that_a_pool_has_lost() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let hash = site.seen(&tx_id).await["txHash"].clone();
    site.chain_says("devchain_dropTx", json!([hash])).await;
    let answer = site.act(&tx_id, "resubmit", json!({})).await;
    assert_eq!(told(&answer), is(202, "resent"), "{answer:?}");
    assert_eq!(answer.json()["txHash"], Value::Null, "nothing new was signed");
    site.until_pooled(&hash).await;
    let done = site.finish(&tx_id).await;
    assert_eq!((&done["state"], &done["txHash"]), (&json!("CONFIRMED"), &hash));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_may_always_be_replaced_a_call_only_where_the_create_allows_it() {
    let site = DevSite::new().await;
    let call = json!({ "payload": { "to": target(3), "value": "9" }, "reason": "wrong receiver" });

    let fixed = site.pending(json!({})).await;
    let refused = site.act(&fixed, "replace", call.clone()).await;
    assert_eq!(told(&refused), is(409, "payload_fixed"), "{refused:?}");
    let priced = json!({ "maxFeePerGas": "900000000000", "maxPriorityFeePerGas": "50000000000" });
    let answer = site.act(&fixed, "replace", priced).await;
    assert_eq!(told(&answer), is(202, "signed"), "{answer:?}");
    let attempt = answer.json()["tx"]["attempts"][1].clone();
    assert_eq!((&attempt["kind"], price(&attempt)), (&json!("bump"), 900_000_000_000));
    assert_eq!(site.finish(&fixed).await["state"], "CONFIRMED");

    let free = site.pending(json!({ "replaceable": true })).await;
    let answer = site.act(&free, "replace", call).await;
    assert_eq!(told(&answer), is(202, "signed"), "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["tx"]["attempts"][1]["kind"], "replacement");
    site.until_pooled(&answer["txHash"]).await;
    let done = site.finish(&free).await;
    assert_eq!((&done["state"], &done["txHash"]), (&json!("CONFIRMED"), &answer["txHash"]));
    let mined = site.chain_says("eth_getTransactionByHash", json!([done["txHash"]])).await;
    let paid = mined["to"].as_str().unwrap().to_lowercase();
    assert_eq!((paid, &mined["value"]), (target(3).to_lowercase(), &json!("0x9")));
}

#[tokio::test(flavor = "multi_thread")]
async fn price_given_with_replace_is_signed_as_it_is_or_refused_with_the_minimum() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let first = price(&site.seen(&tx_id).await["attempts"][0]);
    let refused = site.act(&tx_id, "replace", json!({ "maxFeePerGas": "1000000000" })).await;
    assert_eq!(told(&refused), is(422, "fee_too_low_to_replace"), "{refused:?}");
    let minimum = refused.json()["minimum"].clone();
    let least: u128 = minimum["maxFeePerGas"].as_str().unwrap().parse().unwrap();
    assert_eq!(least, (first * 110).div_ceil(100), "{minimum}");
    assert!(refused.text.contains(&least.to_string()), "{refused:?}");
    assert_eq!(site.seen(&tx_id).await["attempts"].as_array().unwrap().len(), 1, "none signed");

    let answer = site.act(&tx_id, "replace", minimum.clone()).await;
    assert_eq!(told(&answer), is(202, "signed"), "{answer:?}");
    let fees = answer.json()["tx"]["attempts"][1]["fees"].clone();
    assert_eq!(fees["maxFeePerGas"], minimum["maxFeePerGas"], "not a wei more");
    assert_eq!(fees["maxPriorityFeePerGas"], minimum["maxPriorityFeePerGas"]);
    assert_eq!(site.finish(&tx_id).await["state"], "CONFIRMED");
}

#[tokio::test(flavor = "multi_thread")]
async fn result_shows_what_the_receipt_says_of_price_fee_and_contract() {
    let site = DevSite::new().await;
    let call = site.pending(json!({})).await;
    let payload = json!({ "payload": { "data": "0x6001600101" } });
    let deployment = site.pending(payload).await;
    for (tx_id, deploys) in [(call, false), (deployment, true)] {
        let done = site.finish(&tx_id).await;
        assert_eq!(done["state"], "CONFIRMED");
        let result = &done["result"];
        let receipt = site.chain_says("eth_getTransactionReceipt", json!([done["txHash"]])).await;
        let told = |name: &str| {
            let digits = receipt[name].as_str().unwrap().trim_start_matches("0x");
            u128::from_str_radix(digits, 16).unwrap()
        };
        assert_eq!(result["transactionIndex"], json!(told("transactionIndex") as u64));
        let (gas, price) = (told("gasUsed"), told("effectiveGasPrice"));
        assert_eq!(result["effectiveGasPrice"], price.to_string());
        assert_eq!(result["fee"], (gas * price).to_string());
        match deploys {
            true => {
                let address = result["contractAddress"].as_str().unwrap();
                assert!(address.eq_ignore_ascii_case(receipt["contractAddress"].as_str().unwrap()));
            }
            false => assert_eq!(result["contractAddress"], Value::Null),
        }
    }
    let export = Request::get("/api/v1/tx").header("accept", "text/csv");
    let csv = site.call(export.body(Body::empty()).unwrap()).await.text;
    let header = csv.lines().next().unwrap();
    let results = "fee,contractAddress,to,value,transactionIndex,blockTime,confirmations";
    assert!(header.ends_with(results), "{csv}");
    assert!(csv.lines().nth(1).unwrap().contains(",0x"), "{csv}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_would_fail_replaces_nothing() {
    let site = DevSite::new().await;
    site.chain_says("devchain_setBehaviour", json!([target(4), "revert", "closed"])).await;
    let tx_id = site.pending(json!({ "replaceable": true })).await;
    let answer = site.act(&tx_id, "replace", json!({ "payload": { "to": target(4) } })).await;
    assert_eq!(told(&answer), is(422, "would_revert"), "{answer:?}");
    assert_eq!(site.seen(&tx_id).await["attempts"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_offers_more_than_the_caller_allows() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({ "maxFeePerGas": "2000000000" })).await;
    let answer = site.act(&tx_id, "speed-up", json!({})).await;
    let above = told(&answer) == is(409, "fee_cap");
    assert!(above && answer.text.contains("maxFeePerGas"), "{answer:?}");
    let cancelled = site.act(&tx_id, "cancel", json!({})).await;
    assert_eq!(told(&cancelled), is(409, "fee_cap"), "nor does what closes its slot");
    let cap = &cancelled.json()["cap"];
    assert_eq!((&cap["name"], &cap["allows"]), (&json!("maxFeePerGas"), &json!("2000000000")));
    let needed: u128 = cap["needed"].as_str().unwrap().parse().unwrap();
    assert!(needed > 2_000_000_000, "{cap}");
    assert_eq!(site.seen(&tx_id).await["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(site.finish(&tx_id).await["state"], "CONFIRMED", "what is out there stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_signed_by_its_caller_can_only_be_resubmitted() {
    let site = DevSite::new().await;
    let chain_id = 31_337;
    let body = |raw: String| json!({ "rawTx": raw });
    let time = json!("2999-01-01T00:00:00Z");
    for (name, value) in
        [("replaceable", json!(true)), ("validUntil", time.clone()), ("notBefore", time)]
    {
        let mut bound = body(signed_by(0, 0, 5, chain_id).await);
        bound[name] = value;
        let refused = site.post("/api/v1/tx", bound.to_string()).await;
        assert_eq!(told(&refused), is(422, "invalid_raw_tx"), "{name}");
    }
    let keyless = site.take(&body(signed_by(KEYLESS, 0, 5, chain_id).await)).await;
    let ours = site.take(&body(signed_by(0, 0, 5, chain_id).await)).await;
    site.until(&keyless, "TRACKING", "PENDING").await;
    site.until(&ours, "TRACKING", "PENDING").await;
    assert_eq!(told(&site.act(&ours, "speed-up", json!({})).await), is(409, "signed_by_caller"));
    assert_eq!(told(&site.act(&keyless, "cancel", json!({})).await), is(409, "no_key"));
    assert_eq!(told(&site.act(&keyless, "resubmit", json!({})).await), is(202, "resent"));
    assert_eq!(told(&site.act(&ours, "cancel", json!({})).await), is(202, "signed"));
    assert_eq!(site.finish(&keyless).await["state"], "CONFIRMED");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_is_asked_when_an_operator_wants_it() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let answer = site.act(&tx_id, "resolve", json!({ "reason": "have a look" })).await;
    assert_eq!(told(&answer), is(202, "under_way"), "{answer:?}");
    assert_eq!(site.finish(&tx_id).await["state"], "CONFIRMED", "the default does nothing");
}
