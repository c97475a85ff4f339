//! Completions in order, and events on their way out. Implements [`FeedStore`].

use async_trait::async_trait;
use tollgate_model::port::{FeedPage, FeedStore, OutboxEvent, Page, StoreError};
use tollgate_model::{ChainId, Seq};

use crate::{PgStore, queries, row};

#[async_trait]
impl FeedStore for PgStore {
    async fn completions(
        &self,
        chain_id: ChainId,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError> {
        let (chain_id, after, limit) = (chain_id.as_i64(), after.as_i64(), i64::from(page.limit()));
        let work = self.pools.work().await?;
        let rows = work.query_all(queries::COMPLETION_PAGE, &[&chain_id, &after, &limit]).await?;
        let (mut items, mut end) = (Vec::with_capacity(rows.len()), Seq::MIN);
        for row in &rows {
            end = row::feed_end(row)?;
            items.extend(row::completion(row)?);
        }
        Ok(FeedPage { items, end })
    }

    async fn feed_end(&self, chain_id: ChainId) -> Result<Seq, StoreError> {
        let work = self.pools.work().await?;
        row::feed_end(&work.query_one(queries::COMPLETION_END, &[&chain_id.as_i64()]).await?)
    }

    async fn outbox(&self, page: Page) -> Result<Vec<OutboxEvent>, StoreError> {
        let limit = i64::from(page.limit());
        self.pools.all(queries::OUTBOX_PAGE, &[&limit], row::outbox_event).await
    }

    async fn forget_outbox(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.pools.work().await?.execute(queries::OUTBOX_FORGET, &[&ids]).await?;
        Ok(())
    }
}
