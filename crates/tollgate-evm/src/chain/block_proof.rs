//! Checks what a block holds against its hash.
//!
//! Pure but for the reads. The hash of a block covers its header, and the header covers the
//! transactions and receipts by the roots of their tries. So an endpoint can't invent, leave out or
//! change any of them in a block whose hash is known. Chains whose headers, transactions or receipts
//! have other forms than Ethereum's prove nothing here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_consensus::proofs::{calculate_receipt_root, ordered_trie_root_encoded};
use alloy_consensus::{EthereumTxEnvelope, Header, ReceiptEnvelope, TxEip4844};
use alloy_eips::eip2718::Encodable2718 as _;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::port::{ReceiptDetails, TxReceipt};
use tollgate_model::receipt_support::BlockFinding;
use tollgate_model::{B256, TxHash, keccak256};

use super::pool_member::{PoolMember, Proof};
use super::receipts::mined_in;
use crate::endpoint::json::{ReceiptJson, quantity};

/// Receipts of a block that are read one by one where an endpoint has no call for all of them.
const SINGLE_RECEIPTS_MAX: usize = 200;
/// Of these, reads at once.
const SINGLE_RECEIPTS_AT_ONCE: usize = 8;

/// The evidence that endpoints give about a block with a known hash.
#[derive(Debug)]
pub(super) enum BlockEvidence {
    /// The header and the transactions match the hash.
    Proven(Box<ProvenBlock>),
    /// The block is readable, and its transactions do not match its header.
    Contradictory,
    /// The block has another form than Ethereum's, or another hash.
    Unprovable,
    /// No endpoint delivered the block.
    Unread,
}

/// A block whose header and transactions are proven.
#[derive(Debug)]
pub(super) struct ProvenBlock {
    header: Header,
    /// In the order of the block.
    hashes: Vec<TxHash>,
    receipts: ReceiptEvidence,
}

/// The evidence about the receipts of a proven block.
#[derive(Debug)]
enum ReceiptEvidence {
    /// They match the header.
    Proven(HashMap<TxHash, TxReceipt>),
    /// Those of an endpoint do not match the header.
    False,
    /// No endpoint shows all of them in Ethereum's form.
    Unprovable,
    /// No endpoint has answered.
    Unread,
}

impl BlockEvidence {
    /// Reads a block from endpoints: its contents from the first that delivers them whole, its receipts from the
    /// first whose receipts match them, whichever endpoint that is.
    pub(super) async fn read(
        members: &[Arc<PoolMember>],
        (number, hash): (u64, B256),
        patience: Duration,
    ) -> Self {
        let mut evidence = Self::Unread;
        for member in members {
            let (params, until) = (json!([hash.to_string(), true]), Instant::now() + patience);
            let call = member.endpoint.call_until("eth_getBlockByHash", params, until);
            let Ok(Some(block)) = call.await else { continue };
            match (prove(hash, block), &evidence) {
                (Self::Proven(block), _) => {
                    if !block.hashes.is_empty() {
                        member.note_proof(Proof::Block);
                    }
                    evidence = Self::Proven(block);
                    break;
                }
                (found, Self::Unread) | (found @ Self::Contradictory, _) => evidence = found,
                _ => {}
            }
        }
        if let Self::Proven(block) = &mut evidence {
            for member in members {
                let until = Instant::now() + patience;
                block.note_receipts(read_receipts(member, number, &block.hashes, until).await);
                if matches!(block.receipts, ReceiptEvidence::Proven(_)) {
                    if !block.hashes.is_empty() {
                        member.note_proof(Proof::Receipts);
                    }
                    break;
                }
            }
        }
        evidence
    }

    /// Returns whether nothing more can be learnt about the block.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::Proven(block) if matches!(block.receipts, ReceiptEvidence::Proven(_)))
    }

    pub(super) fn finding(&self, receipt: &TxReceipt) -> BlockFinding {
        let block = match self {
            Self::Proven(block) => block,
            Self::Contradictory => return BlockFinding::Contradictory,
            Self::Unprovable => return BlockFinding::Unprovable,
            Self::Unread => return BlockFinding::Unread,
        };
        if !block.hashes.contains(&receipt.tx_hash) {
            return BlockFinding::Absent;
        }
        match &block.receipts {
            ReceiptEvidence::Proven(receipts) => match receipts.get(&receipt.tx_hash) {
                Some(proven) => BlockFinding::Proven(Box::new(proven.clone())),
                None => BlockFinding::Held,
            },
            ReceiptEvidence::False => BlockFinding::Contradictory,
            ReceiptEvidence::Unprovable => BlockFinding::Held,
            ReceiptEvidence::Unread => BlockFinding::Unread,
        }
    }
}

impl ProvenBlock {
    /// Notes the receipts that one endpoint shows; `None` if it did not answer.
    fn note_receipts(&mut self, list: Option<Value>) {
        let Some(list) = list else { return };
        // A list that lacks some proves nothing, and is no lie.
        let is_whole = list.as_array().is_some_and(|list| list.len() == self.hashes.len());
        let found = match is_whole.then(|| proven_receipts(&self.header, list)) {
            Some(Err(FalseReceipts)) => ReceiptEvidence::False,
            Some(Ok(Some(receipts))) => {
                let placed = self.hashes.iter().zip(receipts).enumerate();
                let placed = placed.map(|(at, (hash, it))| {
                    let transaction_index = u32::try_from(at).ok();
                    let details = ReceiptDetails { transaction_index, ..it.details };
                    (*hash, TxReceipt { tx_hash: *hash, details, ..it })
                });
                ReceiptEvidence::Proven(placed.collect())
            }
            Some(Ok(None)) | None => ReceiptEvidence::Unprovable,
        };
        let is_better = matches!(
            (&self.receipts, &found),
            (_, ReceiptEvidence::Proven(_))
                | (ReceiptEvidence::Unread, _)
                | (ReceiptEvidence::Unprovable, ReceiptEvidence::False)
        );
        if is_better {
            self.receipts = found;
        }
    }
}

/// All receipts of a block from one endpoint: at once, or one by one where it has no call for that. `None` if it
/// did not answer.
async fn read_receipts(
    member: &PoolMember,
    number: u64,
    hashes: &[TxHash],
    deadline: Instant,
) -> Option<Value> {
    let params = json!([quantity(number)]);
    let call = member.endpoint.call_until("eth_getBlockReceipts", params, deadline);
    match call.await {
        Ok(Some(list)) => return Some(list),
        // It may have each of them all the same.
        Ok(None) => {}
        Err(error) if error.is_method_missing() => {}
        Err(_) => return None,
    }
    if hashes.len() > SINGLE_RECEIPTS_MAX {
        return Some(Value::Null);
    }
    let read = |hash: &TxHash| {
        let params = json!([hash.to_string()]);
        member.endpoint.call_until::<Option<Value>>("eth_getTransactionReceipt", params, deadline)
    };
    let mut reads = stream::iter(hashes.iter().map(read)).buffered(SINGLE_RECEIPTS_AT_ONCE);
    let mut list = Vec::new();
    while let Some(receipt) = reads.next().await {
        match receipt {
            Ok(Some(receipt)) => list.push(receipt),
            Ok(None) => return Some(Value::Null),
            Err(_) => return None,
        }
    }
    Some(Value::Array(list))
}

#[derive(Deserialize)]
struct Contents {
    #[serde(flatten)]
    header: Header,
    transactions: Vec<EthereumTxEnvelope<TxEip4844>>,
}

pub(super) fn prove(hash: B256, block: Value) -> BlockEvidence {
    let Ok(Contents { header, transactions }) = serde_json::from_value(block) else {
        return BlockEvidence::Unprovable;
    };
    if header.hash_slow() != hash {
        return BlockEvidence::Unprovable;
    }
    let encoded: Vec<Vec<u8>> = transactions.iter().map(|tx| tx.encoded_2718()).collect();
    if header.transactions_root != ordered_trie_root_encoded(&encoded) {
        return BlockEvidence::Contradictory;
    }
    // The hashes are calculated, because those of the answer are only claimed.
    let hashes = encoded.iter().map(keccak256).collect();
    let receipts = ReceiptEvidence::Unread;
    BlockEvidence::Proven(Box::new(ProvenBlock { header, hashes, receipts }))
}

/// Returns whether the hash of a block covers a transaction, by the contents that one endpoint shows.
pub(super) async fn covers(
    member: &PoolMember,
    block: B256,
    tx_hash: TxHash,
    deadline: Instant,
) -> bool {
    let params = json!([block.to_string(), true]);
    let call = member.endpoint.call_until::<Option<Value>>("eth_getBlockByHash", params, deadline);
    let Ok(Some(shown)) = call.await else { return false };
    matches!(prove(block, shown), BlockEvidence::Proven(block) if block.hashes.contains(&tx_hash))
}

/// Returns whether an endpoint's block at a height does not match its own hash; `None` if it does not show one.
pub(super) async fn has_false_block(
    member: &PoolMember,
    number: u64,
    deadline: Instant,
) -> Option<bool> {
    let params = json!([quantity(number), false]);
    let call =
        member.endpoint.call_until::<Option<Value>>("eth_getBlockByNumber", params, deadline);
    let block = call.await.ok()??;
    let claimed = block.get("hash")?.as_str()?.parse::<B256>().ok()?;
    Some(Header::deserialize(&block).ok().is_none_or(|header| header.hash_slow() != claimed))
}

/// The base fee of a block that an endpoint shows, if the block's own hash covers it.
pub(super) fn proven_base_fee(block: &Value, hash: B256) -> Option<u128> {
    let header = Header::deserialize(block).ok()?;
    let base_fee = header.base_fee_per_gas?;
    (header.hash_slow() == hash).then_some(base_fee.into())
}

/// The receipts do not match the header.
pub(super) struct FalseReceipts;

/// The receipts of the block in its order, if they match the header; `None` if they have another form. Their
/// prices and addresses are those of the answer: the header does not cover them.
pub(super) fn proven_receipts(
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
                block_hash: header.hash_slow(),
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

    fn evidence(hash: B256, block: Value, receipts: &Value) -> BlockEvidence {
        let mut evidence = prove(hash, block);
        if let BlockEvidence::Proven(block) = &mut evidence {
            block.note_receipts(Some(receipts.clone()));
        }
        evidence
    }

    fn shown(receipts: &Value, at: usize) -> TxReceipt {
        mined_in(&serde_json::from_value(receipts[at].clone()).unwrap()).unwrap()
    }

    #[test]
    fn block_of_anvil_proves_its_receipts_and_the_absence_of_others() {
        let (hash, block, receipts) = recorded();
        let evidence = evidence(hash, block, &receipts);
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
    fn place_of_a_transaction_is_that_in_the_proven_block_whatever_its_receipt_shows() {
        let (hash, block, honest) = recorded();
        let mut receipts = honest.clone();
        receipts[2]["transactionIndex"] = json!("0x63");
        let evidence = evidence(hash, block, &receipts);
        let proven = BlockFinding::Proven(Box::new(shown(&honest, 2)));
        assert_eq!(evidence.finding(&shown(&receipts, 2)), proven);
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
            let mut evidence = evidence(hash, block, &receipts);
            // A short list is no lie.
            let wanted = if is_short { BlockFinding::Held } else { BlockFinding::Contradictory };
            assert_eq!(evidence.finding(&shown(&honest, 0)), wanted);
            let invented = TxReceipt { tx_hash: B256::ZERO, ..shown(&honest, 0) };
            assert_eq!(evidence.finding(&invented), BlockFinding::Absent);
            let BlockEvidence::Proven(block) = &mut evidence else { panic!("not proven") };
            block.note_receipts(None);
            block.note_receipts(Some(honest.clone()));
            let proven = BlockFinding::Proven(Box::new(shown(&honest, 0)));
            assert_eq!(evidence.finding(&shown(&honest, 0)), proven, "another endpoint's");
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
            let evidence = evidence(hash, block, &receipts);
            assert!(!matches!(evidence, BlockEvidence::Proven(_)));
        }
        let (hash, mut block, receipts) = recorded();
        // The hashes that the answer claims are not used.
        block["transactions"][0]["hash"] = json!(B256::ZERO.to_string());
        let evidence = evidence(hash, block, &receipts);
        let receipt = shown(&receipts, 0);
        assert_eq!(evidence.finding(&receipt), BlockFinding::Proven(Box::new(receipt.clone())));
    }

    #[test]
    fn base_fee_is_proven_by_the_hash_of_its_block() {
        let (hash, mut block, _) = recorded();
        let fee = u128::from_str_radix(&block["baseFeePerGas"].as_str().unwrap()[2..], 16).unwrap();
        assert_eq!(proven_base_fee(&block, hash), Some(fee));
        block["baseFeePerGas"] = json!("0x1");
        assert_eq!(proven_base_fee(&block, hash), None);
    }
}
