//! The states of a managed transaction. The transitions are in [`crate::transition`].
//!
//! A nonce has no state machine of its own: whether a slot is open follows from its transaction.

use std::fmt;

/// The state of a managed transaction, with its sub-state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TxState {
    /// Accepted and durable, without a nonce. The writer moves it on.
    Queued(Queued),
    /// Slot fixed, attempt signed and durable, not yet known to be with a node. The sender moves it on.
    Allocated(Allocated),
    /// A node has it. The tracker moves it on.
    Tracking(Tracking),
    /// Final: executed.
    Confirmed,
    /// Final: not executed as requested.
    Failed(Failed),
    /// Makes no progress by itself: evidence, a policy or an operator moves it on.
    Stuck(StuckReason),
}

/// The reason why a transaction has no nonce yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Queued {
    /// The window is full, or the writer has not processed it yet.
    Waiting,
    /// The submitter is paused or in PROTECT.
    Held,
}

/// The knowledge about the first send.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Allocated {
    /// Not sent, as far as any owner has recorded.
    Unsent,
    /// The grey zone: sent, with a lost or inconclusive answer.
    UnknownSubmitResult,
    /// Sent, and every answer so far was that the balance does not cover it. Another node may have accepted it
    /// all the same.
    InsufficientFunds,
}

/// The knowledge about a transaction that a node has accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tracking {
    /// With a node, no receipt yet.
    Pending,
    /// Sent again, still no receipt.
    Stale,
    /// In a block below the finality threshold.
    Mined,
}

/// The way in which a transaction ended without being executed as requested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Failed {
    /// Mined and reverted.
    Reverted,
    /// Withdrawn before it had a slot, or its slot was closed by a cancellation.
    Cancelled,
    /// No node accepted it; its slot was closed or recycled, or it never had one.
    Rejected,
    /// A foreign transaction used the slot.
    NonceTaken,
}

/// The reason why a transaction makes no progress by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StuckReason {
    /// `timeout.transaction` has passed.
    TimedOut,
    /// `resubmit.max_attempts` sends brought no receipt.
    ResubmitsExhausted,
    /// `grey_zone.timeout` has passed, and it is unknown whether a node has it.
    GreyZone,
    /// Every endpoint rejects it as invalid, and the policy holds its slot.
    Rejected,
    /// `validUntil` has passed and it has a slot.
    Expired,
    /// The balance does not cover it.
    InsufficientFunds,
    /// The required fee is above a cap.
    FeeCap,
    /// The chain has used its slot, and no endpoint can show by what or with which result (I8). It blocks no
    /// other transaction; evidence moves it on.
    Unproven,
    /// Its change can't be written: the store, or the rules of a batch, refuse it.
    Unwritable,
}

names!(StuckReason {
    TimedOut => "timed_out",
    ResubmitsExhausted => "resubmits_exhausted",
    GreyZone => "grey_zone",
    Rejected => "rejected",
    Expired => "expired",
    InsufficientFunds => "insufficient_funds",
    FeeCap => "fee_cap",
    Unproven => "unproven",
    Unwritable => "unwritable",
});

/// Defines `ALL`, `code`, `from_code` and `sub_name` from a table of states.
macro_rules! states {
    ($([$($state:tt)+] => $code:literal, $sub_name:expr;)+) => {
        /// All states, in the order of a transaction's life.
        pub const ALL: [Self; [$($code),+].len()] = [$($($state)+),+];

        /// The number under which stores save the state.
        pub const fn code(self) -> i16 {
            match self { $($($state)+ => $code),+ }
        }

        /// Finds the state that stores save under this number.
        pub const fn from_code(code: i16) -> Option<Self> {
            match code { $($code => Some($($state)+),)+ _ => None }
        }

        /// The sub-state's name, if there is one.
        pub const fn sub_name(self) -> Option<&'static str> {
            match self { $($($state)+ => $sub_name),+ }
        }
    };
}

impl TxState {
    // Tens are the state, units the sub-state; 40 to 59 are final. Never reuse a code.
    states! {
        [Self::Queued(Queued::Waiting)] => 10, Some("WAITING");
        [Self::Queued(Queued::Held)] => 11, Some("HELD");
        [Self::Allocated(Allocated::Unsent)] => 20, Some("UNSENT");
        [Self::Allocated(Allocated::UnknownSubmitResult)] => 21, Some("UNKNOWN_SUBMIT_RESULT");
        [Self::Allocated(Allocated::InsufficientFunds)] => 22, Some("INSUFFICIENT_FUNDS");
        [Self::Tracking(Tracking::Pending)] => 30, Some("PENDING");
        [Self::Tracking(Tracking::Stale)] => 31, Some("STALE");
        [Self::Tracking(Tracking::Mined)] => 32, Some("MINED");
        [Self::Confirmed] => 40, None;
        [Self::Failed(Failed::Reverted)] => 50, Some("REVERTED");
        [Self::Failed(Failed::Cancelled)] => 51, Some("CANCELLED");
        [Self::Failed(Failed::Rejected)] => 52, Some("REJECTED");
        [Self::Failed(Failed::NonceTaken)] => 53, Some("NONCE_TAKEN");
        [Self::Stuck(StuckReason::TimedOut)] => 60, Some("TIMED_OUT");
        [Self::Stuck(StuckReason::ResubmitsExhausted)] => 61, Some("RESUBMITS_EXHAUSTED");
        [Self::Stuck(StuckReason::GreyZone)] => 62, Some("GREY_ZONE");
        [Self::Stuck(StuckReason::Rejected)] => 63, Some("REJECTED");
        [Self::Stuck(StuckReason::Expired)] => 64, Some("EXPIRED");
        [Self::Stuck(StuckReason::InsufficientFunds)] => 65, Some("INSUFFICIENT_FUNDS");
        [Self::Stuck(StuckReason::FeeCap)] => 66, Some("FEE_CAP");
        [Self::Stuck(StuckReason::Unproven)] => 67, Some("UNPROVEN");
        [Self::Stuck(StuckReason::Unwritable)] => 69, Some("UNWRITABLE");
    }

    /// The name in SQL, API, logs and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued(_) => "QUEUED",
            Self::Allocated(_) => "ALLOCATED",
            Self::Tracking(_) => "TRACKING",
            Self::Confirmed => "CONFIRMED",
            Self::Failed(_) => "FAILED_FINAL",
            Self::Stuck(_) => "STUCK",
        }
    }

    /// The reason, as named in the API, why higher nonces wait for it if it is the head of line.
    pub const fn blocks_with(self) -> Option<&'static str> {
        match self {
            Self::Allocated(Allocated::UnknownSubmitResult) => Some("unknown_submit_result"),
            Self::Allocated(Allocated::InsufficientFunds) => Some("insufficient_funds"),
            Self::Stuck(reason) => Some(reason.name()),
            Self::Queued(_)
            | Self::Allocated(Allocated::Unsent)
            | Self::Tracking(_)
            | Self::Confirmed
            | Self::Failed(_) => None,
        }
    }

    /// Returns whether the state is final (I9).
    pub const fn is_final(self) -> bool {
        match self {
            Self::Confirmed | Self::Failed(_) => true,
            Self::Queued(_) | Self::Allocated(_) | Self::Tracking(_) | Self::Stuck(_) => false,
        }
    }

    /// Returns whether it has a slot that is not closed yet.
    ///
    /// STUCK counts: the slot still blocks its successors.
    pub const fn holds_open_slot(self) -> bool {
        match self {
            Self::Allocated(_) | Self::Tracking(_) | Self::Stuck(_) => true,
            Self::Queued(_) | Self::Confirmed | Self::Failed(_) => false,
        }
    }
}

impl fmt::Display for TxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sub_name() {
            Some(sub) => write!(f, "{}/{sub}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_one_code_and_one_name() {
        let mut codes: Vec<_> = TxState::ALL.iter().map(|state| state.code()).collect();
        let mut names: Vec<_> = TxState::ALL.iter().map(ToString::to_string).collect();
        codes.dedup();
        names.sort();
        names.dedup();
        assert_eq!(codes.len(), TxState::ALL.len());
        assert_eq!(names.len(), TxState::ALL.len());
        for state in TxState::ALL {
            assert_eq!(TxState::from_code(state.code()), Some(state));
        }
        assert_eq!(TxState::from_code(0), None);
    }

    #[test]
    fn a_reason_is_the_sub_state_in_lower_case() {
        let stuck = TxState::ALL.into_iter().filter(|state| matches!(state, TxState::Stuck(_)));
        assert_eq!(stuck.collect::<Vec<_>>(), StuckReason::ALL.map(TxState::Stuck));
        for reason in StuckReason::ALL {
            let sub = TxState::Stuck(reason).sub_name().unwrap();
            assert_eq!(reason.name(), sub.to_lowercase());
        }
    }

    #[test]
    fn blocked_by_reason_is_the_sub_state_in_lower_case() {
        for state in TxState::ALL {
            if let Some(word) = state.blocks_with() {
                assert!(state.holds_open_slot(), "{state}");
                assert_eq!(word, state.sub_name().unwrap().to_lowercase());
            }
        }
        assert_eq!(TxState::Tracking(Tracking::Pending).blocks_with(), None, "it moves");
    }

    #[test]
    fn final_codes_are_forty_to_fifty_nine() {
        for state in TxState::ALL {
            assert_eq!((40..60).contains(&state.code()), state.is_final(), "{state}");
        }
    }
}
