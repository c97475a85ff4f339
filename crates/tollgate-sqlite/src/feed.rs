//! Completions in order. Implements [`FeedStore`]; the fenced batch alone writes them.

use async_trait::async_trait;
use tollgate_model::port::{FeedFilter, FeedPage, FeedStore, Page, StoreError};
use tollgate_model::{ChainId, Seq};

use crate::row::Row;
use crate::{SqliteStore, queries, row};

#[async_trait]
impl FeedStore for SqliteStore {
    async fn completions(
        &self,
        of: FeedFilter,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError> {
        let chain_id = of.chain_id.map(ChainId::as_i64);
        let params = (chain_id, after.as_i64(), page.limit(), of.with_stuck);
        let decode = |row: &Row<'_>| {
            let ends = (row::seq(row, "last_seq")?, row::seq(row, "removed_through")?);
            Ok((row::completion(row)?, ends))
        };
        let rows = self.db.all(queries::COMPLETION_PAGE, params, decode).await?;
        let (end, removed_through) = rows.last().map_or((Seq::MIN, Seq::MIN), |(_, ends)| *ends);
        let items = rows.into_iter().filter_map(|(item, _)| item).collect();
        Ok(FeedPage { items, end, removed_through })
    }

    async fn feed_end(&self, of: FeedFilter) -> Result<Seq, StoreError> {
        let params = (of.chain_id.map(ChainId::as_i64), of.with_stuck);
        let end =
            self.db.one(queries::COMPLETION_END, params, |row| row::seq(row, "last_seq")).await?;
        Ok(end.unwrap_or(Seq::MIN))
    }
}
