//! The last flights: updates, everything that goes with them, and the commit.

use std::time::SystemTime;

use futures_util::join;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tollgate_model::port::{
    Checkpoint, CreateAnswer, CursorMove, Evidence, Lease, ReceiptDetails, Section, SectionOutcome,
    StoreError, SubmitterNote, SubmitterWait, TxUpdate, UpdateAnswer,
};
use tollgate_model::{NodeId, Timestamp};

use super::Failure;
use super::columns::{
    Attempts, Completions, Confirmed, Cursors, Diagnosed, Ended, Events, Freed, History, Patiences,
    Receipts, Taken, Transactions, Unproven, Updates,
};
use super::flight::Flight;
use crate::PgStore;
use crate::db::Tx;
use crate::error::{commit_failed, failed};
use crate::lease::key;
use crate::{queries, row};

/// A section that fits, its place in the batch, and the answers to its creates.
pub(super) type Judged<'a> = (usize, &'a Section, Vec<CreateAnswer>);

/// Writes and commits sections that fit; returns the outcome of each by its place.
pub(super) async fn write(
    store: &PgStore,
    tx: Tx,
    node: &NodeId,
    at: Timestamp,
    judged: Vec<Judged<'_>>,
) -> Result<Vec<(usize, SectionOutcome)>, Failure> {
    let flight = Flight::prepare(store, &tx).await?;
    change_submitters(&tx, node, &judged).await?;
    let mut rows = Rows::new(node);
    for (_, section, creates) in &judged {
        rows.add_section(section, at, creates);
    }
    let changed = flight.update(&rows.updates).await?;
    let answers = rows.add_changed(&judged, &changed)?;
    flight.insert(&rows).await?;

    store.checkpoints.reached(Checkpoint::BatchWritten).await;
    // I10: the counter is locked last, and the commit is already on its way behind it.
    let client = tx.client()?;
    let (numbered, committed) =
        join!(flight.number(&rows.completions), client.batch_execute("commit"));
    // I6: looked at first. A connection that ended with both answers may have ended after the commit.
    committed.map_err(commit_failed)?;
    // Every statement before it was taken, so that was the commit's own answer, and not the "ok" with
    // which the server rolls a broken transaction back.
    numbered?;
    drop(flight);
    tx.finished();
    store.checkpoints.reached(Checkpoint::BatchCommitted).await;

    let outcomes = judged.into_iter().zip(answers).map(|((place, _, creates), updates)| {
        (place, SectionOutcome::Committed { at, creates, updates })
    });
    Ok(outcomes.collect())
}

/// Changes of status and mode, and what the audit trails of submitters get. Rare, so one statement each.
async fn change_submitters(tx: &Tx, node: &NodeId, judged: &[Judged<'_>]) -> Result<(), Failure> {
    for (_, section, _) in judged {
        if let Some(change) = &section.status {
            let statement = tx.prepared(queries::STATUS_CHANGE).await?;
            let (chain_id, address) = key(&section.lease.submitter);
            let (from, to, reason) = (change.from.code(), change.to.code(), change.reason.as_str());
            let changed = tx
                .client()?
                .execute(&statement, &[&chain_id, &address, &from, &to, &reason])
                .await
                .map_err(Failure::statement)?;
            expect_rows("status", changed, 1)?;
        }
        if let Some(change) = &section.mode {
            let statement = tx.prepared(queries::MODE_CHANGE).await?;
            let (chain_id, address) = key(&section.lease.submitter);
            let (from, to) = (change.from.code(), change.to.code());
            let changed = tx
                .client()?
                .execute(&statement, &[&chain_id, &address, &from, &to])
                .await
                .map_err(Failure::statement)?;
            expect_rows("mode", changed, 1)?;
        }
        if let Some(waits) = &section.waits {
            replace_waits(tx, section.lease, waits).await?;
        }
        for entry in section.notes() {
            note(tx, node, section.lease, &entry).await?;
        }
    }
    Ok(())
}

async fn replace_waits(tx: &Tx, lease: Lease, waits: &[SubmitterWait]) -> Result<(), Failure> {
    let (chain_id, address) = key(&lease.submitter);
    let delete = tx.prepared(queries::WAIT_DELETE).await?;
    let client = tx.client()?;
    client.execute(&delete, &[&chain_id, &address]).await.map_err(Failure::statement)?;
    let put = tx.prepared(queries::WAIT_PUT).await?;
    let kinds: Vec<_> = waits.iter().map(|wait| wait.kind.code()).collect();
    let nonces: Vec<_> = waits.iter().map(|wait| wait.nonce.as_i64()).collect();
    let times: Vec<_> = waits.iter().map(|wait| SystemTime::from(wait.since)).collect();
    let parameters: [&(dyn ToSql + Sync); 5] = [&chain_id, &address, &kinds, &nonces, &times];
    client.execute(&put, &parameters).await.map_err(Failure::statement)?;
    Ok(())
}

/// Adds an entry to a submitter's audit trail, under the lock of its cursor.
pub(crate) async fn note(
    tx: &Tx,
    node: &NodeId,
    lease: Lease,
    entry: &SubmitterNote,
) -> Result<(), StoreError> {
    let statement = tx.prepared(queries::SUBMITTER_HISTORY_INSERT).await?;
    let (chain_id, address) = key(&lease.submitter);
    let (node, token) = (node.as_str(), lease.token.as_i64());
    let SubmitterNote { event, detail } = entry;
    let detail = detail.as_str();
    let parameters: [&(dyn ToSql + Sync); 6] = [&chain_id, &address, &node, &token, event, &detail];
    tx.client()?.execute(&statement, &parameters).await.map_err(failed)?;
    Ok(())
}

/// A write under the locks that does not find its rows must not commit.
pub(super) fn expect_rows(what: &str, found: u64, expected: usize) -> Result<(), Failure> {
    if usize::try_from(found) == Ok(expected) {
        return Ok(());
    }
    Err(Failure::Refused(format!("{what}: {found} rows instead of {expected}")))
}

/// Everything that a batch writes, as columns.
pub(super) struct Rows<'a> {
    pub(super) transactions: Transactions<'a>,
    pub(super) attempts: Attempts<'a>,
    pub(super) history: History<'a>,
    pub(super) events: Events<'a>,
    pub(super) cursors: Cursors<'a>,
    pub(super) taken: Taken<'a>,
    pub(super) freed: Freed<'a>,
    pub(super) updates: Updates<'a>,
    pub(super) confirmed: Confirmed,
    pub(super) diagnosed: Diagnosed<'a>,
    pub(super) receipts: Receipts<'a>,
    pub(super) patience: Patiences,
    pub(super) unproven: Unproven,
    pub(super) ended: Ended,
    pub(super) completions: Completions<'a>,
}

impl<'a> Rows<'a> {
    fn new(node: &'a NodeId) -> Self {
        Self {
            transactions: Transactions::default(),
            attempts: Attempts::default(),
            history: History::new(node),
            events: Events::default(),
            cursors: Cursors::default(),
            taken: Taken::default(),
            freed: Freed::default(),
            updates: Updates::default(),
            confirmed: Confirmed::default(),
            diagnosed: Diagnosed::default(),
            receipts: Receipts::default(),
            patience: Patiences::default(),
            unproven: Unproven::default(),
            ended: Ended::default(),
            completions: Completions::default(),
        }
    }

    /// Adds what is known before the updates have run.
    fn add_section(&mut self, section: &'a Section, at: Timestamp, creates: &[CreateAnswer]) {
        let submitter = &section.lease.submitter;
        for (tx, answer) in section.creates.iter().zip(creates) {
            if *answer != CreateAnswer::Created {
                continue;
            }
            self.transactions.push(section, tx, at);
            self.history.push_created(section, tx);
            self.events.push(tx.tx_id, tx.outbox.as_ref());
            if let Some(slot) = &tx.slot {
                self.attempts.push(*submitter, tx.tx_id, 1, &slot.attempt);
                self.taken.push(submitter, slot);
            }
        }
        for update in &section.updates {
            self.updates.push(section, update);
        }
        if let Some(step @ CursorMove { from, to }) = section.cursor
            && from != to
        {
            self.cursors.push(submitter, step);
        }
    }

    /// Adds what goes with the updates that were applied; answers each update of each section.
    fn add_changed(
        &mut self,
        judged: &[Judged<'a>],
        changed: &[Row],
    ) -> Result<Vec<Vec<UpdateAnswer>>, StoreError> {
        let updates: Vec<(&'a Section, &'a TxUpdate)> = judged
            .iter()
            .flat_map(|(_, section, _)| section.updates.iter().map(|update| (*section, update)))
            .collect();
        let mut applied = vec![UpdateAnswer::Lost; updates.len()];
        for row in changed {
            let place = row::place(row)?;
            let (section, update) = updates[place];
            applied[place] = UpdateAnswer::Applied;
            self.add_applied(section, update, row)?;
        }
        let mut applied = applied.into_iter();
        let answers = judged
            .iter()
            .map(|(_, section, _)| applied.by_ref().take(section.updates.len()).collect());
        Ok(answers.collect())
    }

    fn add_applied(
        &mut self,
        section: &'a Section,
        update: &'a TxUpdate,
        row: &Row,
    ) -> Result<(), StoreError> {
        let submitter = &section.lease.submitter;
        self.history.push_updated(section, update);
        self.events.push(update.tx_id, update.outbox.as_ref());
        if let Some(attempt) = update.new_attempt() {
            self.attempts.push(*submitter, update.tx_id, row::get(row, "attempts")?, attempt);
        }
        if let Some(slot) = &update.slot {
            self.taken.push(submitter, slot);
        }
        if let Some(nonce) = update.freed_nonce {
            self.freed.push(submitter, nonce);
        }
        if let Some(list) = &update.confirmations {
            self.confirmed.push(update.tx_id, list);
        }
        if let Evidence::Set(mined) = &update.evidence
            && mined.details != ReceiptDetails::default()
        {
            self.receipts.push(update.tx_id, mined);
        }
        if let Some(diagnosis) = &update.diagnosis {
            self.diagnosed.push(update.tx_id, diagnosis.as_str());
        }
        if let Some(patience) = update.patience {
            self.patience.push(update.tx_id, patience);
        }
        if let Some(since) = update.unproven_since {
            self.unproven.push(update.tx_id, since);
        }
        if update.to().is_final() {
            let request_id = row::get(row, "request_id")?;
            let hash = row::get(row, "mined_hash")?;
            self.completions.push(submitter, update, request_id, hash);
            self.ended.push(update.tx_id);
        }
        Ok(())
    }
}
