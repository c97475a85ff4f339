//! The fenced batch: one write transaction for many submitters, and the fresh look after a commit
//! whose answer was lost.
//!
//! First every section's lease is proved. Then, section by section and each under a savepoint of
//! its own, the facts are read (`facts`), the model judges by them, and what fits is written
//! (`write`). A section that is refused leaves its neighbours alone.

mod facts;
mod write;

use rusqlite::{Connection, params};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    Checkpoint, CursorMove, FencedBatch, Judgement, Lease, ModeChange, Section, SectionOutcome,
    Seen, Settled, StatusChange, StoreError, SubmitterNote, SubmitterWait, UpdateAnswer, judge,
};
use tollgate_model::{NodeId, Nonce, Submitter, Timestamp, TxId};

use crate::db::{Db, End, Scope, exec, one};
use crate::error::Fault;
use crate::lease::{guard, guard_or_fenced};
use crate::{queries, row, tx};
use write::Writer;

/// Writes a batch; an outcome for each section, in order.
pub(crate) async fn commit(
    db: &Db,
    batch: &FencedBatch,
) -> Result<Vec<SectionOutcome>, StoreError> {
    let batch = batch.clone();
    let outcomes = db.write_or_not(move |scope| run(scope, &batch)).await?;
    if outcomes.iter().any(is_committed) {
        db.reached(Checkpoint::BatchCommitted).await;
    }
    Ok(outcomes)
}

fn run(scope: &Scope<'_>, batch: &FencedBatch) -> Result<End<Vec<SectionOutcome>>, Fault> {
    let node = batch.node();
    // I1, I2: the leases are proved under the write lock, which is held until the commit.
    let guards = batch.sections().iter().map(|section| guard(scope, node, section.lease));
    let held: Vec<bool> = guards.collect::<Result<_, _>>()?;
    scope.reached(Checkpoint::BatchGuarded);
    let at = now(scope.conn)?;
    let mut outcomes = Vec::with_capacity(held.len());
    for (section, held) in batch.sections().iter().zip(held) {
        outcomes.push(if held {
            alone(scope.conn, node, at, section)?
        } else {
            SectionOutcome::Fenced
        });
    }
    if !outcomes.iter().any(is_committed) {
        return Ok(End::RollBack(outcomes));
    }
    scope.reached(Checkpoint::BatchWritten);
    Ok(End::Commit(outcomes))
}

fn now(conn: &Connection) -> Result<Timestamp, Fault> {
    let read = one(conn, "select db_now()", [], |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(read.map_or(Timestamp::EPOCH, Timestamp::from_unix_micros))
}

fn is_committed(outcome: &SectionOutcome) -> bool {
    matches!(outcome, SectionOutcome::Committed { .. })
}

/// A section under its own savepoint: what refuses it undoes it alone.
fn alone(
    conn: &Connection,
    node: &NodeId,
    at: Timestamp,
    section: &Section,
) -> Result<SectionOutcome, Fault> {
    exec(conn, "savepoint section", [])?;
    let outcome = section_outcome(conn, node, at, section).or_else(|fault| {
        let refusal = fault.refusal().ok_or(fault)?;
        exec(conn, "rollback to section", [])?;
        Ok::<_, Fault>(SectionOutcome::Refused(refusal))
    })?;
    exec(conn, "release section", [])?;
    Ok(outcome)
}

fn section_outcome(
    conn: &Connection,
    node: &NodeId,
    at: Timestamp,
    section: &Section,
) -> Result<SectionOutcome, Fault> {
    let Some(facts) = facts::gather(conn, section)? else {
        let problem = format!("submitter_cursor has no row for {}", section.lease.submitter);
        return Ok(SectionOutcome::Refused(problem));
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
    let writer = Writer { conn, node, lease: section.lease, at };
    for (new, answer) in section.creates.iter().zip(&creates) {
        writer.create(new, *answer)?;
    }
    let mut updates = Vec::with_capacity(section.updates.len());
    for update in &section.updates {
        let answer = writer.update(update)?;
        if update.slot.is_some() && answer == UpdateAnswer::Lost {
            return Err(Fault::defect(format!("{} moved under the write lock", update.tx_id)));
        }
        updates.push(answer);
    }
    if let Some(step) = section.cursor {
        move_cursor(conn, section.lease.submitter, step)?;
    }
    if let Some(change) = &section.status {
        change_status(conn, section.lease.submitter, change)?;
    }
    if let Some(waits) = &section.waits {
        replace_waits(conn, section.lease.submitter, waits)?;
    }
    for entry in section.notes() {
        note(conn, node, section.lease, &entry)?;
    }
    Ok(SectionOutcome::Committed { at, creates, updates })
}

fn replace_waits(
    conn: &Connection,
    Submitter { chain_id, address }: Submitter,
    waits: &[SubmitterWait],
) -> Result<(), Fault> {
    let (chain_id, address) = (chain_id.as_i64(), address.as_slice());
    exec(conn, queries::WAIT_DELETE, params![chain_id, address])?;
    for SubmitterWait { kind, nonce, since } in waits {
        let (nonce, since) = (nonce.as_i64(), since.unix_micros());
        exec(conn, queries::WAIT_PUT, params![chain_id, address, kind.code(), nonce, since])?;
    }
    Ok(())
}

/// Where the cursor is, whether the submitter takes work, and its mode.
pub(crate) fn cursor(
    conn: &Connection,
    Submitter { chain_id, address }: Submitter,
) -> Result<Option<(Nonce, SubmitterStatus, Mode)>, Fault> {
    let params = params![chain_id.as_i64(), address.as_slice()];
    one(conn, queries::CURSOR_LOCK, params, |row| {
        Ok((row::nonce(row, 0)?, row::status(row, 1)?, row::mode(row, 2)?))
    })
}

/// I4: by comparison, never back. The caller has looked under the same lock.
pub(crate) fn move_cursor(
    conn: &Connection,
    submitter: Submitter,
    CursorMove { from, to }: CursorMove,
) -> Result<(), Fault> {
    let Submitter { chain_id, address } = submitter;
    let params = params![chain_id.as_i64(), address.as_slice(), from.as_i64(), to.as_i64()];
    match exec(conn, queries::CURSOR_MOVE, params)? {
        1 => Ok(()),
        _ => Err(Fault::defect(format!("the cursor of {submitter} can't go from {from} to {to}"))),
    }
}

fn change_status(
    conn: &Connection,
    submitter: Submitter,
    change: &StatusChange,
) -> Result<(), Fault> {
    let Submitter { chain_id, address } = submitter;
    let params = params![
        chain_id.as_i64(),
        address.as_slice(),
        change.from.code(),
        change.to.code(),
        change.reason.as_str()
    ];
    match exec(conn, queries::STATUS_CHANGE, params)? {
        1 => Ok(()),
        _ => Err(Fault::defect(format!("the status of {submitter} changed under the write lock"))),
    }
}

/// I12: whether the mode has changed; it does not while anything is open or reserved.
fn change_mode(
    conn: &Connection,
    Submitter { chain_id, address }: Submitter,
    change: &ModeChange,
) -> Result<bool, Fault> {
    let (from, to) = (change.from.code(), change.to.code());
    let params = params![chain_id.as_i64(), address.as_slice(), from, to];
    exec(conn, queries::MODE_CHANGE, params).map(|changed| changed == 1)
}

/// Adds an entry to a submitter's audit trail.
pub(crate) fn note(
    conn: &Connection,
    node: &NodeId,
    lease: Lease,
    entry: &SubmitterNote,
) -> Result<(), Fault> {
    let Submitter { chain_id, address } = lease.submitter;
    let params = params![
        chain_id.as_i64(),
        address.as_slice(),
        node.as_str(),
        lease.token.as_i64(),
        entry.event,
        entry.detail.as_str()
    ];
    exec(conn, queries::SUBMITTER_HISTORY_INSERT, params).map(drop)
}

/// What a row is, and whose; none if it does not exist.
fn stored(conn: &Connection, tx_id: TxId) -> Result<Option<(Submitter, Seen)>, Fault> {
    one(conn, queries::TX_LOCK, [tx_id.uuid().into_bytes()], |row| {
        let seen = Seen { state: row::state(row, 2)?, version: row.get(3)? };
        Ok((row::submitter(row, 0)?, seen))
    })
}

/// A fresh look under the fence.
///
/// It writes, too: after a commit that failed on the disk the log may hold frames that a recovery
/// would take for a commit. The next commit overwrites them; this is that commit, so what is
/// answered here stays true.
pub(crate) fn settle(
    scope: &Scope<'_>,
    node: &NodeId,
    lease: Lease,
    tx_ids: &[TxId],
) -> Result<Settled, Fault> {
    guard_or_fenced(scope, node, lease)?;
    let submitter = tx::submitter(scope.conn, lease.submitter)?
        .ok_or(StoreError::UnknownSubmitter(lease.submitter))?;
    let in_place = CursorMove { from: submitter.next_nonce, to: submitter.next_nonce };
    move_cursor(scope.conn, lease.submitter, in_place)?;
    let rows = tx_ids.iter().map(|tx_id| Ok(stored(scope.conn, *tx_id)?.map(|(_, seen)| seen)));
    Ok(Settled { submitter, rows: rows.collect::<Result<_, Fault>>()? })
}
