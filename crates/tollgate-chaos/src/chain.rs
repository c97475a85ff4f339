//! The chain's own account of what happened, asked without anything of Tollgate in between.

use std::collections::BTreeMap;

use alloy_primitives::hex;
use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::rpc::number;
use tollgate_testkit::{Anvil, wait};

use crate::cluster::{CONFIRMATIONS, accounts_of, key_of};
use crate::verdict::Mined;

/// Blocks that are waited for before the chain is read: time for what a pool still has.
const BLOCKS_WAITED: u64 = CONFIRMATIONS;

/// The height of the chain.
pub(crate) async fn head(anvil: &Anvil) -> u64 {
    number(&anvil.call("eth_blockNumber", json!([])).await)
}

/// Everything in the blocks of the canonical chain, in order, once some more blocks are there.
pub(crate) async fn mined(chain: usize, anvil: &Anvil) -> Vec<Mined> {
    let target = head(anvil).await + BLOCKS_WAITED;
    let head = wait::until("more blocks", || async {
        let head = head(anvil).await;
        (head >= target).then_some(head)
    })
    .await;
    let all = dev_accounts();
    let address = |account: &usize| all[key_of(*account)].address.to_string().to_lowercase();
    let accounts: Vec<(String, usize)> =
        accounts_of(chain).into_iter().map(|account| (address(&account), account)).collect();
    let mut all = Vec::new();
    for block in 1..=head {
        let tag = format!("{block:#x}");
        let found = anvil.call("eth_getBlockByNumber", json!([tag, true])).await;
        let receipts = anvil.call("eth_getBlockReceipts", json!([tag])).await;
        let transactions = found["transactions"].as_array().expect("a block has a list");
        for (tx, receipt) in transactions.iter().zip(receipts.as_array().into_iter().flatten()) {
            let from = tx["from"].as_str().unwrap_or_default().to_lowercase();
            let account = accounts.iter().find(|(address, _)| *address == from);
            all.push(Mined {
                account: account.map(|(_, account)| *account),
                nonce: number(&tx["nonce"]),
                value: number(&tx["value"]),
                block,
                succeeded: succeeded(tx, receipt),
            });
        }
        assert_eq!(receipts.as_array().map(Vec::len), Some(transactions.len()), "block {block}");
    }
    all
}

fn succeeded(tx: &Value, receipt: &Value) -> bool {
    receipt["transactionHash"] == tx["hash"] && number(&receipt["status"]) == 1
}

/// The next nonce of each account, the pool included.
pub(crate) async fn pending_counts(chain: usize, anvil: &Anvil) -> BTreeMap<usize, u64> {
    let mut counts = BTreeMap::new();
    for account in accounts_of(chain) {
        let address = hex::encode_prefixed(dev_accounts()[key_of(account)].address);
        let count = anvil.call("eth_getTransactionCount", json!([address, "pending"])).await;
        counts.insert(account, number(&count));
    }
    counts
}
