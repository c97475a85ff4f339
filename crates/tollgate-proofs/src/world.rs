//! The state: one submitter's rows in the database, the open transactions, the nodes' memory, the wire
//! and the chain. Owns no rule: steps change it, properties check it.

use crate::protocol::Bounds;

pub const NODES: usize = 3;

/// Database sessions: one for each node, and one for a transaction that its node gave up.
pub const SESSIONS: usize = NODES + 1;

/// The session of the orphan: a transaction whose node crashed or lost the connection, with all of
/// its statements still on their way to the server.
pub const ORPHAN: usize = NODES;

/// A fencing token. Zero stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u8);

impl Token {
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A nonce of the submitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u8);

impl Nonce {
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One managed intent. Any node may be asked for it, also for the same one as another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u8);

/// The holder of a lease: a node's name and, where the protocol has one, its boot id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub node: usize,
    /// The number of its crashes before; always zero for a protocol without boot ids.
    pub boot: u8,
}

/// The row of `submitter_lease`, as committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Nobody before the first takeover and after a release.
    pub owner: Option<Owner>,
    /// Grows by one at each change of owner.
    pub token: Token,
    /// `expires_at` is in the past. Time is an action of its own that sets this.
    pub expired: bool,
}

/// Signed bytes: slot, tx and signer. Two owners that sign the same tx for the same
/// slot make different bytes (their fees differ), hence the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    pub nonce: Nonce,
    pub tx: TxId,
    pub signed_under: Token,
}

/// A set of attempts, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptSet(u64);

impl AttemptSet {
    const fn bit(attempt: Attempt) -> u64 {
        let slot = attempt.nonce.0 * Bounds::MAX_TXS + attempt.tx.0;
        1 << (slot * Bounds::MAX_TOKENS + attempt.signed_under.0 - 1)
    }

    pub const fn insert(&mut self, attempt: Attempt) {
        self.0 |= Self::bit(attempt);
    }

    pub const fn remove(&mut self, attempt: Attempt) {
        self.0 &= !Self::bit(attempt);
    }

    pub const fn contains(self, attempt: Attempt) -> bool {
        self.0 & Self::bit(attempt) != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All of them, lowest slot first.
    pub fn iter(self) -> impl Iterator<Item = Attempt> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let bit = u8::try_from(left.trailing_zeros()).ok().filter(|bit| *bit < 64)?;
            left &= left - 1;
            let slot = bit / Bounds::MAX_TOKENS;
            Some(Attempt {
                nonce: Nonce(slot / Bounds::MAX_TXS),
                tx: TxId(slot % Bounds::MAX_TXS),
                signed_under: Token(bit % Bounds::MAX_TOKENS + 1),
            })
        })
    }

    pub fn lowest(self) -> Option<Attempt> {
        self.iter().next()
    }

    pub fn txs(self) -> TxSet {
        let mut txs = TxSet::default();
        self.iter().for_each(|attempt| txs.insert(attempt.tx));
        txs
    }
}

/// A set of txs, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxSet(u8);

impl TxSet {
    pub const fn insert(&mut self, tx: TxId) {
        self.0 |= 1 << tx.0;
    }

    pub const fn contains(self, tx: TxId) -> bool {
        self.0 & (1 << tx.0) != 0
    }

    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// The progress of a writer's transaction. Its changes are invisible before its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Nothing has reached the server yet. The guard moves it on.
    Begun,
    /// The guard let it pass (and, as built, holds the lease row `FOR KEY SHARE`). The write moves
    /// it on.
    Guarded,
    /// Row and cursor are written, and the cursor row is locked. The commit ends it.
    Written,
}

/// An open transaction, as the database server sees it. Its locks follow from its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Session {
    Closed,
    /// Stores one attempt and moves the cursor past it.
    Writer {
        stage: Stage,
        /// The node that began it; the guard compares this name.
        owner: Owner,
        /// The attempt that it stores. The guard compares its `signed_under`.
        attempt: Attempt,
    },
    /// Holds the lease row `FOR UPDATE`. The bump moves it on.
    TakeoverLocked {
        owner: Owner,
    },
    /// Has written owner and token. The commit ends it.
    TakeoverBumped {
        owner: Owner,
        token: Token,
    },
}

/// The next step of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Knows of no lease. A takeover (or finding itself the owner) moves it on.
    Idle,
    /// Has read before the takeover what it should have read during or after it. Only in broken
    /// protocols.
    ReadEarly,
    /// Its takeover is under way. The takeover's commit moves it on.
    Taking,
    /// Believes to be the owner and has no state of the submitter in memory. The load moves it on.
    Loading,
    /// Believes to be the owner and may draft.
    Ready,
    /// Its transaction is under way. The end of that moves it on.
    Writing,
    /// Was refused, dropped its memory, and continues like [`Step::Idle`].
    Fenced,
}

/// One node: its memory, which a crash loses, and the number of its crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    pub boot: u8,
    pub step: Step,
    /// The token it believes to hold.
    pub token: Token,
    pub next: Nonce,
    /// The txs it knows to be stored; a repeated request gets no new nonce.
    pub known: TxSet,
    /// The attempts to send. After a load these are all stored attempts: any may or may not have been sent.
    pub to_send: AttemptSet,
}

impl Node {
    const fn new() -> Self {
        Self {
            boot: 0,
            step: Step::Idle,
            token: Token(0),
            next: Nonce(0),
            known: TxSet(0),
            to_send: AttemptSet(0),
        }
    }

    /// Drops its memory of the submitter and of the lease.
    pub const fn forget(&mut self, step: Step) {
        *self = Self { boot: self.boot, step, ..Self::new() };
    }

    /// Drops its memory of the submitter and keeps the lease it believes to hold.
    pub const fn forget_state(&mut self, token: Token) {
        *self = Self { boot: self.boot, step: Step::Loading, token, ..Self::new() };
    }

    /// The node tries to get the lease.
    pub const fn is_contender(&self) -> bool {
        matches!(self.step, Step::Idle | Step::Fenced)
    }
}

/// Violations that the rest of the state would not show any more. Once set, they stay set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// A write was committed under a token older than the lease's at that moment.
    pub late_write: bool,
    pub cursor_back: bool,
    pub token_back: bool,
    /// A takeover committed a token that was issued before.
    pub token_reissued: bool,
}

/// The complete state. Its hash is in `symmetry.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// The lease row, as committed.
    pub lease: Lease,
    /// The cursor row, as committed: the next nonce.
    pub cursor: Nonce,
    /// The stored attempts, as committed. Rows are never deleted.
    pub rows: AttemptSet,
    /// The open transactions: one per node, then the orphan.
    pub sessions: [Session; SESSIONS],
    pub nodes: [Node; NODES],
    /// Every attempt that was ever sent. A message can be late, lost or duplicated, so each of these
    /// may arrive at the chain at any later time, or never.
    pub wire: AttemptSet,
    /// The mined attempts: at most one per slot, slots in order.
    pub mined: AttemptSet,
    /// The txs whose callers got a 2xx answer.
    pub answered: TxSet,
    /// The number of times that a node lost the answer to a transaction without crashing.
    pub lost_answers: u8,
    pub history: History,
}

impl Default for World {
    /// An empty database and nodes that have just started. The first takeover (of a lease that
    /// nobody holds) stands for the insert with token 1.
    fn default() -> Self {
        Self {
            lease: Lease { owner: None, token: Token(0), expired: true },
            cursor: Nonce(0),
            rows: AttemptSet::default(),
            sessions: [Session::Closed; SESSIONS],
            nodes: [Node::new(); NODES],
            wire: AttemptSet::default(),
            mined: AttemptSet::default(),
            answered: TxSet::default(),
            lost_answers: 0,
            history: History::default(),
        }
    }
}
