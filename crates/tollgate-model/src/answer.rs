//! Classes of a node's answer to a send, and the action that each class calls for.
//!
//! A single endpoint's answer never ends a transaction: even the classes that look fatal are acted on
//! only when every endpoint agrees (I3, I8). `tollgate-evm` classifies the node's text; this module
//! decides what follows from the class. `docs/errors/send-answers.md` has the same table.

mod combined;
mod words;

pub use combined::combined;

use crate::state::{Allocated, StuckReason, TxState};
use crate::transition::TxEvent;

/// The class of a node's answer to a send.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AnswerClass {
    /// The node accepted it and returned a hash.
    Accepted,
    /// This transaction is already in the pool, or mined.
    AlreadyKnown,
    /// The account's count is past this nonce: one of our attempts was mined, a foreign transaction was,
    /// or the node is ahead of our view.
    NonceTooLow,
    /// A lower nonce is missing at the node.
    NonceTooHigh,
    /// The pool holds another transaction with this nonce, and the new one does not pay enough more.
    ReplacementUnderpriced,
    /// The price is too low for the pool now; the node names no minimum.
    Underpriced,
    /// The price is below the base fee or a minimum that the node names.
    FeeTooLow,
    /// The price is above the node's configured cap. Another node may have accepted it.
    FeeTooHigh,
    /// The balance does not cover value and gas.
    InsufficientFunds,
    /// The gas limit is below the intrinsic gas, or above what a block or a transaction may have.
    GasLimit,
    /// The call reverted. Some chains answer so after they have *mined* the failure.
    Reverted,
    /// No node could accept these bytes: malformed, wrongly signed, for another chain, of an unsupported
    /// type, oversized or forbidden.
    Invalid,
    /// The pool, or the sender's share of it, is full.
    PoolFull,
    /// The endpoint's quota is exhausted.
    RateLimited,
    /// A timeout, a node out of sync, an outage: the outcome is unknown.
    Transient,
    /// The answer allows no safe conclusion.
    Unknown,
}

names!(AnswerClass {
    Accepted => "accepted",
    AlreadyKnown => "already_known",
    NonceTooLow => "nonce_too_low",
    NonceTooHigh => "nonce_too_high",
    ReplacementUnderpriced => "replacement_underpriced",
    Underpriced => "underpriced",
    FeeTooLow => "fee_too_low",
    FeeTooHigh => "fee_too_high",
    InsufficientFunds => "insufficient_funds",
    GasLimit => "gas_limit",
    Reverted => "reverted",
    Invalid => "invalid",
    PoolFull => "pool_full",
    RateLimited => "rate_limited",
    Transient => "transient",
    Unknown => "unknown",
});

impl AnswerClass {
    /// Returns whether the class leads to a rejection if every endpoint agrees. These classes need the most
    /// care.
    pub const fn may_lead_to_rejection(self) -> bool {
        matches!(action_for(self), AnswerAction::RejectIfAllAgree)
    }
}

/// The action that an answer calls for. None of them gives up a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AnswerAction {
    /// A node has it: wait for its receipt.
    Track,
    /// Look for receipts of all own attempts at that nonce, then decide: ours is mined, a foreign
    /// transaction used the slot, or a node lags.
    FindReceipts,
    /// The predecessor is missing at the node: send it again, then this one.
    ResendPredecessor,
    /// An earlier attempt is in the pool: keep tracking all attempts.
    EarlierStands,
    /// Raise the fee if the policy allows it, else hold and send the same bytes later.
    BumpOrHold,
    /// Ask another endpoint, else hold with an alert and send the same bytes later.
    TryElsewhereOrHold,
    /// Hold, alert, and send the same bytes again with growing pauses.
    HoldForFunds,
    /// Ask the other endpoints. It is rejected only if all of them agree; then the policy for rejected
    /// slots decides about the slot.
    RejectIfAllAgree,
    /// Grey zone: possibly sent. Look for it by hash, and send the same bytes again.
    ResendSame,
}

names!(AnswerAction {
    Track => "track",
    FindReceipts => "find_receipts",
    ResendPredecessor => "resend_predecessor",
    EarlierStands => "earlier_stands",
    BumpOrHold => "bump_or_hold",
    TryElsewhereOrHold => "try_elsewhere_or_hold",
    HoldForFunds => "hold_for_funds",
    RejectIfAllAgree => "reject_if_all_agree",
    ResendSame => "resend_same",
});

/// The action for a class of answer.
pub const fn action_for(class: AnswerClass) -> AnswerAction {
    match class {
        AnswerClass::Accepted | AnswerClass::AlreadyKnown => AnswerAction::Track,
        AnswerClass::NonceTooLow => AnswerAction::FindReceipts,
        AnswerClass::NonceTooHigh => AnswerAction::ResendPredecessor,
        AnswerClass::ReplacementUnderpriced => AnswerAction::EarlierStands,
        AnswerClass::Underpriced | AnswerClass::FeeTooLow => AnswerAction::BumpOrHold,
        // A fee cap is one node's setting, so a refusal says nothing about other nodes. Reusing the nonce
        // on such an answer would double-spend a slot that another node accepted.
        AnswerClass::FeeTooHigh => AnswerAction::TryElsewhereOrHold,
        AnswerClass::InsufficientFunds => AnswerAction::HoldForFunds,
        AnswerClass::GasLimit | AnswerClass::Reverted | AnswerClass::Invalid => {
            AnswerAction::RejectIfAllAgree
        }
        AnswerClass::PoolFull
        | AnswerClass::RateLimited
        | AnswerClass::Transient
        | AnswerClass::Unknown => AnswerAction::ResendSame,
    }
}

/// Returns whether a node may have the transaction after this answer: true unless the answer proves
/// otherwise.
///
/// An endpoint is often many nodes behind one URL, so a refusal that follows from one node's settings,
/// pool or head proves nothing about the others. Neither does a revert: chains that execute before
/// they answer may have mined the failure. Only bytes that no node could accept are proof, and only
/// for this endpoint.
pub const fn may_be_with_a_node(class: AnswerClass) -> bool {
    match class {
        AnswerClass::GasLimit | AnswerClass::Invalid => false,
        AnswerClass::Accepted
        | AnswerClass::AlreadyKnown
        | AnswerClass::NonceTooLow
        | AnswerClass::NonceTooHigh
        | AnswerClass::ReplacementUnderpriced
        | AnswerClass::Underpriced
        | AnswerClass::FeeTooLow
        | AnswerClass::FeeTooHigh
        | AnswerClass::InsufficientFunds
        | AnswerClass::Reverted
        | AnswerClass::PoolFull
        | AnswerClass::RateLimited
        | AnswerClass::Transient
        | AnswerClass::Unknown => true,
    }
}

/// The facts about a transaction for which a node's answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnsweredTx {
    /// Its state.
    pub state: TxState,
    /// The number of its attempts.
    pub attempts: usize,
    /// An earlier send of the same bytes had no clear answer.
    pub doubted: bool,
    /// The answer is the first sign that what kept the transaction waiting has ended: a node accepted it
    /// that did not have it, or knows it after a refusal or after a hindrance that has ended.
    pub is_news: bool,
}

impl AnsweredTx {
    /// True if a node that has the transaction changes its state. STUCK ends only with the cause that its
    /// reason names: a node that answers `already_known` has solved nothing.
    const fn is_moved_by_acceptance(&self) -> bool {
        match self.state {
            TxState::Tracking(_) => false,
            TxState::Stuck(StuckReason::GreyZone | StuckReason::Rejected) => true,
            TxState::Stuck(
                StuckReason::TimedOut
                | StuckReason::ResubmitsExhausted
                | StuckReason::InsufficientFunds
                | StuckReason::FeeCap,
            ) => self.is_news,
            TxState::Stuck(
                StuckReason::Expired | StuckReason::Unproven | StuckReason::Unwritable,
            ) => false,
            TxState::Queued(_)
            | TxState::Allocated(_)
            | TxState::Confirmed
            | TxState::Failed(_) => true,
        }
    }
}

/// The state-machine event of an answer; `None` if nothing changes. A transaction that a node has or may
/// have never goes back because of an answer (I3, I8).
pub fn event_for(action: AnswerAction, tx: &AnsweredTx) -> Option<TxEvent> {
    let AnsweredTx { state, attempts, doubted, .. } = *tx;
    let unsent = state == TxState::Allocated(Allocated::Unsent);
    let unfunded = state == TxState::Allocated(Allocated::InsufficientFunds);
    let accepted = tx.is_moved_by_acceptance().then_some(TxEvent::NodeAccepted);
    let unclear = (unsent || unfunded).then_some(TxEvent::AnswerUnclear);
    match action {
        AnswerAction::Track => accepted,
        // With a single attempt, the transaction in the pool may be a foreign one.
        AnswerAction::EarlierStands if attempts > 1 => accepted,
        AnswerAction::RejectIfAllAgree if !doubted => {
            unsent.then_some(TxEvent::GaveUp(StuckReason::Rejected))
        }
        // The state shows it already. Whether a node may have it does not follow from the state alone (I3):
        // that takes every answer to every send ([`crate::rejected::provably_never_accepted`]).
        AnswerAction::HoldForFunds if unfunded => None,
        AnswerAction::HoldForFunds if !doubted => unsent.then_some(TxEvent::FundsMissing),
        AnswerAction::RejectIfAllAgree
        | AnswerAction::EarlierStands
        | AnswerAction::FindReceipts
        | AnswerAction::ResendPredecessor
        | AnswerAction::BumpOrHold
        | AnswerAction::TryElsewhereOrHold
        | AnswerAction::HoldForFunds
        | AnswerAction::ResendSame => unclear,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_class_has_a_name_of_its_own_and_one_action() {
        let names: HashSet<_> = AnswerClass::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), AnswerClass::ALL.len());
        for class in AnswerClass::ALL {
            assert_eq!(AnswerClass::from_name(class.name()), Some(class));
            assert!(AnswerAction::ALL.contains(&action_for(class)), "{class}");
        }
        assert_eq!(AnswerClass::from_name("dead"), None);
    }

    #[test]
    fn every_action_follows_from_some_class() {
        let used: HashSet<_> = AnswerClass::ALL.into_iter().map(action_for).collect();
        assert_eq!(used, HashSet::from(AnswerAction::ALL));
        let names: HashSet<_> = AnswerAction::ALL.iter().map(|action| action.name()).collect();
        assert_eq!(names.len(), AnswerAction::ALL.len());
    }

    #[test]
    fn no_class_gives_up_a_slot_by_itself() {
        for class in AnswerClass::ALL {
            match action_for(class) {
                // A rejection needs the agreement of all endpoints, not this one answer.
                AnswerAction::RejectIfAllAgree => {
                    assert!(class.may_lead_to_rejection(), "{class}");
                    assert!(
                        [AnswerClass::GasLimit, AnswerClass::Reverted, AnswerClass::Invalid]
                            .contains(&class),
                        "{class}"
                    );
                }
                AnswerAction::Track
                | AnswerAction::FindReceipts
                | AnswerAction::ResendPredecessor
                | AnswerAction::EarlierStands
                | AnswerAction::BumpOrHold
                | AnswerAction::TryElsewhereOrHold
                | AnswerAction::HoldForFunds
                | AnswerAction::ResendSame => {
                    assert!(may_be_with_a_node(class), "{class} keeps the slot");
                }
            }
        }
    }

    #[test]
    fn unknown_or_transient_answer_leaves_it_possibly_sent() {
        use AnswerClass::{PoolFull, RateLimited, Transient, Unknown};
        for class in [PoolFull, RateLimited, Transient, Unknown] {
            assert!(may_be_with_a_node(class));
            assert_eq!(action_for(class), AnswerAction::ResendSame);
        }
    }

    const fn answered(state: TxState, doubted: bool) -> AnsweredTx {
        AnsweredTx { state, attempts: 1, doubted, is_news: false }
    }

    #[test]
    fn stuck_ends_by_an_answer_only_where_that_shows_that_its_cause_has_ended() {
        use StuckReason as Reason;
        let ends = |reason, is_news| {
            let tx = AnsweredTx { is_news, ..answered(TxState::Stuck(reason), false) };
            event_for(AnswerAction::Track, &tx) == Some(TxEvent::NodeAccepted)
        };
        for reason in [Reason::GreyZone, Reason::Rejected] {
            assert!(ends(reason, false), "{reason:?}: a node has it, which was in doubt");
        }
        let [timed_out, exhausted] = [Reason::TimedOut, Reason::ResubmitsExhausted];
        for reason in [timed_out, exhausted, Reason::InsufficientFunds, Reason::FeeCap] {
            assert!(!ends(reason, false), "{reason:?}: `already_known` is no news");
            assert!(ends(reason, true), "{reason:?}");
        }
        for reason in [Reason::Expired, Reason::Unproven, Reason::Unwritable] {
            assert!(!ends(reason, true), "{reason:?}: nodes can't solve it");
        }
    }

    #[test]
    fn a_rejection_after_an_unclear_answer_is_no_proof() {
        let unsent = TxState::Allocated(Allocated::Unsent);
        let event = |doubted| event_for(AnswerAction::RejectIfAllAgree, &answered(unsent, doubted));
        assert_eq!(event(false), Some(TxEvent::GaveUp(StuckReason::Rejected)));
        assert_eq!(event(true), Some(TxEvent::AnswerUnclear));
    }

    #[test]
    fn missing_funds_are_shown_until_an_answer_is_unclear() {
        let event = |action, state, doubted| {
            event_for(action, &answered(TxState::Allocated(state), doubted))
        };
        let (funds, unclear) = (AnswerAction::HoldForFunds, AnswerAction::ResendSame);
        let moved = Some(TxEvent::FundsMissing);
        assert_eq!(event(funds, Allocated::Unsent, false), moved);
        assert_eq!(event(funds, Allocated::Unsent, true), Some(TxEvent::AnswerUnclear));
        assert_eq!(event(funds, Allocated::InsufficientFunds, false), None, "it is known");
        assert_eq!(event(funds, Allocated::InsufficientFunds, true), None, "to a new owner, too");
        assert_eq!(event(funds, Allocated::UnknownSubmitResult, false), None, "it stays unclear");
        let lost = event(unclear, Allocated::InsufficientFunds, false);
        assert_eq!(lost, Some(TxEvent::AnswerUnclear));
        assert!(may_be_with_a_node(AnswerClass::InsufficientFunds), "I3: its slot is kept");
    }

    #[test]
    fn fee_cap_of_one_node_does_not_reject() {
        assert!(may_be_with_a_node(AnswerClass::FeeTooHigh));
        assert!(!AnswerClass::FeeTooHigh.may_lead_to_rejection());
    }

    #[test]
    fn a_revert_at_sending_may_already_be_mined() {
        assert!(may_be_with_a_node(AnswerClass::Reverted));
    }
}
