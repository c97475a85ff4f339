//! A block: header, transactions, receipts, and a hash that is really the hash of the header.
//!
//! The roots of transactions and receipts are those of their Merkle tries, so that a block proves its
//! receipts. The state root is a plain digest.

use std::sync::Arc;

use alloy_consensus::constants::{EMPTY_OMMER_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy_consensus::proofs::{calculate_receipt_root, ordered_trie_root_with_encoder};
use alloy_consensus::{Header, ReceiptEnvelope};
use alloy_primitives::{Address, B256, Keccak256, U256, address};

use super::tx::Tx;

/// The recipient of priority fees.
pub const PRODUCER: Address = address!("00000000000000000000000000000000000c01d0");

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub is_success: bool,
    pub gas_used: u64,
    /// Gas the block used up to and with it.
    pub cumulative_gas_used: u64,
    pub effective_gas_price: u128,
    /// The contract it made.
    pub contract_address: Option<Address>,
}

impl Receipt {
    fn envelope(&self, tx: &Tx) -> ReceiptEnvelope {
        let receipt = alloy_consensus::Receipt {
            status: self.is_success.into(),
            cumulative_gas_used: self.cumulative_gas_used,
            logs: Vec::new(),
        };
        ReceiptEnvelope::from_typed(tx.envelope.tx_type(), receipt)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub hash: B256,
    pub header: Header,
    /// The transactions, in order.
    pub txs: Vec<Arc<Tx>>,
    /// Their receipts, in the same order.
    pub receipts: Vec<Receipt>,
}

impl Block {
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Base fee × gas used: what left the supply.
    pub fn burnt(&self) -> U256 {
        U256::from(self.header.base_fee_per_gas.unwrap_or(0)) * U256::from(self.header.gas_used)
    }

    /// The index of a transaction in it.
    pub fn position(&self, hash: &B256) -> Option<usize> {
        self.txs.iter().position(|tx| tx.hash == *hash)
    }
}

/// The header fields that do not follow from the transactions.
pub(super) struct Sealing {
    pub parent_hash: B256,
    pub parent_state_root: B256,
    pub number: u64,
    pub timestamp: u64,
    pub gas_limit: u64,
    pub base_fee: Option<u64>,
    /// The number of reorgs so far: two branches never produce the same block.
    pub fork: u64,
    pub seed: u64,
}

pub(super) fn seal(sealing: &Sealing, txs: Vec<Arc<Tx>>, receipts: Vec<Receipt>) -> Block {
    let transactions_root =
        ordered_trie_root_with_encoder(&txs, |tx: &Arc<Tx>, out| out.extend_from_slice(&tx.raw));
    let encoded: Vec<_> = txs.iter().zip(&receipts).map(|(tx, it)| it.envelope(tx)).collect();
    let receipts_root = calculate_receipt_root(&encoded);
    let mut state = Keccak256::new();
    state.update(sealing.parent_state_root);
    state.update(receipts_root);
    let mut mix = Keccak256::new();
    mix.update(sealing.seed.to_be_bytes());
    mix.update(sealing.fork.to_be_bytes());
    mix.update(sealing.number.to_be_bytes());
    let is_london = sealing.base_fee.is_some();
    let header = Header {
        parent_hash: sealing.parent_hash,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: PRODUCER,
        state_root: state.finalize(),
        transactions_root,
        receipts_root,
        number: sealing.number,
        gas_limit: sealing.gas_limit,
        gas_used: receipts.last().map_or(0, |last| last.cumulative_gas_used),
        timestamp: sealing.timestamp,
        mix_hash: mix.finalize(),
        base_fee_per_gas: sealing.base_fee,
        withdrawals_root: is_london.then_some(EMPTY_WITHDRAWALS),
        blob_gas_used: is_london.then_some(0),
        excess_blob_gas: is_london.then_some(0),
        parent_beacon_block_root: is_london.then_some(B256::ZERO),
        ..Header::default()
    };
    Block { hash: header.hash_slow(), header, txs, receipts }
}
