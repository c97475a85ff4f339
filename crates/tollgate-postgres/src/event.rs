//! The log of events and its sinks. Implements [`EventStore`].

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tollgate_model::event::encode_one;
use tollgate_model::port::{
    DeadLetter, EventBounds, EventPage, EventStore, Page, SinkClaim, StoreError,
};
use tollgate_model::time::micros;
use tollgate_model::{NodeId, Seq};

use crate::connection::Parameters;
use crate::db::Tx;
use crate::retention::age_micros;
use crate::{PgStore, queries, row};

#[async_trait]
impl EventStore for PgStore {
    async fn number_events(&self, page: Page) -> Result<u32, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        // A look without a lock first: mostly there is nothing.
        if upkeep.query_opt(queries::EVENT_DUE, &[]).await?.is_none() {
            return Ok(0);
        }
        let tx = Tx::begin(upkeep).await?;
        tx.query_one(queries::EVENT_LOCK, &[]).await?;
        let numbered = tx.query_opt(queries::EVENT_NUMBER, &[&i64::from(page.limit())]).await?;
        let batches = numbered.map_or(Ok(0), |row| row::int(&row, "batches"))?;
        tx.commit().await?;
        Ok(batches)
    }

    async fn events(&self, after: Seq, page: Page) -> Result<EventPage, StoreError> {
        let asked: &Parameters<'_> =
            &[&EventPage::query_after(after, page), &i64::from(page.limit())];
        let rows = self.pools.work().await?.query_all(queries::EVENT_PAGE, asked).await?;
        let bounds = rows.last().map(row::event_bounds).transpose()?;
        let bounds = bounds.map_or((Seq::MIN, Seq::MIN), |it| (it.end, it.removed_through));
        let mut stored = Vec::with_capacity(rows.len());
        for row in &rows {
            stored.extend(row::stored_events(row)?);
        }
        EventPage::of(&stored, after, page, bounds)
    }

    async fn event_bounds(&self) -> Result<EventBounds, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        row::event_bounds(&upkeep.query_one(queries::EVENT_BOUNDS, &[]).await?)
    }

    async fn remove_events(&self, age: Duration, keep: u64, page: Page) -> Result<u32, StoreError> {
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let asked: &Parameters<'_> = &[&age_micros(age), &keep, &i64::from(page.limit())];
        let removed = self.pools.work().await?.query_opt(queries::EVENT_REMOVE, asked).await?;
        removed.map_or(Ok(0), |row| row::int(&row, "batches"))
    }

    async fn claim_sink(
        &self,
        sink: &str,
        node: &NodeId,
        term: Duration,
    ) -> Result<Option<SinkClaim>, StoreError> {
        let asked: &Parameters<'_> = &[&sink, &node.as_str(), &micros(term)];
        let claim = self.pools.upkeep().await?.query_opt(queries::SINK_CLAIM, asked).await?;
        claim.as_ref().map(row::sink_claim).transpose()
    }

    async fn acknowledge_events(
        &self,
        sink: &str,
        claim: i64,
        through: Seq,
        term: Duration,
    ) -> Result<bool, StoreError> {
        let asked: &Parameters<'_> = &[&sink, &claim, &through.as_i64(), &micros(term)];
        let held = self.pools.upkeep().await?.query_opt(queries::SINK_ACKNOWLEDGE, asked).await?;
        Ok(held.is_some())
    }

    async fn rewind_sink(&self, sink: &str, to: Seq) -> Result<bool, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        Ok(upkeep.execute(queries::SINK_REWIND, &[&sink, &to.as_i64()]).await? == 1)
    }

    async fn put_dead_letter(&self, sink: &str, letter: &DeadLetter) -> Result<(), StoreError> {
        let DeadLetter { event, attempts, last_error, is_due: _ } = letter;
        let (body, at) = (encode_one(&event.event), SystemTime::from(event.at));
        let attempts = i32::try_from(*attempts).unwrap_or(i32::MAX);
        let put: &Parameters<'_> =
            &[&sink, &event.seq.as_i64(), &body, &at, &attempts, &last_error.as_str()];
        self.pools.upkeep().await?.execute(queries::DEAD_LETTER_PUT, put).await?;
        Ok(())
    }

    async fn dead_letters(
        &self,
        sink: &str,
        after: Seq,
        is_due: bool,
        page: Page,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let asked: &Parameters<'_> = &[&sink, &after.as_i64(), &is_due, &i64::from(page.limit())];
        let upkeep = self.pools.upkeep().await?;
        let rows = upkeep.query_all(queries::DEAD_LETTER_PAGE, asked).await?;
        rows.iter().map(row::dead_letter).collect()
    }

    async fn retry_dead_letters(
        &self,
        sink: &str,
        from: Seq,
        through: Seq,
    ) -> Result<u64, StoreError> {
        let asked: &Parameters<'_> = &[&sink, &from.as_i64(), &through.as_i64()];
        self.pools
            .upkeep()
            .await?
            .execute(queries::DEAD_LETTER_RETRY, asked)
            .await
            .map_err(Into::into)
    }

    async fn forget_dead_letters(&self, keep: u32, page: Page) -> Result<u64, StoreError> {
        let asked: &Parameters<'_> = &[&i64::from(keep), &i64::from(page.limit())];
        let upkeep = self.pools.upkeep().await?;
        upkeep.execute(queries::DEAD_LETTER_FORGET, asked).await.map_err(Into::into)
    }

    async fn delete_dead_letter(&self, sink: &str, seq: Seq) -> Result<(), StoreError> {
        let asked: &Parameters<'_> = &[&sink, &seq.as_i64()];
        self.pools.upkeep().await?.execute(queries::DEAD_LETTER_DELETE, asked).await?;
        Ok(())
    }
}
