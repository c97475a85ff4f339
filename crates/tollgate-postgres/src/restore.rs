//! Marks a database as restored from a backup. Implements [`RestoreStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::restore::{SEQ_STEP, TOKEN_STEP};
use tollgate_model::port::{RestoreOutcome, RestoreStore, RestoreSummary, StoreError};
use tollgate_model::sql::row::int;
use tollgate_model::time::micros;
use tollgate_model::{NodeId, Text};

use crate::db::Tx;
use crate::{PgStore, queries};

#[async_trait]
impl RestoreStore for PgStore {
    async fn mark_restored(
        &self,
        by: &NodeId,
        reason: &Text<500>,
        live_within: Duration,
    ) -> Result<RestoreOutcome, StoreError> {
        let tx = Tx::begin(self.pools.work().await?).await?;
        let live = tx.query_one(queries::RESTORE_LIVE, &[&micros(live_within)]).await?;
        let live = int(&live, "nodes")?;
        if live > 0 {
            tx.rollback().await?;
            return Ok(RestoreOutcome::NodesAlive(live));
        }
        tx.execute(queries::RESTORE_LEASES, &[&TOKEN_STEP]).await?;
        tx.execute(queries::RESTORE_NODES, &[]).await?;
        tx.execute(queries::RESTORE_PAUSE, &[&reason.as_str()]).await?;
        tx.execute(queries::RESTORE_HISTORY, &[&by.as_str(), &reason.as_str()]).await?;
        tx.execute(queries::RESTORE_FEED, &[&SEQ_STEP]).await?;
        tx.execute(queries::RESTORE_EVENTS, &[&SEQ_STEP]).await?;
        let row = tx.query_one(queries::RESTORE_SUMMARY, &[]).await?;
        let summary = RestoreSummary {
            accounts: int(&row, "accounts")?,
            queued: int(&row, "queued")?,
            in_flight: int(&row, "in_flight")?,
        };
        tx.commit().await?;
        Ok(RestoreOutcome::Marked(summary))
    }
}
