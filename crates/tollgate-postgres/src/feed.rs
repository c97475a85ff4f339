//! Outcomes in order, and events on their way out.

use async_trait::async_trait;
use tollgate_model::port::{FeedPage, FeedStore, OutboxEvent, Page, StoreError};

use tollgate_model::{ChainId, Seq};

use crate::PgStore;
use crate::db::prepared;
use crate::error::failed;
use crate::{queries, row};

#[async_trait]
impl FeedStore for PgStore {
    async fn completions(
        &self,
        chain_id: ChainId,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::COMPLETION_PAGE).await?;
        let (chain_id, after) = (chain_id.as_i64(), after.as_i64());
        let limit = i64::from(page.limit());
        let rows = client.query(&statement, &[&chain_id, &after, &limit]).await.map_err(failed)?;
        let (mut items, mut end) = (Vec::with_capacity(rows.len()), Seq::MIN);
        for found in &rows {
            end = Seq::from_i64(row::get(found, "last_seq")?).map_err(row::unreadable)?;
            if row::get::<Option<i64>>(found, "seq")?.is_some() {
                items.push(row::completion(found)?);
            }
        }
        Ok(FeedPage { items, end })
    }

    async fn feed_end(&self, chain_id: ChainId) -> Result<Seq, StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::COMPLETION_END).await?;
        let row = client.query_one(&statement, &[&chain_id.as_i64()]).await.map_err(failed)?;
        row::feed_end(&row)
    }

    async fn outbox(&self, page: Page) -> Result<Vec<OutboxEvent>, StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::OUTBOX_PAGE).await?;
        let rows = client.query(&statement, &[&i64::from(page.limit())]).await.map_err(failed)?;
        rows.iter().map(row::outbox_event).collect()
    }

    async fn forget_outbox(&self, ids: &[i64]) -> Result<(), StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::OUTBOX_FORGET).await?;
        client.execute(&statement, &[&ids]).await.map_err(failed)?;
        Ok(())
    }
}
