//! Checks what a block holds against its hash.
//!
//! Pure but for the two reads. The hash of a block covers its header, and the header covers the
//! transactions and receipts by the roots of their tries. So an endpoint can't invent, leave out or
//! change any of them in a block whose hash is known. Chains whose headers, transactions or receipts
//! have other forms than Ethereum's prove nothing here.

use std::collections::HashMap;

use alloy_consensus::proofs::{calculate_receipt_root, ordered_trie_root_encoded};
use alloy_consensus::{EthereumTxEnvelope, Header, ReceiptEnvelope, TxEip4844};
use alloy_eips::eip2718::Encodable2718 as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::port::TxReceipt;
use tollgate_model::receipt_support::BlockFinding;
use tollgate_model::{B256, TxHash, keccak256};

use super::pool_member::PoolMember;
use super::receipts::mined_in;
use crate::endpoint::json::{ReceiptJson, quantity};

/// The contents of a block that its hash proves.
pub(super) struct ProvenBlock {
    /// The transactions, with the receipt of each if the receipts could be proven.
    transactions: HashMap<TxHash, Option<TxReceipt>>,
    /// The endpoint's receipts are readable and do not match the header.
    has_false_receipts: bool,
}

/// The evidence that an endpoint's block gives.
pub(super) enum BlockEvidence {
    Proven(ProvenBlock),
    /// The block is readable, and its transactions do not match its header.
    Contradictory,
    /// The endpoint did not deliver the block, or the block has another form than Ethereum's.
    None,
}

impl ProvenBlock {
    pub(super) fn has_receipts(&self) -> bool {
        self.transactions.values().all(Option::is_some)
    }
}

impl BlockEvidence {
    pub(super) fn finding(&self, receipt: &TxReceipt) -> BlockFinding {
        let block = match self {
            Self::Proven(block) => block,
            Self::Contradictory => return BlockFinding::Contradictory,
            Self::None => return BlockFinding::Unproven,
        };
        match block.transactions.get(&receipt.tx_hash) {
            None => BlockFinding::Absent,
            Some(Some(proven)) => BlockFinding::Proven(Box::new(proven.clone())),
            Some(None) if block.has_false_receipts => BlockFinding::Contradictory,
            Some(None) => BlockFinding::Held,
        }
    }
}

/// Reads a block from an endpoint.
pub(super) async fn read(
    member: &PoolMember,
    (number, hash): (u64, B256),
    deadline: Instant,
) -> BlockEvidence {
    let call =
        |method, params| member.endpoint.call_until::<Option<Value>>(method, params, deadline);
    let by_hash = json!([hash.to_string(), true]);
    let (block, receipts) = tokio::join!(
        call("eth_getBlockByHash", by_hash),
        call("eth_getBlockReceipts", json!([quantity(number)])),
    );
    match block {
        Ok(Some(block)) => prove(hash, block, receipts.ok().flatten()),
        _ => BlockEvidence::None,
    }
}

#[derive(Deserialize)]
struct Contents {
    #[serde(flatten)]
    header: Header,
    transactions: Vec<EthereumTxEnvelope<TxEip4844>>,
}

fn prove(hash: B256, block: Value, receipts: Option<Value>) -> BlockEvidence {
    let Ok(Contents { header, transactions }) = serde_json::from_value(block) else {
        return BlockEvidence::None;
    };
    if header.hash_slow() != hash {
        return BlockEvidence::None;
    }
    let encoded: Vec<Vec<u8>> = transactions.iter().map(|tx| tx.encoded_2718()).collect();
    if header.transactions_root != ordered_trie_root_encoded(&encoded) {
        return BlockEvidence::Contradictory;
    }
    // The hashes are calculated, because those of the answer are only claimed.
    let hashes = encoded.iter().map(keccak256);
    // A list that lacks some proves nothing, and is no lie.
    let is_whole = |list: &Value| list.as_array().is_some_and(|list| list.len() == encoded.len());
    let receipts = receipts.filter(is_whole);
    let receipts = receipts.map(|receipts| proven_receipts(hash, &header, receipts));
    let has_false_receipts = matches!(receipts, Some(Err(FalseReceipts)));
    let transactions = match receipts.and_then(|receipts| receipts.ok().flatten()) {
        Some(receipts) => {
            let placed = hashes.zip(receipts);
            placed.map(|(tx_hash, it)| (tx_hash, Some(TxReceipt { tx_hash, ..it }))).collect()
        }
        None => hashes.map(|tx_hash| (tx_hash, None)).collect(),
    };
    BlockEvidence::Proven(ProvenBlock { transactions, has_false_receipts })
}

/// The receipts do not match the header.
struct FalseReceipts;

/// The receipts of the block in its order, if they match the header; `None` if they have another form. Their
/// prices and addresses are those of the answer: the header does not cover them.
fn proven_receipts(
    hash: B256,
    header: &Header,
    receipts: Value,
) -> Result<Option<Vec<TxReceipt>>, FalseReceipts> {
    let Ok(envelopes) = serde_json::from_value::<Vec<ReceiptEnvelope>>(receipts.clone()) else {
        return Ok(None);
    };
    if calculate_receipt_root(&envelopes) != header.receipts_root {
        return Err(FalseReceipts);
    }
    let Ok(shown) = serde_json::from_value::<Vec<ReceiptJson>>(receipts) else { return Ok(None) };
    let mut used_before = 0;
    Ok(envelopes
        .iter()
        .zip(&shown)
        .map(|(proven, shown)| {
            let used = proven.cumulative_gas_used();
            let gas_used = used.checked_sub(used_before)?;
            used_before = used;
            Some(TxReceipt {
                block_number: header.number,
                block_hash: hash,
                gas_used,
                succeeded: proven.status(),
                ..mined_in(shown)?
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of anvil with transactions of three types, one of them failed and one with a log.
    fn recorded() -> (B256, Value, Value) {
        let text = include_str!("block_proof/anvil_block.json");
        let mut recorded: Value = serde_json::from_str(text).unwrap();
        let hash = recorded["block"]["hash"].as_str().unwrap().parse().unwrap();
        (hash, recorded["block"].take(), recorded["receipts"].take())
    }

    fn shown(receipts: &Value, at: usize) -> TxReceipt {
        mined_in(&serde_json::from_value(receipts[at].clone()).unwrap()).unwrap()
    }

    #[test]
    fn block_of_anvil_proves_its_receipts_and_the_absence_of_others() {
        let (hash, block, receipts) = recorded();
        let evidence = prove(hash, block, Some(receipts.clone()));
        for at in 0..4 {
            let receipt = shown(&receipts, at);
            let proven = BlockFinding::Proven(Box::new(receipt.clone()));
            assert_eq!(evidence.finding(&receipt), proven);
            let flipped = TxReceipt { succeeded: !receipt.succeeded, ..receipt.clone() };
            assert_eq!(evidence.finding(&flipped), proven);
            let invented = TxReceipt { tx_hash: B256::repeat_byte(7), ..receipt };
            assert_eq!(evidence.finding(&invented), BlockFinding::Absent);
        }
    }

    #[test]
    fn receipts_with_a_changed_status_gas_or_length_prove_nothing_about_receipts() {
        let changes: [fn(&mut Value); 3] = [
            |receipts| receipts[0]["status"] = json!("0x1"),
            |receipts| receipts[1]["cumulativeGasUsed"] = json!("0x1"),
            |receipts| drop(receipts.as_array_mut().unwrap().pop()),
        ];
        for change in changes {
            let (hash, block, honest) = recorded();
            let mut receipts = honest.clone();
            change(&mut receipts);
            let is_short = receipts.as_array().unwrap().len() < 4;
            let evidence = prove(hash, block, Some(receipts));
            // A short list is no lie.
            let wanted = if is_short { BlockFinding::Held } else { BlockFinding::Contradictory };
            assert_eq!(evidence.finding(&shown(&honest, 0)), wanted);
            let invented = TxReceipt { tx_hash: B256::ZERO, ..shown(&honest, 0) };
            assert_eq!(evidence.finding(&invented), BlockFinding::Absent);
        }
    }

    #[test]
    fn block_with_other_transactions_or_another_header_proves_nothing() {
        let changes: [fn(&mut Value); 4] = [
            |block| drop(block["transactions"].as_array_mut().unwrap().pop()),
            |block| block["transactions"][0]["value"] = json!("0x9"),
            |block| block["receiptsRoot"] = block["stateRoot"].clone(),
            |block| block["number"] = json!("0x3"),
        ];
        for change in changes {
            let (hash, mut block, receipts) = recorded();
            change(&mut block);
            let evidence = prove(hash, block, Some(receipts));
            assert!(!matches!(evidence, BlockEvidence::Proven(_)));
        }
        let (hash, mut block, receipts) = recorded();
        // The hashes that the answer claims are not used.
        block["transactions"][0]["hash"] = json!(B256::ZERO.to_string());
        let evidence = prove(hash, block, Some(receipts.clone()));
        let receipt = shown(&receipts, 0);
        assert_eq!(evidence.finding(&receipt), BlockFinding::Proven(Box::new(receipt.clone())));
    }
}
