//! Stuck transactions: when a decision is needed, and what may be done.
//!
//! Pure functions: the worker calls [`trigger`] at each tick, asks its policy (the built-in rules of
//! [`rules`], a hook, an operator), calls [`plan`] for what the answer means for this transaction, claims
//! it under the fence (I11), and only then acts. No action gives up a slot: the strongest of them sends
//! another attempt *in* the slot, and whichever is mined decides.

pub mod rules;

use std::time::Duration;

use thiserror::Error;

use crate::ids::Nonce;
use crate::port::batch::AttemptKind;
use crate::port::policy::StuckAction;
use crate::state::{StuckReason, Tracking, TxState};
use crate::time::Timestamp;
use crate::transition::TxEvent;

/// When the policy is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StuckThresholds {
    /// The time at the head of line without a receipt (`stuck.head_after`).
    pub head_after: Duration,
    /// The number of waiting transactions (`stuck.backlog_depth`).
    pub backlog_depth: Option<u64>,
    /// The age of the oldest waiting transaction (`stuck.backlog_age`).
    pub backlog_age: Option<Duration>,
    /// The minimum time between two questions about one transaction (`stuck.ask_interval`).
    pub ask_interval: Duration,
}

impl Default for StuckThresholds {
    fn default() -> Self {
        Self {
            head_after: Duration::from_secs(300),
            backlog_depth: Some(5_000),
            backlog_age: Some(Duration::from_secs(900)),
            ask_interval: Duration::from_secs(60),
        }
    }
}

/// The reason why a policy is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trigger {
    /// An operator asked, for any transaction with a slot. Not returned by [`trigger`]: handled at once.
    OperatorAsked,
    /// The head of line is STUCK, or has been the head for too long.
    HeadStuck,
    /// The oldest waiting transaction has waited for too long.
    BacklogOld,
    /// Too many transactions wait.
    BacklogDeep,
    /// A transaction that need not be the head was just marked STUCK, for instance because it expired. Not
    /// returned by [`trigger`]: asked once when it is marked.
    MarkedStuck,
}

names!(Trigger {
    OperatorAsked => "operator_asked",
    HeadStuck => "head_stuck",
    BacklogOld => "backlog_old",
    BacklogDeep => "backlog_deep",
    MarkedStuck => "marked_stuck",
});

/// The head of line: the lowest open slot that the chain may still wait for. A mined slot, or one that was
/// used by an unknown transaction, blocks nothing.
pub fn head(open: impl IntoIterator<Item = (Nonce, TxState)>) -> Option<Nonce> {
    let is_passed = |state: TxState| {
        state == TxState::Tracking(Tracking::Mined)
            || state == TxState::Stuck(StuckReason::Unproven)
    };
    let in_the_way = |state: TxState| state.holds_open_slot() && !is_passed(state);
    open.into_iter().filter(|(_, state)| in_the_way(*state)).map(|(nonce, _)| nonce).min()
}

/// A submitter's line as its worker sees it. Without a head there is nothing to ask about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineView {
    pub head: TxState,
    /// Since when it has been the head, or since a policy or an operator last acted on it.
    pub head_since: Timestamp,
    /// When a policy was last asked about it.
    pub asked_at: Option<Timestamp>,
    /// The number of the submitter's transactions behind the head, with a slot or without.
    pub depth: u64,
    /// When the oldest transaction without a receipt was accepted.
    pub oldest: Timestamp,
}

/// Checks whether the policy is asked about the head now, and why; the most specific reason wins.
pub fn trigger(thresholds: &StuckThresholds, line: &LineView, now: Timestamp) -> Option<Trigger> {
    if line.asked_at.is_some_and(|at| now.since(at) < thresholds.ask_interval) {
        return None;
    }
    let head_stuck = matches!(line.head, TxState::Stuck(_))
        || now.since(line.head_since) >= thresholds.head_after;
    let old = thresholds.backlog_age.is_some_and(|age| now.since(line.oldest) >= age);
    let deep = thresholds.backlog_depth.is_some_and(|depth| line.depth >= depth);
    if head_stuck {
        Some(Trigger::HeadStuck)
    } else if old {
        Some(Trigger::BacklogOld)
    } else if deep {
        Some(Trigger::BacklogDeep)
    } else {
        None
    }
}

/// The properties of a transaction that decide what may be done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    pub state: TxState,
    /// This node has the account's key.
    pub has_key: bool,
    /// The caller signed it, so no other attempt of the same call can be signed.
    pub signed_by_caller: bool,
    /// The caller allows another payload in its place.
    pub payload_may_change: bool,
    /// One of its attempts is a cancellation or a placeholder.
    pub closing: bool,
}

/// The way in which an action is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// Only raise an alert.
    Alert,
    /// Claim it with this event (or a note, if there is none), then send the newest bytes again.
    Resend {
        /// The state-machine event.
        event: Option<TxEvent>,
    },
    /// Sign a further attempt of this kind, more expensive than all before it ([`crate::bump::raise`]), make
    /// it durable with this event (or a note), then send it (I5).
    Sign {
        /// The state-machine event.
        event: Option<TxEvent>,
        kind: AttemptKind,
    },
}

/// The reason why an action is not possible. The transaction stays unchanged, with an alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Forbidden {
    /// Queued without a nonce: there is no slot to act in. It can be withdrawn instead.
    #[error("it has no slot")]
    NoSlot,
    /// Already mined.
    #[error("it is mined")]
    Mined,
    /// Already final (I9).
    #[error("it is final")]
    Final,
    /// This node does not have the account's key, so nothing new can be signed.
    #[error("there is no key for the account")]
    NoKey,
    /// The caller signed it: only the caller can sign it at another price.
    #[error("the caller signed it")]
    SignedByCaller,
    /// The caller did not allow another payload.
    #[error("its payload may not change")]
    PayloadFixed,
    /// Its slot is being closed: the intent is no longer wanted.
    #[error("its slot is being closed")]
    Closing,
}

/// Translates a policy's answer into a step for this transaction. `brings_payload`: a
/// [`StuckAction::Replace`] came with its own payload.
pub fn plan(
    action: StuckAction,
    brings_payload: bool,
    subject: &Subject,
) -> Result<Plan, Forbidden> {
    let sign = |kind| {
        let event = claim(subject.state)?;
        if subject.has_key { Ok(Plan::Sign { event, kind }) } else { Err(Forbidden::NoKey) }
    };
    match action {
        StuckAction::Noop => Ok(Plan::Alert),
        StuckAction::Resubmit => Ok(Plan::Resend { event: resend_claim(subject.state)? }),
        StuckAction::Replace => {
            claim(subject.state)?;
            sign(replacement(brings_payload, subject)?)
        }
        StuckAction::Cancel => sign(AttemptKind::Cancellation),
        StuckAction::Placeholder => sign(AttemptKind::Placeholder),
    }
}

/// Returns whether an answer asks for an attempt of the kind that was already sent. A policy that repeats
/// its answer while a chain stands still must not raise the price each time (I16): if the attempt pays the
/// market, it is sent again unchanged. A price or call that the answer names is different.
pub const fn is_out_already(action: StuckAction, names_nothing: bool, newest: AttemptKind) -> bool {
    match (action, newest) {
        (
            StuckAction::Cancel | StuckAction::Placeholder,
            AttemptKind::Cancellation | AttemptKind::Placeholder,
        ) => true,
        (StuckAction::Replace, AttemptKind::Bump) => names_nothing,
        (
            StuckAction::Noop
            | StuckAction::Resubmit
            | StuckAction::Replace
            | StuckAction::Cancel
            | StuckAction::Placeholder,
            AttemptKind::Intent
            | AttemptKind::Bump
            | AttemptKind::Replacement
            | AttemptKind::Cancellation
            | AttemptKind::Placeholder,
        ) => false,
    }
}

/// The event with which an action is claimed, if the state allows one.
const fn claim(state: TxState) -> Result<Option<TxEvent>, Forbidden> {
    match state {
        TxState::Queued(_) => Err(Forbidden::NoSlot),
        TxState::Tracking(Tracking::Mined) => Err(Forbidden::Mined),
        TxState::Confirmed | TxState::Failed(_) => Err(Forbidden::Final),
        TxState::Allocated(_) | TxState::Tracking(Tracking::Pending | Tracking::Stale) => Ok(None),
        TxState::Stuck(_) => Ok(Some(TxEvent::Retried)),
    }
}

/// The event with which a resend of the same bytes is claimed. It ends STUCK only where the decision to send
/// is what was missing; elsewhere the nodes' answer shows whether the cause has ended
/// ([`crate::answer::event_for`]).
const fn resend_claim(state: TxState) -> Result<Option<TxEvent>, Forbidden> {
    match state {
        TxState::Stuck(
            StuckReason::TimedOut
            | StuckReason::ResubmitsExhausted
            | StuckReason::GreyZone
            | StuckReason::InsufficientFunds
            | StuckReason::FeeCap
            | StuckReason::Unproven,
        ) => Ok(None),
        TxState::Stuck(StuckReason::Rejected | StuckReason::Expired | StuckReason::Unwritable)
        | TxState::Queued(_)
        | TxState::Allocated(_)
        | TxState::Tracking(_)
        | TxState::Confirmed
        | TxState::Failed(_) => claim(state),
    }
}

const fn replacement(brings_payload: bool, subject: &Subject) -> Result<AttemptKind, Forbidden> {
    if subject.closing {
        Err(Forbidden::Closing)
    } else if brings_payload && !subject.payload_may_change {
        Err(Forbidden::PayloadFixed)
    } else if brings_payload {
        Ok(AttemptKind::Replacement)
    } else if subject.signed_by_caller {
        Err(Forbidden::SignedByCaller)
    } else {
        Ok(AttemptKind::Bump)
    }
}

// `docs/decisions.md` has most cases as tables, which a test compares with the code.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StuckReason;
    use crate::test_values::at;

    const PENDING: TxState = TxState::Tracking(Tracking::Pending);
    const MINED: TxState = TxState::Tracking(Tracking::Mined);
    const STUCK: TxState = TxState::Stuck(StuckReason::TimedOut);

    fn line(head: TxState) -> LineView {
        LineView {
            head,
            head_since: Timestamp::EPOCH,
            asked_at: None,
            depth: 0,
            oldest: Timestamp::EPOCH,
        }
    }

    fn check(line: &LineView, seconds: u64) -> Option<Trigger> {
        trigger(&StuckThresholds::default(), line, at(seconds))
    }

    fn subject(state: TxState) -> Subject {
        Subject {
            state,
            has_key: true,
            signed_by_caller: false,
            payload_may_change: false,
            closing: false,
        }
    }

    #[test]
    fn the_head_is_the_lowest_open_slot_without_a_receipt() {
        let slot = |nonce, state| (Nonce::new(nonce).unwrap(), state);
        let open = [slot(9, PENDING), slot(5, MINED), slot(7, STUCK), slot(6, MINED)];
        assert_eq!(head(open), Some(Nonce::new(7).unwrap()));
        assert_eq!(head([slot(5, MINED)]), None);
        assert_eq!(head([]), None);
    }

    #[test]
    fn policy_is_not_asked_below_a_threshold_nor_twice_in_a_row() {
        assert_eq!(check(&line(PENDING), 299), None);
        let deep = LineView { head_since: at(1_000), oldest: at(1_000), ..line(PENDING) };
        assert_eq!(check(&LineView { depth: 4_999, ..deep }, 1_000), None);
        assert_eq!(check(&LineView { depth: 5_000, ..deep }, 1_000), Some(Trigger::BacklogDeep));
        let asked = LineView { asked_at: Some(at(300)), ..line(STUCK) };
        assert_eq!(check(&asked, 359), None);
        assert_eq!(check(&asked, 360), Some(Trigger::HeadStuck));
    }

    #[test]
    fn resubmit_ends_stuck_only_where_the_cause_has_ended_and_a_final_state_never() {
        let resent = |state| plan(StuckAction::Resubmit, false, &subject(state));
        assert_eq!(resent(STUCK), Ok(Plan::Resend { event: None }), "the cause has not ended");
        let expired = TxState::Stuck(StuckReason::Expired);
        assert_eq!(resent(expired), Ok(Plan::Resend { event: Some(TxEvent::Retried) }));
        let confirmed = subject(TxState::Confirmed);
        for action in StuckAction::ALL {
            let noop = action == StuckAction::Noop;
            let expected = if noop { Ok(Plan::Alert) } else { Err(Forbidden::Final) };
            assert_eq!(plan(action, false, &confirmed), expected);
        }
    }

    #[test]
    fn a_payload_changes_only_where_the_caller_allows_it() {
        let fixed = subject(PENDING);
        assert_eq!(plan(StuckAction::Replace, true, &fixed), Err(Forbidden::PayloadFixed));
        let free = Subject { payload_may_change: true, ..fixed };
        let sign = |kind| Ok(Plan::Sign { event: None, kind });
        assert_eq!(plan(StuckAction::Replace, true, &free), sign(AttemptKind::Replacement));
        assert_eq!(plan(StuckAction::Replace, false, &fixed), sign(AttemptKind::Bump));
    }
}
