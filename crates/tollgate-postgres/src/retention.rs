//! Removes finished transactions and reads what is kept of them. Implements [`RetentionStore`].

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{
    FinishedRecord, FinishedTx, Page, RemovedTx, RetentionStore, StoreError,
};
use tollgate_model::time::micros;
use tollgate_model::{NodeId, RequestId, Seq, Submitter, TxId};
use uuid::Uuid;

use crate::connection::Parameters;
use crate::db::Tx;
use crate::lease::key;
use crate::row::Row;
use crate::{PgStore, queries, row};

/// The longest age, in microseconds (1,000 years): the database has no time before 4713 BC.
const AGE_MAX: i64 = 1_000 * 365 * 86_400 * 1_000_000;

pub(crate) fn age_micros(age: Duration) -> i64 {
    micros(age).min(AGE_MAX)
}

#[async_trait]
impl RetentionStore for PgStore {
    async fn claim_retention(&self, node: &NodeId, term: Duration) -> Result<bool, StoreError> {
        let claim: &Parameters<'_> = &[&node.as_str(), &micros(term)];
        let held = self.pools.work().await?.query_opt(queries::RETENTION_CLAIM, claim).await?;
        Ok(held.is_some())
    }

    async fn finished(
        &self,
        after: Seq,
        age: Duration,
        page: Page,
    ) -> Result<Vec<FinishedTx>, StoreError> {
        let asked: &Parameters<'_> = &[&after.as_i64(), &i64::from(page.limit()), &age_micros(age)];
        self.pools.all(queries::RETENTION_PAGE, asked, row::finished_tx).await
    }

    async fn finished_records(&self, tx_ids: &[TxId]) -> Result<Vec<FinishedRecord>, StoreError> {
        let ids: Vec<Uuid> = tx_ids.iter().map(|id| id.uuid()).collect();
        let work = self.pools.work().await?;
        let mut attempts =
            grouped(&work.query_all(queries::ATTEMPT_OF, &[&ids]).await?, row::attempt)?;
        let page: &Parameters<'_> = &[&ids, &0_i32, &i64::from(Page::MAX)];
        let history = work.query_all(queries::HISTORY_PAGE, page).await?;
        let mut history = grouped(&history, row::history_entry)?;
        let lists = work.query_all(queries::CONFIRMATION_GET, &[&ids]).await?;
        let mut lists = grouped(&lists, row::confirmations)?;
        let records = work.query_all(queries::TX_GET, &[&ids]).await?;
        let whole = |row: &Row| {
            let record = row::tx_record(row)?;
            Ok(FinishedRecord {
                attempts: attempts.remove(&record.tx_id).unwrap_or_default(),
                history: history.remove(&record.tx_id).unwrap_or_default(),
                confirmations: lists.remove(&record.tx_id).unwrap_or_default().pop(),
                record,
            })
        };
        records.iter().map(whole).collect()
    }

    async fn remove_finished(&self, tx_ids: &[TxId], age: Duration) -> Result<u64, StoreError> {
        let ids: Vec<Uuid> = tx_ids.iter().map(|id| id.uuid()).collect();
        let tx = Tx::begin(self.pools.work().await?).await?;
        let taken = tx.query_all(queries::RETENTION_TAKE, &[&ids, &age_micros(age)]).await?;
        let ids = taken.iter().map(|row| row::tx_id(row).map(TxId::uuid));
        let ids = ids.collect::<Result<Vec<Uuid>, _>>()?;
        if ids.is_empty() {
            tx.rollback().await?;
            return Ok(0);
        }
        tx.execute(queries::REMOVED_INSERT, &[&ids]).await?;
        tx.execute(queries::REMOVED_SLOTS_PUT, &[&ids]).await?;
        for query in [
            queries::ATTEMPT_DELETE,
            queries::HISTORY_DELETE,
            queries::CONFIRMATION_DELETE,
            queries::RECEIPT_DELETE,
            queries::DIAGNOSIS_DELETE,
            queries::TRACE_DELETE,
            queries::TX_DELETE,
        ] {
            tx.execute(query, &[&ids]).await?;
        }
        let mut through = Seq::MIN;
        for row in &tx.query_all(queries::COMPLETION_DELETE, &[&ids]).await? {
            through = through.max(row::seq(row, "seq")?);
        }
        tx.execute(queries::STUCK_DELETE, &[&through.as_i64()]).await?;
        tx.execute(queries::RETENTION_ADVANCE, &[&through.as_i64()]).await?;
        tx.commit().await?;
        Ok(ids.len() as u64)
    }

    async fn removed(&self, tx_id: TxId) -> Result<Option<RemovedTx>, StoreError> {
        self.pools.one(queries::REMOVED_GET, &[&tx_id.uuid()], row::removed_tx).await
    }

    async fn removed_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<RemovedTx>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let request: &Parameters<'_> = &[&chain_id, &address, &request_id.stored()];
        self.pools.one(queries::REMOVED_BY_REQUEST, request, row::removed_tx).await
    }

    async fn forget_removed(&self, age: Duration, page: Page) -> Result<u64, StoreError> {
        let oldest: &Parameters<'_> = &[&age_micros(age), &i64::from(page.limit())];
        Ok(self.pools.work().await?.execute(queries::REMOVED_FORGET, oldest).await?)
    }
}

/// The rows of each transaction, in the order of the rows.
fn grouped<T>(
    rows: &[Row],
    decode: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<HashMap<TxId, Vec<T>>, StoreError> {
    let mut groups = HashMap::<TxId, Vec<T>>::new();
    for row in rows {
        groups.entry(row::tx_id(row)?).or_default().push(decode(row)?);
    }
    Ok(groups)
}
