//! Reconciliation: compares the chain's counts with the cursor, the open slots and the holes.
//!
//! Pure functions: the worker reads the counts at each takeover, every `reconcile.interval` and after any
//! sign of drift, calls [`reconcile`], carries the steps out, and calls again when a search is done. The
//! cursor only moves forward (I4). A slot is called taken only if a foreign transaction was *seen* in it,
//! in a settled block, and is none of *all* own attempts. If one endpoint alone shows it, the receipts of the
//! attempts must be missing as well, on more than one endpoint if there are several. A search without a result is never evidence (I8): an unproven slot becomes STUCK, and the
//! search goes on.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::TxHash;
use crate::diagnose::witnesses_needed;
use crate::ids::{InvalidValue, Nonce};
use crate::nonce::{Mode, SubmitterStatus, Unexplained, unexplained};
use crate::port::batch::CursorMove;
use crate::port::chain::{AccountCounts, CountSupport, Occupant, OccupantSupport};
use crate::state::{StuckReason, Tracking, TxState};

/// One endpoint's answer about the receipt of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReceiptLookup {
    /// The receipt exists.
    Found,
    /// There is no receipt, although the endpoint's own count is past the slot.
    NotThere,
    /// There is no receipt, but the endpoint does not count the slot as used either: it lags.
    Behind,
    /// No answer. Never evidence.
    NoAnswer,
}

/// The result of the search for the transaction in one slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Search {
    /// No search since the last attempt or reorg.
    NotYet,
    /// One of the attempts has a receipt: the slot is ours.
    Ours { attempt: usize },
    /// A block holds one of the attempts, and no endpoint has its receipt: the slot is ours, with unknown
    /// result.
    ReceiptMissing { attempt: usize, seen: Occupant },
    /// A foreign transaction was seen in the slot.
    Foreign { seen: Occupant },
    /// Nothing was proven: no endpoint showed the transaction in the slot, or too few answered.
    InVain,
}

/// Judges a search: for each attempt, in order, its hash and each endpoint's answer about its receipt; and
/// the transaction that was seen in the slot, if there is one.
///
/// I8: missing receipts prove nothing, because receipts are pruned. A foreign transaction that is
/// corroborated decides alone, because a nonce is used once: no attempt of ours can be in the slot as long as
/// its block is canonical. So an endpoint that counts too little for ever, or does not answer, prevents no end
/// (I15). One that a single endpoint shows counts only if enough endpoints have no receipt of any attempt.
pub fn judge_search(
    attempts: &[TxHash],
    looked: &[impl AsRef<[ReceiptLookup]>],
    seen: Option<Occupant>,
) -> Search {
    let found = looked.iter().position(|said| said.as_ref().contains(&ReceiptLookup::Found));
    if let Some(attempt) = found {
        return Search::Ours { attempt };
    }
    let Some(seen) = seen else { return Search::InVain };
    if let Some(attempt) = attempts.iter().position(|hash| *hash == seen.tx_hash) {
        return Search::ReceiptMissing { attempt, seen };
    }
    match seen.support {
        OccupantSupport::Corroborated => Search::Foreign { seen },
        OccupantSupport::Single if is_denied(looked) => Search::Foreign { seen },
        OccupantSupport::Single => Search::InVain,
    }
}

/// Returns whether enough endpoints have no receipt of any attempt, although they count the slot.
fn is_denied(looked: &[impl AsRef<[ReceiptLookup]>]) -> bool {
    let denied = |said: &[ReceiptLookup]| {
        let witnesses = said.iter().filter(|lookup| **lookup == ReceiptLookup::NotThere).count();
        witnesses >= witnesses_needed(said.len())
    };
    !looked.is_empty() && looked.iter().all(|said| denied(said.as_ref()))
}

/// The standing of a block in the chain, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockStanding {
    /// Canonical at the finality threshold.
    Settled,
    /// Not final: the block may still leave the chain, or has not been checked yet.
    Open,
    /// No longer in the canonical chain.
    Left,
}

/// One open slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenSlot {
    pub nonce: Nonce,
    pub state: TxState,
    /// The last search's result; [`Search::NotYet`] again after a further attempt or a reorg.
    pub search: Search,
    /// The standing of the block in which that search saw something.
    pub block: BlockStanding,
    /// The time for which searches have brought no proof.
    pub unproven_for: Duration,
}

/// The facts about a submitter's slots at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReconcileView<'a> {
    pub mode: Mode,
    pub status: SubmitterStatus,
    /// The stored cursor.
    pub cursor: Nonce,
    /// The account's counts: the highest values that were ever confirmed.
    pub counts: AccountCounts,
    /// The account's count at a settled block ([`crate::finality`]), if it is known.
    pub settled: Option<SettledCount>,
    /// The nonce after the highest slot whose transaction is final: the chain has used all below it.
    pub final_end: Nonce,
    /// The open slots, lowest first.
    pub open: &'a [OpenSlot],
    /// Nonces that callers have reserved and fill themselves.
    pub reserved: &'a BTreeSet<Nonce>,
    /// The time for which searches may bring no proof before an alert (`grey_zone.timeout`).
    pub patience: Duration,
}

/// An account's count at a settled block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettledCount {
    /// The count that two endpoints confirm, if there are several.
    pub count: Nonce,
    /// The highest count of any endpoint at that block.
    pub highest: Nonce,
    /// The block is at or above the one in which our last final slot was mined, so a count that lacks it
    /// does not come from a lagging view.
    pub covers_final_slots: bool,
}

/// A step that resolves a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReconcileStep {
    /// Go to PROTECT: accept no new work until an operator resumes (I12).
    Protect(Foreign),
    /// Our slots don't explain the head's count, and no settled block shows the same: an endpoint lags, or a
    /// reorg may still undo it. Ask again.
    AwaitProof(Unexplained),
    /// Move the cursor forward: outsiders have used its nonce.
    MoveCursor(CursorMove),
    /// The chain has used the slot: look for receipts of all its attempts at every endpoint, and for the
    /// transaction in it.
    FindReceipts { nonce: Nonce },
    /// The slot is ours: record this attempt's receipt.
    NoteReceipt { nonce: Nonce, attempt: usize },
    /// A foreign transaction is in the slot, in a block that is not settled: show it, and wait.
    AwaitFinality { nonce: Nonce },
    /// End the transaction as NONCE_TAKEN ([`crate::TxEvent::SlotTaken`]).
    SlotTaken { nonce: Nonce },
    /// No proof was found for too long, although the use of the slot is settled: mark it STUCK
    /// ([`StuckReason::Unproven`]) and keep searching.
    Unproven { nonce: Nonce },
    /// Show it, and ask the stuck policy if it blocks the head of line.
    Hole(Hole),
}

impl fmt::Display for ReconcileStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protect(why) => write!(f, "PROTECT: {why}"),
            Self::AwaitProof(why) => write!(f, "ask again: {}", Foreign::Count(*why)),
            Self::MoveCursor(step) => write!(f, "cursor to {}", step.to),
            Self::FindReceipts { nonce } => write!(f, "look for receipts of {nonce}"),
            Self::NoteReceipt { nonce, .. } => write!(f, "{nonce} is ours: note its receipt"),
            Self::AwaitFinality { nonce } => write!(f, "{nonce} is foreign: wait for finality"),
            Self::SlotTaken { nonce } => write!(f, "{nonce} ends as NONCE_TAKEN"),
            Self::Unproven { nonce } => write!(f, "{nonce} is used by nobody knows what: STUCK"),
            Self::Hole(Hole { first, last, pending }) => {
                let note = if *pending { " (a pool counts it)" } else { "" };
                match first == last {
                    true => write!(f, "hole at nonce {first}{note}"),
                    false => write!(f, "hole at nonces {first} to {last}{note}"),
                }
            }
        }
    }
}

/// A difference that a strict submitter's own slots don't explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// The count.
    Count(Unexplained),
    /// The count fits, but the transaction in this slot is foreign.
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

/// Nonces below an open slot that the chain waits for and in which we have no transaction.
///
/// An observation, not a proof: a lagging count shows holes where others have used the account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    pub first: Nonce,
    pub last: Nonce,
    /// A node's pool holds a foreign transaction there: it may fill by itself. It is shown all the same,
    /// because a pool can drop it and leave the hole for ever.
    pub pending: bool,
}

/// Compares and returns the steps: PROTECT first, then the cursor, then slots and holes from the lowest
/// up.
pub fn reconcile(view: &ReconcileView<'_>) -> Result<Vec<ReconcileStep>, InvalidValue> {
    let mined = view.counts.mined;
    let slots: Vec<_> = view.open.iter().flat_map(|slot| steps_for(slot, view)).collect();
    let mut steps = Vec::new();
    match view.mode {
        Mode::Pipelined if view.cursor < mined => {
            steps.push(ReconcileStep::MoveCursor(CursorMove { from: view.cursor, to: mined }));
        }
        Mode::Pipelined => {}
        Mode::Strict => {
            // In the same step as the end of its transaction; otherwise the same slot would stop a resumed
            // submitter again.
            let taken = slots.iter().find_map(|step| match step {
                ReconcileStep::SlotTaken { nonce } => Some(Foreign::Slot(*nonce)),
                ReconcileStep::Protect(_)
                | ReconcileStep::AwaitProof(_)
                | ReconcileStep::MoveCursor(_)
                | ReconcileStep::FindReceipts { .. }
                | ReconcileStep::NoteReceipt { .. }
                | ReconcileStep::AwaitFinality { .. }
                | ReconcileStep::Unproven { .. }
                | ReconcileStep::Hole(_) => None,
            });
            if view.status != SubmitterStatus::Protect {
                let proven = settled_difference(view).map(Foreign::Count).or(taken);
                let doubt = || unexplained(view.cursor, unsettled(view), mined);
                let step = proven.map(ReconcileStep::Protect);
                steps.extend(step.or_else(|| doubt().map(ReconcileStep::AwaitProof)));
            }
        }
    }
    steps.extend(slots);
    steps.extend(holes_in(view, view.counts)?.into_iter().map(ReconcileStep::Hole));
    Ok(steps)
}

/// Returns whether it depends on the claim of a single endpoint which nonces are holes, or whether an open
/// slot is used. Then the claim has to be proven: otherwise a slot that an outsider used would never be searched
/// while another endpoint counts too little (I15).
pub fn has_disputed_slots(view: &ReconcileView<'_>) -> Result<bool, InvalidValue> {
    let without_claim = AccountCounts { support: CountSupport::Overdue, ..view.counts };
    let AccountCounts { mined, highest, support, .. } = view.counts;
    let is_claimed = |slot: &OpenSlot| {
        slot.state != TxState::Tracking(Tracking::Mined) && (mined..highest).contains(&slot.nonce)
    };
    let is_used_by_claim = support == CountSupport::Open && view.open.iter().any(is_claimed);
    Ok(is_used_by_claim || holes_in(view, view.counts)? != holes_in(view, without_claim)?)
}

fn holes_in(view: &ReconcileView<'_>, counts: AccountCounts) -> Result<Vec<Hole>, InvalidValue> {
    let open: BTreeSet<Nonce> = view.open.iter().map(|slot| slot.nonce).collect();
    let slots = KnownSlots {
        mode: view.mode,
        cursor: view.cursor,
        final_end: view.final_end,
        open: &open,
        reserved: view.reserved,
    };
    holes(counts, &slots)
}

fn steps_for(slot: &OpenSlot, view: &ReconcileView<'_>) -> Vec<ReconcileStep> {
    let nonce = slot.nonce;
    let has_receipt = slot.state == TxState::Tracking(Tracking::Mined);
    if nonce >= view.counts.mined || has_receipt {
        return Vec::new();
    }
    let look = ReconcileStep::FindReceipts { nonce };
    match (slot.search, slot.block) {
        (Search::NotYet, _) | (Search::Foreign { .. }, BlockStanding::Left) => vec![look],
        (Search::Ours { attempt }, _) => vec![ReconcileStep::NoteReceipt { nonce, attempt }],
        // I8: a foreign transaction was seen in a settled block.
        (Search::Foreign { .. }, BlockStanding::Settled) => {
            vec![ReconcileStep::SlotTaken { nonce }]
        }
        (Search::Foreign { .. }, BlockStanding::Open) => {
            vec![ReconcileStep::AwaitFinality { nonce }]
        }
        (Search::ReceiptMissing { .. } | Search::InVain, _) => {
            // A block that shows an attempt of ours tells as much as the count, which one endpoint can
            // keep too low.
            let is_used = slot.block == BlockStanding::Settled && slot.search != Search::InVain
                || view.settled.is_some_and(|settled| nonce < settled.count);
            let is_told = slot.state == TxState::Stuck(StuckReason::Unproven);
            let gives_up = is_used && !is_told && slot.unproven_for >= view.patience;
            let step = gives_up.then_some(ReconcileStep::Unproven { nonce });
            step.into_iter().chain([look]).collect()
        }
    }
}

/// Checks whether a settled block shows that a strict submitter's count does not come from its own slots (I12).
fn settled_difference(view: &ReconcileView<'_>) -> Option<Unexplained> {
    let settled = view.settled?;
    let difference = unexplained(view.cursor, unsettled(view), settled.count)?;
    let is_too_low = |count: Nonce| count < difference.at_least;
    // A lagging view lacks final slots, and some nodes count zero where they have no state any more.
    // Only a count that every endpoint reports is too low: a single one can be wrong.
    let is_lost = settled.covers_final_slots
        && is_too_low(settled.highest)
        && is_too_low(view.counts.highest);
    (!is_too_low(settled.count) || is_lost).then_some(difference)
}

fn unsettled(view: &ReconcileView<'_>) -> u32 {
    u32::try_from(view.open.len()).unwrap_or(u32::MAX)
}

/// The nonces of a submitter that are accounted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownSlots<'a> {
    pub mode: Mode,
    pub cursor: Nonce,
    /// The nonce after the highest slot whose transaction is final.
    pub final_end: Nonce,
    pub open: &'a BTreeSet<Nonce>,
    /// Nonces that callers have reserved and fill themselves.
    pub reserved: &'a BTreeSet<Nonce>,
}

impl KnownSlots<'_> {
    /// The end of the nonces among which there can be holes. A strict submitter's next slot is the cursor's,
    /// and the chain waits for every nonce below it; a pipelined one's cursor blocks nothing while
    /// no slot is open.
    fn end(&self) -> Result<Nonce, InvalidValue> {
        let open = self.open.last().map_or(Ok(Nonce::MIN), |highest| highest.forward(1))?;
        Ok(match self.mode {
            Mode::Strict => open.max(self.cursor),
            Mode::Pipelined => open,
        })
    }
}

/// All holes from the *mined* count up to the highest open slot, as ranges: their number is bounded by
/// the open slots and the reservations, however far apart they lie (I13). Nothing below a final slot of our
/// own is a hole, whatever the endpoints count.
pub fn holes(counts: AccountCounts, slots: &KnownSlots<'_>) -> Result<Vec<Hole>, InvalidValue> {
    let mut holes = Vec::new();
    let mut next = counts.lowest_unused().max(slots.final_end);
    let end = slots.end()?;
    if next >= end {
        return Ok(holes);
    }
    let ours: BTreeSet<Nonce> = slots.open.union(slots.reserved).copied().collect();
    for nonce in ours.range(next..end).copied().chain([end]) {
        // A pool's transactions end at the pending count: a range across it becomes two holes.
        let filled = counts.pending.clamp(next, nonce);
        for (from, to, pending) in [(next, filled, true), (filled, nonce, false)] {
            if let Some(last) = to.get().checked_sub(1).filter(|last| *last >= from.get()) {
                holes.push(Hole { first: from, last: Nonce::new(last)?, pending });
            }
        }
        if nonce < end {
            next = nonce.forward(1)?;
        }
    }
    Ok(holes)
}

/// The reason why an operator's resume is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CannotResume {
    /// The chain lacks slots of ours that are settled, and the cursor never goes back (I4).
    #[error("the chain counts {}, our slots explain {} to {}", .0.mined, .0.at_least, .0.at_most)]
    ChainBehind(Unexplained),
    /// As [`Self::ChainBehind`]; the final transactions that the chain lacks were sent again.
    #[error(
        "the chain counts {}, our slots explain {} to {}; {resent} final transactions that it lacks were \
         sent again: repeat this once it counts them",
        gap.mined, gap.at_least, gap.at_most
    )]
    SentAgain { gap: Unexplained, resent: u64 },
}

/// The cursor move with which an operator's resume re-aligns a submitter, if it has to move. The status
/// change is written with it.
///
/// Pipelined: a cursor behind the chain moves forward, and nothing is refused. Strict: the same, by which
/// the operator accepts what outsiders have used; but a chain that counts less than our settled slots is
/// refused, because the submitter would go to PROTECT again at once. Open slots stay open: [`reconcile`]
/// resolves those that the chain has used.
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
