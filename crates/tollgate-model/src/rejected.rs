//! Rejected slots: the slot of a transaction that every endpoint rejected.
//!
//! Pure functions: the worker asks when the nodes' combined answer may lead to a rejection, and again
//! whenever its facts change. A slot is given to another transaction only with proof that no node ever
//! accepted this one (I3); otherwise it is kept.

use std::fmt;

use crate::answer::{AnswerClass, may_be_with_a_node};
use crate::ids::Nonce;
use crate::nonce::Mode;
use crate::port::chain::AccountCounts;
use crate::state::{Allocated, StuckReason, Tracking, TxState};
use crate::transition::{TxEvent, transition};

/// The policy for rejected slots (`stuck.rejected_slot`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RejectedSlot {
    /// The transaction stays STUCK/REJECTED until an operator decides, and higher nonces wait.
    Hold,
    /// A self-transfer closes the slot, so that higher nonces can be mined.
    #[default]
    Placeholder,
    /// The next transaction gets the slot if there is proof; otherwise it is held.
    Recycle,
}

names!(RejectedSlot { Hold => "hold", Placeholder => "placeholder", Recycle => "recycle" });

/// The facts about one transaction that the nodes reject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RejectedView<'a> {
    pub state: TxState,
    pub nonce: Nonce,
    pub mode: Mode,
    /// The combined answers to every send of every attempt, in order; `None` if not all are known because an
    /// answer was lost or an earlier owner received them.
    pub answers: Option<&'a [AnswerClass]>,
    /// The account's counts, if they were read since the last answer.
    pub counts: Option<AccountCounts>,
    /// The receipts of all its attempts were searched since the last answer, and none was found.
    pub receipts_looked_for: bool,
    /// A higher slot is open and would be blocked by an empty one.
    pub higher_open: bool,
    /// A queued transaction would get this slot.
    pub next_waits: bool,
    /// This node has the account's key.
    pub has_key: bool,
    /// One of its attempts is a cancellation or a placeholder.
    pub closing: bool,
    /// Sent to private endpoints: no public count shows what they do with it.
    pub is_private: bool,
}

/// The decision about a rejected transaction's slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectedDecision {
    /// Nothing: it is not rejected, a node has had it, or its slot is being closed.
    Leave,
    /// Search receipts of all its attempts first: some chains reject what they have mined.
    FindReceipts,
    /// Keep the slot and the transaction; alert.
    Hold(HoldReason),
    /// Sign a placeholder in the slot ([`crate::stuck::plan`]). Whichever is mined decides.
    Placeholder,
    /// End it as FAILED_FINAL/REJECTED and make its nonce recyclable ([`TxEvent::SlotRecycled`]).
    Recycle,
}

/// The reason why a rejected transaction keeps its slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HoldReason {
    /// The policy is to hold.
    Policy,
    /// There is no key to sign a placeholder with.
    NoKey,
    /// There is no proof that no node ever accepted it.
    MayBeWithANode,
    /// The chain or a pool counts something in the slot, or could not be asked.
    MayBeUsed,
    /// Higher slots are open and no queued transaction would fill this one.
    NobodyToFillIt,
    /// A strict submitter's nonces come only from the cursor (I12).
    Strict,
}

impl HoldReason {
    pub const ALL: [Self; 6] = [
        Self::Policy,
        Self::NoKey,
        Self::MayBeWithANode,
        Self::MayBeUsed,
        Self::NobodyToFillIt,
        Self::Strict,
    ];
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "stuck.rejected_slot is hold",
            Self::NoKey => "this node has no key to sign a placeholder with",
            Self::MayBeWithANode => "a node may still hold one of its attempts",
            Self::MayBeUsed => {
                "the nonce may be used on the chain or in a pool, or no endpoint answers"
            }
            Self::NobodyToFillIt => {
                "higher nonces are in flight and no queued transaction can take this one"
            }
            Self::Strict => "nonces are not recycled in strict mode",
        })
    }
}

/// Returns whether it is certain that no node ever accepted any attempt (I3): there was no unclear answer, and
/// every answer to every send proves that the bytes could not be accepted.
pub fn provably_never_accepted(state: TxState, answers: Option<&[AnswerClass]>) -> bool {
    let nothing_unclear = transition(state, TxEvent::SlotRecycled).is_ok();
    let refused = |answers: &[AnswerClass]| {
        !answers.is_empty() && answers.iter().all(|class| !may_be_with_a_node(*class))
    };
    nothing_unclear && answers.is_some_and(refused)
}

/// Decides about a rejected transaction's slot.
pub fn decide(policy: RejectedSlot, view: &RejectedView<'_>) -> RejectedDecision {
    let last = view.answers.and_then(<[AnswerClass]>::last);
    let rejected = match view.state {
        TxState::Stuck(StuckReason::Rejected) => {
            last.is_none_or(|class| class.may_lead_to_rejection())
        }
        TxState::Allocated(
            Allocated::Unsent | Allocated::UnknownSubmitResult | Allocated::InsufficientFunds,
        )
        | TxState::Stuck(StuckReason::GreyZone) => {
            last.is_some_and(|class| class.may_lead_to_rejection())
        }
        // A transaction that a node has had is not dead because others reject it; one that is stuck for another
        // reason has its own policy; the rest have no open slot.
        TxState::Tracking(Tracking::Pending | Tracking::Stale | Tracking::Mined)
        | TxState::Stuck(
            StuckReason::TimedOut
            | StuckReason::ResubmitsExhausted
            | StuckReason::Expired
            | StuckReason::InsufficientFunds
            | StuckReason::FeeCap
            | StuckReason::Unproven
            | StuckReason::Unwritable,
        )
        | TxState::Queued(_)
        | TxState::Confirmed
        | TxState::Failed(_) => false,
    };
    if !rejected || view.closing {
        return RejectedDecision::Leave;
    }
    let proven = provably_never_accepted(view.state, view.answers);
    if !proven && !view.receipts_looked_for {
        return RejectedDecision::FindReceipts;
    }
    match policy {
        RejectedSlot::Hold => RejectedDecision::Hold(HoldReason::Policy),
        RejectedSlot::Placeholder if view.has_key => RejectedDecision::Placeholder,
        RejectedSlot::Placeholder => RejectedDecision::Hold(HoldReason::NoKey),
        RejectedSlot::Recycle => match obstacle(view, proven) {
            Some(why) => RejectedDecision::Hold(why),
            None => RejectedDecision::Recycle,
        },
    }
}

fn obstacle(view: &RejectedView<'_>, proven: bool) -> Option<HoldReason> {
    let free = |counts: AccountCounts| counts.mined.max(counts.pending) <= view.nonce;
    if !proven || view.is_private {
        Some(HoldReason::MayBeWithANode)
    } else if view.mode == Mode::Strict {
        Some(HoldReason::Strict)
    } else if !view.counts.is_some_and(free) {
        Some(HoldReason::MayBeUsed)
    } else if view.higher_open && !view.next_waits {
        Some(HoldReason::NobodyToFillIt)
    } else {
        None
    }
}

// `docs/decisions.md` has most cases as a table, which a test compares with the code.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::nonce;

    const UNSENT: TxState = TxState::Allocated(Allocated::Unsent);
    const GREY: TxState = TxState::Allocated(Allocated::UnknownSubmitResult);
    const REJECTED: TxState = TxState::Stuck(StuckReason::Rejected);
    const INVALID: &[AnswerClass] = &[AnswerClass::Invalid];

    /// Rejected beyond doubt, and nothing stands in the way.
    fn view(state: TxState) -> RejectedView<'static> {
        RejectedView {
            state,
            nonce: nonce(5),
            mode: Mode::Pipelined,
            answers: Some(INVALID),
            counts: Some(AccountCounts::confirmed(nonce(4), nonce(5))),
            receipts_looked_for: true,
            higher_open: false,
            next_waits: false,
            has_key: true,
            closing: false,
            is_private: false,
        }
    }

    fn held(view: &RejectedView<'_>) -> Option<HoldReason> {
        match decide(RejectedSlot::Recycle, view) {
            RejectedDecision::Hold(why) => Some(why),
            _ => None,
        }
    }

    #[test]
    fn unsent_transaction_with_proof_is_handled_by_its_policy() {
        let decided = RejectedSlot::ALL.map(|policy| decide(policy, &view(UNSENT)));
        let hold = RejectedDecision::Hold(HoldReason::Policy);
        assert_eq!(decided, [hold, RejectedDecision::Placeholder, RejectedDecision::Recycle]);
        assert_eq!(RejectedSlot::default(), RejectedSlot::Placeholder, "the line moves on");
    }

    #[test]
    fn slot_without_proof_or_with_a_doubtful_count_is_not_recycled() {
        assert_eq!(held(&view(GREY)), Some(HoldReason::MayBeWithANode));
        let private = RejectedView { is_private: true, ..view(REJECTED) };
        assert_eq!(held(&private), Some(HoldReason::MayBeWithANode), "a relay may pass it on");
        let silence = RejectedView { answers: Some(&[]), ..view(REJECTED) };
        assert_eq!(held(&silence), Some(HoldReason::MayBeWithANode));
        for counts in [None, Some(AccountCounts::confirmed(nonce(6), nonce(6)))] {
            let used = RejectedView { counts, ..view(REJECTED) };
            assert_eq!(held(&used), Some(HoldReason::MayBeUsed));
        }
    }

    #[test]
    fn mined_or_unclear_transaction_is_left() {
        let unclear = RejectedView { answers: Some(&[AnswerClass::Unknown]), ..view(GREY) };
        for view in [view(TxState::Tracking(Tracking::Mined)), unclear] {
            for policy in RejectedSlot::ALL {
                assert_eq!(decide(policy, &view), RejectedDecision::Leave);
            }
        }
    }

    #[test]
    fn hold_reasons_read_as_distinct_sentences() {
        let words: std::collections::HashSet<_> =
            HoldReason::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), HoldReason::ALL.len());
        for reason in HoldReason::ALL {
            assert_ne!(reason.to_string(), format!("{reason:?}"));
        }
    }
}
