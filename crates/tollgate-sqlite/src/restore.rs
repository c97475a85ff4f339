//! Marks a database as restored from a backup. Implements [`RestoreStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::restore::{SEQ_STEP, TOKEN_STEP};
use tollgate_model::port::{RestoreOutcome, RestoreStore, RestoreSummary, StoreError};
use tollgate_model::sql::row::int;
use tollgate_model::{NodeId, Text};

use crate::connection::span;
use crate::db::{Connection, End};
use crate::error::QueryError;
use crate::{SqliteStore, queries};

#[async_trait]
impl RestoreStore for SqliteStore {
    async fn mark_restored(
        &self,
        by: &NodeId,
        reason: &Text<500>,
        live_within: Duration,
    ) -> Result<RestoreOutcome, StoreError> {
        let (by, reason, live_within) = (by.clone(), reason.clone(), span(live_within));
        let marked = self.db.write_or_not(move |tx| {
            let live = tx.one(queries::RESTORE_LIVE, [live_within], |row| int(row, "nodes"));
            match live?.unwrap_or_default() {
                0 => Ok(End::Commit(RestoreOutcome::Marked(mark(tx, &by, &reason)?))),
                live => Ok(End::RollBack(RestoreOutcome::NodesAlive(live))),
            }
        });
        marked.await
    }
}

/// The changes, inside of a transaction that writes.
pub(crate) fn mark(
    tx: &Connection<'_>,
    by: &NodeId,
    reason: &Text<500>,
) -> Result<RestoreSummary, QueryError> {
    tx.exec(queries::RESTORE_LEASES, [TOKEN_STEP])?;
    tx.exec(queries::RESTORE_NODES, [])?;
    tx.exec(queries::RESTORE_PAUSE, [reason.as_str()])?;
    tx.exec(queries::RESTORE_HISTORY, [by.as_str(), reason.as_str()])?;
    tx.exec(queries::RESTORE_FEED, [SEQ_STEP])?;
    tx.exec(queries::RESTORE_EVENTS, [SEQ_STEP])?;
    let summary = tx.one(queries::RESTORE_SUMMARY, [], |row| {
        Ok(RestoreSummary {
            accounts: int(row, "accounts")?,
            queued: int(row, "queued")?,
            in_flight: int(row, "in_flight")?,
        })
    })?;
    Ok(summary.unwrap_or_default())
}
