//! Nonce assignment: which slots a submitter may open next.
//!
//! Pure functions: the writer gathers the facts into a [`NonceView`], calls [`decide`], and carries the
//! decision out in one fenced transaction that moves the stored cursor by compare-and-set.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::ids::{InvalidValue, Nonce};
use crate::port::chain::AccountCounts;
use crate::state::{StuckReason, Tracking, TxState};
use crate::time::Timestamp;

/// The maximum age of a count for a recyclable nonce to be assigned again (I3). Its previous holder may
/// have sent something meanwhile, and only a new count shows that.
pub const RECYCLE_COUNT_AGE_MAX: Duration = Duration::from_secs(1);

/// How a submitter's nonces are assigned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Up to a window of slots at once; gaps are possible if outsiders use the key.
    Pipelined,
    /// One slot at a time, exactly consecutive (I12).
    Strict,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Pipelined, Self::Strict];

    /// The number under which stores save the mode.
    pub const fn code(self) -> i16 {
        match self {
            Self::Pipelined => 1,
            Self::Strict => 2,
        }
    }

    /// The mode that stores save under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.code() == code)
    }

    /// The name in settings, API, logs and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::Strict => "strict",
        }
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// When strict mode opens the next slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StrictAdvance {
    /// When the last one is final.
    Final,
    /// When the last one is mined; a reorg can leave two slots open for a while, never a gap.
    Mined,
}

/// Whether a submitter accepts work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubmitterStatus {
    /// It does.
    Active,
    /// An operator paused it.
    Paused,
    /// Our own slots don't explain the chain's count (I12); an operator resumes it.
    Protect,
}

impl SubmitterStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Protect];

    /// The number under which stores save the status.
    pub const fn code(self) -> i16 {
        match self {
            Self::Active => 1,
            Self::Paused => 2,
            Self::Protect => 3,
        }
    }

    /// The status that stores save under `code`, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The name in SQL, API, logs and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Protect => "PROTECT",
        }
    }
}

/// One submitter's rules, from the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceRules {
    /// Pipelined or strict.
    pub mode: Mode,
    /// The maximum number of open slots in pipelined mode; at least 1.
    pub window: u32,
    /// When strict mode opens the next slot.
    pub strict_advance: StrictAdvance,
    /// How long a count read from the chain is used (`nonce.state_timeout`).
    pub state_timeout: Duration,
}

impl NonceRules {
    /// The rules by which placeholders fill holes for an operator. A strict submitter's hole lies below its
    /// open slot, so the placeholder is opened beside that slot, one at a time.
    pub fn for_placeholders(self) -> Self {
        let window = self.open_slots_max();
        Self { mode: Mode::Pipelined, window, ..self }
    }

    /// The maximum number of open slots under these rules.
    pub const fn open_slots_max(&self) -> u32 {
        match self.mode {
            Mode::Pipelined => self.window,
            Mode::Strict => 1,
        }
    }

    /// Whether a transaction in `state` counts against the open slots.
    pub fn occupies_slot(&self, state: TxState) -> bool {
        let mined = state == TxState::Tracking(Tracking::Mined);
        let unproven = state == TxState::Stuck(StuckReason::Unproven);
        let passes = match self.mode {
            // The chain has passed it for good, so it takes up no room.
            Mode::Pipelined => unproven,
            Mode::Strict => mined && self.strict_advance == StrictAdvance::Mined,
        };
        state.holds_open_slot() && !passes
    }
}

/// Nonce counts read from the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainCount {
    /// The account's count including the node's pending transactions.
    pub pending: Nonce,
    /// The account's count in the canonical head.
    pub mined: Nonce,
    /// When they were read.
    pub read_at: Timestamp,
}

/// The facts about a submitter's nonces at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceView {
    /// Whether the submitter accepts work.
    pub status: SubmitterStatus,
    /// The stored cursor: the next nonce as of the last commit.
    pub cursor: Nonce,
    /// The last counts read from the chain, however old.
    pub chain: Option<ChainCount>,
    /// The chain has moved on, or was seen to disagree, since those counts were read.
    pub drift: bool,
    /// The slots that [`NonceRules::occupies_slot`] counts.
    pub open_slots: u32,
    /// The slots whose transaction is not final: the chain may still lack them.
    pub unsettled_slots: u32,
    /// Recyclable nonces below the cursor are to be assigned first.
    pub has_recyclable: bool,
}

impl NonceView {
    /// The last count, if it is new enough and no drift was noticed.
    pub fn fresh_count(&self, rules: &NonceRules, now: Timestamp) -> Option<ChainCount> {
        let recycles = self.has_recyclable && rules.mode == Mode::Pipelined;
        let age_max = if recycles { RECYCLE_COUNT_AGE_MAX } else { rules.state_timeout };
        let age_max = age_max.min(rules.state_timeout);
        self.chain.filter(|count| !self.drift && now.since(count.read_at) < age_max)
    }
}

/// The decision for a submitter with queued work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NonceDecision {
    /// Open `count` slots from `first` on; the cursor moves to [`SlotRange::end`].
    Allocate(SlotRange),
    /// Read the chain's counts, then decide again.
    AskChain,
    /// All allowed slots are open: work stays QUEUED/WAITING.
    WindowFull,
    /// The submitter accepts no work: it stays QUEUED/HELD.
    Held,
    /// Our own slots don't explain the head's count: open none and ask again. A settled block decides
    /// whether the submitter goes to PROTECT ([`crate::reconcile`], I12).
    AwaitProof(Unexplained),
}

/// Consecutive slots to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRange {
    /// The first nonce.
    pub first: Nonce,
    /// The number of slots; at least one.
    pub count: u32,
}

impl SlotRange {
    /// The nonce after the last one: the new cursor.
    pub fn end(&self) -> Result<Nonce, InvalidValue> {
        self.first.forward(u64::from(self.count))
    }
}

/// How a strict submitter's chain count differs from what its own slots explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unexplained {
    /// The lowest count that our slots explain: all but the unsettled ones are mined.
    pub at_least: Nonce,
    /// The highest count that our slots explain: all of them are mined.
    pub at_most: Nonce,
    /// The chain's count.
    pub mined: Nonce,
}

/// Decides which slots to open for `wanted` (at least one) queued transactions.
pub fn decide(
    rules: &NonceRules,
    view: &NonceView,
    wanted: u32,
    now: Timestamp,
) -> Result<NonceDecision, InvalidValue> {
    if view.status != SubmitterStatus::Active {
        return Ok(NonceDecision::Held);
    }
    let free = rules.open_slots_max().saturating_sub(view.open_slots);
    let recycles = view.has_recyclable && rules.mode == Mode::Pipelined;
    if free == 0 && !recycles {
        return Ok(NonceDecision::WindowFull);
    }
    // I3: also if the window is full, because `unblocks` assigns nonces by this count.
    let Some(chain) = view.fresh_count(rules, now) else {
        return Ok(NonceDecision::AskChain);
    };
    if free == 0 {
        return Ok(NonceDecision::WindowFull);
    }
    let first = match rules.mode {
        // I4: never back.
        Mode::Pipelined => chain.pending.max(view.cursor),
        Mode::Strict => {
            if let Some(unexplained) = unexplained(view.cursor, view.unsettled_slots, chain.mined) {
                return Ok(NonceDecision::AwaitProof(unexplained));
            }
            // I12: no maximum with the chain. Only the cursor decides.
            view.cursor
        }
    };
    let range = SlotRange { first, count: wanted.clamp(1, free) };
    range.end()?;
    Ok(NonceDecision::Allocate(range))
}

/// A count that is too far ahead to be believed from a single endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoubtedCount {
    /// The endpoint's count.
    pub claimed: Nonce,
    /// The highest count that would be believed.
    pub at_most: Nonce,
}

impl fmt::Display for DoubtedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claimed, at_most } = self;
        write!(
            f,
            "one endpoint alone counts {claimed}, and at most {at_most} is believed without the mined \
             count, a second endpoint or an operator"
        )
    }
}

/// Whether counts are too far ahead to move a cursor (I16): a move of more than the window beyond the
/// cursor and the confirmed count needs the mined count, a second endpoint or an operator. A cursor never
/// goes back (I4), so one wrong count would leave a hole of any size for ever.
pub fn doubts(cursor: Nonce, counts: &AccountCounts, window: u32) -> Option<DoubtedCount> {
    let at_most = cursor.max(counts.sure).forward(u64::from(window)).unwrap_or(Nonce::MAX);
    let claimed = counts.pending.max(counts.mined);
    (claimed > at_most).then_some(DoubtedCount { claimed, at_most })
}

/// A strict submitter's counts corrected for lag: a mined count that lacks our own final slots is
/// replaced by the highest count of any endpoint, if our own slots explain that one (I15). One
/// endpoint that counts too little must not stop the account.
pub fn without_lag(cursor: Nonce, unsettled_slots: u32, counts: AccountCounts) -> AccountCounts {
    let lacks = unexplained(cursor, unsettled_slots, counts.mined)
        .filter(|why| counts.mined < why.at_least)
        .is_some();
    if !lacks || unexplained(cursor, unsettled_slots, counts.highest).is_some() {
        return counts;
    }
    let pending = counts.pending.max(counts.highest);
    AccountCounts { mined: counts.highest, pending, ..counts }
}

/// Recyclable nonces below the cursor: from slots that no node ever accepted, from reservations that were
/// not used, and from holes.
#[derive(Clone, Copy, Debug)]
pub struct PoolView<'a> {
    /// The recyclable nonces.
    pub recyclable: &'a BTreeSet<Nonce>,
    /// The nonces of open slots.
    pub open: &'a BTreeSet<Nonce>,
    /// The chain's counts, if they are fresh ([`NonceView::fresh_count`]).
    pub chain: Option<ChainCount>,
}

/// A slot to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotToFill {
    /// The nonce.
    pub nonce: Nonce,
    /// It comes from the pool, not from the cursor.
    pub recycled: bool,
}

/// Fills a range that [`decide`] allows: recyclable nonces first, lowest first, then from the range's
/// first nonce on. Never more than the range has.
///
/// I3: nothing below what the chain counts. A nonce that only a pool counts may belong to a caller that
/// sent it after its deadline. I12: strict mode has no pool.
pub fn slots_to_fill(
    mode: Mode,
    pool: &PoolView<'_>,
    range: SlotRange,
) -> Result<Vec<SlotToFill>, InvalidValue> {
    let count = range.count as usize;
    let floor = match (mode, pool.chain) {
        (Mode::Pipelined, Some(chain)) => chain.mined.max(chain.pending),
        (Mode::Pipelined, None) | (Mode::Strict, _) => range.first,
    };
    let free = pool.recyclable.range(floor.min(range.first)..range.first);
    let recycled = free.filter(|nonce| !pool.open.contains(nonce)).take(count);
    let mut handed: Vec<SlotToFill> =
        recycled.map(|nonce| SlotToFill { nonce: *nonce, recycled: true }).collect();
    for ahead in 0..count.saturating_sub(handed.len()) {
        handed.push(SlotToFill { nonce: range.first.forward(ahead as u64)?, recycled: false });
    }
    Ok(handed)
}

/// The recyclable nonces that the chain waits for next, at most `wanted`. They may be assigned although the
/// window is full: all open slots wait for them, and nothing else would make room. They lie within
/// `window` of the mined count, so no more than two windows are open.
///
/// I3: nothing below what the chain or a pool counts, and nothing without a fresh count.
pub fn unblocks(rules: &NonceRules, pool: &PoolView<'_>, wanted: u32) -> Vec<SlotToFill> {
    let Some(chain) = pool.chain.filter(|_| rules.mode == Mode::Pipelined) else {
        return Vec::new();
    };
    let end = chain.mined.get().saturating_add(u64::from(rules.window));
    (chain.mined.max(chain.pending).get()..end)
        .map_while(|nonce| Nonce::new(nonce).ok())
        .take_while(|nonce| pool.open.contains(nonce) || pool.recyclable.contains(nonce))
        .filter(|nonce| !pool.open.contains(nonce))
        .map(|nonce| SlotToFill { nonce, recycled: true })
        .take(wanted as usize)
        .collect()
}

/// Whether a strict submitter's mined count can't come from its own slots alone (I12).
///
/// Slots below the cursor are ours; only the unsettled ones among them may be missing on the chain.
pub fn unexplained(cursor: Nonce, unsettled_slots: u32, mined: Nonce) -> Option<Unexplained> {
    let lowest = cursor.get().saturating_sub(u64::from(unsettled_slots));
    let at_least = Nonce::new(lowest).unwrap_or(cursor);
    let explained = (at_least..=cursor).contains(&mined);
    (!explained).then_some(Unexplained { at_least, at_most: cursor, mined })
}
