//! Changes of transactions that exist.

use std::time::Duration;

use alloy_primitives::B256;

use super::{NewAttempt, NewEvent, Slot};
use crate::ids::{Nonce, TxId};
use crate::port::record::{MinedIn, Seen};
use crate::resubmit::Patience;
use crate::state::TxState;
use crate::text::Text;
use crate::time::Timestamp;
use crate::transition::{IllegalMove, TxEvent, transition};

/// A change of one transaction, by comparison with what the writer saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxUpdate {
    /// Which.
    pub tx_id: TxId,
    /// What the writer saw; if the row has moved since, the answer is [`UpdateAnswer::Lost`](super::UpdateAnswer::Lost).
    pub seen: Seen,
    to: TxState,
    event: Change,
    /// A slot for a queued transaction; belongs to [`TxEvent::SlotAllocated`] alone.
    pub slot: Option<Slot>,
    /// A further attempt at the same nonce.
    pub attempt: Option<NewAttempt>,
    /// The slot that goes back to the pool; belongs to [`TxEvent::SlotRecycled`] alone.
    pub freed_nonce: Option<Nonce>,
    /// The receipt.
    pub evidence: Evidence,
    /// The confirmation list, replacing the stored one as a whole.
    pub confirmations: Option<Confirmations>,
    /// When to send it again.
    pub schedule: Schedule,
    /// One more resubmission to count.
    pub resubmitted: bool,
    /// How long it has been waited for as the head of the line; `None` keeps what is stored.
    pub patience: Option<Patience>,
    /// Since when searches bring no proof of what is in its slot; `None` keeps what is stored.
    pub unproven_since: Option<Timestamp>,
    /// The last error that the world gave for it.
    pub last_error: Option<Text<2000>>,
    /// What was last found out about its place in the nodes' pools; `None` keeps what is stored.
    pub diagnosis: Option<Text<300>>,
    /// More for the audit trail.
    pub detail: Option<Text<4000>>,
    /// What to tell the world.
    pub outbox: Option<NewEvent>,
}

/// What an update's audit entry is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Moved(TxEvent),
    Noted(&'static str),
}

impl TxUpdate {
    /// A move of the state machine; one that it does not have can't be written.
    pub fn moved(tx_id: TxId, seen: Seen, event: TxEvent) -> Result<Self, IllegalMove> {
        let to = transition(seen.state, event)?;
        Ok(Self::build(tx_id, seen, to, Change::Moved(event)))
    }

    /// A change that leaves the state as it is: a claim, a schedule, a further attempt (I11).
    pub const fn noted(tx_id: TxId, seen: Seen, what: &'static str) -> Self {
        Self::build(tx_id, seen, seen.state, Change::Noted(what))
    }

    const fn build(tx_id: TxId, seen: Seen, to: TxState, event: Change) -> Self {
        Self {
            tx_id,
            seen,
            to,
            event,
            slot: None,
            attempt: None,
            freed_nonce: None,
            evidence: Evidence::Keep,
            confirmations: None,
            schedule: Schedule::Keep,
            resubmitted: false,
            patience: None,
            unproven_since: None,
            last_error: None,
            diagnosis: None,
            detail: None,
            outbox: None,
        }
    }

    /// Where it goes.
    pub const fn to(&self) -> TxState {
        self.to
    }

    /// The move that it is, unless it only leaves a note.
    pub const fn event(&self) -> Option<TxEvent> {
        match self.event {
            Change::Moved(event) => Some(event),
            Change::Noted(_) => None,
        }
    }

    /// The word for it in the audit trail.
    pub const fn event_name(&self) -> &'static str {
        match self.event {
            Change::Moved(event) => event.name(),
            Change::Noted(what) => what,
        }
    }

    /// The signed form that this change adds, with a slot or without.
    pub fn new_attempt(&self) -> Option<&NewAttempt> {
        self.slot.as_ref().map(|slot| &slot.attempt).or(self.attempt.as_ref())
    }

    /// What the row will be if this change is applied.
    pub const fn applied(&self) -> Seen {
        Seen { state: self.to, version: self.seen.version.saturating_add(1) }
    }
}

/// What an update says of the receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Nothing.
    Keep,
    /// It is in this block.
    Set(MinedIn),
    /// It is in no block any more.
    Clear,
}

impl Evidence {
    /// The code of [`Self::Set`].
    pub(crate) const SET_CODE: i16 = 1;

    /// The number that statements know it by, the same in every store.
    pub const fn code(&self) -> i16 {
        match self {
            Self::Keep => 0,
            Self::Set(_) => Self::SET_CODE,
            Self::Clear => 2,
        }
    }

    /// The receipt that it brings.
    pub const fn mined(&self) -> Option<&MinedIn> {
        match self {
            Self::Set(mined) => Some(mined),
            Self::Keep | Self::Clear => None,
        }
    }
}

/// When to send again, counted from the commit by the database's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// As it is.
    Keep,
    /// After this long.
    In(Duration),
    /// Not by itself.
    Never,
}

impl Schedule {
    /// The number that statements know it by, the same in every store.
    pub const fn code(self) -> i16 {
        match self {
            Self::Keep => 0,
            Self::In(_) => 1,
            Self::Never => 2,
        }
    }

    /// The delay that it brings; zero where there is none.
    pub const fn delay(self) -> Duration {
        match self {
            Self::In(delay) => delay,
            Self::Keep | Self::Never => Duration::ZERO,
        }
    }
}

/// The blocks on top of a receipt, from its own block on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confirmations {
    /// The number of the receipt's block.
    pub first_block: u64,
    /// The hashes of it and its successors.
    pub hashes: Vec<B256>,
    /// The list differs from an earlier one in more than its length.
    pub new_fork: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of every store compare with these numbers.
    #[test]
    fn evidence_and_schedule_have_one_code_each_and_keep_is_zero() {
        let mined = MinedIn {
            tx_hash: B256::ZERO,
            block_number: 1,
            block_hash: B256::ZERO,
            gas_used: 1,
            succeeded: true,
            revert_reason: None,
            details: crate::port::ReceiptDetails::default(),
        };
        let set = Evidence::Set(mined.clone());
        assert_eq!([Evidence::Keep.code(), set.code(), Evidence::Clear.code()], [0, 1, 2]);
        assert_eq!((set.mined(), Evidence::Clear.mined()), (Some(&mined), None));
        let soon = Schedule::In(Duration::from_secs(1));
        assert_eq!([Schedule::Keep.code(), soon.code(), Schedule::Never.code()], [0, 1, 2]);
        assert_eq!(
            (soon.delay(), Schedule::Never.delay()),
            (Duration::from_secs(1), Duration::ZERO)
        );
    }
}
