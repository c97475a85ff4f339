//! The facts that sections are judged by: read under locks, so true until the commit.

use futures_util::try_join;
use tokio_postgres::Statement;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{KnownRequest, RowVersion, Section, SectionFacts, StoreError};
use tollgate_model::{Nonce, Submitter};
use uuid::Uuid;

use crate::connection::Parameters;
use crate::db::Tx;
use crate::lease::SubmitterKeys;
use crate::row::Row;
use crate::{queries, row};

/// Reads and locks everything that sections are judged by, behind the guard. Facts of a section whose lease is not
/// valid prove nothing. `None` for a section that needs its submitter's row where there is none.
///
/// Only sections that open slots or change the cursor's row lock it; plain updates of one submitter
/// don't wait for each other.
pub(super) async fn gather(
    tx: &Tx,
    sections: &[&Section],
) -> Result<Vec<Option<SectionFacts>>, StoreError> {
    let with_cursor = sections.iter().filter(|section| needs_cursor(section));
    let cursors = SubmitterKeys::new(with_cursor.map(|section| &section.lease.submitter));
    let (of, requests) = keyed(sections, |section| {
        let ids = section.creates.iter().filter_map(|tx| tx.request_id.as_ref());
        ids.map(|request_id| request_id.stored()).collect()
    });
    let requesters = SubmitterKeys::new(of);
    let (_, rows) = keyed(sections, |section| {
        let slotted = section.updates.iter().filter(|update| update.slot.is_some());
        slotted.map(|update| update.tx_id.uuid()).collect::<Vec<Uuid>>()
    });
    let (of, nonces) = keyed(sections, |section| {
        let recycled = section.slots().filter(|slot| slot.recycled);
        recycled.map(|slot| slot.nonce.as_i64()).collect()
    });
    let takers = SubmitterKeys::new(of);

    // Prepared first: the statements must reach the server in this order, because a request is looked
    // up only after the cursor's lock has shut out every other creator.
    let lock_cursors = tx.prepare(queries::CURSOR_LOCK).await?;
    let find_requests = tx.prepare(queries::REQUEST_FIND).await?;
    let lock_rows = tx.prepare(queries::TX_LOCK).await?;
    let lock_recyclable = tx.prepare(queries::RECYCLABLE_LOCK).await?;
    let of_cursors: &Parameters<'_> = &[&cursors.chain_ids, &cursors.submitters];
    let of_requests: &Parameters<'_> = &[&requesters.chain_ids, &requesters.submitters, &requests];
    let of_rows: &Parameters<'_> = &[&rows];
    let of_nonces: &Parameters<'_> = &[&takers.chain_ids, &takers.submitters, &nonces];
    let (cursors, requests, rows, recyclable) = try_join!(
        fetch(tx, &lock_cursors, cursors.len(), of_cursors),
        fetch(tx, &find_requests, requests.len(), of_requests),
        fetch(tx, &lock_rows, rows.len(), of_rows),
        fetch(tx, &lock_recyclable, nonces.len(), of_nonces),
    )?;
    assemble(sections, &cursors, &requests, &rows, &recyclable)
}

/// The values that sections look up, each with its section's submitter.
fn keyed<'a, T>(
    sections: &[&'a Section],
    wanted: impl Fn(&'a Section) -> Vec<T>,
) -> (Vec<&'a Submitter>, Vec<T>) {
    let pairs = sections.iter().flat_map(|section| {
        wanted(section).into_iter().map(|value| (&section.lease.submitter, value))
    });
    pairs.unzip()
}

/// True if a section changes the submitter's row or depends on it.
fn needs_cursor(section: &Section) -> bool {
    section.cursor.is_some()
        || section.status.is_some()
        || section.mode.is_some()
        || !section.creates.is_empty()
}

/// Runs a query unless it has nothing to look for.
async fn fetch(
    tx: &Tx,
    statement: &Statement,
    wanted: usize,
    parameters: &Parameters<'_>,
) -> Result<Vec<Row>, StoreError> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    Ok(tx.fetch(statement, parameters).await?)
}

fn assemble(
    sections: &[&Section],
    cursors: &[Row],
    requests: &[Row],
    rows: &[Row],
    recyclable: &[Row],
) -> Result<Vec<Option<SectionFacts>>, StoreError> {
    let cursors = row::by_place(cursors, 0, |row| {
        Ok((row::nonce(row, "next_nonce")?, row::status(row)?, row::mode(row)?))
    })?;
    let requests: Vec<Option<KnownRequest>> = row::by_place(requests, 0, row::known_request)?;
    let rows: Vec<Option<(RowVersion, Submitter)>> =
        row::by_place(rows, 0, |row| Ok((row::row_version(row)?, row::submitter(row)?)))?;
    let recyclable: Vec<Option<()>> = row::by_place(recyclable, 0, |_| Ok(()))?;

    let mut cursors = cursors.into_iter().chain(std::iter::repeat(None));
    let mut requests = requests.into_iter().chain(std::iter::repeat(None));
    let mut rows = rows.into_iter().chain(std::iter::repeat(None));
    let mut recyclable = recyclable.into_iter().chain(std::iter::repeat(None));
    let facts = sections.iter().map(|section| {
        let submitter_row = match needs_cursor(section) {
            true => cursors.next().flatten(),
            false => Some((Nonce::MIN, SubmitterStatus::Active, Mode::Pipelined)),
        };
        let named = section.creates.iter().map(|tx| tx.request_id.as_ref());
        let known = named.map(|id| id.and_then(|_| requests.next().flatten())).collect();
        let slotted = section.updates.iter().filter(|update| update.slot.is_some());
        let own = |(row, of)| (of == section.lease.submitter).then_some(row);
        let slotted_rows = slotted.map(|_| rows.next().flatten().and_then(own)).collect();
        let recycled = section.slots().filter(|slot| slot.recycled);
        let recyclable = recycled.map(|_| recyclable.next().flatten().is_some()).collect();
        let (cursor, status, mode) = submitter_row?;
        Some(SectionFacts { cursor, status, mode, known, slotted_rows, recyclable })
    });
    Ok(facts.collect())
}
