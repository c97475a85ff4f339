//! Decodes the rows of both stores by the names of their columns. A value that can't be decoded is a
//! defect, never a panic.

mod alert;
mod audit;
mod event;
mod retention;

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use uuid::Uuid;

use crate::access::{ApiKey, KeyId, KeyScope, RateLimit, Rights, Roles, SecretHash, Tenant};
use crate::account::{Account, AccountSettings, KeyRef};
use crate::account_pool::{PoolMember, PoolName};
use crate::amount::{GasPrice, Wei};
use crate::ids::{
    ChainId, FencingToken, InvalidValue, NodeId, Nonce, RequestId, Seq, Submitter, TxId,
};
use crate::nonce::{Mode, SubmitterStatus};
use crate::port::record::stored_state;
use crate::port::{
    Attempt, AttemptKind, Cause, Completion, Confirmations, Fees, FinalSlot, HistoryEntry,
    KnownRequest, LineHead, LiveNode, OpenTx, Owner, ReceiptDetails, Reservation, ReservationState,
    RowVersion, SlotState, StoreError, StoredAccount, StoredApiKey, SubmitterEntry,
    SubmitterRecord, SubmitterWait, TxReceipt, TxRecord, WaitKind,
};
use crate::resubmit::Patience;
use crate::spending::SpendingRules;
use crate::state::TxState;
use crate::text::Text;
use crate::time::Timestamp;
use crate::trace::TraceParent;

pub use alert::{alert_notice, stored_alert};
pub use audit::audit_entry;
pub use event::{dead_letter, event_bounds, sink_claim, stored_events};
pub use retention::{finished_tx, removed_tx, seq};

type Decoded<T> = Result<T, StoreError>;

/// A row of a database. Each method reads a column by name; `None` is null, and a column of another type is
/// an error.
pub trait SqlRow {
    /// An integer of any size.
    fn integer(&self, column: &str) -> Decoded<Option<i64>>;
    /// True or false.
    fn boolean(&self, column: &str) -> Decoded<Option<bool>>;
    /// Bytes.
    fn bytes(&self, column: &str) -> Decoded<Option<&[u8]>>;
    /// Text.
    fn text(&self, column: &str) -> Decoded<Option<&str>>;
    /// A point in time.
    fn time(&self, column: &str) -> Decoded<Option<Timestamp>>;
    /// A UUID.
    fn uuid(&self, column: &str) -> Decoded<Option<Uuid>>;
}

/// A defect of the program or of a stored value.
pub fn defect(problem: String) -> StoreError {
    StoreError::Defect(problem.into())
}

/// A value that this program can't have written.
fn unreadable(error: InvalidValue) -> StoreError {
    StoreError::Defect(Cause::new(format!("stored value: {error}"), error))
}

fn required<T>(column: &str, value: Option<T>) -> Decoded<T> {
    value.ok_or_else(|| defect(format!("column {column} is null")))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Decoded<[u8; N]> {
    bytes.try_into().map_err(|_| defect(format!("{} bytes, not {N}", bytes.len())))
}

fn number<T: TryFrom<i64>>(value: i64) -> Decoded<T> {
    T::try_from(value).map_err(|_| defect(format!("{value} is out of range")))
}

/// A number that is never null.
pub fn int<T: TryFrom<i64>>(row: &impl SqlRow, column: &str) -> Decoded<T> {
    number(required(column, row.integer(column)?)?)
}

/// A flag that is never null.
pub fn flag(row: &impl SqlRow, column: &str) -> Decoded<bool> {
    required(column, row.boolean(column)?)
}

/// Bytes that are never null.
pub fn bytes<'r>(row: &'r impl SqlRow, column: &str) -> Decoded<&'r [u8]> {
    required(column, row.bytes(column)?)
}

/// A text that is never null.
pub fn string(row: &impl SqlRow, column: &str) -> Decoded<String> {
    required(column, row.text(column)?).map(str::to_owned)
}

/// A time that is never null.
pub fn time(row: &impl SqlRow, column: &str) -> Decoded<Timestamp> {
    required(column, row.time(column)?)
}

/// A hash that is never null.
pub fn hash(row: &impl SqlRow, column: &str) -> Decoded<B256> {
    fixed(bytes(row, column)?).map(B256::new)
}

/// A hash or null.
pub fn optional_hash(row: &impl SqlRow, column: &str) -> Decoded<Option<B256>> {
    row.bytes(column)?.map(|bytes| fixed(bytes).map(B256::new)).transpose()
}

fn text<const MAX: usize>(row: &impl SqlRow, column: &str) -> Decoded<Option<Text<MAX>>> {
    Ok(row.text(column)?.map(Text::lossy))
}

fn owned_bytes(row: &impl SqlRow, column: &str) -> Decoded<Bytes> {
    bytes(row, column).map(Bytes::copy_from_slice)
}

/// The submitter of a row.
pub fn submitter(row: &impl SqlRow) -> Decoded<Submitter> {
    let chain_id = ChainId::from_i64(int(row, "chain_id")?).map_err(unreadable)?;
    Ok(Submitter::new(chain_id, Address::new(fixed(bytes(row, "submitter")?)?)))
}

/// The fencing token of a row.
pub fn token(row: &impl SqlRow) -> Decoded<FencingToken> {
    FencingToken::from_i64(int(row, "fencing_token")?).map_err(unreadable)
}

/// A nonce that is never null.
pub fn nonce(row: &impl SqlRow, column: &str) -> Decoded<Nonce> {
    Nonce::from_i64(int(row, column)?).map_err(unreadable)
}

/// A transaction's state.
pub fn state(row: &impl SqlRow, column: &str) -> Decoded<TxState> {
    stored_state(int(row, column)?).map_err(unreadable)
}

/// The id of a transaction.
pub fn tx_id(row: &impl SqlRow) -> Decoded<TxId> {
    required("tx_id", row.uuid("tx_id")?).map(TxId::from_uuid)
}

/// State and version of a transaction.
pub fn row_version(row: &impl SqlRow) -> Decoded<RowVersion> {
    Ok(RowVersion { state: state(row, "state")?, version: int(row, "version")? })
}

/// The status of a submitter.
pub fn status(row: &impl SqlRow) -> Decoded<SubmitterStatus> {
    let code = int(row, "status")?;
    SubmitterStatus::from_code(code).ok_or_else(|| defect(format!("submitter status {code}")))
}

/// The mode of a submitter.
pub fn mode(row: &impl SqlRow) -> Decoded<Mode> {
    let code = int(row, "mode")?;
    Mode::from_code(code).ok_or_else(|| defect(format!("mode {code}")))
}

fn request_id(row: &impl SqlRow) -> Decoded<Option<RequestId>> {
    row.text("request_id")?.map(RequestId::from_stored).transpose().map_err(unreadable)
}

/// The transaction of a known request.
pub fn known_request(row: &impl SqlRow) -> Decoded<KnownRequest> {
    Ok(KnownRequest { tx_id: tx_id(row)?, payload_digest: hash(row, "payload_digest")? })
}

/// A condition that a submitter waits for.
pub fn submitter_wait(row: &impl SqlRow) -> Decoded<SubmitterWait> {
    let kind = int(row, "kind")?;
    let kind = WaitKind::from_code(kind).ok_or_else(|| defect(format!("wait kind {kind}")))?;
    Ok(SubmitterWait { kind, nonce: nonce(row, "nonce")?, since: time(row, "since")? })
}

/// A submitter's own row.
pub fn submitter_record(row: &impl SqlRow) -> Decoded<SubmitterRecord> {
    Ok(SubmitterRecord {
        submitter: submitter(row)?,
        next_nonce: nonce(row, "next_nonce")?,
        mode: mode(row)?,
        status: status(row)?,
        status_reason: text(row, "status_reason")?,
    })
}

/// The owner's columns of a row; `None` if there is no owner.
pub fn owner(row: &impl SqlRow) -> Decoded<Option<Owner>> {
    let Some(node) = row.text("owner_node")? else { return Ok(None) };
    Ok(Some(Owner {
        node: NodeId::from_stored(node.to_owned()),
        token: token(row)?,
        advertise_url: row.text("advertise_url")?.map(str::to_owned),
        remaining: Duration::from_micros(int(row, "remaining_micros")?),
    }))
}

/// A row of `tx_full_record`.
pub fn tx_record(row: &impl SqlRow) -> Decoded<TxRecord> {
    Ok(TxRecord {
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        nonce: row.integer("nonce")?.map(Nonce::from_i64).transpose().map_err(unreadable)?,
        payload: owned_bytes(row, "payload")?,
        payload_digest: hash(row, "payload_digest")?,
        row: row_version(row)?,
        fencing_token: token(row)?,
        attempts: int(row, "attempts")?,
        newest_hash: optional_hash(row, "newest_hash")?,
        next_resubmit_at: row.time("next_resubmit_at")?,
        resubmits: int(row, "resubmits")?,
        last_error: text(row, "last_error")?,
        diagnosis: text(row, "diagnosis")?,
        mined: mined_in(row)?,
        valid_until: row.time("valid_until")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
        finished_at: row.time("finished_at")?,
    })
}

/// An open transaction without its attempts, which another query reads.
pub fn open_tx(row: &impl SqlRow) -> Decoded<OpenTx> {
    let resends = number(row.integer("patience_resends")?.unwrap_or_default())?;
    Ok(OpenTx {
        record: tx_record(row)?,
        attempts: Vec::new(),
        patience: row.time("patience_since")?.map(|since| Patience { since, resends }),
        unproven_since: row.time("unproven_since")?,
        new_fork: flag(row, "new_fork")?,
        trace: row.bytes("trace")?.map(TraceParent::from_bytes).transpose()?,
    })
}

fn mined_in(row: &impl SqlRow) -> Decoded<Option<TxReceipt>> {
    let Some(tx_hash) = optional_hash(row, "mined_hash")? else { return Ok(None) };
    Ok(Some(TxReceipt {
        tx_hash,
        block_number: int(row, "block_number")?,
        block_hash: hash(row, "block_hash")?,
        gas_used: int(row, "gas_used")?,
        succeeded: flag(row, "succeeded")?,
        revert_reason: text(row, "revert_reason")?,
        details: details(row)?,
    }))
}

/// Null in the rows of versions that did not store it.
fn details(row: &impl SqlRow) -> Decoded<ReceiptDetails> {
    let contract = row.bytes("contract_address")?;
    Ok(ReceiptDetails {
        transaction_index: row.integer("transaction_index")?.map(number).transpose()?,
        effective_gas_price: price(row, "effective_gas_price")?,
        l1_fee: wei(row, "l1_fee")?,
        contract_address: contract.map(|bytes| fixed(bytes).map(Address::new)).transpose()?,
        block_time: row.time("block_time")?,
    })
}

fn price(row: &impl SqlRow, column: &str) -> Decoded<Option<GasPrice>> {
    row.integer(column)?.map(GasPrice::from_i64).transpose().map_err(unreadable)
}

fn wei(row: &impl SqlRow, column: &str) -> Decoded<Option<Wei>> {
    let read =
        |amount: &str| amount.parse().map(Wei).map_err(|_| defect(format!("{column} {amount}")));
    row.text(column)?.map(read).transpose()
}

/// An account that was opened or changed while nodes run.
pub fn account(row: &impl SqlRow) -> Decoded<StoredAccount> {
    let key = row.text("key_ref")?.map(str::parse::<KeyRef>).transpose().map_err(unreadable)?;
    let settings = AccountSettings {
        label: text(row, "label")?,
        window: row.integer("window")?.map(number).transpose()?,
        max_fee_per_gas: price(row, "max_fee_per_gas")?,
        max_tx_fee: wei(row, "max_tx_fee")?,
        spending: SpendingRules {
            max_value: wei(row, "max_value")?,
            allowed_calls: row
                .text("allowed_calls")?
                .map(str::parse)
                .transpose()
                .map_err(unreadable)?,
        },
        is_disabled: flag(row, "disabled")?,
    };
    let (submitter, is_removed) = (submitter(row)?, flag(row, "removed")?);
    let account = Account { submitter, key, settings, is_removed };
    Ok(StoredAccount { account, revision: int(row, "revision")? })
}

/// An API key.
pub fn api_key(row: &impl SqlRow) -> Decoded<StoredApiKey> {
    let key = ApiKey {
        id: KeyId::new(&string(row, "key_id")?).map_err(unreadable)?,
        name: Text::lossy(&string(row, "name")?),
        hash: SecretHash::from_stored(fixed(bytes(row, "secret_hash")?)?),
        rights: rights(row)?,
        rate: rate(row)?,
        created_at: time(row, "created_at")?,
        created_by: Text::lossy(&string(row, "created_by")?),
        expires_at: row.time("expires_at")?,
        revoked_at: row.time("revoked_at")?,
        last_used_at: row.time("last_used_at")?,
    };
    Ok(StoredApiKey { key, revision: int(row, "revision")? })
}

fn rights(row: &impl SqlRow) -> Decoded<Rights> {
    let tenant = string(row, "tenant")?;
    let tenant = (!tenant.is_empty()).then(|| Tenant::new(tenant)).transpose();
    let lists = ["scope_chains", "scope_submitters", "scope_pools"];
    let [chains, submitters, pools] = lists.map(|column| string(row, column));
    Ok(Rights {
        roles: Roles::parse(&string(row, "roles")?).map_err(unreadable)?,
        scope: KeyScope::parse(&chains?, &submitters?, &pools?).map_err(unreadable)?,
        tenant: tenant.map_err(unreadable)?,
    })
}

fn rate(row: &impl SqlRow) -> Decoded<Option<RateLimit>> {
    let (Some(_), Some(_)) = (row.integer("rate_per_second")?, row.integer("rate_burst")?) else {
        return Ok(None);
    };
    let (per_second, burst) = (int(row, "rate_per_second")?, int(row, "rate_burst")?);
    RateLimit::new(per_second, burst).map(Some).map_err(unreadable)
}

/// A member of a pool, with its load.
pub fn pool_member(row: &impl SqlRow) -> Decoded<PoolMember> {
    let address = submitter(row)?.address;
    Ok(PoolMember { address, status: status(row)?, open: int(row, "open")? })
}

/// The name of a pool, and one of its members.
pub fn pool_entry(row: &impl SqlRow) -> Decoded<(PoolName, Address)> {
    let name = PoolName::new(string(row, "name")?).map_err(unreadable)?;
    Ok((name, submitter(row)?.address))
}

/// An attempt.
pub fn attempt(row: &impl SqlRow) -> Decoded<Attempt> {
    let kind = int(row, "kind")?;
    Ok(Attempt {
        tx_id: tx_id(row)?,
        number: int(row, "number")?,
        tx_hash: hash(row, "tx_hash")?,
        raw: owned_bytes(row, "raw")?,
        kind: AttemptKind::from_code(kind).ok_or_else(|| defect(format!("attempt kind {kind}")))?,
        fees: Fees {
            gas_limit: int(row, "gas_limit")?,
            max_fee: required("max_fee", price(row, "max_fee")?)?,
            max_priority_fee: price(row, "max_priority_fee")?,
        },
        created_at: time(row, "created_at")?,
    })
}

/// An entry of a transaction's audit trail.
pub fn history_entry(row: &impl SqlRow) -> Decoded<HistoryEntry> {
    let from = row.integer("from_state")?.map(number).transpose()?;
    Ok(HistoryEntry {
        version: int(row, "version")?,
        at: time(row, "at")?,
        node: NodeId::from_stored(string(row, "node")?),
        token: token(row)?,
        event: string(row, "event")?,
        from: from.map(stored_state).transpose().map_err(unreadable)?,
        to: state(row, "to_state")?,
        detail: text(row, "detail")?,
    })
}

/// An entry of a submitter's audit trail.
pub fn submitter_entry(row: &impl SqlRow) -> Decoded<SubmitterEntry> {
    Ok(SubmitterEntry {
        number: int(row, "number")?,
        at: time(row, "at")?,
        node: NodeId::from_stored(string(row, "node")?),
        token: token(row)?,
        event: string(row, "event")?,
        detail: text(row, "detail")?,
    })
}

/// A confirmation list.
pub fn confirmations(row: &impl SqlRow) -> Decoded<Confirmations> {
    let joined = bytes(row, "hashes")?;
    let (hashes, rest) = joined.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(defect(format!("{} bytes are no list of hashes", joined.len())));
    }
    Ok(Confirmations {
        first_block: int(row, "first_block")?,
        hashes: hashes.iter().copied().map(B256::new).collect(),
        new_fork: flag(row, "new_fork")?,
    })
}

/// The head of a submitter's line.
pub fn line_head(row: &impl SqlRow) -> Decoded<LineHead> {
    let (tx_id, nonce) = (tx_id(row)?, nonce(row, "nonce")?);
    Ok(LineHead { tx_id, nonce, state: state(row, "state")? })
}

/// A slot and its transaction.
pub fn slot_state(row: &impl SqlRow) -> Decoded<SlotState> {
    Ok(SlotState { nonce: nonce(row, "nonce")?, tx_id: tx_id(row)?, state: state(row, "state")? })
}

/// A slot whose transaction is final.
pub fn final_slot(row: &impl SqlRow) -> Decoded<FinalSlot> {
    let (tx_id, nonce) = (tx_id(row)?, nonce(row, "nonce")?);
    let block_number = row.integer("block_number")?.map(number).transpose()?;
    Ok(FinalSlot { tx_id, nonce, block_number })
}

/// A completion; `None` for a row that only tells the feed's end.
pub fn completion(row: &impl SqlRow) -> Decoded<Option<Completion>> {
    let Some(seq) = row.integer("seq")? else { return Ok(None) };
    Ok(Some(Completion {
        seq: Seq::from_i64(seq).map_err(unreadable)?,
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        state: state(row, "state")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        at: time(row, "at")?,
        payload: row.bytes("payload")?.map(Bytes::copy_from_slice),
        mined: mined_in(row)?,
    }))
}

/// The number and hash of the block of a row's receipt.
pub fn mined_block(row: &impl SqlRow) -> Decoded<Option<(u64, B256)>> {
    let number = row.integer("block_number")?.map(u64::try_from).transpose();
    let number = number.map_err(|error| defect(format!("block_number: {error}")))?;
    Ok(number.zip(optional_hash(row, "block_hash")?))
}

/// A nonce that a caller holds, used or gave back.
pub fn reservation(row: &impl SqlRow) -> Decoded<Reservation> {
    let state = int(row, "state")?;
    Ok(Reservation {
        submitter: submitter(row)?,
        nonce: nonce(row, "nonce")?,
        state: ReservationState::from_code(state)
            .ok_or_else(|| defect(format!("reservation state {state}")))?,
        owner_token: required("owner_token", row.uuid("owner_token")?)?,
        deadline: time(row, "deadline")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        reason: text(row, "reason")?,
    })
}

/// A node of a chain.
pub fn live_node(row: &impl SqlRow, chain_id: ChainId) -> Decoded<LiveNode> {
    Ok(LiveNode {
        node: NodeId::from_stored(string(row, "node_id")?),
        chain_id,
        advertise_url: Text::lossy(&string(row, "advertise_url")?),
        draining: flag(row, "draining")?,
        serves: optional_hash(row, "serves")?,
    })
}
