//! Which slots a submitter may open next.
//!
//! Pure: the writer gathers what is known into a [`NonceView`], asks [`decide`], and carries the
//! answer out in one fenced transaction that moves the stored cursor from where the view saw it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::ids::{InvalidId, Nonce};
use crate::state::{StuckReason, Tracking, TxState};
use crate::time::Timestamp;

/// How a submitter's nonces are given out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Up to a window of slots at once; gaps are possible if outsiders use the key.
    Pipelined,
    /// One slot at a time, exactly consecutive (I12).
    Strict,
}

impl Mode {
    /// Every mode there is.
    pub const ALL: [Self; 2] = [Self::Pipelined, Self::Strict];

    /// The number under which stores keep the mode.
    pub const fn code(self) -> i16 {
        match self {
            Self::Pipelined => 1,
            Self::Strict => 2,
        }
    }

    /// The mode that a store keeps under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.code() == code)
    }

    /// The mode's word in settings, API, logs and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::Strict => "strict",
        }
    }

    /// The mode of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// When strict mode opens the next slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StrictAdvance {
    /// The last one is final.
    Final,
    /// The last one is mined; a reorg can leave two slots open for a while, never a gap.
    Mined,
}

/// Whether a submitter takes work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubmitterStatus {
    /// It does.
    Active,
    /// An operator paused it.
    Paused,
    /// The chain shows what our own slots can't explain (I12); an operator resumes it.
    Protect,
}

impl SubmitterStatus {
    /// Every status there is.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Protect];

    /// The number under which stores keep the status.
    pub const fn code(self) -> i16 {
        match self {
            Self::Active => 1,
            Self::Paused => 2,
            Self::Protect => 3,
        }
    }

    /// The status that a store keeps under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The status's word in SQL, API, logs and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Protect => "PROTECT",
        }
    }
}

/// The rules of one submitter, from configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceRules {
    /// Pipelined or strict.
    pub mode: Mode,
    /// How many slots may be open at once in pipelined mode; at least 1.
    pub window: u32,
    /// When strict mode goes on.
    pub strict_advance: StrictAdvance,
    /// How long a count read from the chain is believed (`nonce.state_timeout`).
    pub state_timeout: Duration,
}

impl NonceRules {
    /// The limit on open slots that these rules give.
    pub const fn open_slots_max(&self) -> u32 {
        match self.mode {
            Mode::Pipelined => self.window,
            Mode::Strict => 1,
        }
    }

    /// Whether a transaction in `state` takes up one of the open slots.
    pub fn occupies_slot(&self, state: TxState) -> bool {
        let mined = state == TxState::Tracking(Tracking::Mined);
        let unproven = state == TxState::Stuck(StuckReason::Unproven);
        let passes = match self.mode {
            // The chain has passed it, for good: it takes up none of what may be sent.
            Mode::Pipelined => unproven,
            Mode::Strict => mined && self.strict_advance == StrictAdvance::Mined,
        };
        state.holds_open_slot() && !passes
    }
}

/// A count read from the chain, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainCount {
    /// The account's count including the node's pending transactions.
    pub pending: Nonce,
    /// The account's count in the canonical head.
    pub mined: Nonce,
    /// When it was read.
    pub read_at: Timestamp,
}

/// All that is known about a submitter's nonces at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceView {
    /// Whether it takes work.
    pub status: SubmitterStatus,
    /// The stored cursor: the next nonce as of the last commit.
    pub cursor: Nonce,
    /// The next nonce as this process remembers it; it may be lost at any time.
    pub cached_next: Option<Nonce>,
    /// The last count read from the chain, however old.
    pub chain: Option<ChainCount>,
    /// The chain is known to have moved on, or was seen to disagree, since that count was read.
    pub drift: bool,
    /// Slots that [`NonceRules::occupies_slot`] counts.
    pub open_slots: u32,
    /// Slots whose transaction is not final yet: those that the chain may still lack.
    pub unsettled_slots: u32,
}

/// What to do for a submitter that has work waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NonceDecision {
    /// Open `count` slots from `first` on; the cursor moves to [`SlotRange::end`].
    Allocate(SlotRange),
    /// Read the chain's counts, then ask again.
    AskChain,
    /// All allowed slots are open: work stays QUEUED/WAITING.
    WindowFull,
    /// The submitter takes no work: it stays QUEUED/HELD.
    Held,
    /// The head's count can't be explained by our own slots: open none, and ask again. A settled
    /// block decides whether it is PROTECT ([`crate::reconcile`], I12).
    AwaitProof(Unexplained),
}

/// Consecutive slots to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRange {
    /// The first nonce.
    pub first: Nonce,
    /// How many; at least one.
    pub count: u32,
}

impl SlotRange {
    /// The nonce after the last one: where the cursor goes.
    pub fn end(&self) -> Result<Nonce, InvalidId> {
        self.first.forward(u64::from(self.count))
    }
}

/// How a strict submitter's chain count differs from what our own slots explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unexplained {
    /// The least count that our slots explain: all but the unsettled ones are mined.
    pub at_least: Nonce,
    /// The highest count that our slots explain: all of them are mined.
    pub at_most: Nonce,
    /// What the chain says.
    pub mined: Nonce,
}

/// Decides which slots to open for `wanted` (at least one) waiting transactions.
pub fn decide(
    rules: &NonceRules,
    view: &NonceView,
    wanted: u32,
    now: Timestamp,
) -> Result<NonceDecision, InvalidId> {
    if view.status != SubmitterStatus::Active {
        return Ok(NonceDecision::Held);
    }
    let free = rules.open_slots_max().saturating_sub(view.open_slots);
    if free == 0 {
        return Ok(NonceDecision::WindowFull);
    }
    let fresh = |count: &ChainCount| !view.drift && now.since(count.read_at) < rules.state_timeout;
    let Some(chain) = view.chain.filter(fresh) else {
        return Ok(NonceDecision::AskChain);
    };
    let first = match rules.mode {
        // I4: never back. An old cache entry still takes part: it can only be too high.
        Mode::Pipelined => {
            chain.pending.max(view.cursor).max(view.cached_next.unwrap_or(Nonce::MIN))
        }
        Mode::Strict => {
            if let Some(unexplained) = unexplained(view.cursor, view.unsettled_slots, chain.mined) {
                return Ok(NonceDecision::AwaitProof(unexplained));
            }
            // I12: no max with the chain. The cursor alone decides.
            view.cursor
        }
    };
    let range = SlotRange { first, count: wanted.clamp(1, free) };
    range.end()?;
    Ok(NonceDecision::Allocate(range))
}

/// Nonces below the cursor that came back: from slots that no node ever took, from callers that did
/// not use them, and from holes.
#[derive(Clone, Copy, Debug)]
pub struct PoolView<'a> {
    /// Those that are free.
    pub recyclable: &'a BTreeSet<Nonce>,
    /// Those that open slots have.
    pub open: &'a BTreeSet<Nonce>,
    /// What the chain counts, read after the last one came back; `None` if it was not asked.
    pub chain: Option<ChainCount>,
}

/// A slot to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOut {
    /// Its nonce.
    pub nonce: Nonce,
    /// It comes from the pool, not from the cursor.
    pub recycled: bool,
}

/// Fills a range that [`decide`] allows: what came back first, lowest first, then from the range's
/// first on. Never more than the range has.
///
/// I3: nothing below what the chain counts. What only a pool counts, too, may be a caller's that
/// sent it and let its time run out. I12: strict mode has no pool.
pub fn hand_out(
    mode: Mode,
    pool: &PoolView<'_>,
    range: SlotRange,
) -> Result<Vec<HandedOut>, InvalidId> {
    let count = range.count as usize;
    let floor = match (mode, pool.chain) {
        (Mode::Pipelined, Some(chain)) => chain.mined.max(chain.pending),
        (Mode::Pipelined, None) | (Mode::Strict, _) => range.first,
    };
    let free = pool.recyclable.range(floor.min(range.first)..range.first);
    let recycled = free.filter(|nonce| !pool.open.contains(nonce)).take(count);
    let mut handed: Vec<HandedOut> =
        recycled.map(|nonce| HandedOut { nonce: *nonce, recycled: true }).collect();
    for ahead in 0..count.saturating_sub(handed.len()) {
        handed.push(HandedOut { nonce: range.first.forward(ahead as u64)?, recycled: false });
    }
    Ok(handed)
}

/// The nonce that came back and that the chain waits for. It may be handed out though the window is
/// full: everything that is open waits for it, and nothing else would ever make room.
pub fn unblocks(mode: Mode, pool: &PoolView<'_>) -> Option<HandedOut> {
    let chain = pool.chain.filter(|chain| chain.pending <= chain.mined)?;
    let free = pool.recyclable.contains(&chain.mined) && !pool.open.contains(&chain.mined);
    match mode {
        Mode::Pipelined => free.then_some(HandedOut { nonce: chain.mined, recycled: true }),
        Mode::Strict => None,
    }
}

/// Whether a strict submitter's mined count can't come from its own slots alone (I12).
///
/// Slots below the cursor are ours; of these only the unsettled ones may be missing on the chain.
pub fn unexplained(cursor: Nonce, unsettled_slots: u32, mined: Nonce) -> Option<Unexplained> {
    let lowest = cursor.get().saturating_sub(u64::from(unsettled_slots));
    let at_least = Nonce::new(lowest).unwrap_or(cursor);
    let explained = (at_least..=cursor).contains(&mined);
    (!explained).then_some(Unexplained { at_least, at_most: cursor, mined })
}
