//! Transactions that the caller has signed, over HTTP, on a chain that checks signatures.

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{Signer, TxDraft, TxKind};
use tollgate_model::{Bytes, ChainId, GasPrice, Nonce, U256, Wei};
use tollgate_signer::{Key, LocalSigner};
use tollgate_testkit::{rpc, wait};

use crate::dev::Dev;

/// Bytes that the first dev account has signed.
async fn signed(nonce: u64, value: u64, chain_id: u64) -> String {
    signed_by(0, nonce, value, chain_id).await
}

/// Bytes that a dev account has signed.
pub(crate) async fn signed_by(account: usize, nonce: u64, value: u64, chain_id: u64) -> String {
    let account = &dev_accounts()[account];
    let gwei = |n: u128| GasPrice::from_wei(n * 1_000_000_000).unwrap();
    let draft = TxDraft {
        chain_id: ChainId::new(chain_id).unwrap(),
        from: account.address,
        nonce: Nonce::new(nonce).unwrap(),
        to: Some(dev_accounts()[1].address),
        value: Wei(U256::from(value)),
        data: Bytes::new(),
        access_list: Vec::new(),
        authorizations: Vec::new(),
        fees: Fees { gas_limit: 21_000, max_fee: gwei(50), max_priority_fee: Some(gwei(1)) },
        kind: TxKind::DynamicFee,
    };
    let signer = LocalSigner::new([Key::from_bytes(&account.private_key).unwrap()]);
    signer.sign(vec![draft]).await.remove(0).unwrap().raw.to_string()
}

async fn post(dev: &Dev, body: &Value) -> (u16, Value) {
    let url = format!("{}/api/v1/tx", dev.url);
    let (status, body) = rpc::request("POST", &url, &body.to_string()).await.unwrap();
    (status, serde_json::from_str(&body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_bytes_are_sent_as_they_are_and_followed_to_the_end() {
    let dev = Dev::start().await;
    let chain_id = rpc::number(&rpc::call(&dev.rpc_url, "eth_chainId", json!([])).await);
    let first = json!({ "rawTx": signed(0, 7, chain_id).await, "metadata": { "order": 1 } });

    let early = json!({ "rawTx": signed(1, 8, chain_id).await });
    let (status, answer) = post(&dev, &early).await;
    assert_eq!((status, &answer["code"]), (422, &json!("nonce_mismatch")), "{answer}");

    let (status, taken) = post(&dev, &first).await;
    assert_eq!(status, 202, "{taken}");
    assert_eq!(taken["metadata"], json!({ "order": 1 }));
    let (status, again) = post(&dev, &first).await;
    assert_eq!((status, &again["txId"]), (200, &taken["txId"]), "the same bytes: {again}");
    let (status, _) = post(&dev, &early).await;
    assert_eq!(status, 202, "now it is the next one");

    let other =
        json!({ "rawTx": signed(2, 9, chain_id).await, "submitter": dev_accounts()[1].address });
    let (status, answer) = post(&dev, &other).await;
    assert_eq!((status, &answer["code"]), (422, &json!("invalid_raw_tx")), "{answer}");
    let (status, answer) = post(&dev, &json!({ "rawTx": signed(2, 9, 1).await })).await;
    assert_eq!((status, &answer["code"]), (422, &json!("wrong_chain")), "{answer}");

    let url = format!("{}/api/v1/tx/{}", dev.url, taken["txId"].as_str().unwrap());
    wait::until("it to be final", || async {
        let (_, body) = rpc::request("GET", &url, "").await.unwrap();
        let tx: Value = serde_json::from_str(&body).unwrap();
        (tx["state"] == "CONFIRMED").then_some(())
    })
    .await;
    let mined = rpc::call(&dev.rpc_url, "eth_getTransactionByHash", json!([taken["txHash"]])).await;
    assert_eq!(rpc::number(&mined["value"]), 7);
}
