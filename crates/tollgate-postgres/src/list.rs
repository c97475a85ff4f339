//! Pages: transactions for people, open work for a new owner, submitters with their load.

use std::collections::HashMap;
use std::time::SystemTime;

use tokio_postgres::types::ToSql;
use tollgate_model::port::{
    ListFilter, OpenTx, Page, StateFilter, StoreError, SubmitterOverview, TxRecord,
};
use tollgate_model::{Address, ChainId, Nonce, Submitter, Timestamp, TxId, TxState};
use uuid::Uuid;

use crate::PgStore;
use crate::db::prepared;
use crate::error::failed;
use crate::lease::{SubmitterKeys, key};
use crate::{queries, row};

impl PgStore {
    pub(crate) async fn list_page(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError> {
        if filter.excludes_everything() {
            return Ok(Vec::new());
        }
        let (sql, states) = way_to(&filter.states);
        let submitter = filter.submitter.as_ref().map(key);
        let chain_id = submitter.map(|(id, _)| id).or(filter.chain_id.map(|id| id.as_i64()));
        let address = submitter.map(|(_, address)| address);
        let (from, to) = (filter.from.map(SystemTime::from), filter.to.map(SystemTime::from));
        let below = filter.below(after).map(TxId::uuid);
        let lowest = filter.lowest_id().map(TxId::uuid);
        let limit = i64::from(page.limit());
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&below, &chain_id, &address, &states, &from, &to, &limit, &lowest];
        // Not from the cache of prepared statements: the plan must be made for these very
        // parameters, since which filters are there decides which index serves.
        let client = self.pools.work().await?;
        let rows = client.query(sql, &parameters).await.map_err(failed)?;
        rows.iter().map(row::tx_record).collect()
    }

    pub(crate) async fn open_work_page(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let after = after.map(|id| id.uuid());
        let limit = i64::from(page.limit());
        let rows = {
            let client = self.pools.work().await?;
            let read = prepared(&client, queries::TX_OPEN_WORK).await?;
            client.query(&read, &[&chain_id, &address, &after, &limit]).await.map_err(failed)?
        };
        let mut open = rows.iter().map(row::open_tx).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<Uuid> = open.iter().map(|tx| tx.record.tx_id.uuid()).collect();
        let mut attempts = HashMap::<TxId, Vec<_>>::new();
        for attempt in self.attempts_of(&ids).await? {
            attempts.entry(attempt.tx_id).or_default().push(attempt);
        }
        for tx in &mut open {
            tx.attempts = attempts.remove(&tx.record.tx_id).unwrap_or_default();
        }
        Ok(open)
    }

    pub(crate) async fn slot_page(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let (from, limit) = (from.as_i64(), i64::from(page.limit()));
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::TX_SLOTS).await?;
        let rows = client.query(&read, &[&chain_id, &address, &from, &limit]).await;
        rows.map_err(failed)?.iter().map(|row| row::nonce(row, "nonce")).collect()
    }

    pub(crate) async fn submitter_page(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError> {
        let chain_id = chain_id.as_i64();
        let address = after.as_ref().map_or(&[][..], |after| after.as_slice());
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::SUBMITTER_PAGE).await?;
        let limit = i64::from(page.limit());
        let rows = client.query(&read, &[&chain_id, &address, &limit]).await.map_err(failed)?;
        let mut overviews = Vec::with_capacity(rows.len());
        for row in &rows {
            let (record, owner) = (row::submitter_record(row)?, row::owner(row)?);
            let (depth, oldest_open) = (Vec::new(), None);
            overviews.push(SubmitterOverview { record, owner, depth, oldest_open });
        }

        let submitters: Vec<_> = overviews.iter().map(|found| found.record.submitter).collect();
        let keys = SubmitterKeys::new(&submitters);
        let read = prepared(&client, queries::SUBMITTER_DEPTH).await?;
        let loads =
            client.query(&read, &[&keys.chain_ids, &keys.submitters]).await.map_err(failed)?;
        for load in &loads {
            let Some(overview) = overviews.get_mut(row::place(load)?) else { continue };
            let depth: i64 = row::get(load, "depth")?;
            overview.depth.push((row::state(load, "state")?, depth.unsigned_abs()));
            let oldest = Timestamp::from(row::get::<SystemTime>(load, "oldest")?);
            let older = overview.oldest_open.map_or(oldest, |known| known.min(oldest));
            overview.oldest_open = Some(older);
        }
        Ok(overviews)
    }
}

/// The statement that finds these states without walking what is finished, and their codes.
fn way_to(states: &StateFilter) -> (&'static str, Option<Vec<i16>>) {
    let StateFilter::Of(states) = states else { return (queries::TX_PAGE, None) };
    let codes = Some(states.iter().map(|state| state.code()).collect());
    let failed = |state: &TxState| matches!(state, TxState::Failed(_));
    if states.iter().all(|state| !state.is_final()) {
        (queries::TX_PAGE_OPEN, codes)
    } else if states.iter().all(failed) {
        (queries::TX_PAGE_FAILED, codes)
    } else {
        (queries::TX_PAGE, codes)
    }
}
