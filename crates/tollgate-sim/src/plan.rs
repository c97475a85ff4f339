//! The plan of a run, drawn from its seed: size, rules and faults.

use std::time::Duration;

use tollgate_devchain::chain::Rng;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, StrictAdvance};
use tollgate_model::rejected::RejectedSlot;

/// Intents of a seed with thousands in flight, and its window.
const BACKLOG: usize = 1_300;
const BACKLOG_WINDOW: u32 = 1_500;
const BACKLOG_BLOCK_MILLIS: u64 = 12_000;

/// The factor of prices that are too high.
pub(crate) const TOO_DEAR: u64 = 100_000;

/// The gas of a plain transfer.
pub(crate) const TRANSFER_GAS: u64 = 21_000;

/// Everything that is drawn before the first event.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) submitters: usize,
    pub(crate) intents: usize,
    pub(crate) mode: Mode,
    pub(crate) strict_advance: StrictAdvance,
    pub(crate) window: u32,
    /// So many blocks, its own included, settle a receipt.
    pub(crate) confirmations: u64,
    pub(crate) finality: FinalityRule,
    pub(crate) rejected_slot: RejectedSlot,
    pub(crate) bumps: bool,
    /// The stuck policy answers at random, and late, instead of doing nothing.
    pub(crate) random_policy: bool,
    /// Some intents are such that no node takes them, or that they wait for the market to come down.
    pub(crate) unwanted: bool,
    pub(crate) block_millis: u64,
    /// The time with work and faults.
    pub(crate) storm: Duration,
    /// The distance to which engines search for the transaction in a slot, in blocks.
    pub(crate) lookback_blocks: u64,
    /// Each key is missing on one node, where there are several.
    pub(crate) keys_missing: bool,
    /// Submitters with open work whose key no node has.
    pub(crate) orphans: usize,
    /// A second chain, with the same accounts, lives in the same database.
    pub(crate) second_chain: bool,
    /// Some intents are private, and the first endpoint takes them.
    pub(crate) private: bool,
    /// Nodes reach the chain through the real client, not through a model of it.
    pub(crate) real_client: bool,
    /// Endpoints that are read from.
    pub(crate) endpoints: usize,
    pub(crate) faults: Faults,
    pub(crate) steady: Steady,
}

/// Faults of the endpoints that no calm ends.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Steady {
    /// Chance that a call to any endpoint fails.
    pub(crate) errors: f64,
    /// No endpoint has receipts of older blocks than that.
    pub(crate) receipts_kept: Option<u64>,
    /// Calls that each endpoint takes in a second, for each node.
    pub(crate) quota: Option<u32>,
    /// The fault of the second endpoint alone.
    pub(crate) lie: Option<Lie>,
}

/// A consistent fault of one endpoint of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lie {
    /// Lags so many blocks behind: within the grace, so that its answers count.
    Lags(u64),
    /// Lacks the receipts of all but the newest blocks.
    PrunesReceipts(u64),
    /// Never has one receipt in so many.
    LacksReceipts(u64),
    /// The status of one receipt in so many is the opposite of the true one.
    FlipsReceipts(u64),
    /// Never has one block in so many.
    LacksBlocks(u64),
    /// Takes only small transactions, and calls the others invalid.
    TakesSmallOnesOnly,
    /// All its estimates are this one.
    Estimates(u64),
    /// Its head is so many blocks ahead, in blocks that it can't deliver.
    HeadAhead(u64),
    /// Its pending counts are too high.
    PendingCounts(i64),
    /// All its counts are too high, or too low.
    Counts(i64),
    /// Its prices are this many times too high, or zero.
    Fees(u64),
    /// Its `safe` and `finalized` blocks are its head.
    TagsAtHead,
    /// Its head, tags, counts and prices are all wrong.
    Together,
    /// Takes transactions and never passes them on.
    Swallows,
    /// Takes calls and never answers.
    IsSilent,
    /// Two nodes are behind its URL, one of them so many blocks behind.
    Balancer(u64),
}

impl Lie {
    /// The same about prices and estimates that are too low.
    const fn lowered(self) -> Self {
        match self {
            Self::Fees(_) => Self::Fees(0),
            Self::Estimates(_) => Self::Estimates(TRANSFER_GAS),
            other => other,
        }
    }

    /// Draws one that the model of a client can express.
    fn of_the_model(rng: &mut Rng) -> Self {
        match rng.below(6) {
            0 => Self::Lags(1 + rng.below(2)),
            1 => Self::PrunesReceipts(rng.below(4)),
            2 => Self::LacksReceipts(2 + rng.below(6)),
            3 => Self::LacksBlocks(2 + rng.below(6)),
            4 => Self::TakesSmallOnesOnly,
            // Above any block gas limit, which only the client knows.
            _ => Self::Estimates(u64::MAX),
        }
    }

    /// Draws any of them.
    fn any(rng: &mut Rng) -> Self {
        match rng.below(12) {
            0 => Self::HeadAhead(1 + rng.below(2) * 499),
            1 => Self::PendingCounts(1 + 99_999 * rng.below(2) as i64),
            2 => Self::Counts([-3, -1_000, 3, 5, 100_000][rng.below(5) as usize]),
            3 => Self::Fees(TOO_DEAR),
            4 => Self::Swallows,
            5 => Self::IsSilent,
            6 => Self::Balancer(1 + rng.below(4)),
            7 => Self::Estimates(1 << (30 + rng.below(30))),
            8 => Self::TagsAtHead,
            9 => Self::Together,
            10 => Self::FlipsReceipts(1 + rng.below(3)),
            _ => Self::of_the_model(rng),
        }
    }
}

impl Steady {
    /// One trouble at a time: one endpoint that is wrong, or all of them that fail now and then.
    fn draw(rng: &mut Rng, real_client: bool) -> Self {
        let none = Self::default();
        match rng.below(10) {
            0 => Self { errors: 0.15, ..none },
            1 => Self { receipts_kept: Some(rng.below(6)), ..none },
            2 if real_client => Self { quota: Some(40 + rng.below(40) as u32), ..none },
            2..=8 if real_client => Self { lie: Some(Lie::any(rng)), ..none },
            3..=6 => Self { lie: Some(Lie::of_the_model(rng)), ..none },
            _ => none,
        }
    }
}

/// The faults of a run. Chances are per call, rates per second of the storm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Chance that a node dies at a call: before it is made, or before its answer is seen.
    pub(crate) crash_at_call: f64,
    /// Chance that a call to the store does not arrive.
    pub(crate) lose_store: f64,
    /// Chance that the answer to a commit is lost: half of those commits are kept.
    pub(crate) lose_commit: f64,
    /// Chance that a call to the chain is lost.
    pub(crate) lose_chain: f64,
    /// Chance that an endpoint takes a transaction and its answer is lost.
    pub(crate) lose_send: f64,
    /// Chance that a call takes seconds, up to beyond a lease.
    pub(crate) slow: f64,
    /// Chance that a read comes from the other endpoint.
    pub(crate) other_endpoint: f64,
    /// Chance that a caller asks several nodes at once.
    pub(crate) duplicates: f64,
    pub(crate) pause: f64,
    pub(crate) cut_store: f64,
    pub(crate) cut_chain: f64,
    pub(crate) clock_jump: f64,
    pub(crate) restart: f64,
    pub(crate) evict: f64,
    pub(crate) reorg: f64,
    pub(crate) lag: f64,
    pub(crate) foreign: f64,
    pub(crate) operator: f64,
    /// Callers take nonces to send by themselves.
    pub(crate) reserve: f64,
    /// No node reaches the chain, for longer than receipts are kept.
    pub(crate) blackout: f64,
    /// One reorg goes beyond finality.
    pub(crate) breaks_finality: bool,
}

impl Plan {
    /// The real client, one endpoint that does this, and nothing else that is steadily wrong.
    pub(crate) fn tell(&mut self, lie: Lie) {
        self.real_client = true;
        self.steady = Steady { lie: Some(lie), ..Steady::default() };
        self.leave_others_well();
    }

    /// More open work of one submitter than a page holds.
    pub(crate) fn pile_up(&mut self) {
        (self.submitters, self.intents, self.window) = (1, BACKLOG, BACKLOG_WINDOW);
        (self.mode, self.real_client, self.second_chain) = (Mode::Pipelined, false, false);
        (self.endpoints, self.orphans, self.keys_missing) = (2, 0, false);
        // Few blocks, so that all of it is open at once; and nothing that holds it up for long, which
        // would cost minutes of resends.
        (self.block_millis, self.steady) = (BACKLOG_BLOCK_MILLIS, Steady::default());
        (self.faults.reserve, self.faults.foreign, self.faults.evict) = (0.0, 0.0, 0.0);
    }

    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let confirmations = 2 + rng.below(3);
        let finality = match rng.below(4) {
            0 => FinalityRule::Safe,
            1 => FinalityRule::Finalized,
            _ => FinalityRule::Confirmations(confirmations),
        };
        let real_client = rng.below(4) == 0;
        // Thousands in flight, in a few seeds.
        let is_backlog = !real_client && rng.below(100) == 0;
        let (intents, window) = match rng.below(6) {
            0 => (40, 64),
            _ => (20 + rng.below(21) as usize, 1 + rng.below(8) as u32),
        };
        let mut plan = Self {
            nodes: 2 + rng.below(3) as usize,
            submitters: 1 + rng.below(3) as usize,
            intents,
            mode: if rng.below(3) == 0 { Mode::Strict } else { Mode::Pipelined },
            strict_advance: if rng.below(2) == 0 {
                StrictAdvance::Final
            } else {
                StrictAdvance::Mined
            },
            window,
            confirmations,
            finality,
            rejected_slot: RejectedSlot::ALL[rng.below(3) as usize],
            bumps: rng.chance(0.4),
            random_policy: rng.chance(0.2),
            unwanted: rng.below(4) == 0,
            block_millis: 500 + rng.below(1_500),
            storm: Duration::from_secs(20 + rng.below(25)),
            lookback_blocks: if rng.below(2) == 0 { 6 } else { 256 },
            keys_missing: rng.below(5) == 0,
            orphans: match rng.below(200) {
                0 => 1_200,
                1..=60 => 3 + rng.below(20) as usize,
                _ => 0,
            },
            second_chain: rng.below(10) == 0,
            private: false,
            real_client,
            endpoints: if real_client { 2 + rng.below(2) as usize } else { 2 },
            faults: Faults::draw(rng),
            steady: Steady::draw(rng, real_client),
        };
        // Decided by what is drawn already: a further draw would change every seed.
        if plan.real_client && plan.intents.is_multiple_of(3) {
            plan.steady.lie = plan.steady.lie.map(Lie::lowered);
        }
        plan.private = plan.intents.is_multiple_of(4);
        plan.leave_others_well();
        if is_backlog {
            plan.pile_up();
        }
        plan
    }

    /// Two honest endpoints outvote a lying one only while they can be reached: a world with a lying
    /// endpoint has a network that works.
    fn leave_others_well(&mut self) {
        if matches!(
            self.steady.lie,
            Some(
                Lie::HeadAhead(_)
                    | Lie::PendingCounts(_)
                    | Lie::Counts(_)
                    | Lie::Fees(_)
                    | Lie::TagsAtHead
                    | Lie::FlipsReceipts(_)
                    | Lie::Together
            )
        ) {
            let faults = &mut self.faults;
            (faults.lose_chain, faults.slow) = (0.0, 0.0);
            (faults.cut_chain, faults.blackout) = (0.0, 0.0);
        }
    }
}

impl Faults {
    /// Many seeds are calm in most respects, and a few are wild in all of them.
    fn draw(rng: &mut Rng) -> Self {
        let wildness = match rng.below(8) {
            0 => 0.0,
            1..=5 => 0.4,
            _ => 0.9,
        };
        let mut rate = |most: f64| {
            let drawn = if rng.chance(wildness) { rng.below(1_000) as f64 / 1_000.0 } else { 0.0 };
            drawn * most
        };
        let mut faults = Self {
            crash_at_call: rate(0.003),
            lose_store: rate(0.02),
            lose_commit: rate(0.1),
            lose_chain: rate(0.08),
            lose_send: rate(0.3),
            slow: rate(0.02),
            other_endpoint: rate(0.5),
            duplicates: rate(1.0),
            pause: rate(0.15),
            cut_store: rate(0.1),
            cut_chain: rate(0.1),
            clock_jump: rate(0.2),
            restart: rate(0.15),
            evict: rate(0.3),
            reorg: rate(0.3),
            lag: rate(0.5),
            foreign: rate(0.08),
            operator: rate(0.8),
            reserve: rate(0.4),
            blackout: rate(0.05),
            breaks_finality: false,
        };
        // People act, and callers reserve, in every world: at least once, whatever the rate.
        faults.operator = faults.operator.max(0.1);
        faults.reserve = faults.reserve.max(0.1);
        faults.breaks_finality = faults.reorg > 0.0 && rng.chance(0.08);
        faults
    }
}
