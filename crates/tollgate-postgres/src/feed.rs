//! Completions in order. Implements [`FeedStore`].

use async_trait::async_trait;
use tollgate_model::port::{FeedFilter, FeedPage, FeedStore, Page, StoreError};
use tollgate_model::{ChainId, Seq};

use crate::connection::Parameters;
use crate::{PgStore, queries, row};

#[async_trait]
impl FeedStore for PgStore {
    async fn completions(
        &self,
        of: FeedFilter,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError> {
        let chain_id = of.chain_id.map(ChainId::as_i64);
        let (after, limit) = (after.as_i64(), i64::from(page.limit()));
        let work = self.pools.work().await?;
        let asked: &Parameters<'_> = &[&chain_id, &after, &limit, &of.with_stuck];
        let rows = work.query_all(queries::COMPLETION_PAGE, asked).await?;
        let (mut end, mut removed_through) = (Seq::MIN, Seq::MIN);
        let mut items = Vec::with_capacity(rows.len());
        for row in &rows {
            (end, removed_through) =
                (row::seq(row, "last_seq")?, row::seq(row, "removed_through")?);
            items.extend(row::completion(row)?);
        }
        Ok(FeedPage { items, end, removed_through })
    }

    async fn feed_end(&self, of: FeedFilter) -> Result<Seq, StoreError> {
        let work = self.pools.work().await?;
        let chain_id = of.chain_id.map(ChainId::as_i64);
        let asked: &Parameters<'_> = &[&chain_id, &of.with_stuck];
        row::seq(&work.query_one(queries::COMPLETION_END, asked).await?, "last_seq")
    }
}
