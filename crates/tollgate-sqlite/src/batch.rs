//! The fenced batch: one write transaction for many submitters, and the read after a commit whose answer
//! was lost.
//!
//! First every section's lease is checked. Then, section by section and each under a savepoint of
//! its own, the facts are read (`facts`), the model judges by them, and what fits is written
//! (`write`). A section that is refused does not affect the others.

mod facts;
mod write;

use tollgate_model::event::EventLog;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    Checkpoint, CursorMove, FencedBatch, Judgement, Lease, ModeChange, RowVersion, Section,
    SectionOutcome, Settled, StatusChange, StoreError, SubmitterAuditEntry, SubmitterWait,
    UpdateAnswer, judge,
};
use tollgate_model::{NodeId, Nonce, Submitter, Timestamp, TxId};

use crate::db::{Connection, Db, End, WriteTx};
use crate::error::QueryError;
use crate::lease::{guard, guard_or_fenced};
use crate::tx::{self, key};
use crate::{queries, row};
use write::SectionWriter;

/// Writes a batch; an outcome for each section, in order.
pub(crate) async fn commit(
    db: &Db,
    batch: &FencedBatch,
) -> Result<Vec<SectionOutcome>, StoreError> {
    let batch = batch.clone();
    let outcomes = db.write_or_not(move |tx| run(tx, &batch)).await?;
    if outcomes.iter().any(is_committed) {
        db.reached(Checkpoint::BatchCommitted).await;
    }
    Ok(outcomes)
}

fn run(tx: &WriteTx<'_>, batch: &FencedBatch) -> Result<End<Vec<SectionOutcome>>, QueryError> {
    let node = batch.node();
    // I1, I2: the leases are checked under the write lock, which is held until the commit.
    let guards = batch.sections().iter().map(|section| guard(tx, node, section.lease));
    let held: Vec<bool> = guards.collect::<Result<_, _>>()?;
    tx.reached(Checkpoint::BatchGuarded);
    let at = now(tx)?;
    let mut outcomes = Vec::with_capacity(held.len());
    let mut events = EventLog::new(batch.events());
    for (section, held) in batch.sections().iter().zip(held) {
        outcomes.push(match held {
            true => isolated(tx, node, at, section, &mut events)?,
            false => SectionOutcome::Fenced,
        });
    }
    if !outcomes.iter().any(is_committed) {
        return Ok(End::RollBack(outcomes));
    }
    if let Some((count, body)) = events.finish() {
        tx.exec(queries::OUTBOX_INSERT, (count, body))?;
    }
    tx.reached(Checkpoint::BatchWritten);
    tx.measure_batch();
    Ok(End::Commit(outcomes))
}

fn now(conn: &Connection<'_>) -> Result<Timestamp, QueryError> {
    let now = conn.conn.prepare_cached("select db_now()")?.query_row([], |row| row.get(0))?;
    Ok(Timestamp::from_unix_micros(now))
}

fn is_committed(outcome: &SectionOutcome) -> bool {
    matches!(outcome, SectionOutcome::Committed { .. })
}

/// Writes a section under its own savepoint: an error undoes this section alone.
fn isolated(
    conn: &Connection<'_>,
    node: &NodeId,
    at: Timestamp,
    section: &Section,
    events: &mut EventLog,
) -> Result<SectionOutcome, QueryError> {
    conn.control("savepoint section")?;
    let mark = events.mark();
    let outcome = section_outcome(conn, node, at, section, events).or_else(|error| {
        let refusal = error.refusal().ok_or(error)?;
        conn.control("rollback to section")?;
        events.forget_after(mark);
        Ok::<_, QueryError>(SectionOutcome::Refused(refusal))
    })?;
    conn.control("release section")?;
    Ok(outcome)
}

fn section_outcome(
    conn: &Connection<'_>,
    node: &NodeId,
    at: Timestamp,
    section: &Section,
    events: &mut EventLog,
) -> Result<SectionOutcome, QueryError> {
    let Some(facts) = facts::gather(conn, section)? else {
        let unknown = StoreError::UnknownSubmitter(section.lease.submitter);
        return Ok(SectionOutcome::Refused(unknown.to_string()));
    };
    let creates = match judge(section, &facts) {
        Judgement::Write(creates) => creates,
        Judgement::Stale(outcome) => return Ok(outcome),
    };
    if let Some(change) = &section.mode
        && !change_mode(conn, section.lease.submitter, change)?
    {
        let problem = format!("{} has open or reserved work", section.lease.submitter);
        return Ok(SectionOutcome::Refused(problem));
    }
    let writer = SectionWriter { conn, node, lease: section.lease, at };
    for (new, answer) in section.creates.iter().zip(&creates) {
        writer.create(new, *answer, events)?;
    }
    let mut updates = Vec::with_capacity(section.updates.len());
    for update in &section.updates {
        let answer = writer.update(update, events)?;
        if update.slot.is_some() && answer == UpdateAnswer::Lost {
            return Err(QueryError::defect(format!(
                "{} changed under the write lock",
                update.tx_id
            )));
        }
        updates.push(answer);
    }
    if let Some(step) = section.cursor {
        move_cursor(conn, section.lease.submitter, step)?;
    }
    if let Some(change) = &section.status {
        change_status(conn, section.lease.submitter, change)?;
        events.status_changed(section.lease.submitter, change);
    }
    if let Some(waits) = &section.waits {
        replace_waits(conn, section.lease.submitter, waits)?;
    }
    for note in section.notes() {
        insert_note(conn, node, section.lease, &note)?;
    }
    Ok(SectionOutcome::Committed { at, creates, updates })
}

fn replace_waits(
    conn: &Connection<'_>,
    submitter: Submitter,
    waits: &[SubmitterWait],
) -> Result<(), QueryError> {
    let (chain_id, address) = key(submitter);
    conn.exec(queries::WAIT_DELETE, (chain_id, address))?;
    for SubmitterWait { kind, nonce, since } in waits {
        let (nonce, since) = (nonce.as_i64(), since.unix_micros());
        conn.exec(queries::WAIT_PUT, (chain_id, address, kind.code(), nonce, since))?;
    }
    Ok(())
}

/// The cursor, status and mode of a submitter.
pub(crate) fn cursor(
    conn: &Connection<'_>,
    submitter: Submitter,
) -> Result<Option<(Nonce, SubmitterStatus, Mode)>, QueryError> {
    conn.one(queries::CURSOR_LOCK, key(submitter), |row| {
        Ok((row::nonce(row, "next_nonce")?, row::status(row)?, row::mode(row)?))
    })
}

/// I4: by comparison, never back. The caller has looked under the same lock.
pub(crate) fn move_cursor(
    conn: &Connection<'_>,
    submitter: Submitter,
    CursorMove { from, to }: CursorMove,
) -> Result<(), QueryError> {
    let (chain_id, address) = key(submitter);
    let params = (chain_id, address, from.as_i64(), to.as_i64());
    let problem = || format!("the cursor of {submitter} can't go from {from} to {to}");
    conn.exec_one(queries::CURSOR_MOVE, params, problem)
}

fn change_status(
    conn: &Connection<'_>,
    submitter: Submitter,
    change: &StatusChange,
) -> Result<(), QueryError> {
    let (chain_id, address) = key(submitter);
    let (from, to, reason) = (change.from.code(), change.to.code(), change.reason.as_str());
    let problem = || format!("the status of {submitter} changed under the write lock");
    conn.exec_one(queries::STATUS_CHANGE, (chain_id, address, from, to, reason), problem)
}

/// I12: changes the mode, unless anything is open or reserved; returns true if it did.
fn change_mode(
    conn: &Connection<'_>,
    submitter: Submitter,
    change: &ModeChange,
) -> Result<bool, QueryError> {
    let (chain_id, address) = key(submitter);
    let params = (chain_id, address, change.from.code(), change.to.code());
    conn.exec(queries::MODE_CHANGE, params).map(|changed| changed == 1)
}

/// Adds an entry to a submitter's audit trail.
pub(crate) fn insert_note(
    conn: &Connection<'_>,
    node: &NodeId,
    lease: Lease,
    note: &SubmitterAuditEntry,
) -> Result<(), QueryError> {
    let (chain_id, address) = key(lease.submitter);
    let (node, token) = (node.as_str(), lease.token.as_i64());
    let params = (chain_id, address, node, token, note.event, note.detail.as_str());
    conn.exec(queries::SUBMITTER_HISTORY_INSERT, params).map(drop)
}

/// The submitter, state and version of a row.
fn stored(
    conn: &Connection<'_>,
    tx_id: TxId,
) -> Result<Option<(Submitter, RowVersion)>, QueryError> {
    conn.one(queries::TX_LOCK, [tx_id.uuid().into_bytes()], |row| {
        Ok((row::submitter(row)?, row::row_version(row)?))
    })
}

/// Reads the submitter and rows under the fence, after a commit with an unknown outcome.
///
/// It writes, too: after a commit that failed on the disk the log may hold frames that a recovery
/// would take for a commit. The next commit overwrites them; this is that commit, so what is
/// answered here stays true.
pub(crate) fn settle(
    tx: &WriteTx<'_>,
    node: &NodeId,
    lease: Lease,
    tx_ids: &[TxId],
) -> Result<Settled, QueryError> {
    guard_or_fenced(tx, node, lease)?;
    let submitter =
        tx::submitter(tx, lease.submitter)?.ok_or(StoreError::UnknownSubmitter(lease.submitter))?;
    let in_place = CursorMove { from: submitter.next_nonce, to: submitter.next_nonce };
    move_cursor(tx, lease.submitter, in_place)?;
    let rows = tx_ids.iter().map(|tx_id| Ok(stored(tx, *tx_id)?.map(|(_, version)| version)));
    Ok(Settled { submitter, rows: rows.collect::<Result<_, QueryError>>()? })
}
