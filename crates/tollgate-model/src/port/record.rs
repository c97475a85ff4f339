//! What a store gives back: rows as values.

use crate::amount::{GasPrice, Wei};
use crate::ids::{
    ChainId, FencingToken, InvalidId, NodeId, Nonce, RequestId, Submitter, TxHash, TxId,
};
use crate::nonce::{Mode, SubmitterStatus};
use crate::port::batch::{AttemptKind, Fees, NewTx};
use crate::port::lease::Lease;
use crate::resubmit::Patience;
use crate::state::TxState;
use crate::text::Text;
use crate::time::Timestamp;
use alloy_primitives::{Address, B256, Bytes, U256};

/// A chain that nodes of this database work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainRegistration {
    /// Its id.
    pub chain_id: ChainId,
    /// The hash of its block 0, so that a chain that was reset is not taken for the old one.
    pub genesis: B256,
}

/// A submitter as a node is configured to run it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubmitterSetup {
    /// Which.
    pub submitter: Submitter,
    /// Pipelined or strict; only the first registration counts. Later it changes by an order to the
    /// submitter's owner alone ([`ModeChange`](super::ModeChange)).
    pub mode: Mode,
    /// Where the cursor starts; only the first registration counts (I4).
    pub start_from: Nonce,
}

/// A submitter's own row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterRecord {
    /// Which.
    pub submitter: Submitter,
    /// The cursor: the next nonce to give out.
    pub next_nonce: Nonce,
    /// Pipelined or strict.
    pub mode: Mode,
    /// Whether it takes work.
    pub status: SubmitterStatus,
    /// The reason given with the last change of its status.
    pub status_reason: Option<Text<500>>,
}

/// A submitter with its lease and its load, as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterOverview {
    /// Its own row.
    pub record: SubmitterRecord,
    /// Who owns it and under which token; `None` if nobody does.
    pub owner: Option<super::Owner>,
    /// How many open transactions there are in each state.
    pub depth: Vec<(TxState, u64)>,
    /// When the oldest open transaction was accepted.
    pub oldest_open: Option<Timestamp>,
}

/// The version and state of a row as its reader saw it: the condition of the next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The state.
    pub state: TxState,
    /// Grows by one with each change of the row.
    pub version: u32,
}

/// A request id that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownRequest {
    /// By which transaction.
    pub tx_id: TxId,
    /// The digest of its payload: another digest is another request (I7).
    pub payload_digest: B256,
}

/// The block that holds the receipt of one of a transaction's attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MinedIn {
    /// Which attempt was mined.
    pub tx_hash: TxHash,
    /// The block's number.
    pub block_number: u64,
    /// The block's hash.
    pub block_hash: B256,
    /// Gas that it used.
    pub gas_used: u64,
    /// Whether the receipt says success.
    pub succeeded: bool,
    /// What the contract said, if it said no.
    pub revert_reason: Option<Text<2000>>,
    /// What else the receipt says.
    pub details: ReceiptDetails,
}

impl MinedIn {
    /// Whether both are the receipt of one attempt in one block, however much each knows of it.
    pub fn is_same_receipt(&self, other: &Self) -> bool {
        (self.tx_hash, self.block_hash) == (other.tx_hash, other.block_hash)
    }

    /// The same receipt with the price that a legacy attempt was signed with, where the node does not
    /// tell what was charged. What a dynamic-fee attempt paid is not known then.
    pub fn priced_by(mut self, signed: &Fees) -> Self {
        let legacy_price = signed.max_priority_fee.is_none().then_some(signed.max_fee);
        let told = self.details.effective_gas_price;
        self.details.effective_gas_price = told.or(legacy_price);
        self
    }

    /// What the sender paid in fees: gas used × effective price, and the fee for data on the base
    /// chain where the receipt has one. `None` if the price is not known.
    pub fn fee(&self) -> Option<Wei> {
        let price = U256::from(self.details.effective_gas_price?.wei());
        let execution = price.saturating_mul(U256::from(self.gas_used));
        Some(Wei(execution.saturating_add(self.details.l1_fee.unwrap_or_default().0)))
    }
}

/// What a receipt says beyond where and how it went. Nodes may leave any of it out, and so do rows
/// that were written by versions that did not keep it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiptDetails {
    /// The transaction's place in its block.
    pub transaction_index: Option<u32>,
    /// What was charged for one unit of gas.
    pub effective_gas_price: Option<GasPrice>,
    /// What was charged for data on the base chain (`l1Fee` of OP-stack receipts).
    pub l1_fee: Option<Wei>,
    /// The contract that it deployed.
    pub contract_address: Option<Address>,
}

/// A managed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxRecord {
    /// Its id.
    pub tx_id: TxId,
    /// Whose it is.
    pub submitter: Submitter,
    /// The caller's name for it.
    pub request_id: Option<RequestId>,
    /// Its slot, once it has one.
    pub nonce: Option<Nonce>,
    /// The intent, as it was accepted.
    pub payload: Bytes,
    /// The digest of the intent.
    pub payload_digest: B256,
    /// State and version.
    pub seen: Seen,
    /// The token under which it was last written.
    pub fencing_token: FencingToken,
    /// How many attempts it has.
    pub attempts: u16,
    /// The hash of its newest attempt.
    pub newest_hash: Option<TxHash>,
    /// When it is to be sent again.
    pub next_resubmit_at: Option<Timestamp>,
    /// How often it was sent again.
    pub resubmits: u32,
    /// The last error that the world gave for it.
    pub last_error: Option<Text<2000>>,
    /// What was last found out about its place in the nodes' pools. Advice, never evidence.
    pub diagnosis: Option<Text<300>>,
    /// Where it was mined, while it is.
    pub mined: Option<MinedIn>,
    /// When the intent expires.
    pub valid_until: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it became final.
    pub finished_at: Option<Timestamp>,
}

impl TxRecord {
    /// What a store reads back right after it has accepted a create.
    pub fn accepted(tx: &NewTx, lease: Lease, at: Timestamp) -> Self {
        Self {
            tx_id: tx.tx_id,
            submitter: lease.submitter,
            request_id: tx.request_id.clone(),
            nonce: tx.slot.as_ref().map(|slot| slot.nonce),
            payload: tx.payload.bytes().clone(),
            payload_digest: tx.payload.digest(),
            seen: Seen { state: tx.born(), version: 1 },
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
    /// Whose.
    pub tx_id: TxId,
    /// 1 for the first.
    pub number: u16,
    /// Its hash.
    pub tx_hash: TxHash,
    /// The bytes to send.
    pub raw: Bytes,
    /// What it is for.
    pub kind: AttemptKind,
    /// What it pays.
    pub fees: Fees,
    /// When it was made durable.
    pub created_at: Timestamp,
}

/// The head of a submitter's line: its lowest open slot without a receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineHead {
    /// The transaction in it.
    pub tx_id: TxId,
    /// The slot.
    pub nonce: Nonce,
    /// Where the transaction is.
    pub state: TxState,
}

/// An open transaction with all its attempts: everything a new owner needs to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenTx {
    /// The transaction.
    pub record: TxRecord,
    /// Its attempts, first to last. Each is maybe sent (I5).
    pub attempts: Vec<Attempt>,
    /// How long it had been waited for as the head of the line when that was last written; `None` if it
    /// was not the head then.
    pub patience: Option<Patience>,
    /// Since when searches bring no proof of what is in its slot.
    pub unproven_since: Option<Timestamp>,
    /// A stored confirmation list of it says that its receipt once left the canonical chain.
    pub new_fork: bool,
}

/// One line of a transaction's audit trail. There is exactly one for each version of the row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryEntry {
    /// The version that this change made.
    pub version: u32,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Which node did it.
    pub node: NodeId,
    /// Under which token.
    pub token: FencingToken,
    /// What happened, one word.
    pub event: String,
    /// Where it was; `None` for the first entry.
    pub from: Option<TxState>,
    /// Where it is since.
    pub to: TxState,
    /// More, for people.
    pub detail: Option<Text<4000>>,
}

/// One line of a submitter's audit trail: a change of its status, or a move of its cursor that
/// opened no slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterEntry {
    /// Ascends with the commits of one submitter.
    pub number: u64,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Which node did it.
    pub node: NodeId,
    /// Under which token.
    pub token: FencingToken,
    /// What happened, one word.
    pub event: String,
    /// Why, or from where to where.
    pub detail: Option<Text<500>>,
}

/// Turns the code of a stored state into the state.
pub fn stored_state(code: i16) -> Result<TxState, InvalidId> {
    TxState::from_code(code).ok_or_else(|| InvalidId::new("state", format!("no state {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mined(details: ReceiptDetails) -> MinedIn {
        MinedIn {
            tx_hash: B256::repeat_byte(1),
            block_number: 1,
            block_hash: B256::repeat_byte(2),
            gas_used: 21_000,
            succeeded: true,
            revert_reason: None,
            details,
        }
    }

    fn price(wei: u128) -> GasPrice {
        GasPrice::from_wei(wei).unwrap()
    }

    #[test]
    fn fee_is_gas_times_price_and_what_the_base_chain_charges() {
        let priced =
            ReceiptDetails { effective_gas_price: Some(price(7)), ..ReceiptDetails::default() };
        assert_eq!(mined(priced).fee(), Some(Wei(U256::from(147_000))));
        let rollup = ReceiptDetails { l1_fee: Some(Wei(U256::from(5))), ..priced };
        assert_eq!(mined(rollup).fee(), Some(Wei(U256::from(147_005))));
        let unpriced = ReceiptDetails { effective_gas_price: None, ..rollup };
        assert_eq!(mined(unpriced).fee(), None, "a part of a fee is no fee");
    }

    #[test]
    fn missing_effective_price_falls_back_to_the_price_of_a_legacy_attempt_only() {
        let legacy = Fees { gas_limit: 21_000, max_fee: price(9), max_priority_fee: None };
        let dynamic = Fees { max_priority_fee: Some(price(1)), ..legacy };
        let untold = mined(ReceiptDetails::default());
        let told = |of: MinedIn| of.details.effective_gas_price;
        assert_eq!(told(untold.clone().priced_by(&legacy)), Some(price(9)));
        assert_eq!(told(untold.priced_by(&dynamic)), None, "the base fee is not known");
        let details =
            ReceiptDetails { effective_gas_price: Some(price(4)), ..ReceiptDetails::default() };
        assert_eq!(told(mined(details).priced_by(&legacy)), Some(price(4)), "the node's word");
    }
}
