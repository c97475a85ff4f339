//! The fenced batch: all critical writes go through here.
//!
//! Three flights, whatever the batch holds: (1) begin and the guard; (2) the facts, under locks
//! that last until the commit; (3) the writes and the commit (updates go ahead of the rest, because
//! what they return decides what is told about them). Locks are always taken in the order leases,
//! cursors, transactions, pool, counter, each in key order, so that batches can't wait in a circle.

mod columns;
mod facts;
mod flight;
mod write;

use futures_util::join;
use tokio_postgres::types::ToSql;
use tollgate_model::port::{
    Checkpoint, FencedBatch, Judgement, Lease, Section, SectionOutcome, StoreError, judge,
};
use tollgate_model::{NodeId, Timestamp};

use crate::PgStore;
use crate::db::{BEGIN, Tx};
use crate::error::{SqlError, failed, refused_values};
use crate::lease::LeaseKeys;
use crate::row;
pub(crate) use write::note;
use write::write;

/// Why sections were not written.
enum Failure {
    /// The database's own rules refused a row.
    Refused(String),
    /// Anything else.
    Failed(StoreError),
}

impl Failure {
    /// A statement before the commit failed, so the transaction did.
    fn statement(error: SqlError) -> Self {
        match refused_values(&error) {
            Some(why) => Self::Refused(why),
            None => Self::Failed(failed(error)),
        }
    }
}

/// A transaction that holds leases.
pub(crate) struct Guarded {
    pub(crate) tx: Tx,
    /// By place: which of the leases stand. They do until the transaction ends (I1, I2).
    pub(crate) held: Vec<bool>,
    /// When they were proved, by the database's clock; means nothing if none stands.
    pub(crate) at: Timestamp,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl PgStore {
    /// Commits a batch. If the database's own rules refuse it, its sections are tried one by one,
    /// so that the one that is to blame does not take its neighbours with it.
    pub(crate) async fn commit_batch(
        &self,
        batch: &FencedBatch,
    ) -> Result<Vec<SectionOutcome>, StoreError> {
        let sections: Vec<&Section> = batch.sections().iter().collect();
        if sections.is_empty() {
            return Ok(Vec::new());
        }
        match self.try_sections(batch.node(), &sections).await {
            Ok(outcomes) => return Ok(outcomes),
            Err(Failure::Failed(error)) => return Err(error),
            Err(Failure::Refused(why)) if sections.len() == 1 => {
                return Ok(vec![SectionOutcome::Refused(why)]);
            }
            Err(Failure::Refused(_)) => {}
        }
        let mut outcomes = Vec::with_capacity(sections.len());
        for section in sections {
            match self.try_sections(batch.node(), &[section]).await {
                Ok(outcome) => outcomes.extend(outcome),
                Err(Failure::Refused(why)) => outcomes.push(SectionOutcome::Refused(why)),
                // Some of it may be durable by now, so the batch as a whole is unknown.
                Err(Failure::Failed(error)) => {
                    return Err(StoreError::CommitUnknown(format!("one section failed: {error}")));
                }
            }
        }
        Ok(outcomes)
    }

    async fn try_sections(
        &self,
        node: &NodeId,
        sections: &[&Section],
    ) -> Result<Vec<SectionOutcome>, Failure> {
        let leases: Vec<Lease> = sections.iter().map(|section| section.lease).collect();
        let Guarded { tx, held, at } = self.begin_guarded(node, &leases).await?;
        self.checkpoints.reached(Checkpoint::BatchGuarded).await;

        let standing: Vec<usize> = (0..sections.len()).filter(|place| held[*place]).collect();
        let guarded: Vec<&Section> = standing.iter().map(|place| sections[*place]).collect();
        let mut outcomes = vec![SectionOutcome::Fenced; sections.len()];
        let mut fitting = Vec::new();
        for (place, facts) in standing.into_iter().zip(facts::gather(&tx, &guarded).await?) {
            match judge(sections[place], &facts) {
                Judgement::Write(creates) => fitting.push((place, sections[place], creates)),
                Judgement::Stale(outcome) => outcomes[place] = outcome,
            }
        }
        if fitting.is_empty() {
            tx.rollback().await?;
            return Ok(outcomes);
        }
        for (place, outcome) in write(self, tx, node, at, fitting).await? {
            outcomes[place] = outcome;
        }
        Ok(outcomes)
    }

    /// Begins a transaction and proves leases in it.
    pub(crate) async fn begin_guarded(
        &self,
        node: &NodeId,
        leases: &[Lease],
    ) -> Result<Guarded, StoreError> {
        let keys = LeaseKeys::new(leases);
        let tx = Tx::unbegun(self.pools.work().await?);
        let guard = tx.prepared(self.guard_sql()).await?;
        let client = tx.client()?;
        let node = node.as_str();
        let proof: [&(dyn ToSql + Sync); 4] =
            [&keys.chain_ids, &keys.submitters, &keys.tokens, &node];
        let (begun, proved) = join!(client.batch_execute(BEGIN), client.query(&guard, &proof));
        begun.map_err(failed)?;
        let (mut held, mut at) = (vec![false; leases.len()], Timestamp::EPOCH);
        for row in &proved.map_err(failed)? {
            if let Some(stands) = held.get_mut(row::place(row)?) {
                *stands = true;
            }
            at = row::time(row, "at")?;
        }
        Ok(Guarded { tx, held, at })
    }
}
