//! The JSON of JSON-RPC, and of the objects that are read.
//!
//! Lenient: members that are missing, null or unexpected are no error unless the value is needed.

use std::collections::BTreeMap;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{Address, B256, Bytes, Timestamp, U256};

#[derive(Serialize)]
pub(super) struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a Value,
}

impl<'a> Request<'a> {
    pub(super) const fn new(id: u64, method: &'a str, params: &'a Value) -> Self {
        Self { jsonrpc: "2.0", id, method, params }
    }
}

/// An answer, or a notification.
#[derive(Deserialize)]
pub(super) struct Incoming {
    #[serde(default)]
    pub(super) id: Value,
    pub(super) result: Option<Box<RawValue>>,
    pub(super) error: Option<Value>,
    pub(super) params: Option<Notification>,
}

#[derive(Deserialize)]
pub(super) struct Notification {
    #[serde(default)]
    pub(super) subscription: Value,
    pub(super) result: Option<Box<RawValue>>,
}

impl Incoming {
    /// Returns whether it answers the call of this number; an error may come without one.
    pub(super) fn answers(&self, id: u64) -> bool {
        self.id.is_null() || self.number() == Some(id)
    }

    /// The number of the call that it answers; some write it as text.
    pub(super) fn number(&self) -> Option<u64> {
        match &self.id {
            Value::String(text) => text.parse().ok(),
            number => number.as_u64(),
        }
    }
}

/// A number in the hex of JSON-RPC: `0x1a`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quantity<T>(pub(crate) T);

/// A value that is written in hex.
pub(crate) trait FromHex: Sized {
    fn from_hex(digits: &str) -> Option<Self>;
}

macro_rules! from_hex {
    ($($kind:ty: $read:expr),+ $(,)?) => { $(
        impl FromHex for $kind {
            fn from_hex(digits: &str) -> Option<Self> {
                $read(digits).ok()
            }
        }
    )+ };
}

from_hex! {
    u32: |digits| Self::from_str_radix(digits, 16),
    u64: |digits| Self::from_str_radix(digits, 16),
    u128: |digits| Self::from_str_radix(digits, 16),
    U256: |digits| Self::from_str_radix(digits, 16),
    B256: str::parse,
    Address: str::parse,
    Bytes: |digits| alloy_primitives::hex::decode(digits).map(Self::from),
}

impl<'de, T: FromHex> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        let read = (!digits.is_empty() || text == "0x").then(|| T::from_hex(digits)).flatten();
        read.map(Self).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"hex"))
    }
}

/// Formats a number in the hex of JSON-RPC.
pub(crate) fn quantity(number: u64) -> String {
    format!("{number:#x}")
}

/// A block, or its header from a subscription.
#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockJson {
    number: Option<Quantity<u64>>,
    hash: Option<Quantity<B256>>,
    parent_hash: Quantity<B256>,
    base_fee_per_gas: Option<Quantity<u128>>,
    /// Of any form: it is not needed.
    #[serde(default)]
    gas_limit: Value,
    #[serde(default)]
    requests_hash: Value,
    #[serde(default, deserialize_with = "if_readable")]
    timestamp: Option<Quantity<u64>>,
    #[serde(default)]
    transactions: Vec<Quantity<B256>>,
}

impl BlockJson {
    /// Its number and hashes; `None` for a pending block.
    pub(crate) fn at(&self) -> Option<BlockRef> {
        let (number, hash) = (self.number?.0, self.hash?.0);
        Some(BlockRef { number, hash, parent: self.parent_hash.0 })
    }

    pub(crate) fn base_fee(&self) -> Option<u128> {
        self.base_fee_per_gas.map(|fee| fee.0)
    }

    /// Its gas limit; `None` if it is no integer.
    pub(crate) fn gas_limit(&self) -> Option<u64> {
        let digits = self.gas_limit.as_str()?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Its time; `None` if it can't be read.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let micros = self.timestamp?.0.checked_mul(1_000_000)?;
        i64::try_from(micros).ok().map(Timestamp::from_unix_micros)
    }

    /// Returns whether it has a hash of requests (EIP-7685).
    pub(crate) fn has_requests(&self) -> bool {
        self.requests_hash.is_string()
    }

    pub(crate) fn transactions(self) -> Vec<B256> {
        self.transactions.into_iter().map(|hash| hash.0).collect()
    }
}

#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptJson {
    pub(crate) transaction_hash: Quantity<B256>,
    pub(crate) block_hash: Option<Quantity<B256>>,
    pub(crate) block_number: Option<Quantity<u64>>,
    pub(crate) gas_used: Quantity<u64>,
    /// Missing before Byzantium, where `root` stands in its place.
    pub(crate) status: Option<Quantity<u64>>,
    pub(crate) root: Option<Quantity<B256>>,
    /// Besu's own, where it is switched on.
    pub(crate) revert_reason: Option<Quantity<Bytes>>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) transaction_index: Option<Quantity<u32>>,
    /// Missing on nodes from before London.
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) effective_gas_price: Option<Quantity<u128>>,
    /// The OP stack's own: what the data cost on the base chain.
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) l1_fee: Option<Quantity<U256>>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) contract_address: Option<Quantity<Address>>,
}

/// A receipt of which the log entries are wanted.
#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptLogsJson {
    pub(crate) block_hash: Option<Quantity<B256>>,
    pub(crate) logs: Vec<LogJson>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogJson {
    pub(crate) address: Quantity<Address>,
    pub(crate) topics: Vec<Quantity<B256>>,
    pub(crate) data: Quantity<Bytes>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) log_index: Option<Quantity<u64>>,
}

/// Reads an optional member. One that can't be read counts as missing.
fn if_readable<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionJson {
    pub(crate) hash: Quantity<B256>,
    pub(crate) block_hash: Option<Quantity<B256>>,
    pub(crate) block_number: Option<Quantity<u64>>,
    pub(crate) from: Quantity<Address>,
    pub(crate) to: Option<Quantity<Address>>,
    pub(crate) value: Quantity<U256>,
    pub(crate) input: Quantity<Bytes>,
    pub(crate) gas: Quantity<u64>,
}

/// The parts of a transaction that identify its slot.
#[derive(Clone, Copy, Deserialize, Debug)]
pub(crate) struct SlotJson {
    pub(crate) hash: Quantity<B256>,
    pub(crate) from: Option<Quantity<Address>>,
    pub(crate) nonce: Option<Quantity<u64>>,
}

/// A block with its transactions in full.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct FullBlockJson {
    pub(crate) number: Quantity<u64>,
    pub(crate) hash: Quantity<B256>,
    pub(crate) transactions: Vec<SlotJson>,
}

/// A sender's part of a pool. Members that a client does not have are missing.
#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolJson {
    pub(crate) pending: Option<BTreeMap<String, SlotJson>>,
    pub(crate) queued: Option<BTreeMap<String, SlotJson>>,
    /// Erigon's own: due, but below the base fee.
    pub(crate) base_fee: Option<BTreeMap<String, SlotJson>>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeeHistoryJson {
    #[serde(default)]
    pub(crate) base_fee_per_gas: Vec<Quantity<u128>>,
    #[serde(default)]
    pub(crate) gas_used_ratio: Vec<f64>,
    pub(crate) reward: Option<Vec<Vec<Quantity<u128>>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_nodes_write_them() {
        let read = |text: &str| serde_json::from_str::<Quantity<u64>>(text).ok().map(|n| n.0);
        assert_eq!(read(r#""0x1a""#), Some(26));
        assert_eq!(read(r#""0x0""#), Some(0));
        assert_eq!(read(r#""0x001""#), Some(1));
        for bad in [r#""""#, r#""0x""#, r#""0xzz""#, r#""-1""#, "26", r#""0x1ffffffffffffffff""#] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let data: Quantity<Bytes> = serde_json::from_str(r#""0x""#).unwrap();
        assert!(data.0.is_empty());
    }

    #[test]
    fn receipt_with_odd_extras_is_read_without_them() {
        let hash = format!("0x{}", "11".repeat(32));
        let mut wire = serde_json::json!({
            "transactionHash": hash, "blockHash": hash, "blockNumber": "0x5", "gasUsed": "0x5208",
            "transactionIndex": "0x2", "effectiveGasPrice": "0x7", "l1Fee": "0x9",
            "contractAddress": format!("0x{}", "22".repeat(20)),
        });
        let receipt: ReceiptJson = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(receipt.transaction_index.unwrap().0, 2);
        assert_eq!(receipt.effective_gas_price.unwrap().0, 7);
        assert_eq!(receipt.l1_fee.unwrap().0, U256::from(9));
        assert_eq!(receipt.contract_address.unwrap().0, Address::repeat_byte(0x22));
        wire["effectiveGasPrice"] = serde_json::json!("cheap");
        wire["contractAddress"] = serde_json::Value::Null;
        wire["l1Fee"] = serde_json::json!(9);
        let receipt: ReceiptJson = serde_json::from_value(wire).unwrap();
        assert!(receipt.effective_gas_price.is_none() && receipt.l1_fee.is_none());
        assert!(receipt.contract_address.is_none());
    }

    #[test]
    fn an_answer_is_told_from_the_answer_to_another_call() {
        let incoming = |text: &str| serde_json::from_str::<Incoming>(text).unwrap();
        assert!(incoming(r#"{"id":7,"result":null}"#).answers(7));
        assert!(incoming(r#"{"id":"7","result":1}"#).answers(7));
        assert!(incoming(r#"{"error":{"message":"x"}}"#).answers(7));
        assert!(!incoming(r#"{"id":8,"result":1}"#).answers(7));
    }

    #[test]
    fn a_pending_block_has_no_place() {
        let hash = format!("0x{}", "11".repeat(32));
        let text = format!(r#"{{"number":null,"hash":null,"parentHash":"{hash}"}}"#);
        assert_eq!(serde_json::from_str::<BlockJson>(&text).unwrap().at(), None);
    }
}
