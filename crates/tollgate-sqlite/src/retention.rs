//! Removes finished transactions and reads what is kept of them. Implements [`RetentionStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{
    FinishedRecord, FinishedTx, Page, RemovedTx, RetentionStore, StoreError,
};
use tollgate_model::{NodeId, RequestId, Seq, Submitter, TxId};

use crate::connection::span;
use crate::db::{Connection, WriteTx};
use crate::error::QueryError;
use crate::tx::key;
use crate::{SqliteStore, list, queries, row};

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn claim_retention(&self, node: &NodeId, term: Duration) -> Result<bool, StoreError> {
        let claim = (node.as_str().to_owned(), span(term));
        let held = self.db.write(move |tx| {
            tx.one(queries::RETENTION_CLAIM, claim, |row| row::seq(row, "removed_through"))
        });
        Ok(held.await?.is_some())
    }

    async fn finished(
        &self,
        after: Seq,
        age: Duration,
        page: Page,
    ) -> Result<Vec<FinishedTx>, StoreError> {
        let params = (after.as_i64(), page.limit(), span(age));
        self.db.all(queries::RETENTION_PAGE, params, |row| row::finished_tx(row)).await
    }

    async fn finished_records(&self, tx_ids: &[TxId]) -> Result<Vec<FinishedRecord>, StoreError> {
        let tx_ids = tx_ids.to_vec();
        let found = self.db.read(move |conn| {
            let records = tx_ids.into_iter().map(|tx_id| finished_record(conn, tx_id));
            records.filter_map(Result::transpose).collect()
        });
        found.await
    }

    async fn remove_finished(&self, tx_ids: &[TxId], age: Duration) -> Result<u64, StoreError> {
        let (tx_ids, age) = (tx_ids.to_vec(), span(age));
        let removed = self.db.write(move |tx| {
            let (mut removed, mut through) = (0, Seq::MIN);
            for tx_id in tx_ids {
                if let Some(seq) = remove(tx, tx_id, age)? {
                    removed += 1;
                    through = through.max(seq);
                }
            }
            tx.exec(queries::STUCK_DELETE, [through.as_i64()])?;
            tx.exec(queries::RETENTION_ADVANCE, [through.as_i64()])?;
            Ok(removed)
        });
        removed.await
    }

    async fn removed(&self, tx_id: TxId) -> Result<Option<RemovedTx>, StoreError> {
        let id = [tx_id.uuid().into_bytes()];
        self.db.one(queries::REMOVED_GET, id, |row| row::removed_tx(row)).await
    }

    async fn removed_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<RemovedTx>, StoreError> {
        let (chain_id, address) = key(submitter);
        let request = (chain_id, address, request_id.stored().to_owned());
        self.db.one(queries::REMOVED_BY_REQUEST, request, |row| row::removed_tx(row)).await
    }

    async fn forget_removed(&self, age: Duration, page: Page) -> Result<u64, StoreError> {
        let oldest = (span(age), page.limit());
        self.db.write(move |tx| Ok(tx.exec(queries::REMOVED_FORGET, oldest)? as u64)).await
    }
}

fn finished_record(
    conn: &Connection<'_>,
    tx_id: TxId,
) -> Result<Option<FinishedRecord>, QueryError> {
    let id = tx_id.uuid().into_bytes();
    let Some(record) = conn.one(queries::TX_GET, [id], |row| row::tx_record(row))? else {
        return Ok(None);
    };
    let page = (id, 0, Page::MAX);
    Ok(Some(FinishedRecord {
        record,
        attempts: list::attempts(conn, tx_id)?,
        history: conn.all(queries::HISTORY_PAGE, page, |row| row::history_entry(row))?,
        confirmations: conn.one(queries::CONFIRMATION_GET, [id], |row| row::confirmations(row))?,
    }))
}

/// Removes one transaction; returns the number of its entry in the feed, or nothing if it has to stay.
fn remove(tx: &WriteTx<'_>, tx_id: TxId, age: i64) -> Result<Option<Seq>, QueryError> {
    let id = tx_id.uuid().into_bytes();
    if !tx.exists(queries::RETENTION_TAKE, (id, age))? {
        return Ok(None);
    }
    for query in [
        queries::REMOVED_INSERT,
        queries::REMOVED_SLOTS_PUT,
        queries::ATTEMPT_DELETE,
        queries::HISTORY_DELETE,
        queries::CONFIRMATION_DELETE,
        queries::RECEIPT_DELETE,
        queries::DIAGNOSIS_DELETE,
        queries::TRACE_DELETE,
        queries::TX_DELETE,
    ] {
        tx.exec(query, [id])?;
    }
    tx.one(queries::COMPLETION_DELETE, [id], |row| row::seq(row, "seq"))
}
