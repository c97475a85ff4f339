//! The facts that a section is judged by: read under the write lock, so true until the commit.

use tollgate_model::Submitter;
use tollgate_model::port::{RowVersion, Section, SectionFacts};

use super::{cursor, stored};
use crate::db::Connection;
use crate::error::QueryError;
use crate::queries;
use crate::tx::{self, key};

/// Reads the facts of one section; `None` if its submitter has no row.
pub(super) fn gather(
    conn: &Connection<'_>,
    section: &Section,
) -> Result<Option<SectionFacts>, QueryError> {
    let submitter = section.lease.submitter;
    let Some((cursor, status, mode)) = cursor(conn, submitter)? else { return Ok(None) };
    let known = section.creates.iter().map(|new| match &new.request_id {
        Some(request_id) => tx::known_request(conn, submitter, request_id),
        None => Ok(None),
    });
    let slotted = section.updates.iter().filter(|update| update.slot.is_some());
    let own = |(of, row): (Submitter, RowVersion)| (of == submitter).then_some(row);
    let slotted_rows =
        slotted.map(|update| Ok::<_, QueryError>(stored(conn, update.tx_id)?.and_then(own)));
    let (chain_id, address) = key(submitter);
    let recycled = section.slots().filter(|slot| slot.recycled);
    let recyclable = recycled.map(|slot| {
        conn.exists(queries::RECYCLABLE_LOCK, (chain_id, address, slot.nonce.as_i64()))
    });
    Ok(Some(SectionFacts {
        cursor,
        status,
        mode,
        known: known.collect::<Result<_, _>>()?,
        slotted_rows: slotted_rows.collect::<Result<_, _>>()?,
        recyclable: recyclable.collect::<Result<_, _>>()?,
    }))
}
