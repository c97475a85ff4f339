//! Transactions, as callers and as operators see them.

use serde::Serialize;
use serde_json::value::RawValue;
use tollgate_model::port::{
    Attempt as StoredAttempt, Fees as StoredFees, HistoryEntry, LineHead, MinedIn, TxRecord,
};
use tollgate_model::{Intent, Submitter, Timestamp, TxEvent, TxHash, U256};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{address, time};
use crate::http::problem::ProblemBody;
use crate::http::schema;

/// A transaction.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tx {
    /// Its id, a UUID v7: ids sort by the time of acceptance.
    #[schema(value_type = schema::TxId)]
    pub(crate) tx_id: String,
    /// The chain that it is for.
    pub(crate) chain_id: u64,
    /// The account that sends it, with its checksum.
    #[schema(value_type = schema::Address)]
    pub(crate) submitter: String,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>, required)]
    pub(crate) request_id: Option<String>,
    /// Where it is. CONFIRMED and FAILED_FINAL are final.
    #[schema(value_type = schema::State)]
    pub(crate) state: &'static str,
    /// More about the state; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    pub(crate) sub_state: Option<&'static str>,
    /// The hash of the mined attempt, else of the newest one; null while there is none.
    #[schema(value_type = Option<schema::Hash>, required)]
    pub(crate) tx_hash: Option<String>,
    /// What the chain made of it; null while it is in no block.
    #[schema(required)]
    pub(crate) result: Option<TxResult>,
    /// What it waits for, if the account's line stands still. Null in the answer to a new create, and
    /// in lists of more than one account.
    #[schema(required)]
    pub(crate) blocked_by: Option<BlockedBy>,
    /// When it was accepted.
    #[schema(value_type = schema::Time)]
    pub(crate) created_at: String,
    /// When it last changed.
    #[schema(value_type = schema::Time)]
    pub(crate) updated_at: String,
    /// Until when it is wanted; null if for ever.
    #[schema(value_type = Option<schema::Time>, required)]
    pub(crate) valid_until: Option<String>,
    /// Whether another call may stand in its place.
    pub(crate) replaceable: bool,
    /// The caller's own notes, byte for byte as they were given.
    #[schema(value_type = schema::Anything, required)]
    pub(crate) metadata: Option<Box<RawValue>>,
}

/// A transaction that all those behind it wait for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockedBy {
    /// The transaction.
    #[schema(value_type = schema::TxId)]
    tx_id: String,
    /// Its slot; only for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<u64>,
    /// Why it does not move: its sub-state in lower case.
    #[schema(value_type = schema::BlockReason)]
    reason: &'static str,
}

impl BlockedBy {
    /// The head of a line, if it stands still.
    pub(crate) fn head(head: &LineHead) -> Option<Self> {
        let (tx_id, nonce) = (head.tx_id.to_string(), Some(head.nonce.get()));
        head.state.blocks_with().map(|reason| Self { tx_id, nonce, reason })
    }

    /// What a transaction waits for: the head of its line, if that stands still and is not itself.
    pub(crate) fn of(tx: &TxRecord, head: &LineHead) -> Option<Self> {
        let behind = tx.nonce.is_none_or(|nonce| nonce > head.nonce);
        Self::head(head).filter(|_| behind && tx.tx_id != head.tx_id)
    }

    /// Callers see no nonces.
    pub(crate) fn for_callers(self) -> Self {
        Self { nonce: None, ..self }
    }
}

/// What the chain made of a transaction.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TxResult {
    /// The block that holds it.
    pub(crate) block_number: u64,
    /// The block's hash.
    #[schema(value_type = schema::Hash)]
    block_hash: String,
    /// Its place in the block, from 0; null where the node does not tell.
    #[schema(required)]
    transaction_index: Option<u32>,
    /// Gas that it used.
    #[schema(value_type = schema::Amount)]
    pub(crate) gas_used: String,
    /// What was charged for one unit of gas, in wei; null where the node does not tell.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub(crate) effective_gas_price: Option<String>,
    /// What the account paid in fees, in wei: gasUsed × effectiveGasPrice, and the L1 data fee on
    /// rollups whose receipts have one (`l1Fee`). Null while the price is not known.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub(crate) fee: Option<String>,
    /// The contract that it deployed; null for calls, and for deployments that failed.
    #[schema(value_type = Option<schema::Address>, required)]
    pub(crate) contract_address: Option<String>,
    /// Whether it was executed or reverted.
    #[schema(value_type = schema::ReceiptStatus)]
    status: &'static str,
    /// What the contract said, if it said no.
    #[schema(required)]
    revert_reason: Option<String>,
}

/// A transaction with what only operators need.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperatorTx {
    #[serde(flatten)]
    tx: Tx,
    /// Its slot; null while it has none.
    #[schema(required)]
    nonce: Option<u64>,
    /// The token under which it was last written.
    fencing_token: u64,
    /// Its signed forms, first to last.
    attempts: Vec<Attempt>,
    /// The last error that the world gave for it.
    #[schema(required)]
    last_error: Option<String>,
    /// When it is to be sent again.
    #[schema(value_type = Option<schema::Time>, required)]
    next_resubmit_at: Option<String>,
    /// How often it was sent again.
    resubmits: u32,
    /// Where the mempool has it; null where that is not looked into.
    #[schema(required)]
    diagnosis: Option<String>,
}

/// One signed form of a transaction.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    /// 1 for the first.
    number: u16,
    /// Its hash.
    #[schema(value_type = schema::Hash)]
    tx_hash: String,
    /// What it is for.
    #[schema(value_type = schema::AttemptKind)]
    kind: &'static str,
    /// What it pays.
    fees: Fees,
    /// When it was signed and kept.
    #[schema(value_type = schema::Time)]
    created_at: String,
    /// When the audit trail first shows that it was sent; null if it does not.
    #[schema(value_type = Option<schema::Time>, required)]
    sent_at: Option<String>,
    /// `open`: may still be mined. `mined`: it is in a block. `superseded`: its slot went another way.
    #[schema(value_type = schema::Outcome)]
    outcome: &'static str,
}

/// What an attempt pays, in wei.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fees {
    /// The most gas it may use.
    #[schema(value_type = schema::Amount)]
    gas: String,
    /// The most it pays for a unit of gas; the gas price of a legacy transaction.
    #[schema(value_type = schema::Amount)]
    max_fee_per_gas: String,
    /// The tip; null for a legacy transaction.
    #[schema(value_type = Option<schema::Amount>, required)]
    max_priority_fee_per_gas: Option<String>,
}

/// A transaction in the view that was asked for.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum TxAnswer {
    /// For callers.
    Caller(Box<Tx>),
    /// For operators.
    Operator(Box<OperatorTx>),
}

/// Any of the two: what operators see is also what callers see, so that exactly one would be wrong.
impl PartialSchema for TxAnswer {
    fn schema() -> RefOr<Schema> {
        let view = |name: &str| Ref::from_schema_name(name);
        AnyOfBuilder::new().item(view(&Tx::name())).item(view(&OperatorTx::name())).into()
    }
}

impl ToSchema for TxAnswer {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Tx::name().into_owned(), Tx::schema()));
        schemas.push((OperatorTx::name().into_owned(), OperatorTx::schema()));
        OperatorTx::schemas(schemas);
    }
}

/// A page of transactions, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxPage {
    /// The transactions.
    pub(crate) items: Vec<Tx>,
    /// The `cursor` of the next page; null after the last one.
    #[schema(required)]
    pub(crate) next: Option<String>,
}

/// What a create would do. Nothing was kept, and no nonce was used.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Simulation {
    /// Always true.
    simulated: bool,
    /// The chain that it was tried on.
    chain_id: u64,
    /// The account that would send it.
    #[schema(value_type = schema::Address)]
    submitter: String,
    #[serde(flatten)]
    fees: Fees,
    /// The most that it could cost, in wei: value, and gas at the highest price.
    #[schema(value_type = schema::Amount)]
    max_cost: String,
}

/// The answers to a batch, in the order of its items.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    /// One answer for each item.
    #[schema(value_type = Vec<BatchItem>)]
    pub(crate) items: Vec<BatchEntry>,
}

/// Where the answer to an item is from.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum BatchEntry {
    /// This node.
    Own(Box<BatchItem>),
    /// Another one, word for word.
    Passed(Box<RawValue>),
}

/// The answer to one item of a batch: a transaction or a problem.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchItem {
    /// The status that a create of its own would have had.
    pub(crate) status: u16,
    /// The transaction, if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx: Option<Tx>,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ProblemBody>,
}

impl Tx {
    pub(crate) fn new(record: &TxRecord) -> Self {
        let intent = Intent::from_payload(&record.payload).ok();
        let replaceable = intent.as_ref().is_some_and(|intent| intent.replaceable);
        let metadata = intent.and_then(|intent| intent.metadata);
        let mined = record.mined.as_ref();
        Self {
            tx_id: record.tx_id.to_string(),
            chain_id: record.submitter.chain_id.get(),
            submitter: address(record.submitter.address),
            request_id: record.request_id.as_ref().map(ToString::to_string),
            state: record.seen.state.name(),
            sub_state: record.seen.state.sub_name(),
            tx_hash: mined
                .map(|mined| mined.tx_hash)
                .or(record.newest_hash)
                .map(|hash| hash.to_string()),
            result: mined.map(TxResult::new),
            blocked_by: None,
            created_at: time(record.created_at),
            updated_at: time(record.updated_at),
            valid_until: record.valid_until.map(time),
            replaceable,
            metadata: metadata.and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}

impl TxResult {
    fn new(mined: &MinedIn) -> Self {
        Self {
            block_number: mined.block_number,
            block_hash: mined.block_hash.to_string(),
            transaction_index: mined.details.transaction_index,
            gas_used: mined.gas_used.to_string(),
            effective_gas_price: mined.details.effective_gas_price.map(|price| price.to_string()),
            fee: mined.fee().map(|fee| fee.to_string()),
            contract_address: mined.details.contract_address.map(address),
            status: if mined.succeeded { "success" } else { "reverted" },
            revert_reason: mined.revert_reason.as_ref().map(|reason| reason.as_str().to_owned()),
        }
    }
}

impl OperatorTx {
    pub(crate) fn new(
        record: &TxRecord,
        attempts: &[StoredAttempt],
        history: &[HistoryEntry],
        blocked_by: Option<BlockedBy>,
    ) -> Self {
        let shown = attempts.iter().zip(1..).map(|(attempt, next)| {
            let until = attempts.get(next).map(|next| next.created_at);
            Attempt::new(attempt, record, sent_at(history, attempt.created_at, until))
        });
        Self {
            tx: Tx { blocked_by, ..Tx::new(record) },
            nonce: record.nonce.map(|nonce| nonce.get()),
            fencing_token: record.fencing_token.get(),
            attempts: shown.collect(),
            last_error: record.last_error.as_ref().map(|error| error.as_str().to_owned()),
            next_resubmit_at: record.next_resubmit_at.map(time),
            resubmits: record.resubmits,
            diagnosis: record.diagnosis.as_ref().map(|found| found.as_str().to_owned()),
        }
    }
}

impl Attempt {
    fn new(attempt: &StoredAttempt, of: &TxRecord, sent_at: Option<Timestamp>) -> Self {
        let mined = of.mined.as_ref().map(|mined| mined.tx_hash);
        Self {
            number: attempt.number,
            tx_hash: attempt.tx_hash.to_string(),
            kind: attempt.kind.name(),
            fees: Fees::new(&attempt.fees),
            created_at: time(attempt.created_at),
            sent_at: sent_at.map(time),
            outcome: outcome(attempt.tx_hash, mined, of.seen.state.is_final()),
        }
    }
}

impl Fees {
    fn new(fees: &StoredFees) -> Self {
        Self {
            gas: fees.gas_limit.to_string(),
            max_fee_per_gas: fees.max_fee.to_string(),
            max_priority_fee_per_gas: fees.max_priority_fee.map(|fee| fee.to_string()),
        }
    }
}

impl Simulation {
    pub(crate) fn new(submitter: Submitter, value: U256, fees: &StoredFees) -> Self {
        let gas = U256::from(fees.gas_limit).saturating_mul(U256::from(fees.max_fee.wei()));
        Self {
            simulated: true,
            chain_id: submitter.chain_id.get(),
            submitter: address(submitter.address),
            fees: Fees::new(fees),
            max_cost: value.saturating_add(gas).to_string(),
        }
    }
}

/// What became of an attempt of a transaction of which `mined` is in a block.
fn outcome(attempt: TxHash, mined: Option<TxHash>, is_final: bool) -> &'static str {
    match mined {
        Some(mined) if mined == attempt => "mined",
        Some(_) => "superseded",
        None if is_final => "superseded",
        None => "open",
    }
}

/// The first entry that shows a send, between an attempt and the next one.
fn sent_at(
    history: &[HistoryEntry],
    from: Timestamp,
    until: Option<Timestamp>,
) -> Option<Timestamp> {
    let sends = [
        TxEvent::NodeAccepted,
        TxEvent::AnswerUnclear,
        TxEvent::FundsMissing,
        TxEvent::Resent,
        TxEvent::Mined,
    ];
    let sends = sends.map(TxEvent::name);
    history
        .iter()
        .filter(|entry| sends.contains(&entry.event.as_str()))
        .map(|entry| entry.at)
        .find(|at| *at >= from && until.is_none_or(|until| *at < until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_open_until_its_slot_is_used() {
        let (ours, other) = (TxHash::repeat_byte(1), TxHash::repeat_byte(2));
        assert_eq!(outcome(ours, None, false), "open");
        assert_eq!(outcome(ours, Some(ours), false), "mined");
        assert_eq!(outcome(ours, Some(other), false), "superseded");
        assert_eq!(outcome(ours, None, true), "superseded");
    }
}
