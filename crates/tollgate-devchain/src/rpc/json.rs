//! Blocks, transactions and receipts as JSON, with the fields that the real clients give.
//! Formatting only.

use alloy_consensus::Transaction as _;
use alloy_eips::eip2718::Typed2718 as _;
use alloy_primitives::{Address, B256, U256};
use serde_json::{Map, Value, json};

use crate::chain::{Block, Found, Pooled, Tx};

/// 256 empty bytes.
fn no_bloom() -> String {
    format!("0x{}", "0".repeat(512))
}

/// A number as JSON-RPC shows it.
pub(super) fn quantity(number: impl TryInto<u128>) -> Value {
    Value::String(format!("{:#x}", number.try_into().unwrap_or(u128::MAX)))
}

/// A large number as JSON-RPC shows it.
pub(super) fn big(number: U256) -> Value {
    Value::String(format!("{number:#x}"))
}

pub(super) fn hash(hash: B256) -> Value {
    Value::String(hash.to_string())
}

/// An address in lower case, as the clients give it.
pub(super) fn address(address: Address) -> Value {
    Value::String(format!("{address:#x}"))
}

/// A header, as `newHeads` and blocks show it.
pub(super) fn header(block: &Block) -> Map<String, Value> {
    let header = &block.header;
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
    put("hash", hash(block.hash));
    put("parentHash", hash(header.parent_hash));
    put("sha3Uncles", hash(header.ommers_hash));
    put("miner", address(header.beneficiary));
    put("stateRoot", hash(header.state_root));
    put("transactionsRoot", hash(header.transactions_root));
    put("receiptsRoot", hash(header.receipts_root));
    put("logsBloom", Value::String(no_bloom()));
    put("difficulty", big(header.difficulty));
    put("number", quantity(header.number));
    put("gasLimit", quantity(header.gas_limit));
    put("gasUsed", quantity(header.gas_used));
    put("timestamp", quantity(header.timestamp));
    put("extraData", Value::String(header.extra_data.to_string()));
    put("mixHash", hash(header.mix_hash));
    put("nonce", Value::String(header.nonce.to_string()));
    if let Some(base_fee) = header.base_fee_per_gas {
        put("baseFeePerGas", quantity(base_fee));
    }
    if let Some(root) = header.withdrawals_root {
        put("withdrawalsRoot", hash(root));
    }
    if let Some(gas) = header.blob_gas_used {
        put("blobGasUsed", quantity(gas));
    }
    if let Some(gas) = header.excess_blob_gas {
        put("excessBlobGas", quantity(gas));
    }
    if let Some(root) = header.parent_beacon_block_root {
        put("parentBeaconBlockRoot", hash(root));
    }
    map
}

/// A block, with hashes or with whole transactions.
pub(super) fn block(block: &Block, is_full: bool) -> Value {
    let mut map = header(block);
    let txs: Vec<Value> = if is_full {
        let placed = block.txs.iter().enumerate();
        placed.map(|(index, tx)| transaction(tx, Some((block, index)))).collect()
    } else {
        block.txs.iter().map(|tx| hash(tx.hash)).collect()
    };
    let size: usize = 600 + block.txs.iter().map(|tx| tx.raw.len()).sum::<usize>();
    map.insert("size".into(), quantity(size as u64));
    map.insert("transactions".into(), Value::Array(txs));
    map.insert("uncles".into(), json!([]));
    if block.header.withdrawals_root.is_some() {
        map.insert("withdrawals".into(), json!([]));
    }
    Value::Object(map)
}

/// A transaction, in a block or not yet.
pub(super) fn transaction(tx: &Tx, place: Option<(&Block, usize)>) -> Value {
    let envelope = &tx.envelope;
    let signature = envelope.signature();
    let kind = envelope.ty();
    let base_fee = place.and_then(|(block, _)| block.header.base_fee_per_gas);
    let price = match place {
        Some(_) => tx.price_at(base_fee),
        None => tx.fee_cap(),
    };
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
    put("blockHash", place.map_or(Value::Null, |(block, _)| hash(block.hash)));
    put("blockNumber", place.map_or(Value::Null, |(block, _)| quantity(block.number())));
    put("transactionIndex", place.map_or(Value::Null, |(_, index)| quantity(index as u64)));
    put("hash", hash(tx.hash));
    put("from", address(tx.sender));
    put("to", envelope.to().map_or(Value::Null, address));
    put("nonce", quantity(tx.nonce()));
    put("gas", quantity(tx.gas_limit()));
    put("gasPrice", quantity(price));
    put("value", big(envelope.value()));
    put("input", Value::String(envelope.input().to_string()));
    put("type", quantity(kind));
    put("chainId", envelope.chain_id().map_or(Value::Null, quantity));
    put("r", big(signature.r()));
    put("s", big(signature.s()));
    let parity = u128::from(signature.v());
    if kind == 0 {
        let offset = envelope.chain_id().map_or(27, |id| 35 + 2 * u128::from(id));
        put("v", quantity(offset + parity));
    } else {
        put("v", quantity(parity));
        put("yParity", quantity(parity));
    }
    if envelope.is_dynamic_fee() {
        put("maxFeePerGas", quantity(tx.fee_cap()));
        put("maxPriorityFeePerGas", quantity(tx.tip_cap()));
    }
    if let Some(list) = envelope.access_list() {
        let items = list.iter().map(|item| {
            let keys: Vec<Value> = item.storage_keys.iter().map(|key| hash(*key)).collect();
            json!({ "address": address(item.address), "storageKeys": keys })
        });
        put("accessList", items.collect());
    }
    if let Some(list) = envelope.authorization_list() {
        let items = list.iter().map(|item| {
            json!({
                "chainId": big(item.chain_id),
                "address": address(item.address),
                "nonce": quantity(item.nonce),
                "yParity": quantity(item.y_parity()),
                "r": big(item.r()),
                "s": big(item.s()),
            })
        });
        put("authorizationList", items.collect());
    }
    Value::Object(map)
}

pub(super) fn found(found: &Found) -> Value {
    match found {
        Found::Mined(block, index) => transaction(&block.txs[*index], Some((block, *index))),
        Found::Pooled(tx) => transaction(tx, None),
    }
}

pub(super) fn receipt(block: &Block, index: usize, is_flipped: bool) -> Value {
    receipt_with(block, index, is_flipped, &no_bloom())
}

/// The receipts of a block that `has` says so of, in order; linear in their number.
pub(super) fn receipts(
    block: &Block,
    has: impl Fn(&B256) -> bool,
    is_flipped: impl Fn(&B256) -> bool,
) -> Value {
    let bloom = no_bloom();
    let hash = |index: usize| &block.txs[index].hash;
    let had = (0..block.txs.len()).filter(|index| has(hash(*index)));
    had.map(|index| receipt_with(block, index, is_flipped(hash(index)), &bloom)).collect()
}

fn receipt_with(block: &Block, index: usize, is_flipped: bool, bloom: &str) -> Value {
    let (tx, receipt) = (&block.txs[index], &block.receipts[index]);
    json!({
        "transactionHash": hash(tx.hash),
        "transactionIndex": quantity(index as u64),
        "blockHash": hash(block.hash),
        "blockNumber": quantity(block.number()),
        "from": address(tx.sender),
        "to": tx.envelope.to().map_or(Value::Null, address),
        "cumulativeGasUsed": quantity(receipt.cumulative_gas_used),
        "gasUsed": quantity(receipt.gas_used),
        "effectiveGasPrice": quantity(receipt.effective_gas_price),
        "contractAddress": receipt.contract_address.map_or(Value::Null, address),
        "logs": [],
        "logsBloom": bloom,
        "type": quantity(tx.envelope.ty()),
        "status": quantity(u8::from(receipt.is_success != is_flipped)),
    })
}

pub(super) fn pooled(list: &[&Pooled]) -> Value {
    let entries =
        list.iter().map(|pooled| (pooled.tx.nonce().to_string(), transaction(&pooled.tx, None)));
    Value::Object(entries.collect())
}
