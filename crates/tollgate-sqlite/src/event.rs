//! The log of events and its sinks. Implements [`EventStore`].

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::event::encode_one;
use tollgate_model::port::{
    DeadLetter, EventBounds, EventPage, EventStore, Page, SinkClaim, StoreError,
};
use tollgate_model::time::micros;
use tollgate_model::{NodeId, Seq};

use crate::db::{End, WriteTx};
use crate::error::QueryError;
use crate::row::Row;
use crate::{SqliteStore, queries, row};

#[async_trait]
impl EventStore for SqliteStore {
    async fn number_events(&self, page: Page) -> Result<u32, StoreError> {
        // A look without the write lock first: mostly there is nothing.
        if self.db.one(queries::EVENT_DUE, [1], |row| row::int::<i64>(row, "id")).await?.is_none() {
            return Ok(0);
        }
        self.db.write_or_not(move |tx| number(tx, page)).await
    }

    async fn events(&self, after: Seq, page: Page) -> Result<EventPage, StoreError> {
        let params = (EventPage::query_after(after, page), page.limit());
        let decode = |row: &Row<'_>| Ok((row::event_bounds(row)?, row::stored_events(row)?));
        let rows = self.db.all(queries::EVENT_PAGE, params, decode).await?;
        let bounds =
            rows.last().map_or((Seq::MIN, Seq::MIN), |(it, _)| (it.end, it.removed_through));
        let stored: Vec<_> = rows.into_iter().filter_map(|(_, stored)| stored).collect();
        EventPage::of(&stored, after, page, bounds)
    }

    async fn event_bounds(&self) -> Result<EventBounds, StoreError> {
        let none = EventBounds { end: Seq::MIN, removed_through: Seq::MIN };
        let bounds = self.db.one(queries::EVENT_BOUNDS, [], |row| row::event_bounds(row)).await?;
        Ok(bounds.unwrap_or(none))
    }

    async fn remove_events(&self, age: Duration, keep: u64, page: Page) -> Result<u32, StoreError> {
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let removed = self.db.write_or_not(move |tx| {
            let params = (micros(age), keep, page.limit());
            let gone = tx.all(queries::EVENT_OLDEST, params, |row| {
                Ok((row::int::<i64>(row, "id")?, row::int::<i64>(row, "through")?))
            })?;
            let Some(through) = gone.iter().map(|(_, through)| *through).max() else {
                return Ok(End::RollBack(0));
            };
            for (id, _) in &gone {
                tx.exec(queries::EVENT_REMOVE, [id])?;
            }
            tx.exec(queries::EVENT_REMOVED, [through])?;
            Ok(End::Commit(u32::try_from(gone.len()).unwrap_or(u32::MAX)))
        });
        removed.await
    }

    async fn claim_sink(
        &self,
        sink: &str,
        node: &NodeId,
        term: Duration,
    ) -> Result<Option<SinkClaim>, StoreError> {
        let (sink, node) = (sink.to_owned(), node.clone());
        let claim = self.db.write(move |tx| {
            let params = (&sink, node.as_str(), micros(term));
            tx.one(queries::SINK_CLAIM, params, |row| row::sink_claim(row))
        });
        claim.await
    }

    async fn acknowledge_events(
        &self,
        sink: &str,
        claim: i64,
        through: Seq,
        term: Duration,
    ) -> Result<bool, StoreError> {
        let sink = sink.to_owned();
        let held = self.db.write(move |tx| {
            let params = (&sink, claim, through.as_i64(), micros(term));
            tx.exists(queries::SINK_ACKNOWLEDGE, params)
        });
        held.await
    }

    async fn rewind_sink(&self, sink: &str, to: Seq) -> Result<bool, StoreError> {
        let sink = sink.to_owned();
        let set = self.db.write(move |tx| tx.exec(queries::SINK_REWIND, (&sink, to.as_i64())));
        Ok(set.await? == 1)
    }

    async fn put_dead_letter(&self, sink: &str, letter: &DeadLetter) -> Result<(), StoreError> {
        let (sink, letter) = (sink.to_owned(), letter.clone());
        let put = self.db.write(move |tx| {
            let DeadLetter { event, attempts, last_error, is_due: _ } = &letter;
            let (body, at) = (encode_one(&event.event), event.at.unix_micros());
            let params = params![sink, event.seq.as_i64(), body, at, attempts, last_error];
            tx.exec(queries::DEAD_LETTER_PUT, params).map(drop)
        });
        put.await
    }

    async fn dead_letters(
        &self,
        sink: &str,
        after: Seq,
        is_due: bool,
        page: Page,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let params = (sink.to_owned(), after.as_i64(), is_due, page.limit());
        self.db.all(queries::DEAD_LETTER_PAGE, params, |row| row::dead_letter(row)).await
    }

    async fn retry_dead_letters(
        &self,
        sink: &str,
        from: Seq,
        through: Seq,
    ) -> Result<u64, StoreError> {
        let params = (sink.to_owned(), from.as_i64(), through.as_i64());
        let marked = self.db.write(move |tx| tx.exec(queries::DEAD_LETTER_RETRY, params)).await?;
        Ok(marked as u64)
    }

    async fn forget_dead_letters(&self, keep: u32, page: Page) -> Result<u64, StoreError> {
        let params = (keep, page.limit());
        let gone = self.db.write(move |tx| tx.exec(queries::DEAD_LETTER_FORGET, params)).await?;
        Ok(gone as u64)
    }

    async fn delete_dead_letter(&self, sink: &str, seq: Seq) -> Result<(), StoreError> {
        let params = (sink.to_owned(), seq.as_i64());
        self.db.write(move |tx| tx.exec(queries::DEAD_LETTER_DELETE, params).map(drop)).await
    }
}

/// I10: numbers what is committed, in the order in which it was written.
fn number(tx: &WriteTx<'_>, page: Page) -> Result<End<u32>, QueryError> {
    let due = tx.all(queries::EVENT_DUE, [page.limit()], |row| {
        Ok((row::int::<i64>(row, "id")?, row::int::<i64>(row, "events")?))
    })?;
    let count: i64 = due.iter().map(|(_, events)| events).sum();
    if count == 0 {
        return Ok(End::RollBack(0));
    }
    let last: Option<i64> =
        tx.one(queries::EVENT_COUNT, [count], |row| row::int(row, "last_seq"))?;
    let last = last.ok_or_else(|| QueryError::defect("event_counter has no row"))?;
    let mut first = last - count + 1;
    for (id, events) in &due {
        tx.exec(queries::EVENT_NUMBER, (id, first))?;
        first += events;
    }
    Ok(End::Commit(u32::try_from(due.len()).unwrap_or(u32::MAX)))
}
