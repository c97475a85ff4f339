//! Pages: transactions for people, open work for a new owner, submitters with their load.

use rusqlite::params;
use tollgate_model::port::{
    Attempt, ListFilter, OpenTx, Page, SubmitterOverview, SubmitterRecord, TxRecord,
};
use tollgate_model::sql::page_query;
use tollgate_model::{Address, ChainId, Submitter, Timestamp, TxId};

use crate::db::Connection;
use crate::error::QueryError;
use crate::tx::key;
use crate::{queries, row};

/// Above every id: one byte longer than the highest of them.
const ABOVE_ALL: [u8; 17] = [0xff; 17];

/// A page of transactions, newest first.
pub(crate) fn transactions(
    conn: &Connection<'_>,
    filter: &ListFilter,
    after: Option<TxId>,
    page: Page,
) -> Result<Vec<TxRecord>, QueryError> {
    let pages = [queries::TX_PAGE, queries::TX_PAGE_OPEN, queries::TX_PAGE_FAILED];
    let Some((query, states)) = page_query(filter, pages) else { return Ok(Vec::new()) };
    let chain_id = filter.submitter.map(|submitter| submitter.chain_id).or(filter.chain_id);
    let address = filter.submitter.map(|submitter| submitter.address);
    let below = filter.below(after).map(|tx_id| tx_id.uuid().into_bytes());
    let lowest = filter.lowest_id().map(|tx_id| tx_id.uuid().into_bytes());
    let params = params![
        chain_id.map(ChainId::as_i64),
        address.as_ref().map(|address| address.as_slice()),
        below.as_ref().map_or(ABOVE_ALL.as_slice(), |below| below.as_slice()),
        // A JSON array.
        states.map(|codes| format!("{codes:?}")),
        filter.from.map(Timestamp::unix_micros),
        filter.to.map(Timestamp::unix_micros),
        page.limit(),
        lowest.as_ref().map_or([].as_slice(), |lowest| lowest.as_slice())
    ];
    conn.all(query, params, |row| row::tx_record(row))
}

/// The attempts of one transaction.
pub(crate) fn attempts(conn: &Connection<'_>, tx_id: TxId) -> Result<Vec<Attempt>, QueryError> {
    conn.all(queries::ATTEMPT_OF, [tx_id.uuid().into_bytes()], |row| row::attempt(row))
}

/// A page of a submitter's open transactions with their attempts, oldest first.
pub(crate) fn open_work(
    conn: &Connection<'_>,
    Submitter { chain_id, address }: Submitter,
    after: Option<TxId>,
    page: Page,
) -> Result<Vec<OpenTx>, QueryError> {
    let after = after.map(|tx_id| tx_id.uuid().into_bytes());
    let after = after.as_ref().map_or([].as_slice(), |after| after.as_slice());
    let params = params![chain_id.as_i64(), address.as_slice(), after, page.limit()];
    let mut open = conn.all(queries::TX_OPEN_WORK, params, |row| row::open_tx(row))?;
    for tx in &mut open {
        tx.attempts = attempts(conn, tx.record.tx_id)?;
    }
    Ok(open)
}

/// A page of a chain's submitters with their owners and open work.
pub(crate) fn submitters(
    conn: &Connection<'_>,
    chain_id: ChainId,
    after: Option<Address>,
    page: Page,
) -> Result<Vec<SubmitterOverview>, QueryError> {
    let address = after.as_ref().map_or([].as_slice(), |address| address.as_slice());
    let params = params![chain_id.as_i64(), address, page.limit()];
    let found = conn.all(queries::SUBMITTER_PAGE, params, |row| {
        Ok((row::submitter_record(row)?, row::owner(row)?))
    })?;
    let with_depth = |(record, owner): (SubmitterRecord, _)| {
        let rows = conn.all(queries::SUBMITTER_DEPTH, key(record.submitter), |row| {
            Ok((row::state(row, "state")?, row::int(row, "depth")?, row::time(row, "oldest")?))
        })?;
        let oldest_open = rows.iter().map(|(_, _, oldest)| *oldest).min();
        let depth = rows.into_iter().map(|(state, count, _)| (state, count)).collect();
        Ok(SubmitterOverview { record, owner, depth, oldest_open })
    };
    found.into_iter().map(with_depth).collect()
}
