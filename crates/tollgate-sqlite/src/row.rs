//! Decodes rows by the names of their columns. A value that can't be decoded is a defect, never a panic.

use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::FromSql;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::record::stored_state;
use tollgate_model::port::{
    Attempt, AttemptKind, Completion, Confirmations, Fees, HistoryEntry, KnownRequest, LineHead,
    MinedIn, OpenTx, OutboxEvent, Owner, ReceiptDetails, Reservation, ReservationState, Seen,
    SubmitterEntry, SubmitterRecord, TxRecord,
};
use tollgate_model::resubmit::Patience;
use tollgate_model::{
    Address, B256, Bytes, ChainId, FencingToken, GasPrice, NodeId, Nonce, RequestId, Seq,
    Submitter, Text, Timestamp, TxHash, TxId, TxState, Wei,
};
use uuid::Uuid;

use crate::error::QueryError;

type Decoded<T> = Result<T, QueryError>;

pub(crate) fn get<T: FromSql>(row: &Row<'_>, column: &str) -> Decoded<T> {
    Ok(row.get(column)?)
}

pub(crate) fn tx_id(row: &Row<'_>) -> Decoded<TxId> {
    Ok(TxId::from_uuid(Uuid::from_bytes(get(row, "tx_id")?)))
}

pub(crate) fn submitter(row: &Row<'_>) -> Decoded<Submitter> {
    let chain_id = ChainId::from_i64(get(row, "chain_id")?)?;
    Ok(Submitter::new(chain_id, Address::new(get(row, "submitter")?)))
}

pub(crate) fn hash(row: &Row<'_>, column: &str) -> Decoded<B256> {
    Ok(B256::new(get(row, column)?))
}

pub(crate) fn optional_hash(row: &Row<'_>, column: &str) -> Decoded<Option<B256>> {
    Ok(get::<Option<[u8; 32]>>(row, column)?.map(B256::new))
}

pub(crate) fn nonce(row: &Row<'_>, column: &str) -> Decoded<Nonce> {
    Ok(Nonce::from_i64(get(row, column)?)?)
}

pub(crate) fn token(row: &Row<'_>) -> Decoded<FencingToken> {
    Ok(FencingToken::from_i64(get(row, "fencing_token")?)?)
}

pub(crate) fn state(row: &Row<'_>, column: &str) -> Decoded<TxState> {
    Ok(stored_state(get(row, column)?)?)
}

pub(crate) fn seen(row: &Row<'_>) -> Decoded<Seen> {
    Ok(Seen { state: state(row, "state")?, version: get(row, "version")? })
}

pub(crate) fn status(row: &Row<'_>) -> Decoded<SubmitterStatus> {
    let code = get(row, "status")?;
    SubmitterStatus::from_code(code)
        .ok_or_else(|| QueryError::defect(format!("submitter status {code}")))
}

pub(crate) fn mode(row: &Row<'_>) -> Decoded<Mode> {
    let code = get(row, "mode")?;
    Mode::from_code(code).ok_or_else(|| QueryError::defect(format!("mode {code}")))
}

pub(crate) fn time(row: &Row<'_>, column: &str) -> Decoded<Timestamp> {
    Ok(Timestamp::from_unix_micros(get(row, column)?))
}

fn optional_time(row: &Row<'_>, column: &str) -> Decoded<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_unix_micros))
}

fn bytes(row: &Row<'_>, column: &str) -> Decoded<Bytes> {
    Ok(get::<Vec<u8>>(row, column)?.into())
}

fn text<const MAX: usize>(row: &Row<'_>, column: &str) -> Decoded<Option<Text<MAX>>> {
    get::<Option<String>>(row, column)?.map(|text| Ok(Text::new("text", text)?)).transpose()
}

/// A number that was unsigned when it was stored.
pub(crate) fn count(row: &Row<'_>, column: &str) -> Decoded<u64> {
    let number: i64 = get(row, column)?;
    u64::try_from(number).map_err(|_| QueryError::defect(format!("{number} is negative")))
}

fn request_id(row: &Row<'_>) -> Decoded<Option<RequestId>> {
    get::<Option<String>>(row, "request_id")?.map(|text| Ok(RequestId::new(text)?)).transpose()
}

/// The owner's columns of a row; `None` if there is no owner.
pub(crate) fn owner(row: &Row<'_>) -> Decoded<Option<Owner>> {
    let Some(node) = get::<Option<String>>(row, "owner_node")? else { return Ok(None) };
    Ok(Some(Owner {
        node: NodeId::from_stored(node),
        token: token(row)?,
        advertise_url: get(row, "advertise_url")?,
        remaining: Duration::from_micros(count(row, "remaining_micros")?),
    }))
}

pub(crate) fn submitter_record(row: &Row<'_>) -> Decoded<SubmitterRecord> {
    Ok(SubmitterRecord {
        submitter: submitter(row)?,
        next_nonce: nonce(row, "next_nonce")?,
        mode: mode(row)?,
        status: status(row)?,
        status_reason: text(row, "status_reason")?,
    })
}

pub(crate) fn known_request(row: &Row<'_>) -> Decoded<KnownRequest> {
    Ok(KnownRequest { tx_id: tx_id(row)?, payload_digest: hash(row, "payload_digest")? })
}

pub(crate) fn tx_record(row: &Row<'_>) -> Decoded<TxRecord> {
    Ok(TxRecord {
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        nonce: get::<Option<i64>>(row, "nonce")?.map(Nonce::from_i64).transpose()?,
        payload: bytes(row, "payload")?,
        payload_digest: hash(row, "payload_digest")?,
        seen: seen(row)?,
        fencing_token: token(row)?,
        attempts: get(row, "attempts")?,
        newest_hash: optional_hash(row, "newest_hash")?,
        next_resubmit_at: optional_time(row, "next_resubmit_at")?,
        resubmits: get(row, "resubmits")?,
        last_error: text(row, "last_error")?,
        diagnosis: text(row, "diagnosis")?,
        mined: mined_in(row)?,
        valid_until: optional_time(row, "valid_until")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
        finished_at: optional_time(row, "finished_at")?,
    })
}

/// An open transaction without its attempts, which another query reads.
pub(crate) fn open_tx(row: &Row<'_>) -> Decoded<OpenTx> {
    let since = optional_time(row, "patience_since")?;
    let resends = get::<Option<u32>>(row, "patience_resends")?;
    Ok(OpenTx {
        record: tx_record(row)?,
        attempts: Vec::new(),
        patience: since.zip(resends).map(|(since, resends)| Patience { since, resends }),
        unproven_since: optional_time(row, "unproven_since")?,
        new_fork: get(row, "new_fork")?,
    })
}

fn mined_in(row: &Row<'_>) -> Decoded<Option<MinedIn>> {
    let Some(tx_hash) = optional_hash(row, "mined_hash")? else { return Ok(None) };
    Ok(Some(MinedIn {
        tx_hash,
        block_number: count(row, "block_number")?,
        block_hash: hash(row, "block_hash")?,
        gas_used: count(row, "gas_used")?,
        succeeded: get(row, "succeeded")?,
        revert_reason: text(row, "revert_reason")?,
        details: details(row)?,
    }))
}

/// Null in the rows of versions that did not store it.
fn details(row: &Row<'_>) -> Decoded<ReceiptDetails> {
    let price: Option<i64> = get(row, "effective_gas_price")?;
    let l1_fee: Option<String> = get(row, "l1_fee")?;
    let read =
        |fee: String| fee.parse().map(Wei).map_err(|_| QueryError::defect(format!("l1_fee {fee}")));
    Ok(ReceiptDetails {
        transaction_index: get(row, "transaction_index")?,
        effective_gas_price: price.map(GasPrice::from_i64).transpose()?,
        l1_fee: l1_fee.map(read).transpose()?,
        contract_address: get::<Option<[u8; 20]>>(row, "contract_address")?.map(Address::new),
    })
}

pub(crate) fn attempt(row: &Row<'_>) -> Decoded<Attempt> {
    let kind = get(row, "kind")?;
    let priority: Option<i64> = get(row, "max_priority_fee")?;
    Ok(Attempt {
        tx_id: tx_id(row)?,
        number: get(row, "number")?,
        tx_hash: hash(row, "tx_hash")?,
        raw: bytes(row, "raw")?,
        kind: AttemptKind::from_code(kind)
            .ok_or_else(|| QueryError::defect(format!("attempt kind {kind}")))?,
        fees: Fees {
            gas_limit: count(row, "gas_limit")?,
            max_fee: GasPrice::from_i64(get(row, "max_fee")?)?,
            max_priority_fee: priority.map(GasPrice::from_i64).transpose()?,
        },
        created_at: time(row, "created_at")?,
    })
}

pub(crate) fn history_entry(row: &Row<'_>) -> Decoded<HistoryEntry> {
    let from: Option<i16> = get(row, "from_state")?;
    Ok(HistoryEntry {
        version: get(row, "version")?,
        at: time(row, "at")?,
        node: NodeId::from_stored(get(row, "node")?),
        token: token(row)?,
        event: get(row, "event")?,
        from: from.map(stored_state).transpose()?,
        to: state(row, "to_state")?,
        detail: text(row, "detail")?,
    })
}

pub(crate) fn submitter_entry(row: &Row<'_>) -> Decoded<SubmitterEntry> {
    Ok(SubmitterEntry {
        number: count(row, "number")?,
        at: time(row, "at")?,
        node: NodeId::from_stored(get(row, "node")?),
        token: token(row)?,
        event: get(row, "event")?,
        detail: text(row, "detail")?,
    })
}

pub(crate) fn confirmations(row: &Row<'_>) -> Decoded<Confirmations> {
    let joined: Vec<u8> = get(row, "hashes")?;
    let (hashes, rest) = joined.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(QueryError::defect(format!("{} bytes are no list of hashes", joined.len())));
    }
    Ok(Confirmations {
        first_block: count(row, "first_block")?,
        hashes: hashes.iter().copied().map(TxHash::new).collect(),
        new_fork: get(row, "new_fork")?,
    })
}

pub(crate) fn line_head(row: &Row<'_>) -> Decoded<LineHead> {
    let (tx_id, nonce) = (tx_id(row)?, nonce(row, "nonce")?);
    Ok(LineHead { tx_id, nonce, state: state(row, "state")? })
}

pub(crate) fn completion(row: &Row<'_>) -> Decoded<Completion> {
    Ok(Completion {
        seq: Seq::from_i64(get(row, "seq")?)?,
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        state: state(row, "state")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        at: time(row, "at")?,
    })
}

pub(crate) fn feed_end(row: &Row<'_>) -> Decoded<Seq> {
    Ok(Seq::from_i64(get(row, "last_seq")?)?)
}

pub(crate) fn outbox_event(row: &Row<'_>) -> Decoded<OutboxEvent> {
    Ok(OutboxEvent {
        id: get(row, "id")?,
        kind: get(row, "kind")?,
        key: get(row, "key")?,
        tx_id: tx_id(row)?,
        body: bytes(row, "body")?,
        created_at: time(row, "created_at")?,
    })
}

pub(crate) fn reservation(row: &Row<'_>) -> Decoded<Reservation> {
    Ok(Reservation {
        submitter: submitter(row)?,
        nonce: nonce(row, "nonce")?,
        state: ReservationState::from_code(get(row, "state")?)?,
        owner_token: Uuid::from_bytes(get(row, "owner_token")?),
        deadline: time(row, "deadline")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        reason: text(row, "reason")?,
    })
}
