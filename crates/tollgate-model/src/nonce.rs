//! Nonce assignment: which slots a submitter may open next.
//!
//! Pure functions: the writer gathers the facts into a [`NonceView`], calls [`decide`], and carries the
//! decision out in one fenced transaction that moves the stored cursor by compare-and-set.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::ids::{InvalidValue, Nonce};
use crate::port::chain::{AccountCounts, CountSupport};
use crate::state::{StuckReason, Tracking, TxState};
use crate::time::Timestamp;

/// The maximum age of a count for a recyclable nonce to be assigned again (I3). Its previous holder may
/// have sent something meanwhile, and only a new count shows that.
pub const RECYCLE_COUNT_AGE_MAX: Duration = Duration::from_secs(1);

/// The way in which a submitter's nonces are assigned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Up to a window of slots at once; gaps are possible if outsiders use the key.
    Pipelined,
    /// One slot at a time, exactly consecutive (I12).
    Strict,
}

names!(Mode { Pipelined => "pipelined", Strict => "strict" });

codes!(Mode { Pipelined => 1, Strict => 2 });

/// When strict mode opens the next slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StrictAdvance {
    /// When the last one is final.
    Final,
    /// When the last one is mined; a reorg can leave two slots open for a while, never a gap.
    Mined,
}

/// The status of a submitter: only an active one accepts work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubmitterStatus {
    Active,
    /// An operator paused it.
    Paused,
    /// Our own slots don't explain the chain's count (I12); an operator resumes it.
    Protect,
}

names!(SubmitterStatus { Active => "ACTIVE", Paused => "PAUSED", Protect => "PROTECT" });

codes!(SubmitterStatus { Active => 1, Paused => 2, Protect => 3 });

/// One submitter's rules, from the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceRules {
    pub mode: Mode,
    /// The maximum number of slots that are not mined in pipelined mode; at least 1.
    pub window: u32,
    /// The maximum number of slots that are not final in pipelined mode, mined ones included; at least 1.
    pub unfinal_max: u32,
    /// When strict mode opens the next slot.
    pub strict_advance: StrictAdvance,
    /// The time for which a count read from the chain is used (`nonce.state_timeout`).
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

    /// The number of slots that may be opened now (I13).
    fn free_slots(&self, view: &NonceView) -> u32 {
        let free = self.open_slots_max().saturating_sub(view.open_slots);
        match self.mode {
            Mode::Pipelined => free.min(self.unfinal_max.saturating_sub(view.unsettled_slots)),
            Mode::Strict => free,
        }
    }

    /// Returns whether a transaction in `state` counts against the open slots.
    pub fn occupies_slot(&self, state: TxState) -> bool {
        let mined = state == TxState::Tracking(Tracking::Mined);
        let unproven = state == TxState::Stuck(StuckReason::Unproven);
        let passes = match self.mode {
            // The chain has passed it, so it takes up no room in the mempools. After a reorg it does
            // again, and no further slot is opened until the window has room.
            Mode::Pipelined => unproven || mined,
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
    pub read_at: Timestamp,
}

/// The facts about a submitter's nonces at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceView {
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

/// The difference between a strict submitter's chain count and the count that its own slots explain.
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
    let free = rules.free_slots(view);
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

/// Checks whether counts are too far ahead to move a cursor (I16): a move of more than the window beyond the
/// cursor and the confirmed count needs the mined count, a second endpoint or an operator. A cursor never
/// goes back (I4), so one wrong count would leave a hole of any size for ever.
pub fn doubts(cursor: Nonce, counts: &AccountCounts, window: u32) -> Option<DoubtedCount> {
    let at_most = cursor.max(counts.sure).forward(u64::from(window)).unwrap_or(Nonce::MAX);
    let claimed = counts.pending.max(counts.mined);
    (claimed > at_most).then_some(DoubtedCount { claimed, at_most })
}

/// The decision about an account's counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountDecision {
    /// Use these counts.
    Use(AccountCounts),
    /// Have the chain search for the last transaction of the claimed count, and ask again. If a block shows
    /// it, the claim is right; if the claimant's own blocks contradict it, it is wrong. Until then no
    /// slot is opened.
    Prove(UnprovenCount),
    /// Only one endpoint has answered: ask again.
    AskAgain,
}

/// A mined count that one endpoint alone claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnprovenCount {
    /// The count that is known without the claim.
    pub known: Nonce,
    /// The count of a single endpoint.
    pub claimed: Nonce,
}

impl fmt::Display for UnprovenCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { known, claimed } = self;
        write!(
            f,
            "one endpoint alone counts {claimed} mined transactions, {known} are known; no slot is opened \
             until a second endpoint confirms it or a block shows which is right"
        )
    }
}

/// Decides whether counts may move a pipelined submitter's cursor. What one endpoint alone counts above
/// the cursor and the confirmed count must be shown in a block (I16): a count that is too high leaves a
/// hole, and slots that it counts rightly are used. For an account without slots nothing but the endpoints tells where its nonces begin: there a
/// count that is too low gives intents to slots that are used (NONCE_TAKEN).
///
/// A count above the cursor that another endpoint does not confirm is waited for only while `may_wait`: one
/// endpoint that counts too much must not stop an account (I15).
///
/// The wait is bounded (I15): the chain calls the support of a claim overdue once its search has brought
/// no proof for long, or at once if the claimant's own blocks contradict it. Then an account without
/// slots begins with the higher count if it is at most a `window` ahead, else with the lower one.
pub fn accept_counts(
    cursor: Nonce,
    counts: AccountCounts,
    window: u32,
    may_wait: bool,
) -> CountDecision {
    let AccountCounts { mined, pending, sure, highest, support, .. } = counts;
    let known = cursor.max(sure);
    let is_first = cursor == Nonce::MIN;
    match support {
        CountSupport::Confirmed => CountDecision::Use(counts),
        CountSupport::Open if is_first && highest > Nonce::MIN => {
            CountDecision::Prove(UnprovenCount { known: mined.min(sure), claimed: highest })
        }
        CountSupport::Open if is_first => CountDecision::AskAgain,
        CountSupport::Open if mined > known => {
            CountDecision::Prove(UnprovenCount { known, claimed: mined })
        }
        // The slots above the cursor may be used: one endpoint counts them, and the other may count too
        // little.
        CountSupport::Open if highest > known && may_wait => {
            CountDecision::Prove(UnprovenCount { known, claimed: highest })
        }
        CountSupport::Open if pending > known => CountDecision::AskAgain,
        // The cursor is a second source: counts up to it move nothing.
        CountSupport::Open => CountDecision::Use(counts),
        CountSupport::Overdue => {
            let ahead = highest.get() - mined.get();
            let is_near = is_first && ahead > 0 && ahead <= u64::from(window);
            CountDecision::Use(if is_near {
                let support = CountSupport::Confirmed;
                AccountCounts { mined: highest, pending: pending.max(highest), support, ..counts }
            } else {
                counts
            })
        }
    }
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
    pub recyclable: &'a BTreeSet<Nonce>,
    pub open: &'a BTreeSet<Nonce>,
    /// The chain's counts, if they are fresh ([`NonceView::fresh_count`]).
    pub chain: Option<ChainCount>,
}

/// A slot to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotToFill {
    pub nonce: Nonce,
    /// True if it comes from the pool, not from the cursor.
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

/// Checks whether a strict submitter's mined count can't come from its own slots alone (I12).
///
/// Slots below the cursor are ours; only the unsettled ones among them may be missing on the chain.
pub fn unexplained(cursor: Nonce, unsettled_slots: u32, mined: Nonce) -> Option<Unexplained> {
    let lowest = cursor.get().saturating_sub(u64::from(unsettled_slots));
    let at_least = Nonce::new(lowest).unwrap_or(cursor);
    let explained = (at_least..=cursor).contains(&mined);
    (!explained).then_some(Unexplained { at_least, at_most: cursor, mined })
}
