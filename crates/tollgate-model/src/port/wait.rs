//! How long something about a submitter has been waited for.

use crate::ids::{InvalidValue, Nonce};
use crate::time::Timestamp;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitKind {
    /// A hole that begins at this nonce ([`crate::hole`]).
    Hole,
    /// A settled block that explains the chain's count of a strict submitter; its nonce is 0.
    Unexplained,
    /// A nonce that a caller said to use, and that no endpoint has.
    UnsentReservation,
}

impl WaitKind {
    const ALL: [Self; 3] = [Self::Hole, Self::Unexplained, Self::UnsentReservation];

    /// The number under which stores keep the kind.
    pub const fn code(self) -> i16 {
        match self {
            Self::Hole => 1,
            Self::Unexplained => 2,
            Self::UnsentReservation => 3,
        }
    }

    /// The kind that a store keeps under `code`.
    pub fn from_code(code: i16) -> Result<Self, InvalidValue> {
        let kind = Self::ALL.into_iter().find(|kind| kind.code() == code);
        kind.ok_or_else(|| InvalidValue::new("kind", format!("no kind {code} of waits")))
    }
}

/// Something that a submitter waits for, and since when. Stored, so that a new owner is as patient with
/// it as the one before it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SubmitterWait {
    /// What it is.
    pub kind: WaitKind,
    /// The nonce that it is about.
    pub nonce: Nonce,
    /// When it was first seen.
    pub since: Timestamp,
}
