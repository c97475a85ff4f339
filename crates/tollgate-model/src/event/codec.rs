//! The stored form of a batch's events: one version byte, then each event with its length before it.
//!
//! It is short, because it is written with every batch, and can be read by older nodes: a kind that they don't
//! know is passed over by its length.

use alloy_primitives::{Address, B256};
use thiserror::Error;
use uuid::Uuid;

use super::{Event, EventKind, EventKinds, EventTx};
use crate::ids::{ChainId, InvalidValue, RequestId, Submitter, TxHash, TxId};
use crate::port::batch::{NewTx, StatusChange, TxUpdate};
use crate::state::TxState;
use crate::text::Text;
use crate::trace::TraceParent;

/// The version of the form.
const VERSION: u8 = 1;

const HAS_TX: u8 = 1;
const HAS_REQUEST: u8 = 2;
const HAS_HASH: u8 = 4;
const HAS_BLOCK: u8 = 8;
const IS_NEW_FORK: u8 = 16;
const HAS_REASON: u8 = 32;
/// The trace is the last part: versions that don't know it read the rest and stop.
const HAS_TRACE: u8 = 64;

/// The reason why stored events can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("events are stored in version {0}, known is {VERSION}")]
    Version(u8),
    #[error("an event ends too early")]
    TooShort,
    #[error("an event holds {0}")]
    Value(#[from] InvalidValue),
    #[error("an event holds an unknown state: {0}")]
    State(i16),
    #[error("an event holds text that is not UTF-8")]
    Text,
}

/// The events of one batch, in the order of its changes.
#[derive(Clone, Debug)]
pub struct EventLog {
    kinds: EventKinds,
    count: u32,
    body: Vec<u8>,
}

/// A place in an [`EventLog`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    count: u32,
    length: usize,
}

impl EventLog {
    /// Takes events of these kinds only.
    pub fn new(kinds: EventKinds) -> Self {
        Self { kinds, count: 0, body: vec![VERSION] }
    }

    /// Adds the event of a create that is new.
    pub fn created(&mut self, submitter: Submitter, tx: &NewTx) {
        let about = EventTx {
            tx_id: tx.tx_id,
            version: 1,
            request_id: tx.request_id.clone(),
            state: tx.initial_state(),
            tx_hash: tx.slot.as_ref().map(|slot| slot.attempt.tx_hash),
            block: None,
            new_fork: false,
            trace: tx.trace,
        };
        let (kind, tx) = (EventKind::TxAccepted, Some(about));
        self.push(&Event { kind, submitter, tx, reason: None });
    }

    /// Adds the events of a change that was applied, with what the row holds now.
    pub fn changed(
        &mut self,
        submitter: Submitter,
        update: &TxUpdate,
        request_id: Option<&str>,
        mined: Option<(TxHash, u64, B256)>,
    ) {
        let attempt = update.new_attempt().map(|attempt| attempt.tx_hash).or(update.sent_hash);
        for kind in update.event_kinds() {
            let tx = EventTx {
                tx_id: update.tx_id,
                version: update.applied().version,
                request_id: request_id.and_then(|id| RequestId::from_stored(id).ok()),
                state: update.to(),
                tx_hash: mined.map(|(hash, ..)| hash).or(attempt),
                block: mined.map(|(_, number, hash)| (number, hash)),
                new_fork: kind == EventKind::TxReceiptUpdated && update.is_new_fork(),
                trace: update.trace,
            };
            self.push(&Event { kind, submitter, tx: Some(tx), reason: None });
        }
    }

    /// Adds the event of a change of a submitter's status.
    pub fn status_changed(&mut self, submitter: Submitter, change: &StatusChange) {
        let (kind, reason) = (EventKind::of_status(change.to), Some(change.reason.clone()));
        self.push(&Event { kind, submitter, tx: None, reason });
    }

    /// Adds an event, if its kind is wanted.
    pub fn push(&mut self, event: &Event) {
        if self.kinds.contains(event.kind) {
            encode(event, &mut self.body);
            self.count += 1;
        }
    }

    pub fn mark(&self) -> Mark {
        Mark { count: self.count, length: self.body.len() }
    }

    /// Drops what was added after a mark: its changes were not written.
    pub fn forget_after(&mut self, mark: Mark) {
        self.count = mark.count;
        self.body.truncate(mark.length);
    }

    /// The number of events and their stored form; `None` if there are none.
    pub fn finish(&self) -> Option<(u32, &[u8])> {
        (self.count > 0).then_some((self.count, self.body.as_slice()))
    }
}

/// The stored form of one event.
pub fn encode_one(event: &Event) -> Vec<u8> {
    let mut stored = vec![VERSION];
    encode(event, &mut stored);
    stored
}

fn encode(event: &Event, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 2]);
    let tx = event.tx.as_ref();
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(tx.is_some(), HAS_TX)
        | flag(tx.is_some_and(|tx| tx.request_id.is_some()), HAS_REQUEST)
        | flag(tx.is_some_and(|tx| tx.tx_hash.is_some()), HAS_HASH)
        | flag(tx.is_some_and(|tx| tx.block.is_some()), HAS_BLOCK)
        | flag(tx.is_some_and(|tx| tx.new_fork), IS_NEW_FORK)
        | flag(event.reason.is_some(), HAS_REASON)
        | flag(tx.is_some_and(|tx| tx.trace.is_some()), HAS_TRACE);
    out.extend(event.kind.code().to_be_bytes());
    out.push(flags);
    out.extend(event.submitter.chain_id.as_i64().to_be_bytes());
    out.extend(event.submitter.address.as_slice());
    if let Some(tx) = tx {
        out.extend(tx.tx_id.uuid().into_bytes());
        out.extend(tx.version.to_be_bytes());
        out.extend(tx.state.code().to_be_bytes());
        if let Some(request_id) = &tx.request_id {
            put_text(request_id.stored(), out);
        }
        if let Some(hash) = &tx.tx_hash {
            out.extend(hash.as_slice());
        }
        if let Some((number, hash)) = &tx.block {
            out.extend(number.to_be_bytes());
            out.extend(hash.as_slice());
        }
    }
    if let Some(reason) = &event.reason {
        put_text(reason.as_str(), out);
    }
    if let Some(trace) = tx.and_then(|tx| tx.trace) {
        out.extend(trace.to_bytes());
    }
    // The parts have bounds of their own, far below 64 KiB together.
    let length = u16::try_from(out.len() - start - 2).unwrap_or(u16::MAX);
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
}

/// Request ids have at most 256 bytes, reasons 500.
fn put_text(text: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend(length.to_be_bytes());
    out.extend(text.as_bytes());
}

/// Reads what [`EventLog::finish`] gave: an entry for each event, `None` for kinds of later versions.
pub fn decode(stored: &[u8]) -> Result<Vec<Option<Event>>, DecodeError> {
    let mut input = Input(stored);
    let [version] = input.take::<1>()?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let mut events = Vec::new();
    while !input.0.is_empty() {
        let length = u16::from_be_bytes(input.take()?);
        let event = Input(input.part(length.into())?);
        events.push(read(event)?);
    }
    Ok(events)
}

fn read(mut input: Input<'_>) -> Result<Option<Event>, DecodeError> {
    let code = i16::from_be_bytes(input.take()?);
    let Some(kind) = EventKind::from_code(code) else { return Ok(None) };
    let [flags] = input.take::<1>()?;
    let has = |flag: u8| flags & flag != 0;
    let chain_id = ChainId::from_i64(i64::from_be_bytes(input.take()?))?;
    let submitter = Submitter::new(chain_id, Address::new(input.take()?));
    let mut tx = if has(HAS_TX) { Some(read_tx(&mut input, has)?) } else { None };
    let reason = if has(HAS_REASON) { Some(Text::lossy(input.text()?)) } else { None };
    if let Some(tx) = tx.as_mut().filter(|_| has(HAS_TRACE)) {
        tx.trace = Some(TraceParent::from_bytes(input.part(TraceParent::BYTES)?)?);
    }
    Ok(Some(Event { kind, submitter, tx, reason }))
}

fn read_tx(input: &mut Input<'_>, has: impl Fn(u8) -> bool) -> Result<EventTx, DecodeError> {
    let tx_id = TxId::from_uuid(Uuid::from_bytes(input.take()?));
    let version = u32::from_be_bytes(input.take()?);
    let code = i16::from_be_bytes(input.take()?);
    let state = TxState::from_code(code).ok_or(DecodeError::State(code))?;
    let request_id =
        if has(HAS_REQUEST) { Some(RequestId::from_stored(input.text()?)?) } else { None };
    let tx_hash = if has(HAS_HASH) { Some(TxHash::new(input.take()?)) } else { None };
    let block = if has(HAS_BLOCK) {
        Some((u64::from_be_bytes(input.take()?), B256::new(input.take()?)))
    } else {
        None
    };
    let new_fork = has(IS_NEW_FORK);
    let trace = None;
    Ok(EventTx { tx_id, version, request_id, state, tx_hash, block, new_fork, trace })
}

/// The bytes that are left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn part(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (part, rest) = self.0.split_at_checked(length).ok_or(DecodeError::TooShort)?;
        self.0 = rest;
        Ok(part)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.part(N)?.try_into().map_err(|_| DecodeError::TooShort)
    }

    fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = u16::from_be_bytes(self.take()?);
        std::str::from_utf8(self.part(length.into())?).map_err(|_| DecodeError::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{SpanId, TraceId};
    use proptest::prelude::*;

    fn trace() -> impl Strategy<Value = Option<TraceParent>> {
        let ids = (any::<[u8; 16]>(), any::<[u8; 8]>(), any::<bool>());
        let trace = ids.prop_filter_map("no id is zero", |(trace, span, sampled)| {
            Some(TraceParent::new(TraceId::new(trace)?, SpanId::new(span)?, sampled))
        });
        proptest::option::of(trace)
    }

    fn tx() -> impl Strategy<Value = EventTx> {
        let ids = (
            any::<u128>(),
            any::<u32>(),
            proptest::option::of("([a-z]{1,9}\u{e01f})?[a-zé]{1,60}"),
        );
        let state = proptest::sample::select(&TxState::ALL[..]);
        let block = proptest::option::of((any::<u64>(), any::<[u8; 32]>()));
        let hash = proptest::option::of(any::<[u8; 32]>());
        (ids, state, hash, block, any::<bool>(), trace()).prop_map(
            |((id, version, request_id), state, hash, block, new_fork, trace)| EventTx {
                tx_id: TxId::from_uuid(Uuid::from_u128(id)),
                version,
                request_id: request_id.map(|id| RequestId::from_stored(id).unwrap()),
                state,
                tx_hash: hash.map(TxHash::new),
                block: block.map(|(number, hash)| (number, B256::new(hash))),
                new_fork,
                trace,
            },
        )
    }

    fn event() -> impl Strategy<Value = Event> {
        let kind = proptest::sample::select(&EventKind::ALL[..]);
        let reason = proptest::option::of(".{0,200}");
        let submitter = (1..=i64::MAX, any::<[u8; 20]>());
        (kind, submitter, proptest::option::of(tx()), reason).prop_map(
            |(kind, (chain, address), tx, reason)| Event {
                kind,
                submitter: Submitter::new(ChainId::from_i64(chain).unwrap(), Address::new(address)),
                tx,
                reason: reason.map(|reason| Text::lossy(&reason)),
            },
        )
    }

    proptest! {
        #[test]
        fn events_are_read_as_they_were_written(events in proptest::collection::vec(event(), 1..20)) {
            let mut log = EventLog::new(EventKinds::ALL);
            events.iter().for_each(|event| log.push(event));
            let (count, stored) = log.finish().unwrap();
            prop_assert_eq!(count as usize, events.len());
            let read: Vec<_> = decode(stored).unwrap().into_iter().flatten().collect();
            prop_assert_eq!(read, events);
        }

        #[test]
        fn damaged_events_are_refused_or_read_and_never_panic(
            event in event(), at in any::<proptest::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut log = EventLog::new(EventKinds::ALL);
            log.push(&event);
            let mut stored = log.finish().unwrap().1.to_vec();
            let at = at.index(stored.len());
            stored[at] = byte;
            let _ = decode(&stored);
            let _ = decode(&stored[..at]);
        }
    }

    fn status_event(kind: EventKind) -> Event {
        let submitter = Submitter::new(ChainId::MIN, Address::ZERO);
        Event { kind, submitter, tx: None, reason: None }
    }

    #[test]
    fn kind_of_a_later_version_is_passed_over_and_keeps_its_place() {
        let mut log = EventLog::new(EventKinds::ALL);
        log.push(&status_event(EventKind::SubmitterPaused));
        log.push(&status_event(EventKind::SubmitterResumed));
        let mut stored = log.finish().unwrap().1.to_vec();
        // The first event's kind, behind the version and the length.
        stored[3..5].copy_from_slice(&999_i16.to_be_bytes());
        let read = decode(&stored).unwrap();
        assert_eq!(read, [None, Some(status_event(EventKind::SubmitterResumed))]);
    }

    #[test]
    fn unwanted_kinds_and_events_after_a_mark_are_left_out() {
        let mut log = EventLog::new(EventKinds::NONE.with(EventKind::SubmitterPaused));
        log.push(&status_event(EventKind::SubmitterResumed));
        assert_eq!(log.finish(), None);
        let mark = log.mark();
        log.push(&status_event(EventKind::SubmitterPaused));
        assert_eq!(log.finish().map(|(count, _)| count), Some(1));
        log.forget_after(mark);
        assert_eq!(log.finish(), None);
    }
}
