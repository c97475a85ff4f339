//! Set-code transactions (EIP-7702): whose authorizations are accepted, and whose nonces they use.

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_engine::{EngineOptions, ReservationLimits};
use tollgate_model::authorization::Authorization;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{Signer, TxDraft, TxKind};
use tollgate_model::{Bytes, ChainId, GasPrice, Nonce, U256, Wei};
use tollgate_testkit::cluster::dev_signer;

use crate::dev_site::{DevSite, KEYLESS, sender, target};

const CHAIN_ID: u64 = 31_337;
/// Another account of Tollgate.
const OWN: usize = 2;
/// An account that Tollgate does not know.
const FOREIGN: usize = 4;
/// The contract.
const CONTRACT: usize = 5;

async fn site() -> DevSite {
    let reservations = Some(ReservationLimits::default());
    let options = EngineOptions { reservations, ..EngineOptions::default() };
    DevSite::with_keys(options, &[0, OWN]).await
}

fn item(authority: usize, nonce: u64) -> Value {
    json!({
        "chainId": CHAIN_ID,
        "address": target(CONTRACT),
        "nonce": nonce,
        "authority": target(authority),
    })
}

/// A create of the first account.
fn carrying(items: Value) -> Value {
    let payload =
        json!({ "to": target(9), "value": "3", "gas": 150_000, "authorizationList": items });
    json!({ "submitter": sender(), "payload": payload })
}

async fn authorized(authority: usize, nonce: u64) -> Authorization {
    let accounts = dev_accounts();
    let (address, authority) = (accounts[CONTRACT].address, accounts[authority].address);
    let mut item = Authorization { chain_id: CHAIN_ID, address, nonce, authority, signature: None };
    let signer = dev_signer(0..10);
    item.signature = Some(signer.authorize(&item).await.unwrap());
    item
}

/// The same as a caller writes it.
async fn signed(authority: usize, nonce: u64) -> Value {
    let signature = authorized(authority, nonce).await.signature.unwrap();
    json!({
        "chainId": CHAIN_ID,
        "address": target(CONTRACT),
        "nonce": nonce,
        "yParity": u8::from(signature.y_parity),
        "r": format!("{:#x}", signature.r),
        "s": format!("{:#x}", signature.s),
    })
}

async fn raw(from: usize, nonce: u64, authorizations: Vec<Authorization>) -> Value {
    let gwei = |n: u128| GasPrice::from_wei(n * 1_000_000_000).unwrap();
    let draft = TxDraft {
        chain_id: ChainId::new(CHAIN_ID).unwrap(),
        from: dev_accounts()[from].address,
        nonce: Nonce::new(nonce).unwrap(),
        to: Some(dev_accounts()[9].address),
        value: Wei(U256::ZERO),
        data: Bytes::new(),
        access_list: Vec::new(),
        authorizations,
        fees: Fees { gas_limit: 90_000, max_fee: gwei(50), max_priority_fee: Some(gwei(1)) },
        kind: TxKind::SetCode,
    };
    let signed = dev_signer([from]).sign(vec![draft]).await.remove(0).unwrap();
    json!({ "rawTx": signed.raw.to_string() })
}

/// Reserves a nonce of the own account, and reports it as used by the authorization that a refusal names.
async fn reserve(site: &DevSite) -> u64 {
    let nonces = format!("/api/v1/submitters/{}/nonces", target(OWN));
    let held = site.post(&nonces, "{}").await.with(201);
    let nonce = held["nonce"].as_u64().unwrap();
    let refused = site.post("/api/v1/tx", carrying(json!([item(OWN, nonce)])).to_string()).await;
    refused.refused(422, "authorization_refused");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    let hash = detail.rsplit(' ').next().unwrap();
    let used = json!({ "ownerToken": held["ownerToken"], "txHash": hash });
    site.post(&format!("{nonces}/{nonce}/used"), used.to_string()).await.with(200);
    nonce
}

async fn code_of(site: &DevSite, account: usize) -> Value {
    site.chain_says("eth_getCode", json!([target(account), "latest"])).await
}

async fn from_own(site: &DevSite) -> String {
    let payload = json!({ "to": target(9), "value": "1", "gas": 21_000 });
    site.take(&json!({ "submitter": target(OWN), "payload": payload })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_of_an_own_account_uses_its_reserved_nonce_and_the_next_transaction_the_one_after()
 {
    let site = site().await;
    let before = from_own(&site).await;
    assert_eq!(site.finish(&before).await["nonce"], 0);
    let nonce = reserve(&site).await;
    let tx_id = site.take(&carrying(json!([item(OWN, nonce)]))).await;
    let after = from_own(&site).await;
    let done = site.finish(&tx_id).await;
    assert_eq!(done["state"], "CONFIRMED", "{done}");
    assert_eq!(done["authorizationList"], json!([item(OWN, 1)]));
    let delegated = target(CONTRACT).to_lowercase().replace("0x", "0xef0100");
    assert_eq!(code_of(&site, OWN).await, delegated);
    let after = site.finish(&after).await;
    assert_eq!((&after["state"], &after["nonce"]), (&json!("CONFIRMED"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_waits_until_the_authoritys_earlier_transactions_are_mined() {
    let site = site().await;
    let before = from_own(&site).await;
    site.until(&before, "TRACKING", "PENDING").await;
    let nonce = reserve(&site).await;
    let create = carrying(json!([item(OWN, nonce)]));
    let early = site.post("/api/v1/tx", create.to_string()).await;
    early.refused(409, "authorization_early");
    assert_eq!(early.json()["retryable"], true);
    site.finish(&before).await;
    let tx_id = site.take(&create).await;
    assert_eq!(site.finish(&tx_id).await["state"], "CONFIRMED");
    assert_ne!(code_of(&site, OWN).await, "0x");
}

#[tokio::test(flavor = "multi_thread")]
async fn speed_up_keeps_authorizations_cancel_drops_them_and_the_nonce_can_be_filled() {
    let site = site().await;
    let nonce = reserve(&site).await;
    let tx_id = site.take(&carrying(json!([item(OWN, nonce)]))).await;
    site.until(&tx_id, "TRACKING", "PENDING").await;
    for (word, kind) in [("speed-up", "0x4"), ("cancel", "0x2")] {
        site.act(&tx_id, word, json!({})).await.with(202);
        let hash = site.seen(&tx_id).await["txHash"].clone();
        site.until_pooled(&hash).await;
        let pooled = site.chain_says("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!(pooled["type"], kind, "{pooled}");
    }
    let done = site.finish(&tx_id).await;
    assert_eq!(done["subState"], "CANCELLED", "{done}");
    assert_eq!(code_of(&site, OWN).await, "0x", "it had no effect");
    let next = from_own(&site).await;
    site.until(&next, "TRACKING", "PENDING").await;
    let fill = json!({ "first": nonce, "last": nonce, "with": "placeholder", "used": true, "reason": "cancelled" });
    let path = format!("/api/v1/submitters/{}/fill", target(OWN));
    site.post(&path, fill.to_string()).await.with(200);
    assert_eq!(site.finish(&next).await["state"], "CONFIRMED");
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_of_an_unknown_account_is_carried_in_intents_and_in_signed_transactions() {
    let site = site().await;
    let tx_id = site.take(&carrying(json!([signed(FOREIGN, 0).await]))).await;
    let done = site.finish(&tx_id).await;
    assert_eq!(done["authorizationList"], json!([item(FOREIGN, 0)]));
    assert_ne!(code_of(&site, FOREIGN).await, "0x");
    let again = raw(KEYLESS, 0, vec![authorized(FOREIGN, 1).await]).await;
    let done = site.finish(&site.take(&again).await).await;
    assert_eq!(done["state"], "CONFIRMED", "{done}");
    assert_eq!(done["authorizationList"], json!([item(FOREIGN, 1)]));
    let count =
        site.chain_says("eth_getTransactionCount", json!([target(FOREIGN), "latest"])).await;
    assert_eq!(count, "0x2");
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_that_uses_an_own_nonce_behind_the_cursor_is_refused() {
    let site = site().await;
    let any_chain =
        json!({ "chainId": 0, "address": target(CONTRACT), "nonce": 0, "authority": target(OWN) });
    let elsewhere =
        json!({ "chainId": 1, "address": target(CONTRACT), "nonce": 0, "authority": target(OWN) });
    for (items, why) in [
        (json!([item(0, 1)]), "the account that sends"),
        (json!([signed(0, 1).await]), "the account that sends"),
        (json!([item(OWN, 0)]), "not reserved"),
        (json!([signed(FOREIGN, 0).await, signed(OWN, 0).await]), "not reserved"),
        (json!([item(KEYLESS, 0)]), "no key"),
        (json!([item(FOREIGN, 0)]), "no key"),
        (json!([any_chain]), "every chain"),
        (json!([elsewhere]), "chain 1"),
    ] {
        for path in ["/api/v1/tx", "/api/v1/tx?simulate=true"] {
            let refused = site.post(path, carrying(items.clone()).to_string()).await;
            refused.refused(422, "authorization_refused");
            assert!(refused.json()["detail"].as_str().unwrap().contains(why), "{refused:?}");
        }
    }
    for authority in [KEYLESS, OWN] {
        let raw = raw(KEYLESS, 0, vec![authorized(authority, 1).await]).await;
        let refused = site.post("/api/v1/tx", raw.to_string()).await;
        assert_eq!(refused.json()["field"], "rawTx", "{refused:?}");
        refused.refused(422, "authorization_refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_list_that_makes_no_set_code_transaction_is_refused() {
    let site = site().await;
    let good = carrying(json!([signed(FOREIGN, 0).await]));
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body["payload"][name] = value;
        body
    };
    let mut bad = signed(FOREIGN, 0).await;
    bad["s"] = json!("0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");
    let mut partial = signed(FOREIGN, 0).await;
    partial["r"] = json!(null);
    let mut other = signed(FOREIGN, 0).await;
    other["authority"] = json!(target(OWN));
    let too_many: Vec<Value> = std::iter::repeat_n(signed(FOREIGN, 0).await, 65).collect();
    for (body, code) in [
        (with("to", json!(null)), "missing_field"),
        (with("gas", json!(null)), "missing_field"),
        (with("gas", json!(45_999)), "gas_too_low"),
        (with("type", json!("dynamicFee")), "invalid_field"),
        (carrying(json!([])), "accepted"),
        (with("authorizationList", json!([bad])), "invalid_field"),
        (with("authorizationList", json!([partial])), "invalid_field"),
        (with("authorizationList", json!([other])), "invalid_field"),
        (with("authorizationList", json!(too_many)), "invalid_field"),
    ] {
        let answer = site.post("/api/v1/tx?simulate=true", body.to_string()).await;
        match code {
            "accepted" => drop(answer.with(200)),
            code => answer.refused(422, code),
        }
    }
    let mut empty = with("type", json!("setCode"));
    empty["payload"]["authorizationList"] = json!([]);
    site.post("/api/v1/tx", empty.to_string()).await.refused(422, "invalid_field");
    let blob = json!({ "rawTx": "0x03c0" }).to_string();
    let refused = site.post("/api/v1/tx", blob).await;
    assert!(refused.json()["detail"].as_str().unwrap().contains("EIP-4844"), "{refused:?}");
}
