//! Events: what a batch reports about its changes, for receivers outside.
//!
//! [`of_change`] is the rule. A store collects the events of a batch in an [`EventLog`] and writes them as one
//! row, in the transaction of the changes. `docs/adr/0004-events-are-numbered-after-the-commit.md` says how they get their numbers.

mod codec;
pub mod delivery;

use std::fmt;

use alloy_primitives::B256;

pub use codec::{DecodeError, EventLog, Mark, decode, encode_one};

use crate::ids::{InvalidValue, RequestId, Seq, Submitter, TxHash, TxId};
use crate::nonce::SubmitterStatus;
use crate::port::batch::{Evidence, TxUpdate};
use crate::port::feed::FeedKind;
use crate::state::TxState;
use crate::text::Text;
use crate::time::Timestamp;
use crate::trace::TraceParent;

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventKind {
    /// A create is durable.
    TxAccepted,
    /// A node has the transaction for the first time.
    TxSubmitted,
    /// A receipt was found, replaced, or left the canonical chain.
    TxReceiptUpdated,
    /// Final: executed.
    TxConfirmed,
    /// Final: not executed as requested.
    TxFailed,
    /// Makes no progress by itself, or none for another reason than before.
    TxStuck,
    /// Not stuck any more, and not final.
    TxUnstuck,
    /// The submitter takes no new work until an operator resumes it: the chain contradicts its slots.
    SubmitterProtected,
    /// An operator paused the submitter.
    SubmitterPaused,
    /// The submitter takes work again.
    SubmitterResumed,
}

names!(EventKind {
    TxAccepted => "TxAccepted",
    TxSubmitted => "TxSubmitted",
    TxReceiptUpdated => "TxReceiptUpdated",
    TxConfirmed => "TxConfirmed",
    TxFailed => "TxFailed",
    TxStuck => "TxStuck",
    TxUnstuck => "TxUnstuck",
    SubmitterProtected => "SubmitterProtected",
    SubmitterPaused => "SubmitterPaused",
    SubmitterResumed => "SubmitterResumed",
});

codes!(EventKind {
    TxAccepted => 1,
    TxSubmitted => 2,
    TxReceiptUpdated => 3,
    TxConfirmed => 4,
    TxFailed => 5,
    TxStuck => 6,
    TxUnstuck => 7,
    SubmitterProtected => 8,
    SubmitterPaused => 9,
    SubmitterResumed => 10,
});

impl EventKind {
    /// The kind that a change of a submitter's status writes.
    pub const fn of_status(to: SubmitterStatus) -> Self {
        match to {
            SubmitterStatus::Active => Self::SubmitterResumed,
            SubmitterStatus::Paused => Self::SubmitterPaused,
            SubmitterStatus::Protect => Self::SubmitterProtected,
        }
    }

    const fn bit(self) -> u16 {
        1 << self.code()
    }
}

/// The kinds that a change of a transaction writes, in the order in which receivers get them.
pub fn of_change(
    from: TxState,
    to: TxState,
    is_receipt_changed: bool,
) -> impl Iterator<Item = EventKind> {
    let is_unsent = matches!(from, TxState::Queued(_) | TxState::Allocated(_));
    let is_submitted = is_unsent && matches!(to, TxState::Tracking(_));
    let feed = FeedKind::of_change(from, to).map(|kind| match kind {
        FeedKind::Stuck => EventKind::TxStuck,
        FeedKind::Unstuck => EventKind::TxUnstuck,
        FeedKind::Final if to == TxState::Confirmed => EventKind::TxConfirmed,
        FeedKind::Final => EventKind::TxFailed,
    });
    let has_receipt = is_receipt_changed && !to.is_final();
    is_submitted
        .then_some(EventKind::TxSubmitted)
        .into_iter()
        .chain(feed)
        .chain(has_receipt.then_some(EventKind::TxReceiptUpdated))
}

impl TxUpdate {
    /// The kinds of events that this change writes.
    pub fn event_kinds(&self) -> impl Iterator<Item = EventKind> {
        let is_forked = self.confirmations.as_ref().is_some_and(|list| list.new_fork);
        let is_receipt_changed = self.evidence != Evidence::Keep || is_forked;
        of_change(self.row.state, self.to(), is_receipt_changed)
    }

    /// True if the receipt is another one than before, or there is none any more.
    pub fn is_new_fork(&self) -> bool {
        self.evidence == Evidence::Clear
            || self.confirmations.as_ref().is_some_and(|list| list.new_fork)
    }
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventKinds(u16);

impl EventKinds {
    pub const NONE: Self = Self(0);
    /// Every kind, also those of later versions.
    pub const ALL: Self = Self(u16::MAX);

    pub const fn contains(self, kind: EventKind) -> bool {
        self.0 & kind.bit() != 0
    }

    pub const fn with(self, kind: EventKind) -> Self {
        Self(self.0 | kind.bit())
    }

    /// Takes names of kinds; none is every kind.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidValue> {
        let mut kinds = Self::NONE;
        for name in names {
            let Some(kind) = EventKind::from_name(name) else {
                let known = EventKind::ALL.map(EventKind::name).join(", ");
                return Err(InvalidValue::new("kind", format!("{name:?} is not one of {known}")));
            };
            kinds = kinds.with(kind);
        }
        Ok(if kinds == Self::NONE { Self::ALL } else { kinds })
    }
}

impl fmt::Debug for EventKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(EventKind::ALL.iter().filter(|kind| self.contains(**kind))).finish()
    }
}

/// An event. It holds what the public view of a transaction holds: no nonce, no token, no signed bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub kind: EventKind,
    pub submitter: Submitter,
    /// The transaction; `None` for an event about the submitter itself.
    pub tx: Option<EventTx>,
    /// The reason why the status of a submitter changed.
    pub reason: Option<Text<500>>,
}

/// The transaction of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTx {
    pub tx_id: TxId,
    /// The version of the row: grows with each change of the transaction.
    pub version: u32,
    pub request_id: Option<RequestId>,
    /// The state that the change led to.
    pub state: TxState,
    /// The mined hash; before that the hash of the attempt that the event is about, if it is known.
    pub tx_hash: Option<TxHash>,
    /// The number and hash of the receipt's block.
    pub block: Option<(u64, B256)>,
    /// The receipt is another one than before, or there is none any more.
    pub new_fork: bool,
    /// The trace of the request that made the transaction.
    pub trace: Option<TraceParent>,
}

/// An event with its place in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumberedEvent {
    /// Consecutive from 1 over all events that were written (I10).
    pub seq: Seq,
    /// When the change was written, by the database's clock.
    pub at: Timestamp,
    pub event: Event,
}

impl NumberedEvent {
    /// The id under which receivers drop repeats. It never changes.
    pub fn id(&self) -> String {
        let Event { kind, submitter, tx, .. } = &self.event;
        match tx {
            Some(tx) => format!("{}.{}.{kind}", tx.tx_id, tx.version),
            None => {
                let (chain, address) = (submitter.chain_id, submitter.address);
                format!("{chain}.{address:?}.{}.{kind}", self.seq.get())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Allocated, Failed, Queued, StuckReason, Tracking};

    fn kinds(from: TxState, to: TxState, is_receipt_changed: bool) -> Vec<EventKind> {
        of_change(from, to, is_receipt_changed).collect()
    }

    #[test]
    fn change_of_state_writes_the_kinds_of_the_table() {
        let waiting = TxState::Queued(Queued::Waiting);
        let unsent = TxState::Allocated(Allocated::Unsent);
        let pending = TxState::Tracking(Tracking::Pending);
        let mined = TxState::Tracking(Tracking::Mined);
        let capped = TxState::Stuck(StuckReason::FeeCap);
        let reverted = TxState::Failed(Failed::Reverted);
        for (from, to, receipt, expected) in [
            (waiting, unsent, false, &[][..]),
            (unsent, pending, false, &[EventKind::TxSubmitted]),
            (unsent, mined, true, &[EventKind::TxSubmitted, EventKind::TxReceiptUpdated]),
            (pending, mined, true, &[EventKind::TxReceiptUpdated]),
            (mined, pending, true, &[EventKind::TxReceiptUpdated]),
            (mined, mined, false, &[]),
            (mined, TxState::Confirmed, true, &[EventKind::TxConfirmed]),
            (mined, reverted, false, &[EventKind::TxFailed]),
            (pending, capped, false, &[EventKind::TxStuck]),
            (capped, pending, false, &[EventKind::TxUnstuck]),
            (capped, mined, true, &[EventKind::TxUnstuck, EventKind::TxReceiptUpdated]),
            (capped, TxState::Failed(Failed::Cancelled), false, &[EventKind::TxFailed]),
        ] {
            assert_eq!(kinds(from, to, receipt), expected, "{from:?} to {to:?}");
        }
    }

    /// Receivers wait for one of two kinds to know that a transaction has ended.
    #[test]
    fn every_end_writes_exactly_one_final_event() {
        for from in TxState::ALL.into_iter().filter(|state| !state.is_final()) {
            for to in TxState::ALL.into_iter().filter(|state| state.is_final()) {
                let ends = kinds(from, to, true);
                let expected = match to {
                    TxState::Confirmed => EventKind::TxConfirmed,
                    _ => EventKind::TxFailed,
                };
                assert_eq!(ends, [expected], "{from:?} to {to:?}");
            }
        }
    }

    /// Databases hold these numbers, and receivers these names.
    #[test]
    fn codes_of_kinds_stay_the_same() {
        assert_eq!(EventKind::ALL.map(EventKind::code), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn no_name_is_every_kind_and_an_unknown_name_is_refused() {
        assert_eq!(EventKinds::from_names([]), Ok(EventKinds::ALL));
        let two = EventKinds::from_names(["TxConfirmed", "TxFailed"]).unwrap();
        assert!(two.contains(EventKind::TxFailed) && !two.contains(EventKind::TxStuck));
        let error = EventKinds::from_names(["txconfirmed"]).unwrap_err();
        assert!(error.problem.contains("TxConfirmed"), "{error}");
    }
}
