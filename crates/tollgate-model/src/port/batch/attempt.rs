//! Slots, and the signed forms that use them.

use alloy_primitives::Bytes;

use crate::amount::GasPrice;
use crate::ids::{Nonce, TxHash};

/// A nonce for a transaction, with the first signed form that uses it (I5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The nonce.
    pub nonce: Nonce,
    /// It comes from the pool of recyclable nonces below the cursor, not from the cursor.
    pub recycled: bool,
    /// What will be sent.
    pub attempt: NewAttempt,
}

/// A signed form to be kept for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAttempt {
    /// Its hash.
    pub tx_hash: TxHash,
    /// The bytes to send.
    pub raw: Bytes,
    /// What it is for.
    pub kind: AttemptKind,
    /// What it pays.
    pub fees: Fees,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AttemptKind {
    /// The intent, as first signed.
    Intent,
    /// The intent at a higher price.
    Bump,
    /// A new payload that the caller allowed.
    Replacement,
    /// A transfer to self that a caller asked for.
    Cancellation,
    /// A transfer to self that closes the slot of a transaction no node would take.
    Placeholder,
}

impl AttemptKind {
    /// Every kind there is.
    pub const ALL: [Self; 5] =
        [Self::Intent, Self::Bump, Self::Replacement, Self::Cancellation, Self::Placeholder];

    /// The word for it in the API and in hooks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Bump => "bump",
            Self::Replacement => "replacement",
            Self::Cancellation => "cancellation",
            Self::Placeholder => "placeholder",
        }
    }

    /// The number under which stores keep the kind.
    pub const fn code(self) -> i16 {
        match self {
            Self::Intent => 1,
            Self::Bump => 2,
            Self::Replacement => 3,
            Self::Cancellation => 4,
            Self::Placeholder => 5,
        }
    }

    /// The kind that a store keeps under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// What an attempt pays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fees {
    /// The most gas it may use.
    pub gas_limit: u64,
    /// `maxFeePerGas`, or the gas price of a legacy transaction.
    pub max_fee: GasPrice,
    /// `maxPriorityFeePerGas`; `None` for a legacy transaction.
    pub max_priority_fee: Option<GasPrice>,
}
