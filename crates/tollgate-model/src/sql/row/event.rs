//! Rows of the log of events and its sinks.

use super::{Decoded, SqlRow, bytes, defect, flag, int, seq, string, time, unreadable};
use crate::event::{NumberedEvent, decode};
use crate::ids::Seq;
use crate::port::{DeadLetter, EventBounds, SinkClaim, StoredEvents};

/// The events of one batch; `None` if the log has none behind the position.
pub fn stored_events(row: &impl SqlRow) -> Decoded<Option<StoredEvents>> {
    let Some(first) = row.integer("first_seq")? else { return Ok(None) };
    let first_seq = Seq::from_i64(first).map_err(unreadable)?;
    let body = bytes(row, "body")?.to_vec();
    Ok(Some(StoredEvents { first_seq, at: time(row, "at")?, body }))
}

/// The ends of the log of events.
pub fn event_bounds(row: &impl SqlRow) -> Decoded<EventBounds> {
    Ok(EventBounds { end: seq(row, "last_seq")?, removed_through: seq(row, "removed_through")? })
}

/// A node's claim on a sink.
pub fn sink_claim(row: &impl SqlRow) -> Decoded<SinkClaim> {
    Ok(SinkClaim { token: int(row, "token")?, acknowledged: seq(row, "acknowledged")? })
}

/// An event that a sink did not take.
pub fn dead_letter(row: &impl SqlRow) -> Decoded<DeadLetter> {
    let stored = decode(bytes(row, "body")?).map_err(|error| defect(error.to_string()))?;
    let event = stored.into_iter().flatten().next();
    let event = event.ok_or_else(|| defect("a dead letter of an unknown kind".to_owned()))?;
    Ok(DeadLetter {
        event: NumberedEvent { seq: seq(row, "seq")?, at: time(row, "at")?, event },
        attempts: int(row, "attempts")?,
        last_error: string(row, "last_error")?,
        is_due: flag(row, "is_due")?,
    })
}
