//! Promises that can be broken on purpose, so that simulations can show that they would notice.

/// A way to break a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "then nobody asks"))]
pub enum PlantedBug {
    /// An answer that is not clear counts as a rejection (I3).
    SlotFreedOnTimeout,
    /// Bytes are sent before they are durable (I5).
    SendFirst,
    /// Only the newest attempt of a transaction is remembered (I5).
    OlderHashesForgotten,
    /// Callers are answered before the commit (I6).
    AnswerFirst,
    /// Blocks that left the chain still count (I9).
    ForksIgnored,
    /// What is sent again is not claimed (I11).
    UnclaimedResends,
    /// Of several that were sent together without an answer, only the first is doubted (I3).
    FirstDoubted,
    /// A strict submitter goes on whatever the chain counts (I12).
    StrictUnchecked,
}
