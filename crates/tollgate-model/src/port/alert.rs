//! Who is told when something needs a person's eyes.
//!
//! An alert moves nothing and is never waited for. Whoever raises one keeps quiet about the same
//! thing for a while; receivers need not.

use std::fmt;

use crate::ids::{Nonce, Submitter, TxId};

/// What an alert is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlertKind {
    /// A transaction was marked STUCK, or the head of a line does not move.
    Stuck,
    /// Too much waits, or the oldest has waited too long.
    Backlog,
    /// The account can't pay for what is asked of it.
    InsufficientFunds,
    /// The market is above what may be offered.
    FeeCap,
    /// Every endpoint rejects a transaction.
    Rejected,
    /// The chain waits for a nonce that nothing of ours is in.
    Hole,
    /// A submitter went to PROTECT (I12).
    Protect,
    /// A foreign transaction is in one of our slots.
    NonceTaken,
    /// A transaction that waits for a slot can't be signed, and holds up what waits behind it.
    Unsigned,
    /// A caller said to use a nonce that no endpoint has, and everything above waits for it.
    ReservationUnsent,
    /// One endpoint alone counts far more than the account's cursor; the count is not used (I16).
    CountDoubted,
    /// The receipt of a transaction that is in a block can't be read from any endpoint.
    ReceiptUnread,
    /// The next block can't be read from any endpoint, so no receipt becomes final. It concerns all
    /// submitters of the chain and is raised for one of them.
    BlockUnread,
    /// What a policy decided can't be done, or the policy could not be asked.
    Policy,
    /// A submitter has open work, and no live node serves it: it is followed, but nothing can be
    /// signed.
    Unserved,
}

impl AlertKind {
    /// Every kind there is.
    pub const ALL: [Self; 15] = [
        Self::Stuck,
        Self::Backlog,
        Self::InsufficientFunds,
        Self::FeeCap,
        Self::Rejected,
        Self::Hole,
        Self::Protect,
        Self::NonceTaken,
        Self::Unsigned,
        Self::ReservationUnsent,
        Self::CountDoubted,
        Self::ReceiptUnread,
        Self::BlockUnread,
        Self::Policy,
        Self::Unserved,
    ];

    /// The word for it in logs, metrics and sinks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::Backlog => "backlog",
            Self::InsufficientFunds => "insufficient_funds",
            Self::FeeCap => "fee_cap",
            Self::Rejected => "rejected",
            Self::Hole => "hole",
            Self::Protect => "protect",
            Self::NonceTaken => "nonce_taken",
            Self::Unsigned => "unsigned",
            Self::ReservationUnsent => "reservation_unsent",
            Self::CountDoubted => "count_doubted",
            Self::ReceiptUnread => "receipt_unread",
            Self::BlockUnread => "block_unread",
            Self::Policy => "policy",
            Self::Unserved => "unserved",
        }
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that needs a person's eyes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alert {
    /// What it is about.
    pub kind: AlertKind,
    /// Whose.
    pub submitter: Submitter,
    /// Which transaction, if it is about one.
    pub tx_id: Option<TxId>,
    /// Which slot, if it is about one.
    pub nonce: Option<Nonce>,
    /// More, for people.
    pub detail: String,
}

/// Takes alerts.
pub trait Alerts: Send + Sync + 'static {
    /// Never waits and never fails.
    fn raise(&self, alert: &Alert);
}
