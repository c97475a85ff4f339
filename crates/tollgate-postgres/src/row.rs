//! Decodes rows by the names of their columns. A value that can't be decoded is a defect, never a panic.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use tollgate_model::ids::InvalidId;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::record::stored_state;
use tollgate_model::port::{
    Attempt, AttemptKind, Cause, Completion, Confirmations, Fees, HistoryEntry, KnownRequest,
    LineHead, MinedIn, OpenTx, OutboxEvent, Owner, ReceiptDetails, Reservation, ReservationState,
    Seen, StoreError, SubmitterEntry, SubmitterRecord, TxRecord,
};
use tollgate_model::resubmit::Patience;
use tollgate_model::{
    Address, B256, Bytes, ChainId, FencingToken, GasPrice, NodeId, Nonce, RequestId, Seq,
    Submitter, Text, Timestamp, TxId, TxState, Wei,
};
use uuid::Uuid;

/// Reads a column by name.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: &str) -> Result<T, StoreError> {
    let unreadable = |error| Cause::new(format!("column {column}: {error}"), error);
    row.try_get(column).map_err(|error| StoreError::Defect(unreadable(error)))
}

pub(crate) fn defect(problem: String) -> StoreError {
    StoreError::Defect(problem.into())
}

/// A value that this program can't have written.
pub(crate) fn unreadable(error: InvalidId) -> StoreError {
    StoreError::Defect(Cause::new(format!("stored value: {error}"), error))
}

/// What each place in the input got: `None` where no row answers for it.
pub(crate) fn by_place<T>(
    rows: &[Row],
    places: usize,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut read_rows = Vec::new();
    read_rows.resize_with(places, || None);
    for row in rows {
        let place = place(row)?;
        if read_rows.len() <= place {
            read_rows.resize_with(place + 1, || None);
        }
        read_rows[place] = Some(read(row)?);
    }
    Ok(read_rows)
}

/// The place in the input that a row answers for, counted from 0.
pub(crate) fn place(row: &Row) -> Result<usize, StoreError> {
    let place: i64 = get(row, "place")?;
    usize::try_from(place - 1).map_err(|_| defect(format!("place {place}")))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| defect(format!("{} bytes, not {N}", bytes.len())))
}

pub(crate) fn hash(row: &Row, column: &str) -> Result<B256, StoreError> {
    fixed(get::<&[u8]>(row, column)?).map(B256::new)
}

pub(crate) fn optional_hash(row: &Row, column: &str) -> Result<Option<B256>, StoreError> {
    get::<Option<&[u8]>>(row, column)?.map(|bytes| fixed(bytes).map(B256::new)).transpose()
}

fn bytes(row: &Row, column: &str) -> Result<Bytes, StoreError> {
    get::<&[u8]>(row, column).map(Bytes::copy_from_slice)
}

pub(crate) fn time(row: &Row, column: &str) -> Result<Timestamp, StoreError> {
    get::<SystemTime>(row, column).map(Timestamp::from)
}

fn optional_time(row: &Row, column: &str) -> Result<Option<Timestamp>, StoreError> {
    Ok(get::<Option<SystemTime>>(row, column)?.map(Timestamp::from))
}

fn text<const MAX: usize>(row: &Row, column: &str) -> Result<Option<Text<MAX>>, StoreError> {
    Ok(get::<Option<&str>>(row, column)?.map(Text::lossy))
}

fn count<T: TryFrom<i64>>(value: i64) -> Result<T, StoreError> {
    T::try_from(value).map_err(|_| defect(format!("{value} is out of range")))
}

pub(crate) fn submitter(row: &Row) -> Result<Submitter, StoreError> {
    let chain_id = ChainId::from_i64(get(row, "chain_id")?).map_err(unreadable)?;
    let address = Address::new(fixed(get(row, "submitter")?)?);
    Ok(Submitter::new(chain_id, address))
}

pub(crate) fn token(row: &Row) -> Result<FencingToken, StoreError> {
    FencingToken::from_i64(get(row, "fencing_token")?).map_err(unreadable)
}

pub(crate) fn nonce(row: &Row, column: &str) -> Result<Nonce, StoreError> {
    Nonce::from_i64(get(row, column)?).map_err(unreadable)
}

pub(crate) fn state(row: &Row, column: &str) -> Result<TxState, StoreError> {
    stored_state(get(row, column)?).map_err(unreadable)
}

pub(crate) fn tx_id(row: &Row) -> Result<TxId, StoreError> {
    get::<Uuid>(row, "tx_id").map(TxId::from_uuid)
}

pub(crate) fn seen(row: &Row) -> Result<Seen, StoreError> {
    let version = count(i64::from(get::<i32>(row, "version")?))?;
    Ok(Seen { state: state(row, "state")?, version })
}

pub(crate) fn status(row: &Row) -> Result<SubmitterStatus, StoreError> {
    let code: i16 = get(row, "status")?;
    SubmitterStatus::from_code(code).ok_or_else(|| defect(format!("submitter status {code}")))
}

pub(crate) fn mode(row: &Row) -> Result<Mode, StoreError> {
    let code: i16 = get(row, "mode")?;
    Mode::from_code(code).ok_or_else(|| defect(format!("mode {code}")))
}

fn request_id(row: &Row) -> Result<Option<RequestId>, StoreError> {
    let text: Option<String> = get(row, "request_id")?;
    text.map(RequestId::new).transpose().map_err(unreadable)
}

pub(crate) fn known_request(row: &Row) -> Result<KnownRequest, StoreError> {
    Ok(KnownRequest { tx_id: tx_id(row)?, payload_digest: hash(row, "payload_digest")? })
}

pub(crate) fn submitter_record(row: &Row) -> Result<SubmitterRecord, StoreError> {
    Ok(SubmitterRecord {
        submitter: submitter(row)?,
        next_nonce: nonce(row, "next_nonce")?,
        mode: mode(row)?,
        status: status(row)?,
        status_reason: text(row, "status_reason")?,
    })
}

/// The owner's columns of a row; `None` if there is no owner.
pub(crate) fn owner(row: &Row) -> Result<Option<Owner>, StoreError> {
    let Some(node) = get::<Option<String>>(row, "owner_node")? else { return Ok(None) };
    let remaining: i64 = get(row, "remaining_micros")?;
    Ok(Some(Owner {
        node: NodeId::from_stored(node),
        token: token(row)?,
        advertise_url: get(row, "advertise_url")?,
        remaining: Duration::from_micros(count(remaining)?),
    }))
}

pub(crate) fn tx_record(row: &Row) -> Result<TxRecord, StoreError> {
    Ok(TxRecord {
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        nonce: get::<Option<i64>>(row, "nonce")?
            .map(Nonce::from_i64)
            .transpose()
            .map_err(unreadable)?,
        payload: bytes(row, "payload")?,
        payload_digest: hash(row, "payload_digest")?,
        seen: seen(row)?,
        fencing_token: token(row)?,
        attempts: count(i64::from(get::<i16>(row, "attempts")?))?,
        newest_hash: optional_hash(row, "newest_hash")?,
        next_resubmit_at: optional_time(row, "next_resubmit_at")?,
        resubmits: count(i64::from(get::<i32>(row, "resubmits")?))?,
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
pub(crate) fn open_tx(row: &Row) -> Result<OpenTx, StoreError> {
    let since = optional_time(row, "patience_since")?;
    let resends: Option<i32> = get(row, "patience_resends")?;
    let resends = count(i64::from(resends.unwrap_or_default()))?;
    Ok(OpenTx {
        record: tx_record(row)?,
        attempts: Vec::new(),
        patience: since.map(|since| Patience { since, resends }),
        unproven_since: optional_time(row, "unproven_since")?,
        new_fork: get(row, "new_fork")?,
    })
}

fn mined_in(row: &Row) -> Result<Option<MinedIn>, StoreError> {
    let Some(tx_hash) = optional_hash(row, "mined_hash")? else { return Ok(None) };
    Ok(Some(MinedIn {
        tx_hash,
        block_number: count(get(row, "block_number")?)?,
        block_hash: hash(row, "block_hash")?,
        gas_used: count(get(row, "gas_used")?)?,
        succeeded: get(row, "succeeded")?,
        revert_reason: text(row, "revert_reason")?,
        details: details(row)?,
    }))
}

/// Null in the rows of versions that did not store it.
fn details(row: &Row) -> Result<ReceiptDetails, StoreError> {
    let price: Option<i64> = get(row, "effective_gas_price")?;
    let l1_fee: Option<&str> = get(row, "l1_fee")?;
    let read = |fee: &str| fee.parse().map(Wei).map_err(|_| defect(format!("l1_fee {fee}")));
    Ok(ReceiptDetails {
        transaction_index: get::<Option<i64>>(row, "transaction_index")?.map(count).transpose()?,
        effective_gas_price: price.map(GasPrice::from_i64).transpose().map_err(unreadable)?,
        l1_fee: l1_fee.map(read).transpose()?,
        contract_address: get::<Option<&[u8]>>(row, "contract_address")?
            .map(|bytes| fixed(bytes).map(Address::new))
            .transpose()?,
    })
}

pub(crate) fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    let kind: i16 = get(row, "kind")?;
    let price = |wei| GasPrice::from_i64(wei).map_err(unreadable);
    Ok(Attempt {
        tx_id: tx_id(row)?,
        number: count(i64::from(get::<i16>(row, "number")?))?,
        tx_hash: hash(row, "tx_hash")?,
        raw: bytes(row, "raw")?,
        kind: AttemptKind::from_code(kind).ok_or_else(|| defect(format!("attempt kind {kind}")))?,
        fees: Fees {
            gas_limit: count(get(row, "gas_limit")?)?,
            max_fee: price(get(row, "max_fee")?)?,
            max_priority_fee: get::<Option<i64>>(row, "max_priority_fee")?
                .map(price)
                .transpose()?,
        },
        created_at: time(row, "created_at")?,
    })
}

pub(crate) fn history_entry(row: &Row) -> Result<HistoryEntry, StoreError> {
    let from: Option<i16> = get(row, "from_state")?;
    Ok(HistoryEntry {
        version: count(i64::from(get::<i32>(row, "version")?))?,
        at: time(row, "at")?,
        node: NodeId::from_stored(get(row, "node")?),
        token: token(row)?,
        event: get(row, "event")?,
        from: from.map(stored_state).transpose().map_err(unreadable)?,
        to: state(row, "to_state")?,
        detail: text(row, "detail")?,
    })
}

pub(crate) fn completion(row: &Row) -> Result<Completion, StoreError> {
    Ok(Completion {
        seq: Seq::from_i64(get(row, "seq")?).map_err(unreadable)?,
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        state: state(row, "state")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        at: time(row, "at")?,
    })
}

pub(crate) fn confirmations(row: &Row) -> Result<Confirmations, StoreError> {
    let hashes: &[u8] = get(row, "hashes")?;
    Ok(Confirmations {
        first_block: count(get(row, "first_block")?)?,
        hashes: hashes.chunks_exact(B256::len_bytes()).map(B256::from_slice).collect(),
        new_fork: get(row, "new_fork")?,
    })
}

pub(crate) fn line_head(row: &Row) -> Result<LineHead, StoreError> {
    let (tx_id, nonce) = (tx_id(row)?, nonce(row, "nonce")?);
    Ok(LineHead { tx_id, nonce, state: state(row, "state")? })
}

pub(crate) fn feed_end(row: &Row) -> Result<Seq, StoreError> {
    Seq::from_i64(get(row, "last_seq")?).map_err(unreadable)
}

pub(crate) fn outbox_event(row: &Row) -> Result<OutboxEvent, StoreError> {
    Ok(OutboxEvent {
        id: get(row, "id")?,
        kind: get(row, "kind")?,
        key: get(row, "key")?,
        tx_id: tx_id(row)?,
        body: bytes(row, "body")?,
        created_at: time(row, "created_at")?,
    })
}

pub(crate) fn submitter_entry(row: &Row) -> Result<SubmitterEntry, StoreError> {
    Ok(SubmitterEntry {
        number: count(get(row, "number")?)?,
        at: time(row, "at")?,
        node: NodeId::from_stored(get(row, "node")?),
        token: token(row)?,
        event: get(row, "event")?,
        detail: text(row, "detail")?,
    })
}

pub(crate) fn reservation(row: &Row) -> Result<Reservation, StoreError> {
    Ok(Reservation {
        submitter: submitter(row)?,
        nonce: nonce(row, "nonce")?,
        state: ReservationState::from_code(get(row, "state")?).map_err(unreadable)?,
        owner_token: get(row, "owner_token")?,
        deadline: time(row, "deadline")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        reason: text(row, "reason")?,
    })
}
