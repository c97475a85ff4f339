//! The operator's view, and simulations.

use axum::http::StatusCode;
use serde_json::{Value, json};
use tollgate_model::U256;
use tollgate_model::answer::AnswerClass;
use tollgate_testkit::fake_chain::{FakeChain, Query, TxMatch};
use tollgate_testkit::wait;

use crate::site::{SENDER, Site, TARGET};

fn transfer() -> String {
    json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": "5" } }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_slot_token_attempts_and_schedule() {
    let site = Site::new().await;
    let created = site.post("/api/v1/tx", transfer()).await.json();
    let tx_id = created["txId"].as_str().unwrap();
    let path = format!("/api/v1/tx/{tx_id}?view=operator");
    let open = site.get(&path).await.json();
    assert_eq!((&open["nonce"], &open["fencingToken"]), (&json!(0), &json!(1)));
    assert_eq!(open["attempts"][0]["outcome"], "open");
    assert_eq!(open["attempts"][0]["kind"], "intent");
    assert_eq!(open["attempts"][0]["fees"]["gas"], "25200");
    site.finish(tx_id).await;
    let done = site.get(&path).await.json();
    let attempt = &done["attempts"][0];
    assert_eq!(attempt["outcome"], "mined");
    assert_eq!(attempt["txHash"], done["txHash"]);
    assert!(attempt["sentAt"].as_str() >= attempt["createdAt"].as_str(), "{attempt}");
    assert_eq!(done["diagnosis"], Value::Null, "nobody has looked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitter_is_shown_with_what_the_chain_says() {
    let site = Site::new().await;
    let created = site.post("/api/v1/tx", transfer()).await.json();
    let path = format!("/api/v1/submitters/{SENDER}");
    let open = site.get(&path).await.json();
    assert_eq!((&open["nextNonce"], &open["chainNonce"]), (&json!(1), &json!(0)));
    assert_eq!((&open["holes"], &open["window"]), (&json!([]), &json!(64)));
    let depth = open["depth"].as_object().unwrap();
    assert_eq!(depth.values().filter_map(Value::as_u64).sum::<u64>(), 1, "{depth:?}");
    assert!(open["balance"].as_str().unwrap().bytes().all(|digit| digit.is_ascii_digit()));
    site.finish(created["txId"].as_str().unwrap()).await;
    assert_eq!(site.get(&path).await.json()["chainNonce"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_has_seen_no_block_is_not_ready_and_says_why() {
    let chain = FakeChain::new();
    chain.fail(Query::Blocks, true);
    let site = Site::on(chain, None).await;
    let early = site.get("/readyz").await;
    assert_eq!(
        (early.status, early.code().as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    );
    assert!(early.json()["detail"].as_str().unwrap().contains("delivered a block"), "{early:?}");
    site.chain.fail(Query::Blocks, false);
    wait::until("readiness", || async {
        (site.get("/readyz").await.status == StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_chain_leaves_fields_out_and_is_no_error() {
    let site = Site::new().await;
    site.chain.fail(Query::AccountsFeesAndCalls, true);
    let shown = site.get(&format!("/api/v1/submitters/{SENDER}")).await;
    assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
    for field in ["chainNonce", "balance", "holes"] {
        assert_eq!(shown.json()[field], Value::Null, "{field}");
    }
    assert_eq!(site.get("/readyz").await.status, StatusCode::OK);
    let refused = site.post("/api/v1/tx", transfer()).await;
    assert_eq!(refused.code(), "unavailable");
    assert_eq!(refused.headers["retry-after"], "1");
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulation_tells_the_cost_and_leaves_nothing() {
    let site = Site::new().await;
    let answer = site.post("/api/v1/tx?simulate=true", transfer()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let told = answer.json();
    assert_eq!((&told["simulated"], &told["gas"]), (&json!(true), &json!("25200")));
    assert_eq!(told["maxFeePerGas"], "1000000000");
    assert_eq!(told["maxCost"], "25200000000005", "gas at the highest price, and the value");
    site.assert_untouched().await;
    assert_eq!(site.post("/api/v1/tx?simulate=maybe", transfer()).await.code(), "invalid_query");
    site.chain.revert_all_calls();
    let with_gas = json!({ "submitter": SENDER, "payload": { "to": TARGET, "gas": 30_000 } });
    let answer = site.post("/api/v1/tx?simulate=true", with_gas.to_string()).await;
    assert_eq!(answer.code(), "would_revert", "tried even if the gas is given");
    site.assert_untouched().await;
    let for_real = site.post("/api/v1/tx?simulate=false", with_gas.to_string()).await;
    assert_eq!(for_real.status, StatusCode::ACCEPTED, "{for_real:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_transaction_names_its_blocker_with_the_nonce_for_operators_only() {
    let site = Site::new().await;
    let account = format!("/api/v1/submitters/{SENDER}");
    assert_eq!(site.get(&account).await.json()["blockedBy"], Value::Null);
    site.chain.answer(TxMatch::Nonce(0), AnswerClass::InsufficientFunds, usize::MAX);
    let head = site.post("/api/v1/tx", transfer()).await.json()["txId"].clone();
    let behind = site.post("/api/v1/tx", transfer()).await.json()["txId"].clone();
    let path = format!("/api/v1/tx/{}", behind.as_str().unwrap());
    wait::until("it is blocked", || async {
        (site.get(&path).await.json()["blockedBy"] != Value::Null).then_some(())
    })
    .await;
    let blocked = site.get(&path).await.json()["blockedBy"].clone();
    assert_eq!(blocked, json!({ "txId": head, "reason": "insufficient_funds" }));
    let seen = json!({ "txId": head, "nonce": 0, "reason": "insufficient_funds" });
    let operators = site.get(&format!("{path}?view=operator")).await.json();
    assert_eq!(operators["blockedBy"], seen);
    assert_eq!(site.get(&account).await.json()["blockedBy"], seen);
    let of_account = site.get(&format!("/api/v1/tx?submitter={SENDER}")).await.json();
    let shown = |list: &Value, n: usize| list["items"][n]["blockedBy"].clone();
    assert_eq!((shown(&of_account, 0), shown(&of_account, 1)), (blocked, Value::Null));
    let of_all = site.get("/api/v1/tx").await.json();
    assert_eq!(shown(&of_all, 0), Value::Null, "lists of several accounts don't look");
    let own = site.get(&format!("/api/v1/tx/{}", head.as_str().unwrap())).await.json();
    assert_eq!(
        (&own["state"], &own["subState"]),
        (&json!("ALLOCATED"), &json!("INSUFFICIENT_FUNDS"))
    );
    assert_eq!(own["blockedBy"], Value::Null, "it waits for money, not for another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chain_would_refuse_is_422_with_a_code_of_its_own() {
    let site = Site::new().await;
    site.chain.set_block_gas(1_000_000);
    site.chain
        .set_balance("0x0101010101010101010101010101010101010101".parse().unwrap(), U256::from(5));
    let create = |payload: Value| json!({ "submitter": SENDER, "payload": payload });
    for (payload, code, field) in [
        (json!({ "to": TARGET, "gas": 20_000 }), "gas_too_low", "payload.gas"),
        (json!({ "to": TARGET, "gas": 2_000_000 }), "gas_above_block_limit", "payload.gas"),
        (json!({ "to": TARGET, "gas": 30_000 }), "insufficient_funds", "submitter"),
        (
            json!({ "to": TARGET, "gas": 30_000, "value": "1" }),
            "insufficient_funds",
            "payload.value",
        ),
    ] {
        for path in ["/api/v1/tx", "/api/v1/tx?simulate=true"] {
            let answer = site.post(path, create(payload.clone()).to_string()).await;
            answer.refused(422, code);
            let problem = answer.json();
            assert_eq!(problem["field"], field, "{problem}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.starts_with(&format!("{field}: ")), "{detail}");
            let available = &problem["funds"]["available"];
            assert_eq!(available == "5", code == "insufficient_funds", "{problem}");
        }
        let batch = json!({ "items": [create(payload)] });
        let answer = site.post("/api/v1/tx/batch", batch.to_string()).await.json();
        assert_eq!(answer["items"][0]["error"]["code"], code, "{answer}");
    }
    site.assert_untouched().await;
}
