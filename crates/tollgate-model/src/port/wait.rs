//! Conditions that a submitter waits for, and since when.

use crate::ids::Nonce;
use crate::time::Timestamp;

/// The condition that is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitKind {
    /// A hole that begins at this nonce ([`crate::hole`]).
    Hole,
    /// A settled block that explains the chain's count of a strict submitter; its nonce is 0.
    Unexplained,
    /// A nonce that a caller reported as used, and that no endpoint has.
    UnsentReservation,
}

codes!(WaitKind { Hole => 1, Unexplained => 2, UnsentReservation => 3 });

/// A condition that a submitter waits for, and since when. It is stored, so that a new owner continues the
/// wait of the owner before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SubmitterWait {
    pub kind: WaitKind,
    pub nonce: Nonce,
    pub since: Timestamp,
}
