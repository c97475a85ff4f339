//! Writes the sections that were accepted, and commits.

use std::time::SystemTime;

use futures_util::future::join_all;
use futures_util::join;
use tollgate_model::event::{EventKinds, EventLog};
use tollgate_model::port::{
    Checkpoint, CreateAnswer, FencedBatch, Lease, Section, SectionOutcome, StoreError,
    SubmitterAuditEntry, SubmitterWait, UpdateAnswer,
};
use tollgate_model::sql::Query;
use tollgate_model::{NodeId, Timestamp};

use super::WriteError;
use super::columns::{self, Applied, Columns, Create, Update};
use crate::connection::Parameters;
use crate::db::Tx;
use crate::error::commit_failed;
use crate::lease::key;
use crate::row::{Row, SqlRow};
use crate::{PgStore, queries, row};

/// A section that is to be written, its place in the batch, and the answers to its creates.
pub(super) type Accepted<'a> = (usize, &'a Section, Vec<CreateAnswer>);

/// Writes and commits sections; returns the outcome of each by its place.
pub(super) async fn write(
    store: &PgStore,
    tx: Tx,
    batch: &FencedBatch,
    at: Timestamp,
    accepted: Vec<Accepted<'_>>,
) -> Result<Vec<(usize, SectionOutcome)>, WriteError> {
    let node = batch.node();
    change_submitters(&tx, node, &accepted).await?;
    let creates = created(&accepted);
    let updates = all_updates(&accepted);
    let rows = columns::updates(&updates);
    let changed = match rows.rows {
        0 => Vec::new(),
        _ => tx.query_all(queries::TX_UPDATE, &rows.parameters()).await?,
    };
    let (applied, answers) = read_changes(&updates, &changed)?;
    let events = events(batch.events(), &accepted, &creates, &applied);
    insert(&tx, node, at, &accepted, &creates, &applied, &events).await?;
    let (stuck, completions) = (columns::stuck(&applied), columns::completions(&applied));
    let number_stuck = match stuck.rows {
        0 => None,
        _ => Some(tx.prepare(queries::STUCK_INSERT).await?),
    };
    let number = tx.prepare(queries::COMPLETION_INSERT).await?;

    store.checkpoints.reached(Checkpoint::BatchWritten).await;
    // I10: the counter is locked last, and the commit is sent right behind it.
    let (stuck, parameters) = (stuck.parameters(), completions.parameters());
    let note_stuck = async {
        match &number_stuck {
            None => Ok(0),
            Some(number) => tx.send(number, &stuck).await,
        }
    };
    let complete = async {
        match completions.rows {
            0 => Ok(0),
            _ => tx.send(&number, &parameters).await,
        }
    };
    let (noted, completed, committed) = join!(note_stuck, complete, tx.batch_execute("commit"));
    // I6: checked first. If the connection ended before both answers, it may have ended after the commit.
    committed.map_err(commit_failed)?;
    noted.and(completed).map_err(|error| match error.server_report() {
        // The statement failed the transaction, so the server answered the commit by rolling back.
        Some(_) => WriteError::from(error),
        // Its answer came too late, and the commit may have happened.
        None => commit_failed(error).into(),
    })?;
    store.metrics.tollgate.store_batch_statements.observe_count(tx.statements());
    tx.finished();
    store.checkpoints.reached(Checkpoint::BatchCommitted).await;

    let mut answers = answers.into_iter();
    let outcomes = accepted.into_iter().map(|(place, section, creates)| {
        let updates = answers.by_ref().take(section.updates.len()).collect();
        (place, SectionOutcome::Committed { at, creates, updates })
    });
    Ok(outcomes.collect())
}

/// The creates that are new.
fn created<'a>(accepted: &[Accepted<'a>]) -> Vec<Create<'a>> {
    let answered = accepted.iter().flat_map(|(_, section, answers)| {
        section.creates.iter().zip(answers).map(|(tx, answer)| (Create { section, tx }, answer))
    });
    let new = answered.filter(|(_, answer)| **answer == CreateAnswer::Created);
    new.map(|(create, _)| create).collect()
}

fn all_updates<'a>(accepted: &[Accepted<'a>]) -> Vec<Update<'a>> {
    let sections = accepted.iter().map(|(_, section, _)| *section);
    sections
        .flat_map(|section| section.updates.iter().map(move |update| Update { section, update }))
        .collect()
}

/// The updates that were applied, and the answer to each.
fn read_changes<'a>(
    updates: &[Update<'a>],
    changed: &[Row],
) -> Result<(Vec<Applied<'a>>, Vec<UpdateAnswer>), StoreError> {
    let mut answers = vec![UpdateAnswer::Lost; updates.len()];
    let mut applied = Vec::with_capacity(changed.len());
    for row in changed {
        let place = row::place(row)?;
        let Update { section, update } = updates[place];
        answers[place] = UpdateAnswer::Applied;
        applied.push(Applied {
            section,
            update,
            attempts: row::int(row, "attempts")?,
            request_id: row.text("request_id")?.map(str::to_owned),
            mined_hash: row::optional_hash(row, "mined_hash")?,
            block: row::mined_block(row)?,
        });
    }
    Ok((applied, answers))
}

/// The events of what was written, in the order of the changes.
fn events(
    kinds: EventKinds,
    accepted: &[Accepted<'_>],
    creates: &[Create<'_>],
    applied: &[Applied<'_>],
) -> EventLog {
    let mut log = EventLog::new(kinds);
    for Create { section, tx } in creates {
        log.created(section.lease.submitter, tx);
    }
    for Applied { section, update, request_id, mined_hash, block, .. } in applied {
        let mined = mined_hash.zip(*block).map(|(hash, (number, block))| (hash, number, block));
        log.changed(section.lease.submitter, update, request_id.as_deref(), mined);
    }
    for (_, section, _) in accepted {
        if let Some(change) = &section.status {
            log.status_changed(section.lease.submitter, change);
        }
    }
    log
}

/// Writes the events of a batch as one row, without a number: they get theirs after the commit.
async fn insert_events(tx: &Tx, log: &EventLog) -> Result<(), WriteError> {
    let Some((count, body)) = log.finish() else { return Ok(()) };
    let written = tx.execute(queries::OUTBOX_INSERT, &[&i64::from(count), &body]).await?;
    expect_rows("outbox_insert", written, 1)
}

/// Writes everything but the completions; the statements don't wait for each other.
async fn insert(
    tx: &Tx,
    node: &NodeId,
    at: Timestamp,
    accepted: &[Accepted<'_>],
    creates: &[Create<'_>],
    applied: &[Applied<'_>],
    events: &EventLog,
) -> Result<(), WriteError> {
    let sections = accepted.iter().map(|(_, section, _)| *section);
    let ended = columns::ended(applied);
    let puts = join_all([
        put(tx, queries::TX_INSERT, columns::transactions(creates, at)),
        put(tx, queries::ATTEMPT_INSERT, columns::attempts(creates, applied)),
        put(tx, queries::HISTORY_INSERT, columns::history(node, creates, applied)),
        put(tx, queries::CURSOR_MOVE, columns::cursors(sections)),
        put(tx, queries::RECYCLABLE_TAKE, columns::recycled_slots(creates, applied)),
        put(tx, queries::SLOT_FREE, columns::freed_slots(applied)),
        put(tx, queries::CONFIRMATION_PUT, columns::confirmations(applied)),
        put(tx, queries::DIAGNOSIS_PUT, columns::diagnoses(applied)),
        put(tx, queries::TRACE_PUT, columns::traces(creates)),
        put(tx, queries::RECEIPT_PUT, columns::receipts(applied)),
        put(tx, queries::PATIENCE_PUT, columns::patience(applied)),
        put(tx, queries::UNPROVEN_PUT, columns::unproven(applied)),
    ]);
    let deletes = join_all([
        delete(tx, queries::PATIENCE_DELETE, &ended),
        delete(tx, queries::UNPROVEN_DELETE, &ended),
    ]);
    let (puts, deletes, noted) = join!(puts, deletes, insert_events(tx, events));
    first_cause(puts.into_iter().chain(deletes).chain([noted]))
}

/// The error to report of statements that did not wait for each other. One that is refused fails those behind it,
/// whose errors say nothing, and which of them is heard of first is chance.
fn first_cause(done: impl IntoIterator<Item = Result<(), WriteError>>) -> Result<(), WriteError> {
    let mut failed: Vec<_> = done.into_iter().filter_map(Result::err).collect();
    let refused = failed.iter().position(|error| matches!(error, WriteError::Refused(_)));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.swap_remove(refused.unwrap_or(0))),
    }
}

/// Runs a statement unless it has no rows; every row must be written.
async fn put(tx: &Tx, query: Query, columns: Columns<'_>) -> Result<(), WriteError> {
    if columns.rows == 0 {
        return Ok(());
    }
    let written = tx.execute(query, &columns.parameters()).await?;
    expect_rows(query.name(), written, columns.rows)
}

/// Deletes the rows of finished transactions, most of which have none.
async fn delete(tx: &Tx, query: Query, finished: &Columns<'_>) -> Result<(), WriteError> {
    if finished.rows > 0 {
        tx.execute(query, &finished.parameters()).await?;
    }
    Ok(())
}

/// Changes of status and mode, and entries of submitters' audit trails: rare, so one statement each.
async fn change_submitters(
    tx: &Tx,
    node: &NodeId,
    accepted: &[Accepted<'_>],
) -> Result<(), WriteError> {
    for (_, section, _) in accepted {
        let (chain_id, address) = key(&section.lease.submitter);
        if let Some(change) = &section.status {
            let (from, to, reason) = (change.from.code(), change.to.code(), change.reason.as_str());
            let parameters: &Parameters<'_> = &[&chain_id, &address, &from, &to, &reason];
            expect_rows("status", tx.execute(queries::STATUS_CHANGE, parameters).await?, 1)?;
        }
        if let Some(change) = &section.mode {
            let (from, to) = (change.from.code(), change.to.code());
            let parameters: &Parameters<'_> = &[&chain_id, &address, &from, &to];
            expect_rows("mode", tx.execute(queries::MODE_CHANGE, parameters).await?, 1)?;
        }
        if let Some(waits) = &section.waits {
            replace_waits(tx, section.lease, waits).await?;
        }
        for note in section.notes() {
            insert_note(tx, node, section.lease, &note).await?;
        }
    }
    Ok(())
}

async fn replace_waits(tx: &Tx, lease: Lease, waits: &[SubmitterWait]) -> Result<(), WriteError> {
    let (chain_id, address) = key(&lease.submitter);
    tx.execute(queries::WAIT_DELETE, &[&chain_id, &address]).await?;
    let kinds: Vec<_> = waits.iter().map(|wait| wait.kind.code()).collect();
    let nonces: Vec<_> = waits.iter().map(|wait| wait.nonce.as_i64()).collect();
    let times: Vec<_> = waits.iter().map(|wait| SystemTime::from(wait.since)).collect();
    tx.execute(queries::WAIT_PUT, &[&chain_id, &address, &kinds, &nonces, &times]).await?;
    Ok(())
}

/// Adds an entry to a submitter's audit trail, under the lock of its cursor.
pub(crate) async fn insert_note(
    tx: &Tx,
    node: &NodeId,
    lease: Lease,
    note: &SubmitterAuditEntry,
) -> Result<(), StoreError> {
    let (chain_id, address) = key(&lease.submitter);
    let (node, token, detail) = (node.as_str(), lease.token.as_i64(), note.detail.as_str());
    tx.execute(
        queries::SUBMITTER_HISTORY_INSERT,
        &[&chain_id, &address, &node, &token, &note.event, &detail],
    )
    .await?;
    Ok(())
}

/// A write under locks that misses rows must not be committed.
fn expect_rows(what: &str, found: u64, expected: usize) -> Result<(), WriteError> {
    if usize::try_from(found) == Ok(expected) {
        return Ok(());
    }
    Err(WriteError::Refused(format!("{what}: {found} rows instead of {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_row_is_reported_whatever_else_failed_because_of_it() {
        let refused = || Err(WriteError::Refused("constraint".to_owned()));
        let aborted = || Err(StoreError::Unavailable("transaction is aborted".into()).into());
        for done in [[refused(), aborted(), Ok(())], [aborted(), Ok(()), refused()]] {
            let cause = first_cause(done);
            assert!(matches!(cause, Err(WriteError::Refused(why)) if why == "constraint"), "I14");
        }
        assert!(matches!(first_cause([Ok(()), aborted()]), Err(WriteError::Store(_))));
        assert!(first_cause([Ok(()), Ok(())]).is_ok());
    }
}
