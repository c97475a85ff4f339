//! A chain that can't be asked: never a reason to take a node out of service.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_devchain::dev_accounts;
use tollgate_testkit::wait;

use super::duo::{ANSWER_MAX, Duo, assert_prompt, stage, tell, timed, timed_all};
use crate::cluster::stage::{Stage, ask, feed};

/// Creates of each account that are taken during each kind of trouble.
const TAKEN: usize = 4;

/// Makes every call fail like this.
fn fail(stage: &Stage, method: &str, fault: Value) {
    let rule = json!({ "method": method, "fault": fault });
    stage.chain.view().call("devchain_fail", &rule).unwrap();
}

/// Kinds of trouble with the chain.
const KINDS: [&str; 6] = ["refuses", "hangs", "500", "429", "garbage", "error"];

fn begin(stage: &Stage, kind: &str) {
    let fault = match kind {
        "refuses" => {
            stage.chain.view().refuse_connections(true);
            return stage.chain.view().close_connections();
        }
        "hangs" => json!({ "kind": "delay", "ms": 600_000 }),
        "500" => json!({ "kind": "http", "status": 500 }),
        "429" => json!({ "kind": "http", "status": 429, "retryAfterS": 1 }),
        // A page of HTML.
        "garbage" => json!({ "kind": "http", "status": 200 }),
        "error" => json!({ "kind": "rpc", "code": -32603, "message": "internal error" }),
        _ => unreachable!("{kind}"),
    };
    fail(stage, "*", fault);
}

fn end(stage: &Stage) {
    stage.chain.view().refuse_connections(false);
    stage.chain.view().call("devchain_clearFaults", &json!([])).unwrap();
    // What hangs stays so.
    stage.chain.view().close_connections();
}

/// Ready, and reads are answered.
async fn assert_in_service(duo: &Duo, kind: &str) -> Duration {
    let account = format!("/api/v1/submitters/{}", dev_accounts()[0].address);
    let paths =
        ["/readyz", "/livez", &account, "/api/v1/tx?limit=1", "/api/v1/tx/completions?after=0"];
    let mut slowest = Duration::ZERO;
    for (path, said, took) in timed_all(&duo.nodes, &paths).await {
        assert_eq!(said.status, 200, "{kind} {path}: {said:?}");
        assert!(took < ANSWER_MAX, "{kind} {path}: {took:?}");
        slowest = slowest.max(took);
    }
    slowest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_in_trouble_takes_no_node_out_of_service() {
    let duo = Duo::on(stage().await).await;
    for kind in KINDS {
        begin(&duo.stage, kind);
        let began = Instant::now();
        let read = assert_in_service(&duo, kind).await;
        duo.callers.progress(TAKEN).await;
        let estimate = json!({
            "submitter": dev_accounts()[0].address,
            "payload": { "to": dev_accounts()[9].address, "value": "1" },
        });
        let said = ask(duo.nodes[0].port, "POST", "/api/v1/tx", &estimate.to_string()).await;
        let said = said.unwrap();
        assert_eq!((said.status, &said.body["code"]), (503, &"unavailable".into()), "{said:?}");
        assert!(said.head.contains("retry-after:"), "{said:?}");
        assert_in_service(&duo, kind).await;
        eprintln!("{kind}: reads within {read:?}, {:?} in all", began.elapsed());
        let answers = duo.callers.answers();
        tell(kind, &answers);
        assert_prompt(&answers);
        assert!(answers.keys().all(|kind| kind == "202"), "{answers:?}");
        end(&duo.stage);
        eprintln!("{kind}: goes on after {:?}", mined_again(&duo).await);
    }
    duo.end().await;
}

/// Waits until something that was taken meanwhile is final.
async fn mined_again(duo: &Duo) -> Duration {
    let begun = Instant::now();
    let before = feed(duo.nodes[0].port).await.unwrap();
    let last = before.last().map_or(0, |entry| entry["seq"].as_u64().unwrap());
    let path = format!("/api/v1/tx/completions?after={last}&limit=1");
    wait::until("blocks to bring something", || async {
        let (page, _) = timed(&duo.nodes[0], &path).await;
        page.body["items"].as_array().is_some_and(|items| !items.is_empty()).then_some(())
    })
    .await;
    begun.elapsed()
}

/// The calls of a node to a chain, without those for the chain id and the newest block: without them
/// it does not start.
const ASKED: [&str; 9] = [
    "eth_getTransactionCount",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_maxPriorityFeePerGas",
    "eth_sendRawTransaction",
    "eth_getTransactionReceipt",
    "eth_getBlockReceipts",
    "eth_getBalance",
    "eth_estimateGas",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_beside_a_chain_in_trouble_is_in_service() {
    let stage = stage().await;
    for method in ASKED {
        fail(&stage, method, json!({ "kind": "http", "status": 500 }));
    }
    let duo = Duo::on(stage).await;
    assert_in_service(&duo, "from the start").await;
    let items = timed(&duo.nodes[0], "/api/v1/tx?limit=100").await.0.body["items"].take();
    let queued = |tx: &Value| tx["state"] == "QUEUED";
    assert!(items.as_array().unwrap().iter().all(queued), "nobody knows their nonces: {items}");
    end(&duo.stage);
    eprintln!("from the start: goes on after {:?}", mined_again(&duo).await);
    duo.end().await;
}
