//! Changes to existing transactions.

use std::time::Duration;

use alloy_primitives::B256;

use super::{NewAttempt, Slot};
use crate::ids::{Nonce, TxHash, TxId};
use crate::port::record::{RowVersion, TxReceipt};
use crate::resubmit::Patience;
use crate::state::TxState;
use crate::text::Text;
use crate::time::Timestamp;
use crate::trace::TraceParent;
use crate::transition::{IllegalMove, TxEvent, transition};

/// A change of one transaction, conditional on the row version that the writer read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxUpdate {
    pub tx_id: TxId,
    /// The expected row version; if the row has changed, the answer is
    /// [`UpdateAnswer::Lost`](super::UpdateAnswer::Lost).
    pub row: RowVersion,
    to: TxState,
    event: Change,
    /// A slot for a queued transaction; only with [`TxEvent::SlotAllocated`].
    pub slot: Option<Slot>,
    /// A further attempt at the same nonce.
    pub attempt: Option<NewAttempt>,
    /// The slot that becomes recyclable; only with [`TxEvent::SlotRecycled`].
    pub freed_nonce: Option<Nonce>,
    /// The change of the stored receipt.
    pub evidence: Evidence,
    /// The confirmation list, which replaces the stored one as a whole.
    pub confirmations: Option<Confirmations>,
    /// The change of the resubmission schedule.
    pub schedule: Schedule,
    /// Counts one more resubmission.
    pub resubmitted: bool,
    /// The time for which it has waited as the head of line; `None` keeps the stored value.
    pub patience: Option<Patience>,
    /// Since when searches have brought no proof of the transaction in its slot; `None` keeps the stored
    /// value.
    pub unproven_since: Option<Timestamp>,
    /// The last error that a node answered; `None` keeps the stored one, and an empty text removes it
    /// ([`Self::clear_error`]).
    pub last_error: Option<Text<2000>>,
    /// The mempool diagnosis; `None` keeps the stored value.
    pub diagnosis: Option<Text<300>>,
    pub detail: Option<Text<4000>>,
    /// The hash of the attempt that a node has taken, for the event about it.
    pub sent_hash: Option<TxHash>,
    /// The trace of the request, for the events of this change. Nothing is stored of it.
    pub trace: Option<TraceParent>,
}

/// The kind of change that the audit entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Moved(TxEvent),
    Noted(&'static str),
}

impl TxUpdate {
    /// A transition of the state machine; an illegal one can't be constructed.
    pub fn moved(tx_id: TxId, row: RowVersion, event: TxEvent) -> Result<Self, IllegalMove> {
        let to = transition(row.state, event)?;
        let mut update = Self::build(tx_id, row, to, Change::Moved(event));
        if to.is_final() {
            // A final transaction is not resent.
            update.schedule = Schedule::Never;
        }
        if let TxEvent::Finalised(_) = event {
            // The receipt holds the result; errors that nodes answered before are out of date.
            update.clear_error();
        }
        Ok(update)
    }

    /// A change that keeps the state: a claim, a schedule, a further attempt (I11).
    pub const fn noted(tx_id: TxId, row: RowVersion, what: &'static str) -> Self {
        Self::build(tx_id, row, row.state, Change::Noted(what))
    }

    const fn build(tx_id: TxId, row: RowVersion, to: TxState, event: Change) -> Self {
        Self {
            tx_id,
            row,
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
            sent_hash: None,
            trace: None,
        }
    }

    /// Removes the stored error.
    pub fn clear_error(&mut self) {
        self.last_error = Some(Text::lossy(""));
    }

    /// The state after the change.
    pub const fn to(&self) -> TxState {
        self.to
    }

    /// The transition, unless the state stays.
    pub const fn event(&self) -> Option<TxEvent> {
        match self.event {
            Change::Moved(event) => Some(event),
            Change::Noted(_) => None,
        }
    }

    /// The event's name in the audit trail.
    pub const fn event_name(&self) -> &'static str {
        match self.event {
            Change::Moved(event) => event.name(),
            Change::Noted(what) => what,
        }
    }

    /// The attempt that this change adds, with a slot or without.
    pub fn new_attempt(&self) -> Option<&NewAttempt> {
        self.slot.as_ref().map(|slot| &slot.attempt).or(self.attempt.as_ref())
    }

    /// The row version after the change.
    pub const fn applied(&self) -> RowVersion {
        RowVersion { state: self.to, version: self.row.version.saturating_add(1) }
    }
}

/// A change of the stored receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "few updates exist at once, and most set a receipt")]
pub enum Evidence {
    /// Keep it.
    Keep,
    /// Store this receipt.
    Set(TxReceipt),
    /// Remove it: the transaction is in no canonical block any more.
    Clear,
}

impl Evidence {
    /// The code of [`Self::Set`].
    pub(crate) const SET_CODE: i16 = 1;

    /// The number that statements use, the same in every store.
    pub const fn code(&self) -> i16 {
        match self {
            Self::Keep => 0,
            Self::Set(_) => Self::SET_CODE,
            Self::Clear => 2,
        }
    }

    /// The receipt to store.
    pub const fn mined(&self) -> Option<&TxReceipt> {
        match self {
            Self::Set(mined) => Some(mined),
            Self::Keep | Self::Clear => None,
        }
    }
}

/// A change of the resubmission schedule, counted from the commit by the database's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Keep it.
    Keep,
    /// Resubmit after this long.
    In(Duration),
    /// Do not resubmit automatically.
    Never,
}

impl Schedule {
    /// The number that statements use, the same in every store.
    pub const fn code(self) -> i16 {
        match self {
            Self::Keep => 0,
            Self::In(_) => 1,
            Self::Never => 2,
        }
    }

    /// The delay; zero if there is none.
    pub const fn delay(self) -> Duration {
        match self {
            Self::In(delay) => delay,
            Self::Keep | Self::Never => Duration::ZERO,
        }
    }
}

/// The blocks on top of a receipt, starting with its own block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confirmations {
    /// The number of the receipt's block.
    pub first_block: u64,
    /// The hashes of that block and its successors.
    pub hashes: Vec<B256>,
    /// The list is no extension of an earlier one.
    pub new_fork: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every store's statements compare with these numbers.
    #[test]
    fn evidence_and_schedule_have_one_code_each_and_keep_is_zero() {
        let mined = TxReceipt {
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
