//! `tollgate doctor` against dev chains in trouble and against anvil: the real binary, no node.

use serde_json::{Value, json};
use tollgate_devchain::fault::{Fault, FaultRule};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, ViewOptions, dev_accounts};
use tollgate_testkit::anvil::Anvil;
use tollgate_testkit::rpc;

use crate::program::{Ran, command};
use crate::signed::signed_by;

const HEALTHY: Option<i32> = Some(0);
const STUCK: Option<i32> = Some(1);
const UNKNOWN: Option<i32> = Some(3);

async fn chain() -> RunningDevChain {
    DevChain::start(DevChainOptions::default()).await.unwrap()
}

fn account() -> String {
    dev_accounts()[0].address.to_string()
}

/// Asks these endpoints, as text and as JSON.
async fn doctor(urls: &[&str]) -> (Ran, Value) {
    let mut args = vec!["doctor".to_owned(), account()];
    for url in urls {
        args.extend(["--rpc-url".to_owned(), (*url).to_owned()]);
    }
    let ran =
        |args: Vec<String>| tokio::task::spawn_blocking(move || Ran::of(command().args(&args)));
    let text = ran(args.clone()).await.unwrap();
    args.push("--json".to_owned());
    let json = ran(args).await.unwrap();
    assert_eq!(text.code, json.code, "{text:?} {json:?}");
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
    (text, serde_json::from_str(&json.out).unwrap())
}

async fn send(url: &str, nonce: u64) {
    let chain_id = rpc::number(&rpc::call(url, "eth_chainId", json!([])).await);
    let raw = json!([signed_by(0, nonce, 1, chain_id).await]);
    let _hash = rpc::call(url, "eth_sendRawTransaction", raw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn account_in_order_is_healthy_and_one_behind_a_gap_is_stuck() {
    let chain = chain().await;
    let (text, _) = doctor(&[&chain.url()]).await;
    assert_eq!(text.code, HEALTHY, "{text:?}");
    assert!(text.out.contains("nothing waits: the next transaction needs nonce 0"), "{text:?}");
    send(&chain.url(), 2).await;
    let (text, json) = doctor(&[&chain.url()]).await;
    assert_eq!((text.code, &json["health"]), (STUCK, &json!("stuck")), "{text:?}");
    assert!(text.out.contains("the chain waits for nonces 0 to 1"), "{text:?}");
    assert_eq!((&json["remedy"]["kind"], &json["remedy"]["nonce"]), (&json!("fill"), &json!(0)));
    // What it names frees the account.
    send(&chain.url(), 0).await;
    send(&chain.url(), 1).await;
    chain.mine(2);
    let (text, _) = doctor(&[&chain.url()]).await;
    assert_eq!(text.code, HEALTHY, "{text:?}");
    assert!(text.out.contains("nonce 3"), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_that_hides_its_pool_or_fails_leaves_the_answer_open() {
    let chain = chain().await;
    let mut hiding = ViewOptions::default();
    hiding.features.txpool = false;
    let hiding = chain.second_view(hiding).await.unwrap();
    send(&chain.url(), 2).await;
    let (text, _) = doctor(&[&hiding.url()]).await;
    assert_eq!(text.code, UNKNOWN, "{text:?}");
    assert!(text.out.contains("shows its pool"), "{text:?}");
    let (text, _) = doctor(&[&hiding.url(), &chain.url()]).await;
    assert_eq!(text.code, STUCK, "the other shows it: {text:?}");

    let broken = Fault::Http { status: 503, retry_after_s: None };
    assert!(hiding.fail(FaultRule::always("*", broken)));
    let (text, json) = doctor(&[&hiding.url()]).await;
    assert_eq!((text.code, &json["health"]), (UNKNOWN, &json!("unknown")), "{text:?}");
    let (text, _) = doctor(&["http://127.0.0.1:9"]).await;
    assert_eq!(text.code, UNKNOWN, "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_an_endpoint_is_shown_with_the_class_and_the_reason_of_explain() {
    let chain = chain().await;
    let message = "daily request count exceeded, request rate limited";
    let fault = Fault::Rpc { code: -32_005, message: message.to_owned() };
    let limited = chain.second_view(ViewOptions::default()).await.unwrap();
    assert!(limited.fail(FaultRule::always("eth_getBalance", fault)));
    let (text, json) = doctor(&[&limited.url()]).await;
    let explained = Ran::of(command().args(["explain", "--code", "-32005", message]));
    let of = |name: &str| {
        let line = explained.out.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {explained:?}")).trim().to_owned()
    };
    let words = format!("{message} ({}: {})", of("class"), of("why"));
    assert_eq!(json["endpoints"][0]["error"], json!(words), "{json}");
    let shown = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&words.split_whitespace().collect::<Vec<_>>().join(" ")), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_different_chains_are_told() {
    let one = chain().await;
    let anvil = Anvil::start(&["--chain-id", "4242"]).await;
    let (text, _) = doctor(&[&one.url(), anvil.url()]).await;
    assert_eq!(text.code, UNKNOWN, "{text:?}");
    assert!(text.out.contains("different chains"), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gap_in_the_pool_of_anvil_is_found() {
    let anvil = Anvil::start(&[]).await;
    send(anvil.url(), 1).await;
    let (text, json) = doctor(&[anvil.url()]).await;
    assert_eq!(text.code, STUCK, "{text:?}");
    assert_eq!((&json["remedy"]["kind"], &json["remedy"]["nonce"]), (&json!("fill"), &json!(0)));
    send(anvil.url(), 0).await;
    let (text, _) = doctor(&[anvil.url()]).await;
    assert_eq!(text.code, HEALTHY, "{text:?}");
    let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("can be in the next block"), "{text:?}");
}

#[test]
fn wrong_address_and_missing_endpoint_are_usage_errors() {
    let wrong = Ran::of(command().args(["doctor", "0x12", "--rpc-url", "http://127.0.0.1:9"]));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let missing = Ran::of(command().args(["doctor", &account()]));
    assert_eq!(missing.code, Some(2), "{missing:?}");
}
