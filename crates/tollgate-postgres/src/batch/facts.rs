//! What is true of a batch's submitters, and stays true until the commit.

use futures_util::try_join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{KnownRequest, Section, SectionFacts, Seen, StoreError};
use tollgate_model::{Nonce, Submitter};

use crate::db::Tx;
use crate::error::failed;
use crate::lease::SubmitterKeys;
use crate::{queries, row};

/// Reads and locks, for sections whose leases stand, everything that they are judged by.
///
/// Only sections that open slots or change the cursor's row lock it; plain updates of one submitter
/// run side by side.
pub(super) async fn gather(
    tx: &Tx,
    sections: &[&Section],
) -> Result<Vec<SectionFacts>, StoreError> {
    let (cursors, requests, rows, pool) = (
        SubmitterKeys::new(sections.iter().filter(|s| needs_cursor(s)).map(|s| &s.lease.submitter)),
        Requests::of(sections),
        slotted_rows(sections),
        Pool::of(sections),
    );
    // Prepared first: the flight below must reach the server in this order, because a request is
    // looked for only after the cursor's lock has shut out everybody who might still create it.
    let lock_cursors = tx.prepared(queries::CURSOR_LOCK).await?;
    let find_requests = tx.prepared(queries::REQUEST_FIND).await?;
    let lock_rows = tx.prepared(queries::TX_LOCK).await?;
    let lock_pool = tx.prepared(queries::RECYCLABLE_LOCK).await?;
    let (cursors, requests, rows, pool) = try_join!(
        fetch(
            tx,
            &lock_cursors,
            cursors.chain_ids.len(),
            [&cursors.chain_ids, &cursors.submitters]
        ),
        fetch(
            tx,
            &find_requests,
            requests.texts.len(),
            [&requests.chain_ids, &requests.submitters, &requests.texts]
        ),
        fetch(tx, &lock_rows, rows.len(), [&rows]),
        fetch(tx, &lock_pool, pool.nonces.len(), [&pool.chain_ids, &pool.submitters, &pool.nonces]),
    )?;
    assemble(sections, &cursors, &requests, &rows, &pool)
}

/// Whether a section must have the submitter's row to itself.
fn needs_cursor(section: &Section) -> bool {
    section.cursor.is_some()
        || section.status.is_some()
        || section.mode.is_some()
        || !section.creates.is_empty()
}

/// Sends a query unless there is nothing to ask for.
async fn fetch<const N: usize>(
    tx: &Tx,
    statement: &Statement,
    asked: usize,
    parameters: [&(dyn ToSql + Sync); N],
) -> Result<Vec<Row>, StoreError> {
    if asked == 0 {
        return Ok(Vec::new());
    }
    tx.client()?.query(statement, &parameters).await.map_err(failed)
}

fn assemble(
    sections: &[&Section],
    cursors: &[Row],
    requests: &[Row],
    rows: &[Row],
    pool: &[Row],
) -> Result<Vec<SectionFacts>, StoreError> {
    let cursors = by_place(cursors, |row| {
        Ok((row::nonce(row, "next_nonce")?, row::status(row)?, row::mode(row)?))
    })?;
    let requests: Vec<Option<KnownRequest>> = by_place(requests, row::known_request)?;
    let rows: Vec<Option<(Seen, Submitter)>> =
        by_place(rows, |row| Ok((row::seen(row)?, row::submitter(row)?)))?;
    let pool: Vec<Option<()>> = by_place(pool, |_| Ok(()))?;

    let mut cursors = cursors.into_iter().chain(std::iter::repeat(None));
    let mut requests = requests.into_iter().chain(std::iter::repeat(None));
    let mut rows = rows.into_iter().chain(std::iter::repeat(None));
    let mut pool = pool.into_iter().chain(std::iter::repeat(None));
    sections
        .iter()
        .map(|section| {
            let submitter = section.lease.submitter;
            let (cursor, status, mode) = if needs_cursor(section) {
                cursors.next().flatten().ok_or(StoreError::UnknownSubmitter(submitter))?
            } else {
                (Nonce::MIN, SubmitterStatus::Active, Mode::Pipelined)
            };
            let own = |row: Option<(Seen, Submitter)>| {
                row.filter(|(_, of)| *of == submitter).map(|(seen, _)| seen)
            };
            Ok(SectionFacts {
                cursor,
                status,
                mode,
                known: section
                    .creates
                    .iter()
                    .map(|tx| tx.request_id.as_ref().and_then(|_| requests.next().flatten()))
                    .collect(),
                slotted_rows: section
                    .updates
                    .iter()
                    .filter(|update| update.slot.is_some())
                    .map(|_| own(rows.next().flatten()))
                    .collect(),
                recyclable: section
                    .slots()
                    .filter(|slot| slot.recycled)
                    .map(|_| pool.next().flatten().is_some())
                    .collect(),
            })
        })
        .collect()
}

/// Spreads rows over the places that they answer for.
fn by_place<T: Clone>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut spread = Vec::new();
    for row in rows {
        let place = row::place(row)?;
        if spread.len() <= place {
            spread.resize(place + 1, None);
        }
        spread[place] = Some(read(row)?);
    }
    Ok(spread)
}

/// The request ids of all creates, as columns.
struct Requests<'a> {
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    texts: Vec<&'a str>,
}

impl<'a> Requests<'a> {
    fn of(sections: &[&'a Section]) -> Self {
        let mut columns = Self { chain_ids: vec![], submitters: vec![], texts: vec![] };
        for section in sections {
            for request_id in section.creates.iter().filter_map(|tx| tx.request_id.as_ref()) {
                columns.chain_ids.push(section.lease.submitter.chain_id.as_i64());
                columns.submitters.push(section.lease.submitter.address.as_slice());
                columns.texts.push(request_id.as_str());
            }
        }
        columns
    }
}

fn slotted_rows(sections: &[&Section]) -> Vec<uuid::Uuid> {
    let updates = sections.iter().flat_map(|section| &section.updates);
    updates.filter(|update| update.slot.is_some()).map(|update| update.tx_id.uuid()).collect()
}

/// The recycled nonces that are wanted, as columns.
struct Pool<'a> {
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    nonces: Vec<i64>,
}

impl<'a> Pool<'a> {
    fn of(sections: &[&'a Section]) -> Self {
        let mut columns = Self { chain_ids: vec![], submitters: vec![], nonces: vec![] };
        for section in sections {
            for slot in section.slots().filter(|slot| slot.recycled) {
                columns.chain_ids.push(section.lease.submitter.chain_id.as_i64());
                columns.submitters.push(section.lease.submitter.address.as_slice());
                columns.nonces.push(slot.nonce.as_i64());
            }
        }
        columns
    }
}
