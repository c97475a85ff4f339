//! What becomes of a hole: a nonce that the chain waits for and that nothing of ours is in.
//!
//! Pure: a worker asks for each hole that [`crate::reconcile`] shows, as long as it is there. A hole
//! is a sight and not a proof, so that it is looked at for a while before it is filled; and the store
//! has the last word on whether anything of ours is in it (I3).

use std::time::Duration;

use crate::nonce::{Mode, SubmitterStatus};
use crate::reconcile::Hole;
use crate::rejected::RejectedSlot;

/// What is known of one hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoleView {
    /// The hole.
    pub hole: Hole,
    /// How long it has been seen.
    pub seen_for: Duration,
    /// How long it has to be (`stuck.head_after`): whoever left it may still come back.
    pub patience: Duration,
    /// How the submitter's nonces are given out.
    pub mode: Mode,
    /// Whether it takes work.
    pub status: SubmitterStatus,
    /// A transaction waits for a slot and would get this one.
    pub next_waits: bool,
    /// The account's key is here.
    pub has_key: bool,
    /// How many slots of the submitter may be open at once.
    pub window: u32,
    /// Its nonces were handed back, and nobody came to fill them.
    pub came_back: bool,
}

impl HoleView {
    /// Wider than a window, it is no accident of a few transactions but a cursor that is too far ahead.
    /// What it costs to fill is for a person to decide (I16).
    fn is_wide(&self) -> bool {
        let Hole { first, last, .. } = self.hole;
        last.get().saturating_sub(first.get()) >= u64::from(self.window)
    }
}

/// What to do about a hole. It is shown and told in any case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HoleDecision {
    /// Nothing more.
    Show,
    /// Nothing yet: it may fill by itself.
    Wait,
    /// Its nonces go to whoever comes next.
    Recycle,
    /// A transfer to self goes into it.
    Placeholder,
}

impl HoleDecision {
    /// The word for it in the docs.
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
        // I12: a strict submitter's nonces come from the cursor alone.
        RejectedSlot::Placeholder | RejectedSlot::Recycle if !may_fill => HoleDecision::Show,
        // What a pool holds may be mined.
        RejectedSlot::Placeholder | RejectedSlot::Recycle
            if view.hole.pending || view.seen_for < view.patience =>
        {
            HoleDecision::Wait
        }
        // Whoever waits fills it as well as anything else would.
        RejectedSlot::Placeholder | RejectedSlot::Recycle if view.next_waits => {
            HoleDecision::Recycle
        }
        RejectedSlot::Placeholder | RejectedSlot::Recycle if view.is_wide() => HoleDecision::Show,
        RejectedSlot::Placeholder if view.has_key => HoleDecision::Placeholder,
        // Whoever was to fill it was cancelled, or never came: it is a hole of our own making.
        RejectedSlot::Recycle if view.has_key && view.came_back => HoleDecision::Placeholder,
        RejectedSlot::Placeholder | RejectedSlot::Recycle => HoleDecision::Show,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Nonce;

    const PATIENCE: Duration = Duration::from_secs(300);

    /// An old hole of an active submitter with a key, for which nobody waits.
    fn view() -> HoleView {
        HoleView {
            hole: Hole { first: Nonce::MIN, last: Nonce::MIN, pending: false },
            seen_for: PATIENCE,
            patience: PATIENCE,
            mode: Mode::Pipelined,
            status: SubmitterStatus::Active,
            next_waits: false,
            has_key: true,
            window: 64,
            came_back: false,
        }
    }

    #[test]
    fn a_hole_is_filled_only_where_the_policy_says_so() {
        assert_eq!(decide(RejectedSlot::Hold, &view()), HoleDecision::Show);
        assert_eq!(decide(RejectedSlot::Placeholder, &view()), HoleDecision::Placeholder);
        assert_eq!(decide(RejectedSlot::Recycle, &view()), HoleDecision::Show, "nobody waits");
        let waited = HoleView { next_waits: true, ..view() };
        for policy in [RejectedSlot::Placeholder, RejectedSlot::Recycle] {
            assert_eq!(decide(policy, &waited), HoleDecision::Recycle);
        }
    }

    #[test]
    fn a_nonce_that_came_back_and_that_nobody_fills_gets_a_placeholder() {
        let freed = HoleView { came_back: true, ..view() };
        assert_eq!(decide(RejectedSlot::Recycle, &freed), HoleDecision::Placeholder);
        let keyless = HoleView { has_key: false, ..freed };
        assert_eq!(decide(RejectedSlot::Recycle, &keyless), HoleDecision::Show);
        assert_eq!(decide(RejectedSlot::Hold, &freed), HoleDecision::Show);
    }

    #[test]
    fn a_hole_wider_than_the_window_costs_nothing_without_a_person() {
        let hole = |last| Hole { last: Nonce::new(last).unwrap(), ..view().hole };
        let wide = HoleView { hole: hole(64), came_back: true, ..view() };
        for policy in [RejectedSlot::Placeholder, RejectedSlot::Recycle] {
            assert_eq!(decide(policy, &wide), HoleDecision::Show, "I16");
            let waited = HoleView { next_waits: true, ..wide };
            assert_eq!(decide(policy, &waited), HoleDecision::Recycle, "that costs nothing more");
        }
        let just = HoleView { hole: hole(63), ..view() };
        assert_eq!(decide(RejectedSlot::Placeholder, &just), HoleDecision::Placeholder);
    }

    #[test]
    fn nothing_is_filled_too_soon_or_while_a_pool_holds_something_there() {
        let early = HoleView { seen_for: PATIENCE - Duration::from_secs(1), ..view() };
        let hole = Hole { pending: true, ..view().hole };
        for view in [early, HoleView { hole, ..view() }] {
            assert_eq!(decide(RejectedSlot::Placeholder, &view), HoleDecision::Wait);
        }
    }

    #[test]
    fn nothing_is_filled_for_who_takes_no_work_or_has_strict_nonces_or_no_key() {
        let paused = HoleView { status: SubmitterStatus::Paused, ..view() };
        let strict = HoleView { mode: Mode::Strict, ..view() };
        let keyless = HoleView { has_key: false, ..view() };
        for view in [paused, strict, keyless] {
            assert_eq!(decide(RejectedSlot::Placeholder, &view), HoleDecision::Show);
        }
    }
}
