//! Rows as values. A row that this program can't have written is a defect, never a panic.

use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::FromSql;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::record::stored_state;
use tollgate_model::port::{
    Attempt, AttemptKind, Completion, Confirmations, Fees, HistoryEntry, KnownRequest, MinedIn,
    OpenTx, OutboxEvent, Owner, ReceiptDetails, Reservation, ReservationState, Seen,
    SubmitterEntry, SubmitterRecord, SubmitterWait, TxRecord, WaitKind,
};
use tollgate_model::resubmit::Patience;
use tollgate_model::{
    Address, B256, Bytes, ChainId, FencingToken, GasPrice, NodeId, Nonce, RequestId, Seq,
    Submitter, Text, Timestamp, TxHash, TxId, TxState, Wei,
};
use uuid::Uuid;

use crate::error::Fault;

type Decoded<T> = Result<T, Fault>;

pub(crate) fn get<T: FromSql>(row: &Row<'_>, at: usize) -> Decoded<T> {
    Ok(row.get(at)?)
}

pub(crate) fn tx_id(row: &Row<'_>, at: usize) -> Decoded<TxId> {
    Ok(TxId::from_uuid(Uuid::from_bytes(get(row, at)?)))
}

/// Chain and address, in two columns.
pub(crate) fn submitter(row: &Row<'_>, at: usize) -> Decoded<Submitter> {
    let chain_id = ChainId::from_i64(get(row, at)?)?;
    Ok(Submitter::new(chain_id, Address::new(get(row, at + 1)?)))
}

pub(crate) fn hash(row: &Row<'_>, at: usize) -> Decoded<B256> {
    Ok(B256::new(get(row, at)?))
}

pub(crate) fn hash_or_none(row: &Row<'_>, at: usize) -> Decoded<Option<B256>> {
    Ok(get::<Option<[u8; 32]>>(row, at)?.map(B256::new))
}

pub(crate) fn nonce(row: &Row<'_>, at: usize) -> Decoded<Nonce> {
    Ok(Nonce::from_i64(get(row, at)?)?)
}

pub(crate) fn token(row: &Row<'_>, at: usize) -> Decoded<FencingToken> {
    Ok(FencingToken::from_i64(get(row, at)?)?)
}

pub(crate) fn state(row: &Row<'_>, at: usize) -> Decoded<TxState> {
    Ok(stored_state(get(row, at)?)?)
}

pub(crate) fn status(row: &Row<'_>, at: usize) -> Decoded<SubmitterStatus> {
    let code = get(row, at)?;
    SubmitterStatus::from_code(code).ok_or_else(|| Fault::defect(format!("no status {code}")))
}

pub(crate) fn mode(row: &Row<'_>, at: usize) -> Decoded<Mode> {
    let code = get(row, at)?;
    Mode::from_code(code).ok_or_else(|| Fault::defect(format!("no mode {code}")))
}

pub(crate) fn time(row: &Row<'_>, at: usize) -> Decoded<Timestamp> {
    Ok(Timestamp::from_unix_micros(get(row, at)?))
}

fn time_or_none(row: &Row<'_>, at: usize) -> Decoded<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, at)?.map(Timestamp::from_unix_micros))
}

fn bytes(row: &Row<'_>, at: usize) -> Decoded<Bytes> {
    Ok(get::<Vec<u8>>(row, at)?.into())
}

fn text<const MAX: usize>(row: &Row<'_>, at: usize) -> Decoded<Option<Text<MAX>>> {
    get::<Option<String>>(row, at)?.map(|text| Ok(Text::new("text", text)?)).transpose()
}

/// A number that was unsigned when it was stored.
pub(crate) fn count(row: &Row<'_>, at: usize) -> Decoded<u64> {
    let number: i64 = get(row, at)?;
    u64::try_from(number).map_err(|_| Fault::defect(format!("{number} is negative")))
}

pub(crate) fn request_id(row: &Row<'_>, at: usize) -> Decoded<Option<RequestId>> {
    get::<Option<String>>(row, at)?.map(|text| Ok(RequestId::new(text)?)).transpose()
}

/// `owner_node, fencing_token, advertise_url, remaining`; no node is no owner.
pub(crate) fn owner(row: &Row<'_>, at: usize) -> Decoded<Option<Owner>> {
    let Some(node) = get::<Option<String>>(row, at)? else { return Ok(None) };
    Ok(Some(Owner {
        node: NodeId::from_stored(node),
        token: token(row, at + 1)?,
        advertise_url: get(row, at + 2)?,
        remaining: Duration::from_micros(count(row, at + 3)?),
    }))
}

pub(crate) fn submitter_record(row: &Row<'_>) -> Decoded<SubmitterRecord> {
    Ok(SubmitterRecord {
        submitter: submitter(row, 0)?,
        next_nonce: nonce(row, 2)?,
        mode: mode(row, 3)?,
        status: status(row, 4)?,
        status_reason: text(row, 5)?,
    })
}

pub(crate) fn submitter_wait(row: &Row<'_>) -> Decoded<SubmitterWait> {
    let kind = WaitKind::from_code(get(row, 0)?)?;
    Ok(SubmitterWait { kind, nonce: nonce(row, 1)?, since: time(row, 2)? })
}

pub(crate) fn known_request(row: &Row<'_>) -> Decoded<KnownRequest> {
    Ok(KnownRequest { tx_id: tx_id(row, 0)?, payload_digest: hash(row, 1)? })
}

pub(crate) fn tx_record(row: &Row<'_>) -> Decoded<TxRecord> {
    Ok(TxRecord {
        tx_id: tx_id(row, 0)?,
        submitter: submitter(row, 1)?,
        request_id: request_id(row, 3)?,
        nonce: get::<Option<i64>>(row, 4)?.map(Nonce::from_i64).transpose()?,
        payload: bytes(row, 5)?,
        payload_digest: hash(row, 6)?,
        seen: Seen { state: state(row, 7)?, version: get(row, 8)? },
        fencing_token: token(row, 9)?,
        attempts: get(row, 10)?,
        newest_hash: hash_or_none(row, 11)?,
        next_resubmit_at: time_or_none(row, 12)?,
        resubmits: get(row, 13)?,
        last_error: text(row, 14)?,
        mined: mined_in(row, 15, 26)?,
        valid_until: time_or_none(row, 21)?,
        created_at: time(row, 22)?,
        updated_at: time(row, 23)?,
        finished_at: time_or_none(row, 24)?,
        diagnosis: text(row, 25)?,
    })
}

/// An open transaction, with its attempts from elsewhere.
pub(crate) fn open_tx(row: &Row<'_>) -> Decoded<OpenTx> {
    let (since, resends) = (time_or_none(row, 30)?, get::<Option<u32>>(row, 31)?);
    let patience = since.zip(resends).map(|(since, resends)| Patience { since, resends });
    let (new_fork, unproven_since) = (get(row, 32)?, time_or_none(row, 33)?);
    let (record, attempts) = (tx_record(row)?, Vec::new());
    Ok(OpenTx { record, attempts, patience, unproven_since, new_fork })
}

fn mined_in(row: &Row<'_>, at: usize, details_at: usize) -> Decoded<Option<MinedIn>> {
    let Some(tx_hash) = hash_or_none(row, at)? else { return Ok(None) };
    Ok(Some(MinedIn {
        tx_hash,
        block_number: count(row, at + 1)?,
        block_hash: hash(row, at + 2)?,
        gas_used: count(row, at + 3)?,
        succeeded: get(row, at + 4)?,
        revert_reason: text(row, at + 5)?,
        details: details(row, details_at)?,
    }))
}

/// Everything is null in rows of versions that did not keep it.
fn details(row: &Row<'_>, at: usize) -> Decoded<ReceiptDetails> {
    let price: Option<i64> = get(row, at + 1)?;
    let l1_fee: Option<String> = get(row, at + 2)?;
    let read =
        |fee: String| fee.parse().map(Wei).map_err(|_| Fault::defect(format!("l1_fee {fee}")));
    Ok(ReceiptDetails {
        transaction_index: get(row, at)?,
        effective_gas_price: price.map(GasPrice::from_i64).transpose()?,
        l1_fee: l1_fee.map(read).transpose()?,
        contract_address: get::<Option<[u8; 20]>>(row, at + 3)?.map(Address::new),
    })
}

pub(crate) fn attempt(row: &Row<'_>) -> Decoded<Attempt> {
    let kind = get(row, 4)?;
    let priority: Option<i64> = get(row, 7)?;
    Ok(Attempt {
        tx_id: tx_id(row, 0)?,
        number: get(row, 1)?,
        tx_hash: hash(row, 2)?,
        raw: bytes(row, 3)?,
        kind: AttemptKind::from_code(kind)
            .ok_or_else(|| Fault::defect(format!("no kind {kind} of attempt")))?,
        fees: Fees {
            gas_limit: count(row, 5)?,
            max_fee: GasPrice::from_i64(get(row, 6)?)?,
            max_priority_fee: priority.map(GasPrice::from_i64).transpose()?,
        },
        created_at: time(row, 8)?,
    })
}

pub(crate) fn history_entry(row: &Row<'_>) -> Decoded<HistoryEntry> {
    let from: Option<i16> = get(row, 5)?;
    Ok(HistoryEntry {
        version: get(row, 0)?,
        at: time(row, 1)?,
        node: NodeId::from_stored(get(row, 2)?),
        token: token(row, 3)?,
        event: get(row, 4)?,
        from: from.map(stored_state).transpose()?,
        to: state(row, 6)?,
        detail: text(row, 7)?,
    })
}

pub(crate) fn submitter_entry(row: &Row<'_>) -> Decoded<SubmitterEntry> {
    Ok(SubmitterEntry {
        number: count(row, 0)?,
        at: time(row, 1)?,
        node: NodeId::from_stored(get(row, 2)?),
        token: token(row, 3)?,
        event: get(row, 4)?,
        detail: text(row, 5)?,
    })
}

pub(crate) fn confirmations(row: &Row<'_>) -> Decoded<Confirmations> {
    let joined: Vec<u8> = get(row, 1)?;
    let (hashes, rest) = joined.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(Fault::defect(format!("{} bytes are no list of hashes", joined.len())));
    }
    Ok(Confirmations {
        first_block: count(row, 0)?,
        hashes: hashes.iter().copied().map(TxHash::new).collect(),
        new_fork: get(row, 2)?,
    })
}

pub(crate) fn completion(row: &Row<'_>) -> Decoded<Completion> {
    Ok(Completion {
        seq: Seq::from_i64(get(row, 0)?)?,
        tx_id: tx_id(row, 1)?,
        submitter: submitter(row, 2)?,
        request_id: request_id(row, 4)?,
        state: state(row, 5)?,
        tx_hash: hash_or_none(row, 6)?,
        at: time(row, 7)?,
    })
}

pub(crate) fn feed_end(row: &Row<'_>) -> Decoded<Seq> {
    Ok(Seq::from_i64(get(row, 0)?)?)
}

pub(crate) fn outbox_event(row: &Row<'_>) -> Decoded<OutboxEvent> {
    Ok(OutboxEvent {
        id: get(row, 0)?,
        kind: get(row, 1)?,
        key: get(row, 2)?,
        tx_id: tx_id(row, 3)?,
        body: bytes(row, 4)?,
        created_at: time(row, 5)?,
    })
}

/// A reservation's own columns; whose it is the query knew.
pub(crate) fn reservation(row: &Row<'_>, submitter: Submitter) -> Decoded<Reservation> {
    Ok(Reservation {
        submitter,
        nonce: nonce(row, 0)?,
        state: ReservationState::from_code(get(row, 1)?)?,
        owner_token: Uuid::from_bytes(get(row, 2)?),
        deadline: time(row, 3)?,
        tx_hash: hash_or_none(row, 4)?,
        reason: text(row, 5)?,
    })
}
