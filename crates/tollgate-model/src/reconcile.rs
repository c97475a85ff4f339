//! Compares what the chain counts with what we believe: cursor, open slots, holes.
//!
//! Pure: a worker reads the counts at each takeover, every `reconcile.interval` and after any sign
//! of drift, asks [`reconcile`], carries the steps out, and asks again when a search is done. The
//! cursor only moves forward (I4). A slot is called taken only when *all* own attempts were looked
//! for, on more than one endpoint where there is more than one, after the use of the slot was settled,
//! and none was found (I8).

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::diagnose::witnesses_needed;
use crate::ids::{InvalidId, Nonce};
use crate::nonce::{Mode, SubmitterStatus, Unexplained, unexplained};
use crate::port::batch::CursorMove;
use crate::port::chain::AccountCounts;
use crate::state::{Tracking, TxState};

/// What one endpoint says about the receipt of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Looked {
    /// Here it is.
    Found,
    /// There is none, although the endpoint's own count is past the slot.
    NotThere,
    /// There is none, but the endpoint does not count the slot as used either: it lags.
    Behind,
    /// No answer. Never evidence.
    NoAnswer,
}

/// What the search for all attempts of one slot has brought.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Search {
    /// It has not been done, or too few could say: look (again).
    Unfinished,
    /// One of the attempts is mined: the slot is ours.
    Ours {
        /// Which, in the order of the attempts.
        attempt: usize,
    },
    /// None of the attempts is mined, by the word of every endpoint that could tell.
    NotOurs,
}

/// Judges a search: for each attempt, in order, what each endpoint of the chain says.
pub fn judge_search(looked: &[impl AsRef<[Looked]>]) -> Search {
    let found = looked.iter().position(|said| said.as_ref().contains(&Looked::Found));
    if let Some(attempt) = found {
        return Search::Ours { attempt };
    }
    let denied = |said: &[Looked]| {
        let witnesses = said.iter().filter(|word| **word == Looked::NotThere).count();
        witnesses >= witnesses_needed(said.len())
    };
    if !looked.is_empty() && looked.iter().all(|said| denied(said.as_ref())) {
        Search::NotOurs
    } else {
        Search::Unfinished
    }
}

/// One open slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenSlot {
    /// Its nonce.
    pub nonce: Nonce,
    /// Where its transaction is.
    pub state: TxState,
    /// What the last search for its attempts brought; [`Search::Unfinished`] again after a further
    /// attempt or a reorg.
    pub search: Search,
    /// The settled count that was known when that search began.
    pub settled_at_search: Option<Nonce>,
}

/// All that is known about a submitter's slots at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReconcileView<'a> {
    /// Pipelined or strict.
    pub mode: Mode,
    /// Whether it takes work.
    pub status: SubmitterStatus,
    /// The stored cursor.
    pub cursor: Nonce,
    /// The account's counts, as high as they were ever confirmed.
    pub counts: AccountCounts,
    /// The account's count in a block that is settled ([`crate::finality`]), where it is known.
    pub settled: Option<Nonce>,
    /// The open slots, lowest first.
    pub open: &'a [OpenSlot],
    /// Nonces that callers have reserved and fill themselves.
    pub reserved: &'a BTreeSet<Nonce>,
}

/// What to do about a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReconcileStep {
    /// Go to PROTECT: take no new work until an operator resumes (I12).
    Protect(Foreign),
    /// Move the cursor forward: outsiders have used what it points to.
    MoveCursor(CursorMove),
    /// The chain has used the slot: look for receipts of all its attempts, at every endpoint.
    FindReceipts {
        /// Which slot.
        nonce: Nonce,
    },
    /// The slot is ours: take notice of this attempt's receipt.
    NoteReceipt {
        /// Which slot.
        nonce: Nonce,
        /// Which attempt, in their order.
        attempt: usize,
    },
    /// A foreign transaction is in the slot, in a block that may still go: show it, and wait.
    AwaitFinality {
        /// Which slot.
        nonce: Nonce,
    },
    /// End the transaction as NONCE_TAKEN ([`crate::TxEvent::SlotTaken`]).
    SlotTaken {
        /// Which slot.
        nonce: Nonce,
    },
    /// Show it, and have the stuck policy asked if it is in the way of the head.
    Hole(Hole),
}

impl fmt::Display for ReconcileStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protect(why) => write!(f, "PROTECT: {why}"),
            Self::MoveCursor(step) => write!(f, "cursor to {}", step.to),
            Self::FindReceipts { nonce } => write!(f, "look for receipts of {nonce}"),
            Self::NoteReceipt { nonce, .. } => write!(f, "{nonce} is ours: note its receipt"),
            Self::AwaitFinality { nonce } => write!(f, "{nonce} is foreign: wait for finality"),
            Self::SlotTaken { nonce } => write!(f, "{nonce} ends as NONCE_TAKEN"),
            Self::Hole(Hole { first, last, pending }) => {
                let note = if *pending { " (a pool counts it)" } else { "" };
                write!(f, "hole {first} to {last}{note}")
            }
        }
    }
}

/// What a strict submitter's own slots don't explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// The count is not ours.
    Count(Unexplained),
    /// The count would do, but what is in this slot is not ours.
    Slot(Nonce),
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(Unexplained { mined, at_least, at_most }) => {
                write!(f, "the chain counts {mined}, our slots explain {at_least} to {at_most}")
            }
            Self::Slot(nonce) => write!(f, "what is in slot {nonce} is not ours"),
        }
    }
}

/// Nonces that the chain waits for and that nothing of ours is in, below an open slot.
///
/// A sight, not a proof: a count that lags shows holes where our own finished transactions are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The lowest.
    pub first: Nonce,
    /// The highest.
    pub last: Nonce,
    /// A node holds something there that is not ours: it may fill by itself. Shown all the same,
    /// because what only a pool counts can vanish and leave the hole for ever.
    pub pending: bool,
}

/// Compares, and says what follows: PROTECT first, then the cursor, then slots and holes from the
/// lowest up.
pub fn reconcile(view: &ReconcileView<'_>) -> Result<Vec<ReconcileStep>, InvalidId> {
    let mined = view.counts.mined;
    let slots: Vec<_> = view.open.iter().filter_map(|slot| step_for(slot, view)).collect();
    let mut steps = Vec::new();
    match view.mode {
        Mode::Pipelined if view.cursor < mined => {
            steps.push(ReconcileStep::MoveCursor(CursorMove { from: view.cursor, to: mined }));
        }
        Mode::Pipelined => {}
        Mode::Strict => {
            // Together with the end of its transaction, or a resumed submitter would be stopped
            // again by the same slot.
            let taken = slots.iter().find_map(|step| match step {
                ReconcileStep::SlotTaken { nonce } => Some(Foreign::Slot(*nonce)),
                ReconcileStep::Protect(_)
                | ReconcileStep::MoveCursor(_)
                | ReconcileStep::FindReceipts { .. }
                | ReconcileStep::NoteReceipt { .. }
                | ReconcileStep::AwaitFinality { .. }
                | ReconcileStep::Hole(_) => None,
            });
            let count = unexplained(view.cursor, unsettled(view), mined).map(Foreign::Count);
            let foreign = count.or(taken).filter(|_| view.status != SubmitterStatus::Protect);
            steps.extend(foreign.map(ReconcileStep::Protect));
        }
    }
    steps.extend(slots);
    let open: BTreeSet<Nonce> = view.open.iter().map(|slot| slot.nonce).collect();
    steps.extend(holes(view.counts, &open, view.reserved)?.into_iter().map(ReconcileStep::Hole));
    Ok(steps)
}

fn step_for(slot: &OpenSlot, view: &ReconcileView<'_>) -> Option<ReconcileStep> {
    let nonce = slot.nonce;
    let has_receipt = slot.state == TxState::Tracking(Tracking::Mined);
    if nonce >= view.counts.mined || has_receipt {
        return None;
    }
    let settled = |count: Option<Nonce>| count.is_some_and(|count| nonce < count);
    Some(match slot.search {
        Search::Unfinished => ReconcileStep::FindReceipts { nonce },
        Search::Ours { attempt } => ReconcileStep::NoteReceipt { nonce, attempt },
        Search::NotOurs if settled(slot.settled_at_search) => ReconcileStep::SlotTaken { nonce },
        // I8: what was found before it was settled may have changed by a reorg: ours may be there.
        Search::NotOurs if settled(view.settled) => ReconcileStep::FindReceipts { nonce },
        Search::NotOurs => ReconcileStep::AwaitFinality { nonce },
    })
}

fn unsettled(view: &ReconcileView<'_>) -> u32 {
    u32::try_from(view.open.len()).unwrap_or(u32::MAX)
}

/// Every hole from the *mined* count up to the highest open slot, as ranges: their number is bound
/// by the open slots and the reservations, however far apart they lie (I13).
pub fn holes(
    counts: AccountCounts,
    open: &BTreeSet<Nonce>,
    reserved: &BTreeSet<Nonce>,
) -> Result<Vec<Hole>, InvalidId> {
    let mut holes = Vec::new();
    let mut next = counts.mined;
    let ours: BTreeSet<Nonce> = open.union(reserved).copied().collect();
    let Some(highest) = open.last().copied().filter(|highest| *highest >= next) else {
        return Ok(holes);
    };
    for nonce in ours.range(next..=highest) {
        // What a pool counts ends at the pending count: a range across it is two holes.
        let filled = counts.pending.clamp(next, *nonce);
        for (from, to, pending) in [(next, filled, true), (filled, *nonce, false)] {
            if let Some(last) = to.get().checked_sub(1).filter(|last| *last >= from.get()) {
                holes.push(Hole { first: from, last: Nonce::new(last)?, pending });
            }
        }
        next = nonce.forward(1)?;
    }
    Ok(holes)
}

/// Why an operator's resume is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CannotResume {
    /// The chain lacks what our settled slots say it has, and the cursor never goes back (I4).
    #[error("the chain counts {}, our slots explain {} to {}", .0.mined, .0.at_least, .0.at_most)]
    ChainBehind(Unexplained),
}

/// How a submitter is re-aligned when an operator resumes it: the cursor's move, if it has to move.
/// The status change is written with it.
///
/// Pipelined: a cursor behind the chain moves forward, and nothing is refused. Strict: the same,
/// with which the operator accepts what outsiders have used; but a chain that counts less than our
/// settled slots can't be accepted, it would be PROTECT again at once. Open slots stay open: what
/// the chain used is resolved by [`reconcile`].
pub fn resume(view: &ReconcileView<'_>) -> Result<Option<CursorMove>, CannotResume> {
    let (from, mined) = (view.cursor, view.counts.mined);
    let to = from.max(mined);
    let refused = match view.mode {
        Mode::Pipelined => None,
        Mode::Strict => unexplained(to, unsettled(view), mined),
    };
    match refused {
        Some(unexplained) => Err(CannotResume::ChainBehind(unexplained)),
        None => Ok((to > from).then_some(CursorMove { from, to })),
    }
}

#[cfg(test)]
mod tests;
