//! The protocol as built, and variants with one known mistake each.
//!
//! Owns the differences between the variants, as predicates for the steps. Never changes the state.

/// A protocol for lease, fence and broadcast.
///
/// Each broken variant differs from [`Protocol::AsBuilt`] in one line of SQL or in the order of two
/// steps: what breaks, breaks because of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The guard asks for owner and token and holds the lease row `FOR KEY SHARE` until the end of
    /// the transaction; the takeover locks, then bumps, and loads the submitter's state only after
    /// its commit; signed bytes are committed before they are sent.
    AsBuilt,
    /// The guard is a `WHERE EXISTS (SELECT …)`: it reads a snapshot and holds nothing, so that a
    /// takeover need not wait for the writer that passed it.
    ExistsGuard,
    /// The guard asks who owns the lease and whether it is valid, but not under which token; and a
    /// node goes by its name, without a boot id. A write under an older token of that name passes.
    NoTokenCheck,
    /// As built, but a node goes by its name: after a restart it finds "its" valid lease and goes
    /// on under the token that a transaction of its former life may still be using.
    NoBootId,
    /// The submitter's state comes from the takeover's own snapshot, taken before it waits for the
    /// writers: what REPEATABLE READ does, or one statement that takes the lease and reads.
    LoadBeforeTakeover,
    /// The takeover reads token and expiry without a lock and writes `token + 1` as a value.
    UnlockedTakeover,
    /// An attempt goes out as soon as it is signed.
    SendFirst,
    /// A node believes every COMMIT: on a transaction that the server has aborted, COMMIT
    /// rolls back and reports no error.
    TrustCommit,
}

impl Protocol {
    /// The guard compares the fencing token.
    pub const fn guard_compares_token(self) -> bool {
        !matches!(self, Self::NoTokenCheck)
    }

    /// A passed guard blocks takeovers until its transaction ends.
    pub const fn guard_holds_lease(self) -> bool {
        !matches!(self, Self::ExistsGuard)
    }

    /// A restarted process is a new owner.
    pub const fn owner_has_boot_id(self) -> bool {
        !matches!(self, Self::NoTokenCheck | Self::NoBootId)
    }

    /// The submitter's state is read before the takeover has its lock.
    pub const fn loads_before_takeover(self) -> bool {
        matches!(self, Self::LoadBeforeTakeover)
    }

    /// The takeover locks the lease row before it decides on the new token.
    pub const fn takeover_locks_first(self) -> bool {
        !matches!(self, Self::UnlockedTakeover)
    }

    /// An attempt is sent before its commit.
    pub const fn sends_before_commit(self) -> bool {
        matches!(self, Self::SendFirst)
    }

    /// A node believes a COMMIT on an aborted transaction.
    pub const fn believes_any_commit(self) -> bool {
        matches!(self, Self::TrustCommit)
    }
}

/// The bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Highest fencing token that is handed out; at most [`Bounds::MAX_TOKENS`].
    pub tokens: u8,
    /// Different txs that callers request; at most [`Bounds::MAX_TXS`].
    pub txs: u8,
    /// Crashes of all nodes together.
    pub crashes: u8,
    /// Answers to transactions that nodes lose without crashing, all together.
    pub lost_answers: u8,
    /// The chain mines. No node reads it, so the large searches leave it out.
    pub mining: bool,
}

impl Bounds {
    /// The most tokens an attempt set has room for.
    pub const MAX_TOKENS: u8 = 5;
    /// The most txs an attempt set has room for.
    pub const MAX_TXS: u8 = 3;
    /// The most slots an attempt set has room for: one more than the txs need, so that a broken
    /// protocol has room to show a tx in two slots.
    pub const MAX_SLOTS: u8 = Self::MAX_TXS + 1;
}

/// One search: a protocol, its surroundings and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseModel {
    pub protocol: Protocol,
    /// The database also refuses an unexpected cursor, a second tx in a slot and a second slot for a tx
    /// (the comparison in the cursor's UPDATE and the unique keys). Without it the fence stands alone.
    pub second_line: bool,
    pub bounds: Bounds,
}
