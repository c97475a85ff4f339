//! Alerts: conditions that need an operator.
//!
//! Raising an alert changes no state and never blocks. The code that raises an alert suppresses
//! repeats of the same condition for a while; receivers need not.

use crate::ids::{Nonce, Submitter, TxId};

/// The condition that an alert reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlertKind {
    /// A transaction was marked STUCK, or a submitter's head of line makes no progress.
    Stuck,
    /// Too many transactions are open, or the oldest has been open for too long.
    Backlog,
    /// The account's balance does not cover an open transaction.
    InsufficientFunds,
    /// The market price is above the fee cap.
    FeeCap,
    /// Every endpoint rejects a transaction.
    Rejected,
    /// The chain waits for a nonce in which Tollgate has no transaction.
    Hole,
    /// A submitter went to PROTECT (I12).
    Protect,
    /// A foreign transaction was mined in one of the submitter's slots.
    NonceTaken,
    /// A queued transaction can't be signed, and those queued behind it wait.
    Unsigned,
    /// A reservation was reported as used, no endpoint has its transaction, and higher nonces wait for it.
    ReservationUnsent,
    /// A single endpoint counts far more than the account's cursor, or endpoints disagree about the count
    /// of an account without slots. The count is not used (I16).
    CountDoubted,
    /// No endpoint delivers the receipt of a mined transaction.
    ReceiptUnread,
    /// Endpoints contradict each other about the receipt of a mined transaction, which waits for finality.
    ReceiptDisputed,
    /// No endpoint delivers the next block, so no receipt becomes final. This concerns all
    /// submitters of the chain; the alert names one of them.
    BlockUnread,
    /// A mined transaction waits for finality, and the finalized height does not rise.
    FinalityStalled,
    /// A stuck policy's decision can't be carried out, or the policy could not be asked.
    Policy,
    /// A submitter has open work and no live node serves it: it is tracked, but nothing can be
    /// signed.
    Unserved,
    /// A node was refused writes of submitters that it no longer owns, more often than a takeover explains.
    FencedSurge,
    /// Many sent transactions of a submitter wait for a receipt, and the oldest for long.
    ReceiptBacklog,
    /// A submitter could not be compared with the chain, several times in a row.
    ReconcileFailure,
    /// Callers hold nearly all nonces that a submitter may reserve.
    ReservationsPilingUp,
    /// A transaction has been in the grey zone for long: it is not known whether a node has it.
    GreyZone,
    /// The balance of an account is below its floor, or lasts for few days at the present burn.
    LowBalance,
    /// A node resends transactions at a high rate.
    ResubmitRate,
    /// A node gets no answers from an endpoint.
    EndpointDown,
    /// No new block was seen for long, and transactions wait for one.
    ChainStalled,
    /// The clock of a node differs from the database's.
    ClockDrift,
    /// An account is below its floor, and its funding account does not pay.
    TopUpFailed,
}

names!(AlertKind {
    Stuck => "stuck",
    Backlog => "backlog",
    InsufficientFunds => "insufficient_funds",
    FeeCap => "fee_cap",
    Rejected => "rejected",
    Hole => "hole",
    Protect => "protect",
    NonceTaken => "nonce_taken",
    Unsigned => "unsigned",
    ReservationUnsent => "reservation_unsent",
    CountDoubted => "count_doubted",
    ReceiptUnread => "receipt_unread",
    ReceiptDisputed => "receipt_disputed",
    BlockUnread => "block_unread",
    FinalityStalled => "finality_stalled",
    Policy => "policy",
    Unserved => "unserved",
    FencedSurge => "fenced_surge",
    ReceiptBacklog => "receipt_backlog",
    ReconcileFailure => "reconcile_failure",
    ReservationsPilingUp => "reservations_piling_up",
    GreyZone => "grey_zone",
    LowBalance => "low_balance",
    ResubmitRate => "resubmit_rate",
    EndpointDown => "endpoint_down",
    ChainStalled => "chain_stalled",
    ClockDrift => "clock_drift",
    TopUpFailed => "top_up_failed",
});

/// One alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alert {
    pub kind: AlertKind,
    pub submitter: Submitter,
    /// The transaction concerned, if there is one.
    pub tx_id: Option<TxId>,
    /// The slot concerned, if there is one.
    pub nonce: Option<Nonce>,
    pub detail: String,
}

/// Receives alerts.
pub trait Alerts: Send + Sync + 'static {
    /// Delivers an alert. Must neither block nor fail.
    fn raise(&self, alert: &Alert);
}
