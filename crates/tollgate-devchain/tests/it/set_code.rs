//! Set-code transactions (EIP-7702): which authorizations take effect, and that anvil agrees.

use alloy_consensus::TxEip7702;
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, Bytes, Signature, U256, hex};
use secp256k1::{Message, SECP256K1, SecretKey};
use serde_json::json;
use tollgate_devchain::chain::{Behaviour, Chain, Tx};
use tollgate_devchain::sign;

use crate::against_anvil::{anvil, start_anvil};
use crate::support::{CHAIN_ID, NOBODY, account, chain, gwei, mine_all, result, send_over, start};

const CONTRACT: Address = Address::repeat_byte(0xc0);

fn authorization(by: usize, chain_id: u64, nonce: u64) -> SignedAuthorization {
    let item = Authorization { chain_id: U256::from(chain_id), address: CONTRACT, nonce };
    let key = SecretKey::from_byte_array(account(by).private_key.0).unwrap();
    let message = Message::from_digest(item.signature_hash().0);
    let signature: Signature = SECP256K1.sign_ecdsa_recoverable(message, &key).into();
    item.into_signed(signature)
}

/// A transaction of the first account to this address.
fn set_code(nonce: u64, to: Address, authorization_list: Vec<SignedAuthorization>) -> Bytes {
    let tx = TxEip7702 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: gwei(100),
        max_priority_fee_per_gas: gwei(1),
        to,
        authorization_list,
        ..TxEip7702::default()
    };
    sign::sign(tx, &account(0).private_key).unwrap()
}

fn mined(chain: &mut Chain, raw: Bytes) -> bool {
    mine_all(chain, &[Tx::decode(raw).unwrap()]);
    chain.head().receipts[0].is_success
}

fn nonce_and_delegate(chain: &Chain, of: usize) -> (u64, Option<Address>) {
    let account = chain.accounts().now(account(of).address);
    (account.nonce, account.delegate)
}

#[test]
fn authorization_takes_effect_only_at_its_nonce_and_on_its_chain() {
    let mut chain = chain(|_| {});
    let skipped = [(CHAIN_ID, 1), (CHAIN_ID + 1, 0)];
    let skipped = skipped.map(|(chain_id, nonce)| authorization(1, chain_id, nonce));
    assert!(mined(&mut chain, set_code(0, NOBODY, skipped.to_vec())));
    assert_eq!(nonce_and_delegate(&chain, 1), (0, None));
    assert!(mined(&mut chain, set_code(1, NOBODY, vec![authorization(1, 0, 0)])));
    assert_eq!(nonce_and_delegate(&chain, 1), (1, Some(CONTRACT)));
}

#[test]
fn authorization_of_the_sender_uses_the_nonce_after_the_transactions() {
    let mut chain = chain(|_| {});
    assert!(mined(&mut chain, set_code(0, NOBODY, vec![authorization(0, CHAIN_ID, 1)])));
    assert_eq!(nonce_and_delegate(&chain, 0), (2, Some(CONTRACT)));
}

#[test]
fn delegated_account_runs_its_contract_and_stays_delegated_when_the_call_reverts() {
    let mut chain = chain(|_| {});
    chain.set_behaviour(CONTRACT, Behaviour::Revert("no".to_owned()));
    let to = account(1).address;
    assert!(!mined(&mut chain, set_code(0, to, vec![authorization(1, CHAIN_ID, 0)])));
    assert_eq!(nonce_and_delegate(&chain, 1), (1, Some(CONTRACT)));
}

#[tokio::test]
async fn anvil_counts_and_shows_authorizations_in_the_same_way() {
    let program = anvil().expect("anvil is there: scripts/setup anvil installs it");
    let home = tempfile::tempdir().unwrap();
    let (mut child, anvil) = start_anvil(&program, home.path()).await;
    let (_devchain, ours) = start().await;
    let both = async |method: &str, params: serde_json::Value| {
        (result(&ours, method, params.clone()).await, result(&anvil, method, params).await)
    };
    // Of the first account at its next nonce, of another one, and one that does not fit.
    let list = vec![
        authorization(0, CHAIN_ID, 1),
        authorization(1, CHAIN_ID, 0),
        authorization(2, CHAIN_ID, 5),
    ];
    let raw = set_code(0, NOBODY, list);
    let hash = send_over(&ours, &raw).await;
    assert_eq!(send_over(&anvil, &raw).await, hash);
    result(&ours, "devchain_mine", json!([1])).await;
    result(&anvil, "evm_mine", json!([])).await;
    for (of, count) in [(0, "0x2"), (1, "0x1"), (2, "0x0")] {
        let params = json!([account(of).address, "latest"]);
        let counts = both("eth_getTransactionCount", params.clone()).await;
        assert_eq!(counts, (json!(count), json!(count)), "{of}");
        let (code, anvils) = both("eth_getCode", params).await;
        assert_eq!(code, anvils, "{of}");
        let delegated = format!("0xef0100{}", hex::encode(CONTRACT));
        assert_eq!(code == delegated, of < 2, "{code}");
    }
    let (tx, anvils) = both("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!(
        (&tx["type"], &tx["authorizationList"]),
        (&json!("0x4"), &anvils["authorizationList"])
    );
    let (receipt, anvils) = both("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!((&receipt["type"], &receipt["status"]), (&anvils["type"], &anvils["status"]));
    child.kill().await.unwrap();
}
