//! Slots and the signed attempts that occupy them.

use alloy_primitives::Bytes;

use crate::amount::GasPrice;
use crate::ids::{Nonce, TxHash};

/// A nonce for a transaction, with the first attempt that uses it (I5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The nonce.
    pub nonce: Nonce,
    /// The nonce comes from the recyclable nonces below the cursor, not from the cursor.
    pub recycled: bool,
    /// The first attempt.
    pub attempt: NewAttempt,
}

/// A signed attempt to store. Attempts are never deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAttempt {
    /// The hash.
    pub tx_hash: TxHash,
    /// The signed bytes.
    pub raw: Bytes,
    /// The purpose of the attempt.
    pub kind: AttemptKind,
    /// The fees.
    pub fees: Fees,
}

/// The purpose of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AttemptKind {
    /// The intent, as first signed.
    Intent,
    /// The intent at a higher price.
    Bump,
    /// A new payload that the caller allowed.
    Replacement,
    /// A self-transfer that a caller asked for in order to cancel.
    Cancellation,
    /// A self-transfer that closes the slot of a transaction no node accepts.
    Placeholder,
}

impl AttemptKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Intent, Self::Bump, Self::Replacement, Self::Cancellation, Self::Placeholder];

    /// The name in the API and in hooks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Bump => "bump",
            Self::Replacement => "replacement",
            Self::Cancellation => "cancellation",
            Self::Placeholder => "placeholder",
        }
    }

    /// The number under which stores save the kind.
    pub const fn code(self) -> i16 {
        match self {
            Self::Intent => 1,
            Self::Bump => 2,
            Self::Replacement => 3,
            Self::Cancellation => 4,
            Self::Placeholder => 5,
        }
    }

    /// The kind that stores save under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The fees of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fees {
    /// The gas limit.
    pub gas_limit: u64,
    /// `maxFeePerGas`, or the gas price of a legacy transaction.
    pub max_fee: GasPrice,
    /// `maxPriorityFeePerGas`; `None` for a legacy transaction.
    pub max_priority_fee: Option<GasPrice>,
}
