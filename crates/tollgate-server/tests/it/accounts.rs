//! Accounts that are opened, changed and removed while nodes run: the real binary.

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::postgres::PgServer;
use tollgate_testkit::wait::until;

use crate::chains::{NodeFiles, chain, create};

const CHAIN: u64 = 31_410;
/// The mnemonic of the dev chain's accounts.
const MNEMONIC: &str =
    "mnemonic = \"test test test test test test test test test test test junk\"\n";
/// An account of the mnemonic whose key is not in the nodes' settings.
const NEW: usize = 5;

fn submitter() -> String {
    format!("/api/v1/submitters/{}", dev_accounts()[NEW].address)
}

async fn confirmed(node: &NodeFiles, request: &str, value: u64) {
    let create = create(NEW, request, value, None);
    let (status, made) = node.post("/api/v1/tx", &create).await;
    assert_eq!(status, 202, "{made}");
    let path = format!("/api/v1/tx/{}", made["txId"].as_str().unwrap());
    until("the transaction to be confirmed", || async {
        (node.get(&path).await.1["state"] == "CONFIRMED").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn account_of_the_mnemonic_is_opened_changed_disabled_removed_and_opened_again() {
    let chain = chain(CHAIN).await;
    let node = NodeFiles::with_keys(None, &[(CHAIN, chain.url())], MNEMONIC);
    let program = node.start().await;
    let (status, refused) = node.post("/api/v1/tx", &create(NEW, "a", 1, None)).await;
    assert_eq!((status, &refused["code"]), (422, &json!("unknown_submitter")), "{refused}");

    let new = json!({ "key": format!("hd:{NEW}"), "label": "deposits", "window": 7 });
    let (status, opened) = node.post("/api/v1/submitters", &new).await;
    assert_eq!(status, 201, "{opened}");
    assert_eq!(opened["address"], dev_accounts()[NEW].address.to_checksum(None), "{opened}");
    assert_eq!((&opened["label"], &opened["key"]), (&json!("deposits"), &json!("hd:5")));
    let from_account = json!({ "value": "7", "from": "account" });
    assert_eq!((&opened["window"], &opened["settings"]["window"]), (&json!(7), &from_account));
    assert_eq!(opened["settings"]["maxTxFee"]["from"], "node", "{opened}");
    let (status, again) = node.post("/api/v1/submitters", &new).await;
    assert_eq!((status, &again["address"]), (200, &opened["address"]), "{again}");
    let (status, other) = node.post("/api/v1/submitters", &json!({ "key": "hd:5" })).await;
    assert_eq!((status, &other["code"]), (409, &json!("submitter_exists")), "{other}");
    confirmed(&node, "a", 1).await;

    // It is served after a restart, and a repeat is found though it is disabled.
    drop(program);
    let _program = node.start().await;
    until("the account to be served again", || async {
        (node.post("/api/v1/tx", &create(NEW, "b", 2, None)).await.0 == 202).then_some(())
    })
    .await;
    let change = json!({ "enabled": false, "window": null }).to_string();
    let (status, changed) = node.call("PATCH", &submitter(), &change).await;
    assert_eq!((status, &changed["enabled"]), (200, &json!(false)), "{changed}");
    assert_eq!(changed["settings"]["window"]["from"], "node", "{changed}");
    assert_eq!(changed["label"], "deposits", "what is left out stays");
    let (status, refused) = node.post("/api/v1/tx", &create(NEW, "c", 3, None)).await;
    assert_eq!((status, &refused["code"]), (422, &json!("submitter_disabled")), "{refused}");
    assert_eq!(node.post("/api/v1/tx", &create(NEW, "b", 2, None)).await.0, 200);

    // It can be removed once nothing of it is open, and opened again.
    until("the account to be removed", || async {
        let (status, said) = node.call("DELETE", &submitter(), "").await;
        assert!(status == 204 || said["code"] == "submitter_busy", "{status} {said}");
        (status == 204).then_some(())
    })
    .await;
    assert_eq!(node.call("DELETE", &submitter(), "").await.0, 404);
    let (status, refused) = node.post("/api/v1/tx", &create(NEW, "c", 3, None)).await;
    assert_eq!((status, &refused["code"]), (422, &json!("unknown_submitter")), "{refused}");
    assert_eq!(node.post("/api/v1/submitters", &new).await.0, 201);
    confirmed(&node, "c", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn account_opened_at_one_node_is_served_by_another_that_has_the_key() {
    let (chain, server) = (chain(CHAIN).await, PgServer::start_own().await);
    let database = server.url(&server.fresh_database().await);
    let served = [(CHAIN, chain.url())];
    let nodes = [
        NodeFiles::with_keys(Some(&database), &served, MNEMONIC),
        NodeFiles::with_keys(Some(&database), &served, MNEMONIC),
        NodeFiles::with_keys(Some(&database), &served, ""),
    ];
    let first = nodes[0].start().await;
    let _others = (nodes[1].start().await, nodes[2].start().await);
    let (status, opened) = nodes[0].post("/api/v1/submitters", &json!({ "key": "hd:5" })).await;
    assert_eq!(status, 201, "{opened}");
    let (status, refused) = nodes[2].post("/api/v1/submitters", &json!({ "key": "hd:6" })).await;
    assert_eq!((status, &refused["code"]), (422, &json!("key_unavailable")), "{refused}");
    // The node without the key passes the create on to one that has it.
    until("the node without the key to know", || async {
        let made = nodes[2].post("/api/v1/tx", &create(NEW, "a", 1, None)).await;
        assert!([202, 200, 422, 409, 503].contains(&made.0), "{made:?}");
        (made.0 == 202 || made.0 == 200).then_some(())
    })
    .await;
    drop(first);
    until("the other node to serve it", || async {
        (nodes[1].post("/api/v1/tx", &create(NEW, "b", 2, None)).await.0 == 202).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_references_are_refused_and_keys_are_never_repeated() {
    let chain = chain(CHAIN).await;
    let node = NodeFiles::with_keys(None, &[(CHAIN, chain.url())], "");
    let _program = node.start().await;
    let key = dev_accounts()[NEW].private_key.to_string();
    let configured = dev_accounts()[0].address;
    for (body, wanted) in [
        (json!({}), "missing_field"),
        (json!({ "key": key }), "invalid_field"),
        (json!({ "key": format!("env:{key}") }), "invalid_field"),
        (json!({ "key": "file:../../etc/passwd" }), "invalid_field"),
        (json!({ "key": "env:TOLLGATE_KEY_NOWHERE" }), "key_unavailable"),
        (json!({ "key": "hd:0" }), "key_unavailable"),
        (json!({ "key": "caller" }), "invalid_address"),
        (json!({ "key": "caller", "window": 0, "address": configured }), "invalid_number"),
        (json!({ "key": "caller", "address": configured, "colour": 1 }), "invalid_body"),
        (json!({ "key": "caller", "address": configured }), "submitter_exists"),
        (json!({ "key": "hd:0", "chainId": 1 }), "wrong_chain"),
    ] {
        let (status, refused) = node.post("/api/v1/submitters", &body).await;
        assert!((400..500).contains(&status), "{body}: {refused}");
        assert_eq!(refused["code"], wanted, "{body}: {refused}");
        assert!(!refused.to_string().contains(&key[4..30]), "{refused}");
    }
    let path = format!("/api/v1/submitters/{configured}");
    let (status, said) = node.call("DELETE", &path, "").await;
    assert_eq!((status, &said["code"]), (409, &json!("submitter_busy")), "{said}");
    let (status, said) = node.call("PATCH", &path, &json!({ "window": 3 }).to_string()).await;
    assert_eq!((status, &said["window"]), (200, &json!(3)), "{said}");
    let (_, listed): (u16, Value) = node.get("/api/v1/submitters").await;
    let one = listed["items"].as_array().unwrap().iter().find(|it| it["window"] == 3);
    assert!(one.is_some(), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spending_rules_are_set_shown_enforced_and_taken_back() {
    let chain = chain(CHAIN).await;
    let node = NodeFiles::with_keys(None, &[(CHAIN, chain.url())], MNEMONIC);
    let _program = node.start().await;
    let payee = dev_accounts()[1].address.to_checksum(None);
    let rules = json!([format!("{payee}:value"), format!("{payee}:0xa9059cbb")]);
    let new = json!({ "key": format!("hd:{NEW}"), "maxValue": "5", "allowedCalls": rules });
    let (status, opened) = node.post("/api/v1/submitters", &new).await;
    assert_eq!(status, 201, "{opened}");
    assert_eq!(opened["settings"]["maxValue"], "5", "{opened}");
    assert_eq!(opened["settings"]["allowedCalls"], rules, "{opened}");
    for (request, value, code) in [("a", 6, "value_above_cap"), ("b", 5, "call_not_allowed")] {
        let mut create = create(NEW, request, value, None);
        create["payload"]["to"] = json!(match code {
            "value_above_cap" => &payee,
            _ => "0x00000000000000000000000000000000000000aa",
        });
        let (status, refused) = node.post("/api/v1/tx", &create).await;
        assert_eq!((status, &refused["code"]), (422, &json!(code)), "{refused}");
        let batch = json!({ "items": [create] });
        let (_, refused) = node.post("/api/v1/tx/batch", &batch).await;
        assert_eq!(refused["items"][0]["error"]["code"], code, "{refused}");
    }
    for wrong in [json!([]), json!(["anything"]), json!("create"), json!([1])] {
        let change = json!({ "allowedCalls": wrong }).to_string();
        let (status, refused) = node.call("PATCH", &submitter(), &change).await;
        assert_eq!(status, 422, "{wrong}: {refused}");
    }
    let change = json!({ "maxValue": null, "allowedCalls": null }).to_string();
    let (status, changed) = node.call("PATCH", &submitter(), &change).await;
    assert_eq!((status, &changed["settings"]["allowedCalls"]), (200, &Value::Null), "{changed}");
    confirmed(&node, "c", 7).await;
}
