//! The fuzz target of results: blocks, receipts, fees, counts, pools.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_model::{Address, B256, Bytes, U256};

use super::block_proof::{prove, proven_base_fee, proven_receipts};
use super::blocks::block_of;
use super::fees::endpoint_quotes::{dynamic, legacy, scaled, tips};
use super::logs::log_entry;
use super::pools::content;
use super::receipts::mined_in;
use super::revert_reason::{reason, revert_data};
use crate::endpoint::json::{
    BlockJson, FeeHistoryJson, FullBlockJson, PoolJson, Quantity, ReceiptJson, ReceiptLogsJson,
    SlotJson, TransactionJson,
};

/// Reads bytes as the result of every call that is made of a node.
///
/// # Panics
/// If a reader does.
pub fn rpc_results(data: &[u8]) {
    read::<Quantity<u64>>(data);
    read::<Quantity<B256>>(data);
    read::<Quantity<U256>>(data);
    read::<Quantity<Bytes>>(data).map(|data| reason(&data.0));
    read::<Quantity<u128>>(data).map(|price| (legacy(price.0), dynamic(price.0, scaled(price.0))));
    read::<SlotJson>(data);
    read::<TransactionJson>(data);
    read::<FullBlockJson>(data).inspect(|block| {
        let of = block.transactions.iter().find_map(|tx| tx.from).map_or(Address::ZERO, |of| of.0);
        super::block_search::note(of, block, &mut Default::default());
    });
    for receipt in [read::<ReceiptJson>(data).map(|one| vec![one]), read(data)].iter().flatten() {
        receipt.iter().for_each(|one| drop(mined_in(one)));
    }
    if let Some(receipt) = read::<ReceiptLogsJson>(data) {
        receipt.logs.into_iter().for_each(|log| drop(log_entry(log)));
    }
    read::<PoolJson>(data).map(|pool| content(Address::repeat_byte(0x11), pool));
    if let Some(history) = read::<FeeHistoryJson>(data) {
        let base = history.base_fee_per_gas.last().map_or(0, |fee| fee.0);
        if let (Some(tips), Ok(_)) = (tips(&history), legacy(base)) {
            assert!(tips.is_sorted(), "faster is never cheaper");
            let _ = dynamic(base, tips);
        }
    }
    if let Some(block) = read::<BlockJson>(data) {
        let _ = (block.base_fee(), block.gas_limit(), block.has_requests());
        let _ = block_of(block);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = revert_data(text);
    }
    if let Some(value) = read::<Value>(data) {
        prove_all(value);
    }
}

/// A block that claims its own hash, and receipts for it.
fn prove_all(mut value: Value) {
    let receipts = value.get_mut("receipts").map(Value::take).unwrap_or_default();
    let block = value.get_mut("block").map(Value::take).unwrap_or(value);
    if let Ok(header) = alloy_consensus::Header::deserialize(&block) {
        let hash = header.hash_slow();
        let _ = proven_base_fee(&block, hash);
        let _ = proven_receipts(&header, receipts);
        let _ = prove(hash, block);
    }
}

fn read<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    serde_json::from_slice(data).ok()
}
