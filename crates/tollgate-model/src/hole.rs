//! Holes: nonces that the chain waits for and in which Tollgate has no transaction.
//!
//! Pure functions. The worker calls [`decide`] for each hole that [`crate::reconcile`] finds, as long as it
//! exists. A hole is an observation, not a proof, so it must last a while before it is filled; and
//! the store checks that no transaction of ours is in it (I3).

use std::time::Duration;

use crate::nonce::{Mode, SubmitterStatus};
use crate::reconcile::Hole;
use crate::rejected::RejectedSlot;

/// The facts about one hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoleView {
    pub hole: Hole,
    /// The time for which it has been observed.
    pub seen_for: Duration,
    /// The time for which it must be observed before it is filled (`stuck.head_after`).
    pub patience: Duration,
    pub mode: Mode,
    pub status: SubmitterStatus,
    /// A queued transaction would get this slot.
    pub next_waits: bool,
    /// This node has the account's key.
    pub has_key: bool,
    pub window: u32,
    /// Its nonces were returned to the pool and nothing filled them.
    pub came_back: bool,
}

impl HoleView {
    /// A hole wider than a window is not an accident of a few transactions but a cursor that is too far
    /// ahead. An operator decides whether to pay for filling it (I16).
    fn is_wide(&self) -> bool {
        let Hole { first, last, .. } = self.hole;
        last.get().saturating_sub(first.get()) >= u64::from(self.window)
    }
}

/// The decision about a hole. It is shown and alerted in any case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HoleDecision {
    /// Only show it.
    Show,
    /// Wait: it may fill by itself.
    Wait,
    /// Assign its nonces to the next transactions.
    Recycle,
    /// Fill it with a self-transfer.
    Placeholder,
}

impl HoleDecision {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Show => "shown",
            Self::Wait => "shown, waits",
            Self::Recycle => "filled by the next",
            Self::Placeholder => "filled by a placeholder",
        }
    }
}

/// Decides about a hole, by the policy for rejected slots.
pub fn decide(policy: RejectedSlot, view: &HoleView) -> HoleDecision {
    let may_fill = view.mode == Mode::Pipelined && view.status == SubmitterStatus::Active;
    match policy {
        RejectedSlot::Hold => HoleDecision::Show,
        // I12: a strict submitter's nonces come only from the cursor.
        RejectedSlot::Placeholder | RejectedSlot::Recycle if !may_fill => HoleDecision::Show,
        // A transaction in a pool may be mined.
        RejectedSlot::Placeholder | RejectedSlot::Recycle
            if view.hole.pending || view.seen_for < view.patience =>
        {
            HoleDecision::Wait
        }
        // A queued transaction fills it.
        RejectedSlot::Placeholder | RejectedSlot::Recycle if view.next_waits => {
            HoleDecision::Recycle
        }
        RejectedSlot::Placeholder | RejectedSlot::Recycle if view.is_wide() => HoleDecision::Show,
        RejectedSlot::Placeholder if view.has_key => HoleDecision::Placeholder,
        // The transaction that was to fill it was cancelled or never came.
        RejectedSlot::Recycle if view.has_key && view.came_back => HoleDecision::Placeholder,
        RejectedSlot::Placeholder | RejectedSlot::Recycle => HoleDecision::Show,
    }
}

// `docs/decisions.md` has the cases as a table, which a test compares with the code.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::nonce;

    #[test]
    fn hole_is_wide_above_the_window_and_filled_only_with_a_key() {
        let hole = |last| Hole { first: nonce(0), last: nonce(last), pending: false };
        let returned = HoleView {
            hole: hole(63),
            seen_for: Duration::ZERO,
            patience: Duration::ZERO,
            mode: Mode::Pipelined,
            status: SubmitterStatus::Active,
            next_waits: false,
            has_key: true,
            window: 64,
            came_back: true,
        };
        let wide = HoleView { hole: hole(64), ..returned };
        let keyless = HoleView { has_key: false, ..returned };
        for policy in [RejectedSlot::Placeholder, RejectedSlot::Recycle] {
            assert_eq!(decide(policy, &returned), HoleDecision::Placeholder);
            assert_eq!(decide(policy, &wide), HoleDecision::Show, "I16");
            assert_eq!(decide(policy, &keyless), HoleDecision::Show);
        }
    }
}
