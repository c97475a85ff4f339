//! The fenced batch: all critical writes go through here.
//!
//! Three groups of statements, each sent without waiting inside of it: (1) begin and the guard; (2) the
//! facts, under locks that last until the commit; (3) the writes and the commit. Updates go ahead of the
//! other writes, which depend on what they return. Locks are always taken in the order leases, cursors,
//! transactions, recycled nonces, counter, each in key order, so that batches can't deadlock.
//!
//! A batch of one section sends the first two groups as one: where its lease is lost, its facts are not looked at, and
//! there is no neighbour that could wait for their locks (I14).

mod columns;
mod facts;
mod write;

use futures_util::join;
use tokio_postgres::Statement;
use tollgate_model::port::{
    Cause, Checkpoint, FencedBatch, Judgement, Lease, Section, SectionOutcome, StoreError, judge,
};
use tollgate_model::{NodeId, Timestamp};

use crate::connection::Parameters;
use crate::db::Tx;
use crate::error::SqlError;
use crate::lease::LeaseKeys;
use crate::{PgStore, queries, row};
pub(crate) use write::insert_note;
use write::write;

/// The reason why sections were not written.
enum WriteError {
    /// The database refused a row.
    Refused(String),
    /// Anything else.
    Store(StoreError),
}

/// An error of a statement before the commit, which failed the transaction.
impl From<SqlError> for WriteError {
    fn from(error: SqlError) -> Self {
        match error.refused_values() {
            Some(why) => Self::Refused(why),
            None => Self::Store(error.into()),
        }
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The leases that a transaction holds.
struct Guarded {
    /// By place: which of the leases are valid. They stay so until the transaction ends (I1, I2).
    held: Vec<bool>,
    /// When they were checked, by the database's clock; without meaning if none is valid.
    at: Timestamp,
}

impl PgStore {
    /// Commits a batch. If the database refuses a row, the sections are tried one by one, so that the
    /// refused one does not fail the others (I14).
    pub(crate) async fn commit_sections(
        &self,
        batch: &FencedBatch,
    ) -> Result<Vec<SectionOutcome>, StoreError> {
        let sections: Vec<&Section> = batch.sections().iter().collect();
        if sections.is_empty() {
            return Ok(Vec::new());
        }
        match self.try_sections(batch, &sections).await {
            Ok(outcomes) => return Ok(outcomes),
            Err(WriteError::Store(error)) => return Err(error),
            Err(WriteError::Refused(why)) if sections.len() == 1 => {
                return Ok(vec![SectionOutcome::Refused(why)]);
            }
            Err(WriteError::Refused(_)) => {}
        }
        let mut outcomes = Vec::with_capacity(sections.len());
        for section in sections {
            match self.try_sections(batch, &[section]).await {
                Ok(outcome) => outcomes.extend(outcome),
                Err(WriteError::Refused(why)) => outcomes.push(SectionOutcome::Refused(why)),
                // Earlier sections may be durable by now, so the batch as a whole is unknown.
                Err(WriteError::Store(error)) => {
                    let why = format!("one section failed: {error}");
                    return Err(StoreError::CommitUnknown(Cause::new(why, error)));
                }
            }
        }
        Ok(outcomes)
    }

    async fn try_sections(
        &self,
        batch: &FencedBatch,
        sections: &[&Section],
    ) -> Result<Vec<SectionOutcome>, WriteError> {
        let node = batch.node();
        let leases: Vec<Lease> = sections.iter().map(|section| section.lease).collect();
        let tx = Tx::unbegun(self.pools.work().await?);
        let guard = tx.prepare(queries::LEASE_GUARD).await?;
        let guarding = begin_with(&tx, &guard, node, &leases);
        // A session runs its statements one after the other: the facts are read under the guard, sent along or not.
        let (guarded, sent_along) = match sections {
            [_] => {
                let (guarded, facts) = join!(guarding, facts::gather(&tx, sections));
                (guarded, Some(facts))
            }
            _ => (guarding.await, None),
        };
        let Guarded { held, at } = guarded?;
        self.checkpoints.reached(Checkpoint::BatchGuarded).await;

        let places: Vec<usize> = (0..sections.len()).filter(|place| held[*place]).collect();
        let guarded: Vec<&Section> = places.iter().map(|place| sections[*place]).collect();
        let facts = match sent_along {
            _ if guarded.is_empty() => Vec::new(),
            Some(facts) => facts?,
            None => facts::gather(&tx, &guarded).await?,
        };
        let mut outcomes = vec![SectionOutcome::Fenced; sections.len()];
        let mut accepted = Vec::new();
        for (place, facts) in places.into_iter().zip(facts) {
            let section = sections[place];
            match facts.map(|facts| judge(section, &facts)) {
                Some(Judgement::Write(creates)) => accepted.push((place, section, creates)),
                Some(Judgement::Stale(outcome)) => outcomes[place] = outcome,
                None => {
                    let unknown = StoreError::UnknownSubmitter(section.lease.submitter);
                    outcomes[place] = SectionOutcome::Refused(unknown.to_string());
                }
            }
        }
        if accepted.is_empty() {
            tx.rollback().await?;
            return Ok(outcomes);
        }
        for (place, outcome) in write(self, tx, batch, at, accepted).await? {
            outcomes[place] = outcome;
        }
        Ok(outcomes)
    }

    /// Begins a transaction that holds one lease, or fails if the lease is lost.
    pub(crate) async fn begin_owned(&self, node: &NodeId, lease: Lease) -> Result<Tx, StoreError> {
        let tx = Tx::unbegun(self.pools.work().await?);
        let guard = tx.prepare(queries::LEASE_GUARD).await?;
        if begin_with(&tx, &guard, node, &[lease]).await?.held == [true] {
            return Ok(tx);
        }
        tx.rollback().await?;
        Err(StoreError::Fenced(lease.submitter))
    }
}

/// Begins a transaction and checks leases in it.
async fn begin_with(
    tx: &Tx,
    guard: &Statement,
    node: &NodeId,
    leases: &[Lease],
) -> Result<Guarded, StoreError> {
    let LeaseKeys { chain_ids, submitters, tokens } = LeaseKeys::new(leases);
    let node = node.as_str();
    let parameters: &Parameters<'_> = &[&chain_ids, &submitters, &tokens, &node];
    let begin = tx.text(queries::BEGIN);
    let (begun, valid) = join!(tx.batch_execute(begin), tx.fetch(guard, parameters));
    begun?;
    let (mut held, mut at) = (vec![false; leases.len()], Timestamp::EPOCH);
    for row in &valid? {
        if let Some(held) = held.get_mut(row::place(row)?) {
            *held = true;
        }
        at = row::time(row, "at")?;
    }
    Ok(Guarded { held, at })
}
