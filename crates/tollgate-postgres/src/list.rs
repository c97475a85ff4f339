//! Pages: transactions for people, open work for a new owner, submitters with their load.

use std::collections::HashMap;
use std::time::SystemTime;

use tollgate_model::port::{ListFilter, OpenTx, Page, StoreError, SubmitterOverview, TxRecord};
use tollgate_model::sql::page_query;
use tollgate_model::{Address, ChainId, Submitter, TxId};
use uuid::Uuid;

use crate::connection::Parameters;
use crate::db::{PLANNED_FOR_PARAMETERS, Pools, Tx};
use crate::lease::{SubmitterKeys, key};
use crate::{queries, row};

/// A page of transactions, newest first.
pub(crate) async fn transactions(
    pools: &Pools,
    filter: &ListFilter,
    after: Option<TxId>,
    page: Page,
) -> Result<Vec<TxRecord>, StoreError> {
    let pages = [queries::TX_PAGE, queries::TX_PAGE_OPEN, queries::TX_PAGE_FAILED];
    let Some((query, states)) = page_query(filter, pages) else { return Ok(Vec::new()) };
    let submitter = filter.submitter.as_ref().map(key);
    let chain_id = submitter.map(|(id, _)| id).or(filter.chain_id.map(|id| id.as_i64()));
    let address = submitter.map(|(_, address)| address);
    let (from, to) = (filter.from.map(SystemTime::from), filter.to.map(SystemTime::from));
    let below = filter.below(after).map(TxId::uuid);
    let lowest = filter.lowest_id().map(TxId::uuid);
    let limit = i64::from(page.limit());
    // Not a cached statement: its plan must be made for these parameters, since the filters that are
    // there decide which index serves.
    let tx = Tx::begin(pools.work().await?).await?;
    tx.batch_execute(PLANNED_FOR_PARAMETERS).await?;
    let parameters: &Parameters<'_> =
        &[&below, &chain_id, &address, &states, &from, &to, &limit, &lowest];
    let rows = tx.fetch(tx.text(query), parameters).await?;
    tx.commit().await?;
    rows.iter().map(row::tx_record).collect()
}

/// A page of a submitter's open transactions with their attempts, oldest first.
pub(crate) async fn open_work(
    pools: &Pools,
    submitter: Submitter,
    after: Option<TxId>,
    page: Page,
) -> Result<Vec<OpenTx>, StoreError> {
    let (chain_id, address) = key(&submitter);
    let (after, limit) = (after.map(TxId::uuid), i64::from(page.limit()));
    let work = pools.work().await?;
    let rows =
        work.query_all(queries::TX_OPEN_WORK, &[&chain_id, &address, &after, &limit]).await?;
    let mut open = rows.iter().map(row::open_tx).collect::<Result<Vec<_>, _>>()?;
    let ids: Vec<Uuid> = open.iter().map(|tx| tx.record.tx_id.uuid()).collect();
    let mut attempts = HashMap::<TxId, Vec<_>>::new();
    for row in &work.query_all(queries::ATTEMPT_OF, &[&ids]).await? {
        let attempt = row::attempt(row)?;
        attempts.entry(attempt.tx_id).or_default().push(attempt);
    }
    for tx in &mut open {
        tx.attempts = attempts.remove(&tx.record.tx_id).unwrap_or_default();
    }
    Ok(open)
}

/// A page of a chain's submitters with their owners and open work.
pub(crate) async fn submitters(
    pools: &Pools,
    chain_id: ChainId,
    after: Option<Address>,
    page: Page,
) -> Result<Vec<SubmitterOverview>, StoreError> {
    let (chain_id, limit) = (chain_id.as_i64(), i64::from(page.limit()));
    let address = after.as_ref().map_or(&[][..], |after| after.as_slice());
    let work = pools.work().await?;
    let mut overviews = Vec::new();
    for row in &work.query_all(queries::SUBMITTER_PAGE, &[&chain_id, &address, &limit]).await? {
        let (record, owner) = (row::submitter_record(row)?, row::owner(row)?);
        overviews.push(SubmitterOverview { record, owner, depth: Vec::new(), oldest_open: None });
    }
    let found: Vec<_> = overviews.iter().map(|overview| overview.record.submitter).collect();
    let keys = SubmitterKeys::new(&found);
    let keys: &Parameters<'_> = &[&keys.chain_ids, &keys.submitters];
    for row in &work.query_all(queries::SUBMITTER_DEPTH, keys).await? {
        let Some(overview) = overviews.get_mut(row::place(row)?) else { continue };
        overview.depth.push((row::state(row, "state")?, row::int(row, "depth")?));
        let oldest = row::time(row, "oldest")?;
        overview.oldest_open = Some(overview.oldest_open.map_or(oldest, |known| known.min(oldest)));
    }
    Ok(overviews)
}
