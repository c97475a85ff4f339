//! Completions in order, and events on their way out. Implements [`FeedStore`]; both are written by the
//! fenced batch alone.

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::port::{FeedPage, FeedStore, OutboxEvent, Page, StoreError};
use tollgate_model::{ChainId, Seq};

use crate::{SqliteStore, queries, row};

#[async_trait]
impl FeedStore for SqliteStore {
    async fn completions(
        &self,
        chain_id: ChainId,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError> {
        let rows = self.db.read(move |conn| {
            let params = params![chain_id.as_i64(), after.as_i64(), page.limit()];
            conn.all(queries::COMPLETION_PAGE, params, |row| {
                Ok((row::completion(row)?, row::feed_end(row)?))
            })
        });
        let rows = rows.await?;
        let end = rows.last().map_or(Seq::MIN, |(_, end)| *end);
        Ok(FeedPage { items: rows.into_iter().filter_map(|(item, _)| item).collect(), end })
    }

    async fn feed_end(&self, chain_id: ChainId) -> Result<Seq, StoreError> {
        let chain_id = chain_id.as_i64();
        let end = self.db.read(move |conn| {
            conn.one(queries::COMPLETION_END, [chain_id], |row| row::feed_end(row))
        });
        Ok(end.await?.unwrap_or(Seq::MIN))
    }

    async fn outbox(&self, page: Page) -> Result<Vec<OutboxEvent>, StoreError> {
        let events = self.db.read(move |conn| {
            conn.all(queries::OUTBOX_PAGE, [page.limit()], |row| row::outbox_event(row))
        });
        events.await
    }

    async fn forget_outbox(&self, ids: &[i64]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids = ids.to_vec();
        let forgotten = self.db.write(move |tx| {
            ids.into_iter().try_for_each(|id| tx.exec(queries::OUTBOX_FORGET, [id]).map(drop))
        });
        forgotten.await
    }
}
