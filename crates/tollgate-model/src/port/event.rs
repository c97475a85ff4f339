//! The log of events, and the sinks that receive it.

use std::time::Duration;

use async_trait::async_trait;

use super::{Page, StoreError};
use crate::event::{DecodeError, NumberedEvent, decode};
use crate::ids::{NodeId, Seq};
use crate::sql::row::defect;
use crate::time::Timestamp;

/// The events of one batch as they are stored, with the number of the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredEvents {
    pub first_seq: Seq,
    pub at: Timestamp,
    pub body: Vec<u8>,
}

impl StoredEvents {
    /// The events with their numbers; `None` for those of unknown kinds.
    fn numbered(&self) -> Result<Vec<Option<NumberedEvent>>, StoreError> {
        let unreadable = |error: DecodeError| defect(format!("outbox: {error}"));
        let events = decode(&self.body).map_err(unreadable)?;
        let numbered = events.into_iter().zip(self.first_seq.get()..).map(|(event, number)| {
            let Some(event) = event else { return Ok(None) };
            Ok(Some(NumberedEvent { seq: seq(number)?, at: self.at, event }))
        });
        numbered.collect()
    }
}

fn seq(number: u64) -> Result<Seq, StoreError> {
    Seq::new(number).map_err(|error| defect(error.to_string()))
}

/// A page of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventPage {
    /// The events behind the position, in order, without those of unknown kinds.
    pub items: Vec<NumberedEvent>,
    /// The position to continue from.
    pub next: Seq,
    /// The last number of the log, read together with the items.
    pub end: Seq,
    /// The last number that was removed, read together with the items: a page that begins below it may lack
    /// events.
    pub removed_through: Seq,
}

impl EventPage {
    /// The position that a store's query begins after: so low that the numbers of a page behind it can be
    /// counted. No log is as long.
    pub fn query_after(after: Seq, asked: Page) -> i64 {
        after.as_i64().min(i64::MAX - 2 * i64::from(asked.limit()))
    }

    /// Makes a page of the batches that hold the `asked` numbers after `after`.
    pub fn of(
        stored: &[StoredEvents],
        after: Seq,
        asked: Page,
        (end, removed_through): (Seq, Seq),
    ) -> Result<Self, StoreError> {
        let limit = u64::from(asked.limit());
        let mut through = after.get().saturating_add(limit);
        let mut items = Vec::new();
        for batch in stored {
            let (first, numbered) = (batch.first_seq.get(), batch.numbered()?);
            if first > through {
                // The numbers before it were removed, or left out by a restore: the page is of this batch.
                through = first - 1 + limit.min(numbered.len() as u64);
            }
            let numbered = numbered.into_iter().flatten();
            items.extend(numbered.filter(|it| it.seq > after && it.seq.get() <= through));
        }
        let through = Seq::new(through).unwrap_or(Seq::MAX);
        let next = if stored.is_empty() { end } else { end.min(through) };
        Ok(Self { items, next: next.max(after), end, removed_through })
    }
}

/// The ends of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventBounds {
    /// The last number.
    pub end: Seq,
    /// The last number that was removed.
    pub removed_through: Seq,
}

/// The right to deliver to a sink, for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinkClaim {
    /// Grows with each claim.
    pub token: i64,
    /// Every event up to this one was delivered or is a dead letter.
    pub acknowledged: Seq,
}

/// An event that a sink did not take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    pub event: NumberedEvent,
    pub attempts: u32,
    pub last_error: String,
    /// An operator asked for another attempt.
    pub is_due: bool,
}

/// The log of events. The fenced batch writes it; the rest needs no lease.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Gives numbers to the events of at most a page of committed batches; returns how many batches got one.
    /// I10: only what is committed gets a number, and one node at a time gives them, so that a number that
    /// appears later is always higher. Every order that callers can observe is kept: a batch that began after
    /// another one had committed is numbered after it.
    async fn number_events(&self, page: Page) -> Result<u32, StoreError>;

    /// Reads the events whose numbers are the `page` next after `after`.
    async fn events(&self, after: Seq, page: Page) -> Result<EventPage, StoreError>;

    /// Reads the ends of the log. One cheap read, for readers that wait.
    async fn event_bounds(&self) -> Result<EventBounds, StoreError>;

    /// Removes the oldest numbered batches that are older than `age` or leave `keep` events behind them, at most
    /// a page of them; returns how many.
    async fn remove_events(&self, age: Duration, keep: u64, page: Page) -> Result<u32, StoreError>;

    /// I11: makes this node the only one that delivers to a sink, until `term` has passed without
    /// [`Self::acknowledge_events`]; `None` if another node is. A new sink begins at the end of the log.
    async fn claim_sink(
        &self,
        sink: &str,
        node: &NodeId,
        term: Duration,
    ) -> Result<Option<SinkClaim>, StoreError>;

    /// Writes that everything up to `through` is done, never back, and extends the claim; false if the claim is
    /// lost.
    async fn acknowledge_events(
        &self,
        sink: &str,
        claim: i64,
        through: Seq,
        term: Duration,
    ) -> Result<bool, StoreError>;

    /// Sets a sink back, or forward, to deliver what follows `to`. It ends the present claim. False if there is
    /// no such sink.
    async fn rewind_sink(&self, sink: &str, to: Seq) -> Result<bool, StoreError>;

    /// Keeps an event that the sink did not take.
    async fn put_dead_letter(&self, sink: &str, letter: &DeadLetter) -> Result<(), StoreError>;

    /// Lists dead letters after a number; only those that are due, if `is_due`.
    async fn dead_letters(
        &self,
        sink: &str,
        after: Seq,
        is_due: bool,
        page: Page,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    /// Asks for another attempt of the dead letters from one number to another; returns how many there are.
    async fn retry_dead_letters(
        &self,
        sink: &str,
        from: Seq,
        through: Seq,
    ) -> Result<u64, StoreError>;

    /// Deletes dead letters beyond the newest `keep` of all sinks together, at most a page of them; returns how
    /// many (I13).
    async fn forget_dead_letters(&self, keep: u32, page: Page) -> Result<u64, StoreError>;

    /// Deletes a dead letter that was delivered after all.
    async fn delete_dead_letter(&self, sink: &str, seq: Seq) -> Result<(), StoreError>;
}
