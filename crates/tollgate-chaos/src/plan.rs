//! What goes wrong when: a pure function of the seed.
//!
//! Kinds are cards of a deck. It is shuffled, dealt to its end and shuffled again, so that every kind
//! comes up in each deal, the frequent ones several times. A card takes the lanes that it needs; two
//! faults share a moment, but never a lane.

use std::time::Duration;

use tollgate_devchain::chain::Rng;

/// Nodes by their names.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

const NODES: usize = NAMES.len();

/// From the start of one fault to that of the next.
const GAP_MILLIS: (u64, u64) = (600, 2_800);

/// Nothing begins before: the nodes get to know each other.
const FIRST: Duration = Duration::from_secs(3);

/// Nothing goes on after so long before the end.
const CALM: Duration = Duration::from_secs(6);

/// What a node needs after it was started or woken up, until it is counted on again.
const RECOVERY: Duration = Duration::from_secs(2);

/// How long a card waits before it looks for a place again.
const PATIENCE: Duration = Duration::from_millis(500);

/// What can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// SIGKILL, and a new start after a while.
    Kill,
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Freeze,
    /// SIGTERM; a new start when it has ended.
    Term,
    /// The database server crashes, and is there again after a while.
    DatabaseCrash,
    /// A node and the database don't reach each other.
    DatabaseCut,
    /// The database hears the node, and the node does not hear the database.
    DatabaseDeaf,
    /// What a node and the database say to each other is held for longer than the lease, and then
    /// arrives.
    DatabaseStall,
    /// All of a node's database connections end; new ones work.
    DatabaseReset,
    /// A node does not reach the chain.
    ChainCut,
    /// No node reaches the chain.
    ChainCutForAll,
    /// The chain gets a node's calls, and a share of the answers is lost.
    LostAnswers,
    /// A share of a node's calls does not arrive.
    LostRequests,
    /// A share of the answers takes seconds, some longer than a node waits.
    SlowAnswers,
    /// A share of the calls is answered 429 or 503, and some of those are carried out nevertheless.
    ErrorAnswers,
    /// The last blocks are replaced; what was in them is in no pool.
    Reorg,
    /// The pool forgets a share of what it has.
    DroppedTransactions,
    /// A share of the sends is answered as taken, and nobody has them.
    ForgottenSends,
    /// One of a node's two endpoints announces a head that it can't deliver.
    HeadAhead,
    /// One of two counts far too many pending transactions.
    WrongCounts,
    /// One of two says that everything costs a thousand times as much.
    WrongFees,
    /// One of two has no receipts, and no transaction by its hash.
    NoReceipts,
    /// One of two says that every call needs more gas than a number holds.
    AbsurdEstimates,
    /// One of two takes all sends, and nobody has them.
    SwallowedSends,
    /// One of two takes calls and never says a word.
    SilentEndpoint,
    /// Both take so many calls in a second and no more.
    Quota,
    /// One of two is some blocks behind, within the grace in which its word counts.
    Lag,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Kill,
        Self::Freeze,
        Self::Term,
        Self::DatabaseCrash,
        Self::DatabaseCut,
        Self::DatabaseDeaf,
        Self::DatabaseStall,
        Self::DatabaseReset,
        Self::ChainCut,
        Self::ChainCutForAll,
        Self::LostAnswers,
        Self::LostRequests,
        Self::SlowAnswers,
        Self::ErrorAnswers,
        Self::Reorg,
        Self::DroppedTransactions,
        Self::ForgottenSends,
        Self::HeadAhead,
        Self::WrongCounts,
        Self::WrongFees,
        Self::NoReceipts,
        Self::AbsurdEstimates,
        Self::SwallowedSends,
        Self::SilentEndpoint,
        Self::Quota,
        Self::Lag,
    ];

    /// In a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Freeze => "freeze",
            Self::Term => "term",
            Self::DatabaseCrash => "database crash",
            Self::DatabaseCut => "database cut",
            Self::DatabaseDeaf => "database deaf",
            Self::DatabaseStall => "database stall",
            Self::DatabaseReset => "database reset",
            Self::ChainCut => "chain cut",
            Self::ChainCutForAll => "chain cut for all",
            Self::LostAnswers => "lost answers",
            Self::LostRequests => "lost requests",
            Self::SlowAnswers => "slow answers",
            Self::ErrorAnswers => "error answers",
            Self::Reorg => "reorg",
            Self::DroppedTransactions => "dropped transactions",
            Self::ForgottenSends => "forgotten sends",
            Self::HeadAhead => "head ahead",
            Self::WrongCounts => "wrong counts",
            Self::WrongFees => "wrong fees",
            Self::NoReceipts => "no receipts",
            Self::AbsurdEstimates => "absurd estimates",
            Self::SwallowedSends => "swallowed sends",
            Self::SilentEndpoint => "silent endpoint",
            Self::Quota => "quota",
            Self::Lag => "lag",
        }
    }

    /// How often it is in the deck, how long it lasts (milliseconds, from and to), and how hard it
    /// can be (from and to; blocks of a reorg or a lag, calls in a second of a quota, else percent).
    const fn card(self) -> Card {
        const fn card(copies: usize, millis: (u64, u64), severity: (u64, u64)) -> Card {
            Card { copies, millis, severity }
        }
        match self {
            Self::Kill => card(3, (500, 6_000), (0, 0)),
            Self::Freeze => card(3, (2_500, 7_000), (0, 0)),
            Self::Term => card(2, (0, 2_000), (0, 0)),
            Self::DatabaseCrash => card(2, (0, 5_000), (0, 0)),
            Self::DatabaseCut => card(2, (1_000, 10_000), (0, 0)),
            Self::DatabaseDeaf => card(2, (500, 6_000), (0, 0)),
            Self::DatabaseStall => card(3, (2_500, 7_000), (0, 0)),
            Self::DatabaseReset => card(2, (0, 0), (0, 0)),
            Self::ChainCut => card(1, (2_000, 10_000), (0, 0)),
            Self::ChainCutForAll => card(1, (2_000, 8_000), (0, 0)),
            Self::LostAnswers => card(2, (3_000, 10_000), (20, 80)),
            Self::LostRequests => card(1, (3_000, 10_000), (20, 80)),
            Self::SlowAnswers => card(1, (3_000, 10_000), (20, 60)),
            Self::ErrorAnswers => card(1, (3_000, 10_000), (20, 80)),
            Self::Reorg => card(4, (0, 0), (1, REORG_DEPTH_MAX)),
            Self::DroppedTransactions => card(2, (0, 0), (20, 100)),
            Self::ForgottenSends => card(1, (2_000, 6_000), (30, 100)),
            Self::HeadAhead
            | Self::WrongCounts
            | Self::WrongFees
            | Self::NoReceipts
            | Self::AbsurdEstimates
            | Self::SwallowedSends
            | Self::SilentEndpoint => card(1, (3_000, 10_000), (0, 0)),
            Self::Quota => card(1, (3_000, 10_000), (20, 60)),
            Self::Lag => card(1, (3_000, 10_000), (1, LAG_MAX)),
        }
    }

    /// What it happens to.
    const fn reach(self) -> Reach {
        match self {
            Self::Kill | Self::Freeze | Self::Term => Reach::Process,
            Self::DatabaseCut | Self::DatabaseDeaf | Self::DatabaseStall | Self::DatabaseReset => {
                Reach::DatabaseLink
            }
            Self::ChainCut
            | Self::LostAnswers
            | Self::LostRequests
            | Self::SlowAnswers
            | Self::ErrorAnswers
            | Self::ForgottenSends
            | Self::HeadAhead
            | Self::WrongCounts
            | Self::WrongFees
            | Self::NoReceipts
            | Self::AbsurdEstimates
            | Self::SwallowedSends
            | Self::SilentEndpoint
            | Self::Quota
            | Self::Lag => Reach::ChainLink,
            Self::ChainCutForAll => Reach::EveryChainLink,
            Self::DatabaseCrash => Reach::Database,
            Self::Reorg | Self::DroppedTransactions => Reach::Chain,
        }
    }

    /// Whether only one of a node's two endpoints is wrong.
    pub(crate) const fn is_of_one_endpoint(self) -> bool {
        matches!(
            self,
            Self::HeadAhead
                | Self::WrongCounts
                | Self::WrongFees
                | Self::NoReceipts
                | Self::AbsurdEstimates
                | Self::SwallowedSends
                | Self::SilentEndpoint
                | Self::Lag
        )
    }

    /// Whether a node can't do its work meanwhile, whatever the rest does.
    pub(crate) const fn harms_a_node(self) -> bool {
        matches!(self.reach(), Reach::Process | Reach::DatabaseLink)
    }
}

/// Below the finality of the run (see [`crate::site`]): what is final stays.
pub(crate) const REORG_DEPTH_MAX: u64 = 3;

/// Blocks that an endpoint is behind, at most: fewer seconds than a node's grace.
const LAG_MAX: u64 = 3;

/// Of a hundred calls so many fail for the whole of a run that has steady errors.
const STEADY_ERRORS: u64 = 15;

struct Card {
    copies: usize,
    millis: (u64, u64),
    severity: (u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Process,
    DatabaseLink,
    ChainLink,
    EveryChainLink,
    Database,
    Chain,
}

/// Whom a fault happens to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The node with this place.
    Node(usize),
    /// The database server.
    Database,
    /// The chain, or the way of all nodes to it.
    Chain,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When it begins, after the start of the storm.
    pub at: Duration,
    /// How long it lasts; zero for what is over at once.
    pub length: Duration,
    /// What it is.
    pub kind: Kind,
    /// Whom it happens to.
    pub target: Target,
    /// Blocks of a reorg or a lag; calls in a second of a quota; else how many of a hundred calls or
    /// transactions.
    pub severity: u64,
}

impl Fault {
    fn end(&self) -> Duration {
        let recovery = match self.kind.reach() {
            Reach::Process | Reach::Database => RECOVERY,
            _ => Duration::ZERO,
        };
        self.at + self.length + recovery
    }
}

/// All that goes wrong in one run, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The faults, by their beginning.
    pub faults: Vec<Fault>,
    /// Of a hundred calls to the chain, how many fail from the start to the very end.
    pub steady_errors: u64,
}

impl Plan {
    /// What a seed makes of a run of this length.
    pub fn draw(seed: u64, length: Duration) -> Self {
        let mut rng = Rng::new(seed);
        let end = length.saturating_sub(CALM);
        // Every second seed, and the one that the test command takes.
        let steady_errors = if seed.is_multiple_of(2) { 0 } else { STEADY_ERRORS };
        let mut plan = Self { faults: Vec::new(), steady_errors };
        let (mut deck, mut at) = (Vec::new(), FIRST);
        loop {
            let kind = match deck.pop() {
                Some(kind) => kind,
                None => {
                    deck = shuffled_deck(&mut rng);
                    continue;
                }
            };
            let card = kind.card();
            let length = Duration::from_millis(between(&mut rng, card.millis));
            let severity = between(&mut rng, card.severity);
            let first = below(&mut rng, NODES);
            let fault = loop {
                let targets = targets(kind, first);
                let fault = |target| Fault { at, length, kind, target, severity };
                if let Some(fault) = targets.into_iter().map(fault).find(|it| plan.has_room(it)) {
                    break fault;
                }
                at += PATIENCE;
            };
            if fault.end() > end {
                return plan;
            }
            plan.faults.push(fault);
            at += Duration::from_millis(between(&mut rng, GAP_MILLIS));
        }
    }

    /// No lane that it needs is taken, and one node is left in peace.
    fn has_room(&self, fault: &Fault) -> bool {
        let meanwhile = || self.faults.iter().filter(|other| other.end() >= fault.at);
        let clashes = meanwhile().any(|other| share_a_lane(fault, other));
        let is_harmed = |node| {
            meanwhile()
                .chain([fault])
                .any(|it| it.kind.harms_a_node() && it.target == Target::Node(node))
        };
        !clashes && (0..NODES).any(|node| !is_harmed(node))
    }

    /// How often each kind is in it.
    pub fn counts(&self) -> std::collections::BTreeMap<Kind, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for fault in &self.faults {
            *counts.entry(fault.kind).or_default() += 1;
        }
        counts
    }
}

fn share_a_lane(one: &Fault, other: &Fault) -> bool {
    use Reach::{ChainLink, EveryChainLink};
    match (one.kind.reach(), other.kind.reach()) {
        (ChainLink, EveryChainLink) | (EveryChainLink, ChainLink) => true,
        (a, b) => a == b && one.target == other.target,
    }
}

/// Where a kind can strike, the first choice first.
fn targets(kind: Kind, first: usize) -> Vec<Target> {
    match kind.reach() {
        Reach::Process | Reach::DatabaseLink | Reach::ChainLink => {
            (0..NODES).map(|n| Target::Node((first + n) % NODES)).collect()
        }
        Reach::EveryChainLink | Reach::Chain => vec![Target::Chain],
        Reach::Database => vec![Target::Database],
    }
}

fn shuffled_deck(rng: &mut Rng) -> Vec<Kind> {
    let copies = |kind: Kind| std::iter::repeat_n(kind, kind.card().copies);
    let mut deck: Vec<Kind> = Kind::ALL.into_iter().flat_map(copies).collect();
    for place in (1..deck.len()).rev() {
        deck.swap(place, below(rng, place + 1));
    }
    deck
}

fn between(rng: &mut Rng, (from, to): (u64, u64)) -> u64 {
    from + rng.below(to - from + 1)
}

/// A place in something so long.
pub(crate) fn below(rng: &mut Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).expect("below a length")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_MINUTES: Duration = Duration::from_secs(120);

    #[test]
    fn one_seed_is_one_plan() {
        for seed in 0..100 {
            assert_eq!(Plan::draw(seed, TWO_MINUTES), Plan::draw(seed, TWO_MINUTES));
        }
        assert_ne!(Plan::draw(1, TWO_MINUTES), Plan::draw(2, TWO_MINUTES));
    }

    #[test]
    fn two_minutes_have_every_kind_of_fault() {
        for seed in 0..2_000 {
            let counts = Plan::draw(seed, TWO_MINUTES).counts();
            let missing: Vec<Kind> =
                Kind::ALL.into_iter().filter(|kind| !counts.contains_key(kind)).collect();
            assert_eq!(missing, [], "seed {seed}");
        }
    }

    #[test]
    fn a_plan_is_in_order_and_ends_in_a_calm() {
        for seed in 0..500 {
            let plan = Plan::draw(seed, TWO_MINUTES);
            assert!(plan.faults.is_sorted_by_key(|fault| fault.at), "seed {seed}");
            assert!(plan.faults.iter().all(|fault| fault.end() + CALM <= TWO_MINUTES));
        }
    }

    #[test]
    fn one_node_is_always_left_in_peace() {
        for seed in 0..500 {
            let plan = Plan::draw(seed, TWO_MINUTES);
            for fault in &plan.faults {
                let meanwhile = plan.faults.iter().filter(|other| {
                    other.kind.harms_a_node() && other.at <= fault.at && other.end() >= fault.at
                });
                let harmed: Vec<Target> = meanwhile.map(|other| other.target).collect();
                let left = (0..NODES).any(|node| !harmed.contains(&Target::Node(node)));
                assert!(left, "seed {seed}: {fault:?}");
            }
        }
    }

    #[test]
    fn no_reorg_reaches_what_is_final() {
        for seed in 0..500 {
            let plan = Plan::draw(seed, TWO_MINUTES);
            let reorgs = plan.faults.iter().filter(|fault| fault.kind == Kind::Reorg);
            for reorg in reorgs {
                assert!((1..crate::site::CONFIRMATIONS).contains(&reorg.severity));
            }
        }
    }
}
