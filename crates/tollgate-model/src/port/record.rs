//! The rows that a store returns, as values.

use crate::amount::{GasPrice, Wei};
use crate::ids::{
    ChainId, FencingToken, InvalidValue, NodeId, Nonce, RequestId, Submitter, TxHash, TxId,
};
use crate::nonce::{Mode, SubmitterStatus};
use crate::port::batch::{AttemptKind, Fees, NewTx};
use crate::port::lease::Lease;
use crate::resubmit::Patience;
use crate::state::TxState;
use crate::text::Text;
use crate::time::Timestamp;
use crate::trace::TraceParent;
use alloy_primitives::{Address, B256, Bytes, U256};

/// A chain that is registered in the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainRegistration {
    pub chain_id: ChainId,
    /// The hash of block 0, so that a chain that was reset is not taken for the old one.
    pub genesis: B256,
}

/// A submitter as a node is configured to run it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubmitterSetup {
    pub submitter: Submitter,
    /// Pipelined or strict; only the first registration sets it. Later only the submitter's owner
    /// changes it ([`ModeChange`](super::ModeChange)).
    pub mode: Mode,
    /// The first nonce; only the first registration sets it (I4).
    pub start_from: Nonce,
}

/// A submitter's row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterRecord {
    pub submitter: Submitter,
    /// The cursor: the next nonce to assign.
    pub next_nonce: Nonce,
    pub mode: Mode,
    pub status: SubmitterStatus,
    /// The reason given with the last change of its status.
    pub status_reason: Option<Text<500>>,
}

/// A submitter with its lease and its load, for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterOverview {
    pub record: SubmitterRecord,
    /// The owner and its token; `None` if there is no owner.
    pub owner: Option<super::Owner>,
    /// The number of open transactions in each state.
    pub depth: Vec<(TxState, u64)>,
    /// When the oldest open transaction was accepted.
    pub oldest_open: Option<Timestamp>,
}

/// The version and state of a row as it was read: the condition of the next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowVersion {
    pub state: TxState,
    /// The row's version; grows by one with each change.
    pub version: u32,
}

/// A request id that is already in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownRequest {
    /// The transaction that uses it.
    pub tx_id: TxId,
    /// The digest of its payload: another digest means another request (I7).
    pub payload_digest: B256,
}

/// The receipt of one of a transaction's attempts, and the block that holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxReceipt {
    pub tx_hash: TxHash,
    pub block_number: u64,
    pub block_hash: B256,
    pub gas_used: u64,
    pub succeeded: bool,
    /// The contract's revert reason, if the transaction reverted.
    pub revert_reason: Option<Text<2000>>,
    pub details: ReceiptDetails,
}

impl TxReceipt {
    /// Returns whether both tell the same of one attempt in one block, whatever details each of them has.
    pub fn has_outcome_of(&self, other: &Self) -> bool {
        let told = |it: &Self| (it.tx_hash, it.block_hash, it.succeeded, it.gas_used);
        told(self) == told(other)
    }

    /// Removes details that can't be true: a price above the signed one, and a contract of a transaction that
    /// creates none. `created` is the address of the contract that this one creates. Fills in the effective price of a legacy
    /// attempt from its signed price, if the node did not report it; the price that a dynamic-fee attempt
    /// paid stays unknown.
    pub fn checked_by(mut self, signed: &Fees, created: Option<Address>) -> Self {
        let legacy_price = signed.max_priority_fee.is_none().then_some(signed.max_fee);
        let told = self.details.effective_gas_price.filter(|price| *price <= signed.max_fee);
        self.details.effective_gas_price = told.or(legacy_price);
        self.details.contract_address = self.details.contract_address.and(created);
        self
    }

    /// The fee that the sender paid: gas used × effective price, plus the L1 data fee if the receipt
    /// has one. `None` if the price is unknown.
    pub fn fee(&self) -> Option<Wei> {
        let price = U256::from(self.details.effective_gas_price?.wei());
        let execution = price.saturating_mul(U256::from(self.gas_used));
        Some(Wei(execution.saturating_add(self.details.l1_fee.unwrap_or_default().0)))
    }
}

/// Optional fields of a receipt. Nodes may omit any of them, and rows written by older versions do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiptDetails {
    pub transaction_index: Option<u32>,
    /// The price charged per unit of gas.
    pub effective_gas_price: Option<GasPrice>,
    /// The fee charged for data on the base chain (`l1Fee` of OP-stack receipts).
    pub l1_fee: Option<Wei>,
    pub contract_address: Option<Address>,
    /// The time of the block, by the chain.
    pub block_time: Option<Timestamp>,
}

/// A managed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxRecord {
    pub tx_id: TxId,
    pub submitter: Submitter,
    pub request_id: Option<RequestId>,
    /// The nonce, once one is assigned.
    pub nonce: Option<Nonce>,
    /// The intent, as it was accepted.
    pub payload: Bytes,
    pub payload_digest: B256,
    /// State and version.
    pub row: RowVersion,
    /// The token under which it was last written.
    pub fencing_token: FencingToken,
    /// The number of attempts.
    pub attempts: u16,
    pub newest_hash: Option<TxHash>,
    /// When the newest attempt is sent again.
    pub next_resubmit_at: Option<Timestamp>,
    /// The number of times that an attempt was sent again.
    pub resubmits: u32,
    pub last_error: Option<Text<2000>>,
    /// The last mempool diagnosis. Advice, never evidence.
    pub diagnosis: Option<Text<300>>,
    /// The receipt, while the transaction is mined.
    pub mined: Option<TxReceipt>,
    /// When the intent expires.
    pub valid_until: Option<Timestamp>,
    /// When the transaction was accepted.
    pub created_at: Timestamp,
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// When the transaction became final.
    pub finished_at: Option<Timestamp>,
}

impl TxRecord {
    /// The row that a store returns right after it accepted a create.
    pub fn accepted(tx: &NewTx, lease: Lease, at: Timestamp) -> Self {
        Self {
            tx_id: tx.tx_id,
            submitter: lease.submitter,
            request_id: tx.request_id.clone(),
            nonce: tx.slot.as_ref().map(|slot| slot.nonce),
            payload: tx.payload.bytes().clone(),
            payload_digest: tx.payload.digest(),
            row: RowVersion { state: tx.initial_state(), version: 1 },
            fencing_token: lease.token,
            attempts: u16::from(tx.slot.is_some()),
            newest_hash: tx.slot.as_ref().map(|slot| slot.attempt.tx_hash),
            next_resubmit_at: None,
            resubmits: 0,
            last_error: None,
            diagnosis: None,
            mined: None,
            valid_until: tx.valid_until,
            created_at: at,
            updated_at: at,
            finished_at: None,
        }
    }
}

/// One signed form of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub tx_id: TxId,
    /// The attempt's number, starting at 1.
    pub number: u16,
    pub tx_hash: TxHash,
    pub raw: Bytes,
    pub kind: AttemptKind,
    pub fees: Fees,
    /// When the attempt became durable.
    pub created_at: Timestamp,
}

/// A submitter's head of line: its lowest open slot without a receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineHead {
    pub tx_id: TxId,
    pub nonce: Nonce,
    pub state: TxState,
}

/// A slot with the transaction that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotState {
    pub nonce: Nonce,
    pub tx_id: TxId,
    pub state: TxState,
}

/// A slot whose transaction is final: the chain has used its nonce and every one below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinalSlot {
    pub tx_id: TxId,
    pub nonce: Nonce,
    /// The block of its receipt; `None` if an outsider used the slot.
    pub block_number: Option<u64>,
}

/// An open transaction with all its attempts: everything that a new owner needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenTx {
    pub record: TxRecord,
    /// The attempts in the order of their numbers. Each may have been sent (I5).
    pub attempts: Vec<Attempt>,
    /// The time for which it had waited as the head of line when that was last written; `None` if it was
    /// not the head then.
    pub patience: Option<Patience>,
    /// Since when searches have brought no proof of the transaction in its slot.
    pub unproven_since: Option<Timestamp>,
    /// A stored confirmation list says that the receipt once left the canonical chain.
    pub new_fork: bool,
    /// The trace of the request that was accepted.
    pub trace: Option<TraceParent>,
}

/// One entry of a transaction's audit trail. There is exactly one for each version of the row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryEntry {
    pub version: u32,
    /// When it was committed, by the database's clock.
    pub at: Timestamp,
    pub node: NodeId,
    /// The fencing token under which it was made.
    pub token: FencingToken,
    pub event: String,
    /// The previous state; `None` for the first entry.
    pub from: Option<TxState>,
    pub to: TxState,
    /// Details for operators.
    pub detail: Option<Text<4000>>,
}

/// One entry of a submitter's audit trail: a change of its status or mode, or a cursor move that
/// opened no slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterEntry {
    /// Ascends with the submitter's commits.
    pub number: u64,
    /// When it was committed, by the database's clock.
    pub at: Timestamp,
    pub node: NodeId,
    /// The fencing token under which it was made.
    pub token: FencingToken,
    pub event: String,
    /// The reason, or the old and the new value.
    pub detail: Option<Text<500>>,
}

/// Decodes a stored state.
pub fn stored_state(code: i16) -> Result<TxState, InvalidValue> {
    TxState::from_code(code).ok_or_else(|| InvalidValue::new("state", format!("no state {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::wei;

    fn mined(details: ReceiptDetails) -> TxReceipt {
        TxReceipt {
            tx_hash: B256::repeat_byte(1),
            block_number: 1,
            block_hash: B256::repeat_byte(2),
            gas_used: 21_000,
            succeeded: true,
            revert_reason: None,
            details,
        }
    }

    #[test]
    fn fee_is_gas_times_price_and_what_the_base_chain_charges() {
        let priced =
            ReceiptDetails { effective_gas_price: Some(wei(7)), ..ReceiptDetails::default() };
        assert_eq!(mined(priced).fee(), Some(Wei(U256::from(147_000))));
        let rollup = ReceiptDetails { l1_fee: Some(Wei(U256::from(5))), ..priced };
        assert_eq!(mined(rollup).fee(), Some(Wei(U256::from(147_005))));
        let unpriced = ReceiptDetails { effective_gas_price: None, ..rollup };
        assert_eq!(mined(unpriced).fee(), None, "a part of a fee is no fee");
    }

    #[test]
    fn details_that_contradict_the_signed_attempt_are_removed_and_a_legacy_price_is_filled_in() {
        let legacy = Fees { gas_limit: 21_000, max_fee: wei(9), max_priority_fee: None };
        let dynamic = Fees { max_priority_fee: Some(wei(1)), ..legacy };
        let untold = mined(ReceiptDetails::default());
        let told = |of: TxReceipt| of.details.effective_gas_price;
        let checked = |of: TxReceipt, signed: &Fees| of.checked_by(signed, None);
        assert_eq!(told(checked(untold.clone(), &legacy)), Some(wei(9)));
        assert_eq!(told(checked(untold, &dynamic)), None, "the base fee is not known");
        let details =
            ReceiptDetails { effective_gas_price: Some(wei(4)), ..ReceiptDetails::default() };
        assert_eq!(told(checked(mined(details), &legacy)), Some(wei(4)), "the node's word");
        let absurd = ReceiptDetails { effective_gas_price: Some(wei(10)), ..details };
        assert_eq!(told(checked(mined(absurd), &dynamic)), None, "above the signed price");
        let [told_address, created] = [0xcc, 1].map(Address::repeat_byte);
        let details = ReceiptDetails { contract_address: Some(told_address), ..details };
        for created in [None, Some(created)] {
            let checked = mined(details).checked_by(&legacy, created);
            assert_eq!(checked.details.contract_address, created);
        }
    }
}
