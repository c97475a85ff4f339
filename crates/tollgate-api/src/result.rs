//! The result of a transaction's execution: receipt, confirmations and log entries.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate_model::B256;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{LogEntry, Logs};
use utoipa::ToSchema;

use crate::limit::{LOG_DATA_BYTES_MAX, LOGS_MAX};
use crate::schema;
use crate::time::format_time;

/// The result of a transaction's execution.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct TxResult {
    /// The block that holds it.
    pub block_number: u64,
    /// The block's hash.
    #[schema(value_type = schema::Hash)]
    pub block_hash: String,
    /// The block's time; null where it was not stored.
    #[schema(value_type = Option<schema::Time>, required)]
    pub block_time: Option<String>,
    /// Its place in the block, from 0; null where the node does not tell.
    #[schema(required)]
    pub transaction_index: Option<u32>,
    /// Gas that it used.
    #[schema(value_type = schema::Amount)]
    pub gas_used: String,
    /// The price of one unit of gas, in wei; null where the node does not tell.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub effective_gas_price: Option<String>,
    /// The fees that the account paid, in wei: gasUsed × effectiveGasPrice, and the L1 data fee on
    /// rollups whose receipts have one (`l1Fee`). Null while the price is not known.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub fee: Option<String>,
    /// The contract that it deployed; null for calls, and for deployments that failed.
    #[schema(value_type = Option<schema::Address>, required)]
    pub contract_address: Option<String>,
    /// The status of the receipt.
    #[schema(value_type = schema::ReceiptStatus)]
    pub status: Cow<'static, str>,
    /// The contract's reason for a revert.
    #[schema(required)]
    pub revert_reason: Option<String>,
    /// Blocks on top of it so far, its own included; null in the feed, and where the answering node does
    /// not follow the chain.
    #[schema(required)]
    pub confirmations: Option<u64>,
}

impl From<&TxReceipt> for TxResult {
    fn from(mined: &TxReceipt) -> Self {
        let details = &mined.details;
        Self {
            block_number: mined.block_number,
            block_hash: mined.block_hash.to_string(),
            block_time: details.block_time.map(format_time),
            transaction_index: details.transaction_index,
            gas_used: mined.gas_used.to_string(),
            effective_gas_price: details.effective_gas_price.map(|price| price.to_string()),
            fee: mined.fee().map(|fee| fee.to_string()),
            contract_address: details.contract_address.map(|at| at.to_checksum(None)),
            status: if mined.succeeded { "success" } else { "reverted" }.into(),
            revert_reason: mined.revert_reason.as_ref().map(|reason| reason.as_str().to_owned()),
            confirmations: None,
        }
    }
}

/// The blocks on top of a transaction. While it is MINED the list grows; after a reorganisation it is
/// another list, and replaces an earlier one as a whole.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationList {
    /// `true`: the transaction was in a block that left the chain. Replace any list that was read before.
    pub new_fork: bool,
    /// The transaction's own block and those after it, as far as they were looked at.
    pub blocks: Vec<ConfirmationBlock>,
}

/// A block of a confirmation list.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct ConfirmationBlock {
    /// Its number.
    pub number: u64,
    /// Its hash.
    #[schema(value_type = schema::Hash)]
    pub hash: String,
}

impl ConfirmationList {
    /// Consecutive blocks from a number on.
    pub fn new(new_fork: bool, first_block: u64, hashes: &[B256]) -> Self {
        let numbered = (first_block..).zip(hashes);
        let block =
            |(number, hash): (u64, &B256)| ConfirmationBlock { number, hash: hash.to_string() };
        Self { new_fork, blocks: numbered.map(block).collect() }
    }
}

/// The log entries of a transaction, as the chain has them now. They are not stored.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct TxLogs {
    /// The entries, in order.
    pub items: Vec<Log>,
    /// `true`: there are more than an answer holds; ask a node of the chain for them.
    pub truncated: bool,
    /// `true`: two endpoints show exactly these entries, or the chain has one endpoint only.
    pub confirmed: bool,
}

/// A log entry.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// The contract that wrote it.
    #[schema(value_type = schema::Address)]
    pub address: String,
    /// Up to four indexed words.
    #[schema(value_type = Vec<schema::Hash>)]
    pub topics: Vec<String>,
    /// Its data.
    #[schema(value_type = schema::Hex)]
    pub data: String,
    /// Its place among the log entries of the block; null where the node does not tell.
    #[schema(required)]
    pub log_index: Option<u64>,
}

impl TxLogs {
    /// The entries of a transaction that is in no block.
    pub fn none() -> Self {
        Self::new(&Logs { entries: Vec::new(), is_confirmed: true })
    }

    /// The first entries, within the limits of an answer (I13).
    pub fn new(Logs { entries, is_confirmed }: &Logs) -> Self {
        let mut bytes = 0;
        let fits = |entry: &&LogEntry| {
            bytes += entry.data.len();
            bytes <= LOG_DATA_BYTES_MAX
        };
        let items: Vec<Log> =
            entries.iter().take(LOGS_MAX).take_while(fits).map(Log::from).collect();
        let truncated = items.len() < entries.len();
        Self { items, truncated, confirmed: *is_confirmed }
    }
}

impl From<&LogEntry> for Log {
    fn from(entry: &LogEntry) -> Self {
        Self {
            address: entry.address.to_checksum(None),
            topics: entry.topics.iter().map(ToString::to_string).collect(),
            data: entry.data.to_string(),
            log_index: entry.index,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_model::{Address, Bytes};

    use super::*;

    #[test]
    fn log_entries_beyond_the_limits_are_left_out_and_the_answer_says_so() {
        let entry = |bytes: usize| LogEntry {
            address: Address::ZERO,
            topics: vec![B256::ZERO],
            data: Bytes::from(vec![7; bytes]),
            index: Some(3),
        };
        let logs = |entries: Vec<LogEntry>| TxLogs::new(&Logs { entries, is_confirmed: true });
        let few = logs(vec![entry(1), entry(0)]);
        assert_eq!((few.items.len(), few.truncated, few.confirmed), (2, false, true));
        assert_eq!((&*few.items[0].data, &*few.items[1].data), ("0x07", "0x"));
        let many = logs(vec![entry(0); LOGS_MAX + 1]);
        assert_eq!((many.items.len(), many.truncated), (LOGS_MAX, true));
        let long = logs(vec![entry(LOG_DATA_BYTES_MAX), entry(1)]);
        assert_eq!((long.items.len(), long.truncated), (1, true));
    }
}
