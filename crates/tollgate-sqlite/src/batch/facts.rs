//! The facts that a section is judged by: read under the write lock, so true until the commit.

use rusqlite::params;
use tollgate_model::Submitter;
use tollgate_model::port::{
    KnownRequest, NewTx, RowVersion, Section, SectionFacts, Slot, TxUpdate,
};

use super::{cursor, stored};
use crate::db::Connection;
use crate::error::QueryError;
use crate::{queries, tx};

/// Reads the facts of one section; none if its submitter has no row.
pub(super) fn gather(
    conn: &Connection<'_>,
    section: &Section,
) -> Result<Option<SectionFacts>, QueryError> {
    let submitter = section.lease.submitter;
    let Some((cursor, status, mode)) = cursor(conn, submitter)? else { return Ok(None) };
    let known = section.creates.iter().map(|new| known(conn, submitter, new));
    let slotted = section.updates.iter().filter(|update| update.slot.is_some());
    let slotted_rows = slotted.map(|update| own_row(conn, submitter, update));
    let recycled = section.slots().filter(|slot| slot.recycled);
    let recyclable = recycled.map(|slot| is_recyclable(conn, submitter, slot));
    Ok(Some(SectionFacts {
        cursor,
        status,
        mode,
        known: known.collect::<Result<_, _>>()?,
        slotted_rows: slotted_rows.collect::<Result<_, _>>()?,
        recyclable: recyclable.collect::<Result<_, _>>()?,
    }))
}

fn known(
    conn: &Connection<'_>,
    submitter: Submitter,
    new: &NewTx,
) -> Result<Option<KnownRequest>, QueryError> {
    match &new.request_id {
        Some(request_id) => tx::known_request(conn, submitter, request_id),
        None => Ok(None),
    }
}

/// State and version of an update's row, if it is the submitter's.
fn own_row(
    conn: &Connection<'_>,
    submitter: Submitter,
    update: &TxUpdate,
) -> Result<Option<RowVersion>, QueryError> {
    let row = stored(conn, update.tx_id)?;
    Ok(row.filter(|(of, _)| *of == submitter).map(|(_, seen)| seen))
}

/// I3: true if the nonce of a recycled slot is recyclable.
fn is_recyclable(
    conn: &Connection<'_>,
    Submitter { chain_id, address }: Submitter,
    slot: &Slot,
) -> Result<bool, QueryError> {
    let params = params![chain_id.as_i64(), address.as_slice(), slot.nonce.as_i64()];
    conn.exists(queries::RECYCLABLE_LOCK, params)
}
