//! The transition function of the state machine; all other code calls it.
//!
//! There is no wildcard arm: a new state or event does not compile until every pair is decided.

use thiserror::Error;

use crate::state::{Allocated, Failed, Queued, StuckReason, Tracking, TxState};

/// An event in the life of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TxEvent {
    /// Its submitter was paused or went to PROTECT.
    Held,
    /// Its submitter accepts work again.
    Unheld,
    /// The transaction got a slot, and its signed attempt becomes durable with this change (I5).
    SlotAllocated,
    /// The transaction was withdrawn, or expired, before it had a slot.
    Withdrawn,
    /// The transaction was found to be impossible before it had a slot.
    Refused,
    /// A node accepted it, or already knew it.
    NodeAccepted,
    /// The transaction may have been sent: the answer was lost or is inconclusive.
    AnswerUnclear,
    /// The nodes say that the balance does not cover it.
    FundsMissing,
    /// The same bytes were sent again to a node that had them.
    Resent,
    /// A receipt of one of its attempts is in the canonical chain.
    Mined,
    /// The block of its receipt left the canonical chain (I9).
    Orphaned,
    /// The receipt has reached the finality threshold (I8).
    Finalised(FinalOutcome),
    /// A foreign transaction in its slot has reached the finality threshold (I8).
    SlotTaken,
    /// Its slot went to another transaction, with proof that no node ever accepted it (I3).
    SlotRecycled,
    /// No automatic step is left.
    GaveUp(StuckReason),
    /// A policy or an operator retried it.
    Retried,
}

/// The meaning of a receipt at the finality threshold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FinalOutcome {
    /// The intent was executed.
    Executed,
    /// The intent was mined and reverted.
    Reverted,
    /// A cancellation was mined in its slot.
    Cancelled,
    /// A placeholder was mined in the slot of a transaction that no node accepted.
    Replaced,
}

impl TxEvent {
    pub const ALL: [Self; 27] = [
        Self::Held,
        Self::Unheld,
        Self::SlotAllocated,
        Self::Withdrawn,
        Self::Refused,
        Self::NodeAccepted,
        Self::AnswerUnclear,
        Self::FundsMissing,
        Self::Resent,
        Self::Mined,
        Self::Orphaned,
        Self::Finalised(FinalOutcome::Executed),
        Self::Finalised(FinalOutcome::Reverted),
        Self::Finalised(FinalOutcome::Cancelled),
        Self::Finalised(FinalOutcome::Replaced),
        Self::SlotTaken,
        Self::SlotRecycled,
        Self::GaveUp(StuckReason::TimedOut),
        Self::GaveUp(StuckReason::ResubmitsExhausted),
        Self::GaveUp(StuckReason::GreyZone),
        Self::GaveUp(StuckReason::Rejected),
        Self::GaveUp(StuckReason::Expired),
        Self::GaveUp(StuckReason::InsufficientFunds),
        Self::GaveUp(StuckReason::FeeCap),
        Self::GaveUp(StuckReason::Unproven),
        Self::GaveUp(StuckReason::Unwritable),
        Self::Retried,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Unheld => "unheld",
            Self::SlotAllocated => "slot_allocated",
            Self::Withdrawn => "withdrawn",
            Self::Refused => "refused",
            Self::NodeAccepted => "node_accepted",
            Self::AnswerUnclear => "answer_unclear",
            Self::FundsMissing => "funds_missing",
            Self::Resent => "resent",
            Self::Mined => "mined",
            Self::Orphaned => "orphaned",
            Self::Finalised(_) => "finalised",
            Self::SlotTaken => "slot_taken",
            Self::SlotRecycled => "slot_recycled",
            Self::GaveUp(_) => "gave_up",
            Self::Retried => "retried",
        }
    }
}

/// An illegal transition: the caller's view of the row is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{state} cannot take {event:?}")]
pub struct IllegalMove {
    /// The state that the transaction was believed to be in.
    pub state: TxState,
    pub event: TxEvent,
}

/// The state to which `event` takes a transaction in `state`.
pub const fn transition(state: TxState, event: TxEvent) -> Result<TxState, IllegalMove> {
    let next = match state {
        TxState::Queued(queued) => from_queued(queued, event),
        TxState::Allocated(allocated) => from_allocated(allocated, event),
        TxState::Tracking(tracking) => from_tracking(tracking, event),
        TxState::Stuck(reason) => from_stuck(reason, event),
        // I9: a final state never flips.
        TxState::Confirmed | TxState::Failed(_) => None,
    };
    match next {
        Some(next) => Ok(next),
        None => Err(IllegalMove { state, event }),
    }
}

const fn from_queued(queued: Queued, event: TxEvent) -> Option<TxState> {
    match (event, queued) {
        (TxEvent::Held, Queued::Waiting | Queued::Held) => Some(TxState::Queued(Queued::Held)),
        (TxEvent::Unheld, Queued::Held | Queued::Waiting) => Some(TxState::Queued(Queued::Waiting)),
        (TxEvent::SlotAllocated, Queued::Waiting) => Some(TxState::Allocated(Allocated::Unsent)),
        // I12: a submitter that is paused or in PROTECT opens no slot.
        (TxEvent::SlotAllocated, Queued::Held) => None,
        (TxEvent::Withdrawn, Queued::Waiting | Queued::Held) => {
            Some(TxState::Failed(Failed::Cancelled))
        }
        (TxEvent::Refused, Queued::Waiting | Queued::Held) => {
            Some(TxState::Failed(Failed::Rejected))
        }
        (
            TxEvent::NodeAccepted
            | TxEvent::AnswerUnclear
            | TxEvent::FundsMissing
            | TxEvent::Resent
            | TxEvent::Mined
            | TxEvent::Orphaned
            | TxEvent::Finalised(_)
            | TxEvent::SlotTaken
            | TxEvent::SlotRecycled
            | TxEvent::GaveUp(_)
            | TxEvent::Retried,
            Queued::Waiting | Queued::Held,
        ) => None,
    }
}

const fn from_allocated(allocated: Allocated, event: TxEvent) -> Option<TxState> {
    match event {
        TxEvent::NodeAccepted => Some(TxState::Tracking(Tracking::Pending)),
        TxEvent::AnswerUnclear => Some(TxState::Allocated(Allocated::UnknownSubmitResult)),
        TxEvent::FundsMissing => Some(TxState::Allocated(match allocated {
            Allocated::Unsent | Allocated::InsufficientFunds => Allocated::InsufficientFunds,
            // An unclear outcome stays unclear: an earlier send may have been accepted.
            Allocated::UnknownSubmitResult => Allocated::UnknownSubmitResult,
        })),
        TxEvent::Mined => Some(TxState::Tracking(Tracking::Mined)),
        TxEvent::SlotTaken => Some(TxState::Failed(Failed::NonceTaken)),
        TxEvent::SlotRecycled => match allocated {
            Allocated::Unsent => Some(TxState::Failed(Failed::Rejected)),
            // I3: a transaction that a node may have keeps its slot.
            Allocated::UnknownSubmitResult | Allocated::InsufficientFunds => None,
        },
        TxEvent::GaveUp(reason) => match allocated {
            Allocated::Unsent => Some(TxState::Stuck(reason)),
            Allocated::UnknownSubmitResult | Allocated::InsufficientFunds => {
                stuck_after_a_send(reason)
            }
        },
        TxEvent::Held
        | TxEvent::Unheld
        | TxEvent::SlotAllocated
        | TxEvent::Withdrawn
        | TxEvent::Refused
        | TxEvent::Resent
        | TxEvent::Orphaned
        | TxEvent::Finalised(_)
        | TxEvent::Retried => None,
    }
}

/// I3: REJECTED frees the slot, so it needs proof that no node ever accepted the transaction; once it was in
/// the grey zone or with a node there is no such proof, whatever the nodes answer later.
const fn stuck_after_a_send(reason: StuckReason) -> Option<TxState> {
    match reason {
        StuckReason::Rejected => None,
        StuckReason::TimedOut
        | StuckReason::ResubmitsExhausted
        | StuckReason::GreyZone
        | StuckReason::Expired
        | StuckReason::InsufficientFunds
        | StuckReason::FeeCap
        | StuckReason::Unproven
        | StuckReason::Unwritable => Some(TxState::Stuck(reason)),
    }
}

const fn from_tracking(tracking: Tracking, event: TxEvent) -> Option<TxState> {
    match (event, tracking) {
        // A late answer to an earlier send changes nothing.
        (TxEvent::NodeAccepted | TxEvent::AnswerUnclear | TxEvent::FundsMissing, known) => {
            Some(TxState::Tracking(known))
        }
        (TxEvent::Resent, Tracking::Pending | Tracking::Stale) => {
            Some(TxState::Tracking(Tracking::Stale))
        }
        (TxEvent::Resent, Tracking::Mined) => None,
        (TxEvent::Mined, Tracking::Pending | Tracking::Stale | Tracking::Mined) => {
            Some(TxState::Tracking(Tracking::Mined))
        }
        (TxEvent::Orphaned, Tracking::Mined) => Some(TxState::Tracking(Tracking::Pending)),
        (TxEvent::Orphaned, Tracking::Pending | Tracking::Stale) => None,
        // I8: only a receipt that is in the canonical chain can become final.
        (TxEvent::Finalised(verdict), Tracking::Mined) => Some(finalised(verdict)),
        (TxEvent::Finalised(_), Tracking::Pending | Tracking::Stale) => None,
        (TxEvent::SlotTaken, Tracking::Pending | Tracking::Stale) => {
            Some(TxState::Failed(Failed::NonceTaken))
        }
        (TxEvent::SlotTaken, Tracking::Mined) => None,
        (TxEvent::GaveUp(reason), Tracking::Pending | Tracking::Stale) => {
            stuck_after_a_send(reason)
        }
        (TxEvent::GaveUp(_), Tracking::Mined) => None,
        (
            TxEvent::Held
            | TxEvent::Unheld
            | TxEvent::SlotAllocated
            | TxEvent::Withdrawn
            | TxEvent::Refused
            // I3: a node has had it.
            | TxEvent::SlotRecycled
            | TxEvent::Retried,
            Tracking::Pending | Tracking::Stale | Tracking::Mined,
        ) => None,
    }
}

const fn from_stuck(reason: StuckReason, event: TxEvent) -> Option<TxState> {
    match event {
        TxEvent::NodeAccepted => Some(TxState::Tracking(Tracking::Stale)),
        // I3: after an unclear answer it can't be proven any more that no node accepted it.
        TxEvent::AnswerUnclear | TxEvent::FundsMissing => match reason {
            StuckReason::Rejected => Some(TxState::Stuck(StuckReason::GreyZone)),
            StuckReason::TimedOut
            | StuckReason::ResubmitsExhausted
            | StuckReason::GreyZone
            | StuckReason::Expired
            | StuckReason::InsufficientFunds
            | StuckReason::FeeCap
            | StuckReason::Unproven
            | StuckReason::Unwritable => Some(TxState::Stuck(reason)),
        },
        TxEvent::Mined => Some(TxState::Tracking(Tracking::Mined)),
        TxEvent::SlotTaken => Some(TxState::Failed(Failed::NonceTaken)),
        TxEvent::SlotRecycled => match reason {
            StuckReason::Rejected => Some(TxState::Failed(Failed::Rejected)),
            // I3: for any other reason a node may have it.
            StuckReason::TimedOut
            | StuckReason::ResubmitsExhausted
            | StuckReason::GreyZone
            | StuckReason::Expired
            | StuckReason::InsufficientFunds
            | StuckReason::FeeCap
            | StuckReason::Unproven
            | StuckReason::Unwritable => None,
        },
        TxEvent::GaveUp(newer) => stuck_after_a_send(newer),
        // Through the grey zone: the retry finds out whether a node has it.
        TxEvent::Retried => Some(TxState::Allocated(Allocated::UnknownSubmitResult)),
        TxEvent::Held
        | TxEvent::Unheld
        | TxEvent::SlotAllocated
        | TxEvent::Withdrawn
        | TxEvent::Refused
        | TxEvent::Resent
        | TxEvent::Orphaned
        | TxEvent::Finalised(_) => None,
    }
}

const fn finalised(verdict: FinalOutcome) -> TxState {
    match verdict {
        FinalOutcome::Executed => TxState::Confirmed,
        FinalOutcome::Reverted => TxState::Failed(Failed::Reverted),
        FinalOutcome::Cancelled => TxState::Failed(Failed::Cancelled),
        FinalOutcome::Replaced => TxState::Failed(Failed::Rejected),
    }
}
