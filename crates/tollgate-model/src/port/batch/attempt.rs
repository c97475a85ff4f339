//! Slots and the signed attempts that occupy them.

use alloy_primitives::Bytes;

use crate::amount::GasPrice;
use crate::ids::{Nonce, TxHash};

/// A nonce for a transaction, with the first attempt that uses it (I5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    pub nonce: Nonce,
    /// The nonce comes from the recyclable nonces below the cursor, not from the cursor.
    pub recycled: bool,
    pub attempt: NewAttempt,
}

/// A signed attempt to store. Attempts are never deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAttempt {
    pub tx_hash: TxHash,
    pub raw: Bytes,
    pub kind: AttemptKind,
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

names!(AttemptKind {
    Intent => "intent",
    Bump => "bump",
    Replacement => "replacement",
    Cancellation => "cancellation",
    Placeholder => "placeholder",
});

codes!(AttemptKind {
    Intent => 1,
    Bump => 2,
    Replacement => 3,
    Cancellation => 4,
    Placeholder => 5,
});

/// The fees of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fees {
    pub gas_limit: u64,
    /// `maxFeePerGas`, or the gas price of a legacy transaction.
    pub max_fee: GasPrice,
    /// `maxPriorityFeePerGas`; `None` for a legacy transaction.
    pub max_priority_fee: Option<GasPrice>,
}
