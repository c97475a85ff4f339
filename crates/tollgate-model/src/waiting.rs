//! The reason why a transaction waits, in one sentence, for the people who look at it.
//!
//! A pure function of what was read; it decides nothing. The states are those of
//! `docs/state-machine.md`, and the sentence names what moves the transaction on.

use std::fmt;

use crate::ids::{Nonce, TxId};
use crate::nonce::SubmitterStatus;
use crate::state::{Allocated, Failed, Queued, StuckReason, Tracking, TxState};
use crate::time::Timestamp;

/// The facts about a transaction that may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitView {
    pub state: TxState,
    pub nonce: Option<Nonce>,
    pub submitter: SubmitterStatus,
    /// The head of its line, if that stands still and is another transaction.
    pub blocked_by: Option<LineBlock>,
    /// Open slots below its own; for a queued transaction, all open slots of the account.
    pub ahead: u64,
    /// The maximum number of open slots of the account.
    pub window: u32,
    /// The time before which it is not sent, if that is not over.
    pub not_before: Option<Timestamp>,
    /// Blocks on top of its own, and those that make it final, if the rule counts blocks.
    pub confirmations: Option<(u64, u64)>,
}

/// A head of line that stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineBlock {
    pub tx_id: TxId,
    pub nonce: Nonce,
    pub state: TxState,
}

/// The reason why a transaction waits. `Display` is one sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitReason {
    /// Its caller asked for a later time.
    Scheduled(Timestamp),
    /// An operator paused the account.
    Paused,
    /// The account is in PROTECT.
    Protected,
    /// All slots of the account are taken.
    WindowFull { open: u64, window: u32 },
    /// The writer gives it a nonce next.
    NextInLine,
    /// The first send is under way.
    Sending,
    /// The answer to a send was lost or inconclusive.
    OutcomeUnknown,
    /// The balance does not cover it.
    FundsMissing,
    /// A transaction with a lower nonce stands still.
    Behind(LineBlock),
    /// Lower nonces are not mined yet.
    BehindOthers(u64),
    /// A node has it; no block does.
    NotMined,
    /// Sent again; no block has it.
    NotMinedAfterResend,
    /// Mined in a block that is not final yet.
    NotFinal { confirmations: Option<(u64, u64)> },
    /// No progress by itself.
    Stuck(StuckReason),
}

/// Explains why a transaction waits; `None` if it is final.
pub fn why_waiting(view: &WaitView) -> Option<WaitReason> {
    let behind = view.blocked_by.map(WaitReason::Behind);
    Some(match view.state {
        TxState::Confirmed | TxState::Failed(_) => return None,
        TxState::Stuck(reason) => WaitReason::Stuck(reason),
        TxState::Tracking(Tracking::Mined) => {
            WaitReason::NotFinal { confirmations: view.confirmations }
        }
        TxState::Queued(queued) => match (view.not_before, view.submitter) {
            (Some(at), _) => WaitReason::Scheduled(at),
            (None, SubmitterStatus::Paused) => WaitReason::Paused,
            (None, SubmitterStatus::Protect) => WaitReason::Protected,
            (None, SubmitterStatus::Active) => queued_reason(queued, view, behind),
        },
        TxState::Allocated(Allocated::UnknownSubmitResult) => {
            behind.unwrap_or(WaitReason::OutcomeUnknown)
        }
        TxState::Allocated(Allocated::InsufficientFunds) => {
            behind.unwrap_or(WaitReason::FundsMissing)
        }
        TxState::Allocated(Allocated::Unsent) => WaitReason::Sending,
        TxState::Tracking(tracking) => behind.unwrap_or(match (view.ahead, tracking) {
            (0, Tracking::Stale) => WaitReason::NotMinedAfterResend,
            (0, _) => WaitReason::NotMined,
            (ahead, _) => WaitReason::BehindOthers(ahead),
        }),
    })
}

fn queued_reason(queued: Queued, view: &WaitView, behind: Option<WaitReason>) -> WaitReason {
    let is_full = view.ahead >= u64::from(view.window);
    match (behind, queued) {
        (Some(behind), _) if is_full => behind,
        (_, _) if is_full => WaitReason::WindowFull { open: view.ahead, window: view.window },
        (_, Queued::Waiting | Queued::Held) => WaitReason::NextInLine,
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheduled(_) => f.write_str(
                "Its caller asked for a later time: it gets a nonce and is sent then.",
            ),
            Self::Paused => f.write_str(
                "The account is paused: it gets a nonce once an operator resumes the account.",
            ),
            Self::Protected => f.write_str(
                "The account is in PROTECT, because the chain's count is not explained by Tollgate's \
                 own slots: it gets a nonce once an operator resumes the account.",
            ),
            Self::WindowFull { open, window } => write!(
                f,
                "All {window} slots of the account are taken ({open} open): it gets a nonce as soon as \
                 one of them is closed."
            ),
            Self::NextInLine => f.write_str("It is about to get a nonce."),
            Self::Sending => f.write_str("It has a nonce, is signed, and is being sent."),
            Self::OutcomeUnknown => f.write_str(
                "It was sent and the answer was lost or unclear: the same bytes are sent again until a \
                 node or a block shows them.",
            ),
            Self::FundsMissing => f.write_str(
                "The account's balance does not cover it: it is sent again once the account has funds.",
            ),
            Self::Behind(head) => write!(
                f,
                "Nonce {} of the same account stands still ({}): no later nonce is mined before it.",
                head.nonce, head.state
            ),
            Self::BehindOthers(1) => {
                f.write_str("One lower nonce of the account is not mined yet.")
            }
            Self::BehindOthers(ahead) => {
                write!(f, "{ahead} lower nonces of the account are not mined yet.")
            }
            Self::NotMined => f.write_str("A node has it; no block includes it yet."),
            Self::NotMinedAfterResend => {
                f.write_str("It was sent again, and still no block includes it.")
            }
            Self::NotFinal { confirmations: Some((so_far, needed)) } => write!(
                f,
                "It is in a block, with {so_far} of the {needed} confirmations that make it final."
            ),
            Self::NotFinal { confirmations: None } => {
                f.write_str("It is in a block that the chain has not declared final yet.")
            }
            Self::Stuck(reason) => f.write_str(stuck_sentence(*reason)),
        }
    }
}

const fn stuck_sentence(reason: StuckReason) -> &'static str {
    match reason {
        StuckReason::TimedOut => {
            "No block has included it within timeout.transaction: speed it up, cancel it, or let the stuck \
             policy decide."
        }
        StuckReason::ResubmitsExhausted => {
            "It was sent resubmit.max_attempts times and no block has included it: speed it up, cancel it, \
             or let the stuck policy decide."
        }
        StuckReason::GreyZone => {
            "It was sent and no node can say whether it has it: resubmit it, or cancel it to close its nonce."
        }
        StuckReason::Rejected => {
            "Every endpoint rejects it as invalid, and its nonce is held: replace it, or cancel it to close \
             the nonce."
        }
        StuckReason::Expired => {
            "Its validUntil has passed and it has a nonce: cancel it to close the nonce, unless a block \
             includes it first."
        }
        StuckReason::InsufficientFunds => {
            "The account's balance does not cover it: add funds, or cancel it."
        }
        StuckReason::FeeCap => {
            "The market asks more than a fee cap allows: raise the cap, wait for the market, or cancel it."
        }
        StuckReason::Unproven => {
            "The chain has used its nonce, and no endpoint shows by which transaction: an endpoint with the \
             full history settles it."
        }
        StuckReason::Unwritable => {
            "A change of it can't be written to the database: the last error says why."
        }
    }
}

/// A final state in one sentence, for the same place.
pub const fn ending(state: TxState) -> Option<&'static str> {
    match state {
        TxState::Confirmed => Some("Executed, and final."),
        TxState::Failed(Failed::Reverted) => Some("Mined and reverted by the contract. Final."),
        TxState::Failed(Failed::Cancelled) => Some("Cancelled. It will not be executed."),
        TxState::Failed(Failed::Rejected) => Some("No node accepted it. It will not be executed."),
        TxState::Failed(Failed::NonceTaken) => Some(
            "A transaction that Tollgate did not make used its nonce. It will not be executed.",
        ),
        TxState::Queued(_) | TxState::Allocated(_) | TxState::Tracking(_) | TxState::Stuck(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn view(state: TxState) -> WaitView {
        WaitView {
            state,
            nonce: None,
            submitter: SubmitterStatus::Active,
            blocked_by: None,
            ahead: 0,
            window: 16,
            not_before: None,
            confirmations: None,
        }
    }

    fn block() -> LineBlock {
        let state = TxState::Stuck(StuckReason::FeeCap);
        LineBlock { tx_id: TxId::from_uuid(Uuid::nil()), nonce: Nonce::new(7).unwrap(), state }
    }

    #[test]
    fn every_open_state_has_a_reason_and_every_final_one_an_ending() {
        for state in TxState::ALL {
            let why = why_waiting(&view(state));
            assert_eq!(why.is_none(), state.is_final(), "{state}");
            assert_eq!(ending(state).is_some(), state.is_final(), "{state}");
            let sentence = why.map_or_else(String::new, |why| why.to_string());
            assert!(sentence.is_empty() || sentence.ends_with('.'), "{sentence}");
        }
    }

    #[test]
    fn queued_tx_waits_for_its_time_before_its_account_and_its_account_before_a_slot() {
        let queued = view(TxState::Queued(Queued::Held));
        let paused = WaitView { submitter: SubmitterStatus::Paused, ahead: 16, ..queued };
        let later = WaitView { not_before: Some(Timestamp::EPOCH), ..paused };
        assert_eq!(why_waiting(&later), Some(WaitReason::Scheduled(Timestamp::EPOCH)));
        assert_eq!(why_waiting(&paused), Some(WaitReason::Paused));
        let protected = WaitView { submitter: SubmitterStatus::Protect, ..paused };
        assert_eq!(why_waiting(&protected), Some(WaitReason::Protected));
        let full = WaitView { submitter: SubmitterStatus::Active, ..paused };
        assert_eq!(why_waiting(&full), Some(WaitReason::WindowFull { open: 16, window: 16 }));
        let free = WaitView { ahead: 15, ..full };
        assert_eq!(why_waiting(&free), Some(WaitReason::NextInLine));
    }

    #[test]
    fn queued_tx_names_the_head_that_keeps_the_window_full() {
        let full = WaitView {
            blocked_by: Some(block()),
            ahead: 16,
            ..view(TxState::Queued(Queued::Waiting))
        };
        assert_eq!(why_waiting(&full), Some(WaitReason::Behind(block())));
        let free = WaitView { ahead: 3, ..full };
        assert_eq!(why_waiting(&free), Some(WaitReason::NextInLine), "a slot is free");
    }

    #[test]
    fn sent_tx_waits_for_a_head_that_stands_still_before_its_own_trouble() {
        for state in [
            TxState::Tracking(Tracking::Pending),
            TxState::Tracking(Tracking::Stale),
            TxState::Allocated(Allocated::UnknownSubmitResult),
            TxState::Allocated(Allocated::InsufficientFunds),
        ] {
            let blocked = WaitView { blocked_by: Some(block()), ahead: 2, ..view(state) };
            assert_eq!(why_waiting(&blocked), Some(WaitReason::Behind(block())), "{state}");
        }
        let told = WaitReason::Behind(block()).to_string();
        assert!(told.contains("Nonce 7") && told.contains("STUCK/FEE_CAP"), "{told}");
    }

    #[test]
    fn sent_tx_counts_the_lower_nonces_that_are_not_mined() {
        let pending = view(TxState::Tracking(Tracking::Pending));
        assert_eq!(why_waiting(&pending), Some(WaitReason::NotMined));
        let second = WaitView { ahead: 1, ..pending };
        assert_eq!(why_waiting(&second), Some(WaitReason::BehindOthers(1)));
        let stale = WaitView { state: TxState::Tracking(Tracking::Stale), ..pending };
        assert_eq!(why_waiting(&stale), Some(WaitReason::NotMinedAfterResend));
    }

    #[test]
    fn mined_tx_tells_its_confirmations_where_the_rule_counts_them() {
        let mined = WaitView {
            confirmations: Some((3, 20)),
            blocked_by: Some(block()),
            ..view(TxState::Tracking(Tracking::Mined))
        };
        let told = why_waiting(&mined).unwrap().to_string();
        assert!(told.contains("3 of the 20 confirmations"), "{told}");
        let tagged = WaitView { confirmations: None, ..mined };
        let told = why_waiting(&tagged).unwrap().to_string();
        assert!(told.contains("not declared final"), "{told}");
    }
}
