//! The protocol as it is built, and the ways of getting it wrong that are worth remembering.
//!
//! Owns what differs between the variants, as questions that the steps ask. Never moves the world.

/// How the lease, the fence and the broadcast are done.
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
    /// A node takes COMMIT's word for it: on a transaction that the server has aborted, COMMIT
    /// rolls back and reports no error.
    TrustCommit,
}

impl Protocol {
    /// Does the guard compare the fencing token?
    #[must_use]
    pub const fn guard_compares_token(self) -> bool {
        !matches!(self, Self::NoTokenCheck)
    }

    /// Does a passed guard keep takeovers out until its transaction ends?
    #[must_use]
    pub const fn guard_holds_lease(self) -> bool {
        !matches!(self, Self::ExistsGuard)
    }

    /// Is a restarted process a new owner?
    #[must_use]
    pub const fn owner_has_boot_id(self) -> bool {
        !matches!(self, Self::NoTokenCheck | Self::NoBootId)
    }

    /// Is the submitter's state read before the takeover has its lock?
    #[must_use]
    pub const fn loads_before_takeover(self) -> bool {
        matches!(self, Self::LoadBeforeTakeover)
    }

    /// Does the takeover lock the lease row before it decides on the new token?
    #[must_use]
    pub const fn takeover_locks_first(self) -> bool {
        !matches!(self, Self::UnlockedTakeover)
    }

    /// Is an attempt sent before its commit?
    #[must_use]
    pub const fn sends_before_commit(self) -> bool {
        matches!(self, Self::SendFirst)
    }

    /// Does a node believe a COMMIT on an aborted transaction?
    #[must_use]
    pub const fn believes_any_commit(self) -> bool {
        matches!(self, Self::TrustCommit)
    }
}

/// How far the search goes. What lies beyond is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Highest fencing token that is handed out; at most [`Bounds::MAX_TOKENS`].
    pub tokens: u8,
    /// How many different txs callers ask for; at most [`Bounds::MAX_TXS`].
    pub txs: u8,
    /// How many times nodes crash, all together.
    pub crashes: u8,
    /// How many times a node loses the answer to a transaction and lives on, all together.
    pub lost_answers: u8,
    /// Does the chain mine? No node asks it, so the large searches can do without.
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

/// One question to the checker: a protocol, its surroundings and how far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseModel {
    /// The protocol the nodes follow.
    pub protocol: Protocol,
    /// Does the database also refuse a cursor that isn't where the writer thinks it is, a second tx
    /// in a slot and a second slot for a tx? (The comparison in the cursor's UPDATE and the unique
    /// keys.) Without it the fence stands alone.
    pub second_line: bool,
    /// How far to look.
    pub bounds: Bounds,
}
