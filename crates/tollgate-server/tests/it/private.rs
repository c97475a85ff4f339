//! Private transactions over HTTP and by the command line: the real binary, with endpoints that record what they were
//! sent.

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::rpc_proxy::RpcProxy;
use tollgate_testkit::wait::until;

use crate::chains::{NodeFiles, chain, create};
use crate::dev_site::target;
use crate::program::{Ran, command};

const CHAIN: u64 = 31_420;
/// Data that no other transaction has.
const DATA: &str = "0x70726976617465206361";

fn private(account: usize, request: &str) -> Value {
    json!({
        "submitter": dev_accounts()[account].address,
        "requestId": request,
        "payload": { "to": target(9), "value": "1", "data": DATA },
        "route": "private",
    })
}

fn node(public: &[&RpcProxy], private: &RpcProxy) -> NodeFiles {
    let urls: Vec<String> = public.iter().map(|proxy| proxy.url()).collect();
    let settings = format!(
        "[chain]\nrpc_urls = {urls:?}\nprivate_rpc_urls = [{:?}]\n[private]\nresend_interval = \"200ms\"\n",
        private.url()
    );
    NodeFiles::with_keys(None, &[], &settings)
}

async fn confirmed(node: &NodeFiles, path: &str) -> Value {
    until("the transaction to be confirmed", || async {
        Some(node.get(path).await.1).filter(|tx| tx["state"] == "CONFIRMED")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn private_create_survives_a_restart_and_no_public_endpoint_sees_it() {
    let chain = chain(CHAIN).await;
    let public = [RpcProxy::to(&chain.url()).await, RpcProxy::to(&chain.url()).await];
    let relay = RpcProxy::to(&chain.url()).await;
    public.iter().chain([&relay]).for_each(RpcProxy::record);
    let node = node(&[&public[0], &public[1]], &relay);
    let program = node.start().await;
    let (_, listed) = node.get("/api/v1/chains").await;
    let roles: Vec<&Value> =
        (0..3).map(|at| &listed["items"][0]["endpoints"][at]["role"]).collect();
    assert_eq!(roles, ["full", "full", "private"], "{listed}");

    // Accepted by the relay, which does nothing with it. Public ones are not its business.
    relay.change(|faults| faults.discarded_sends = 100);
    let create_public = create(1, "public", 5, None);
    let batch = json!({ "items": [private(0, "a"), create_public] });
    let (status, answer) = node.post("/api/v1/tx/batch", &batch).await;
    assert_eq!(status, 200, "{answer}");
    let made = &answer["items"][0]["tx"];
    assert_eq!((&made["route"], &made["fallbackAfter"]), (&json!("private"), &json!(null)));
    assert_eq!(answer["items"][1]["tx"]["route"], "public", "{answer}");
    let path = format!("/api/v1/tx/{}", made["txId"].as_str().unwrap());
    let hash = until("it to be sent again", || async {
        let (_, tx) = node.get(&format!("{path}?view=operator")).await;
        (tx["resubmits"].as_u64() > Some(1)).then(|| tx["txHash"].as_str().unwrap().to_owned())
    })
    .await;
    drop(program);
    let before = relay.calls_with("eth_sendRawTransaction");
    let _program = node.start().await;
    until("the restarted node to send it", || async {
        (relay.calls_with("eth_sendRawTransaction") > before + 2).then_some(())
    })
    .await;
    let speed_up = json!({ "reason": "sooner" });
    let (status, sped) = node.post(&format!("{path}/speed-up"), &speed_up).await;
    assert_eq!(status, 202, "{sped}");
    for text in [&hash[2..], &DATA[2..]] {
        let seen: usize = public.iter().map(|it| it.calls_with(text)).sum();
        assert_eq!(seen, 0, "{text} was shown to a public endpoint");
        assert!(relay.calls_with(text) > 0, "{text}");
    }

    relay.change(|faults| faults.discarded_sends = 0);
    confirmed(&node, &path).await;
    let (_, history) = node.get(&format!("{path}/history")).await;
    assert!(history.to_string().contains(&relay.url()), "which endpoint took it: {history}");
    let seen: usize = public.iter().map(|it| it.calls_with(&DATA[2..])).sum();
    assert_eq!(seen, 0, "its bytes are never sent to public endpoints");
    let (status, again) = node.post("/api/v1/tx", &private(0, "a")).await;
    assert_eq!((status, &again["txId"]), (200, &made["txId"]), "{again}");
    let other = json!({ "fallbackAfter": "10m" });
    let mut repeat = private(0, "a");
    repeat["fallbackAfter"] = other["fallbackAfter"].clone();
    let (status, conflict) = node.post("/api/v1/tx", &repeat).await;
    assert_eq!((status, &conflict["code"]), (409, &json!("request_id_conflict")), "{conflict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_line_sends_privately_and_wrong_routes_are_refused() {
    let chain = chain(CHAIN).await;
    let (public, relay) = (RpcProxy::to(&chain.url()).await, RpcProxy::to(&chain.url()).await);
    public.record();
    let node = node(&[&public], &relay);
    let _program = node.start().await;
    let from = dev_accounts()[0].address.to_string();
    let to = target(9).to_string();
    let url = node.url();
    let mut send = command();
    send.args(["tx", "send", "--from", &from, "--to", &to, "--data", DATA, "--wait"])
        .args(["--route", "private", "--fallback-after", "10m"])
        .env("TOLLGATE_URL", &url);
    let ran = Ran::of(&mut send);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shows = |name: &str, value: &str| {
        ran.out.lines().any(|line| {
            line.split_once("  ")
                .is_some_and(|(shown, rest)| shown.trim() == name && rest.trim() == value)
        })
    };
    assert!(shows("route", "private") && shows("fallback after", "10m"), "{ran:?}");
    assert_eq!(public.calls_with(&DATA[2..]), 0);

    for (field, value, code) in [
        ("route", json!("secret"), "invalid_body"),
        ("route", json!(7), "invalid_body"),
        ("fallbackAfter", json!("0s"), "invalid_duration"),
        ("fallbackAfter", json!("721h"), "invalid_duration"),
        ("fallbackAfter", json!("soon"), "invalid_duration"),
    ] {
        let mut body = private(0, "bad");
        body[field] = value.clone();
        let (status, refused) = node.post("/api/v1/tx", &body).await;
        let said = (status, &refused["code"], &refused["field"]);
        assert_eq!(said, (422, &json!(code), &json!(field)), "{value}: {refused}");
    }
    let mut body = create(0, "bad", 1, None);
    body["fallbackAfter"] = json!("10m");
    let (status, refused) = node.post("/api/v1/tx", &body).await;
    assert_eq!((status, &refused["field"]), (422, &json!("fallbackAfter")), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_create_at_a_node_without_private_endpoints_is_refused() {
    let chain = chain(CHAIN).await;
    let node = NodeFiles::new(None, &[(CHAIN, chain.url())]);
    let _program = node.start().await;
    let (status, refused) = node.post("/api/v1/tx", &private(0, "a")).await;
    let said = (status, &refused["code"], &refused["field"]);
    assert_eq!(said, (422, &json!("no_private_endpoint"), &json!("route")), "{refused}");
}
