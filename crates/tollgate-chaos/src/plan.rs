//! The faults of a run and their times: a pure function of the seed.
//!
//! Kinds are cards of a deck. It is shuffled, dealt to its end and shuffled again, so that every kind
//! comes up in each deal, the frequent ones several times. A card takes the lanes that it needs; two
//! faults share a moment, but never a lane.

use std::time::Duration;

use tollgate_devchain::chain::Rng;

use crate::cluster::SENDING;

/// Nodes by their names.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

const NODES: usize = NAMES.len();

/// From the start of one fault to that of the next.
const GAP_MILLIS: (u64, u64) = (500, 2_200);

/// Nothing begins before: the nodes get to know each other.
const FIRST: Duration = Duration::from_secs(3);

/// Nothing goes on after so long before the end.
const QUIET_END: Duration = Duration::from_secs(6);

/// The time that a node needs after it was started or woken up before it counts as healthy.
const RECOVERY: Duration = Duration::from_secs(2);

/// The step by which a fault without a free lane is put off.
const PATIENCE: Duration = Duration::from_millis(500);

/// Makes [`Kind`] of a table: for each kind its name, what it affects, how often it is in the deck,
/// how long it lasts (milliseconds, from and to), and its severity (from and to; its meaning is that of
/// [`Fault::severity`]).
macro_rules! kinds {
    ($(
        $(#[$doc:meta])+
        $kind:ident = $name:literal, $reach:ident, $copies:literal, $millis:expr, $severity:expr;
    )+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $($(#[$doc])+ $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            const fn card(self) -> Card {
                match self {
                    $(Self::$kind => {
                        Card { copies: $copies, millis: $millis, severity: $severity }
                    })+
                }
            }

            /// The parts that it affects.
            pub(crate) const fn reach(self) -> Reach {
                match self { $(Self::$kind => Reach::$reach,)+ }
            }
        }
    };
}

kinds! {
    /// SIGKILL, and a new start after a while.
    Kill = "kill -9", Process, 2, (500, 6_000), (0, 0);
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Freeze = "freeze", Process, 2, (2_500, 7_000), (0, 0);
    /// SIGTERM; a new start when the process has ended.
    Term = "term", Process, 2, (0, 2_000), (0, 0);
    /// The database server crashes, and is restarted after a while.
    DatabaseCrash = "database crash", Database, 2, (0, 5_000), (0, 0);
    /// A node and the database do not reach each other.
    DatabaseCut = "database cut", DatabaseLink, 2, (1_000, 10_000), (0, 0);
    /// The database receives what the node sends, and its answers are lost.
    DatabaseDeaf = "database deaf", DatabaseLink, 2, (500, 6_000), (0, 0);
    /// The traffic of a node and the database is delayed for longer than the lease.
    DatabaseStall = "database stall", DatabaseLink, 2, (2_500, 7_000), (0, 0);
    /// All of a node's database connections end; new ones work.
    DatabaseReset = "database reset", DatabaseLink, 1, (0, 0), (0, 0);
    /// A node does not reach the chain.
    ChainCut = "chain cut", ChainLink, 1, (2_000, 10_000), (0, 0);
    /// No node reaches the chain.
    ChainCutForAll = "chain cut for all", EveryChainLink, 1, (2_000, 8_000), (0, 0);
    /// A share of the answers to a node's calls is lost.
    LostAnswers = "lost answers", ChainLink, 1, (3_000, 10_000), (20, 80);
    /// A share of a node's calls does not arrive.
    LostRequests = "lost requests", ChainLink, 1, (3_000, 10_000), (20, 80);
    /// A share of the answers takes seconds, some longer than a node waits.
    SlowAnswers = "slow answers", ChainLink, 1, (3_000, 10_000), (20, 60);
    /// A share of the calls is answered 429 or 503; some of those are executed.
    ErrorAnswers = "error answers", ChainLink, 1, (3_000, 10_000), (20, 80);
    /// The last blocks are replaced; their transactions are in no pool.
    Reorg = "reorg", Chain, 3, (0, 0), (1, REORG_DEPTH_MAX);
    /// The pool drops a share of its transactions.
    DroppedTransactions = "dropped transactions", Chain, 2, (0, 0), (20, 100);
    /// A share of the sends is acknowledged and discarded.
    ForgottenSends = "forgotten sends", ChainLink, 1, (2_000, 6_000), (30, 100);
    /// One of a node's two endpoints announces a head that it can't deliver.
    HeadAhead = "head ahead", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two reports far too many pending transactions.
    WrongCounts = "wrong counts", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two reports prices that are a thousand times too high.
    WrongFees = "wrong fees", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two has no receipts, and no transaction by its hash.
    NoReceipts = "no receipts", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two estimates 2^64 − 1 gas for every call.
    AbsurdEstimates = "absurd estimates", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two acknowledges and discards all sends.
    SwallowedSends = "swallowed sends", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two accepts calls and never answers.
    SilentEndpoint = "silent endpoint", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// Both accept so many calls per second.
    Quota = "quota", ChainLink, 1, (3_000, 10_000), (20, 60);
    /// One of two is some blocks behind, within the grace in which its word counts.
    Lag = "lag", OneEndpoint, 1, (3_000, 10_000), (1, LAG_MAX);
    /// One of two is a balancer: every second request goes to a node that is some blocks behind.
    Balancer = "balancer", OneEndpoint, 1, (3_000, 10_000), (1, LAG_MAX);
    /// One of two reports counts that are too low, of mined and of pending transactions.
    LowCounts = "low counts", OneEndpoint, 1, (3_000, 10_000), (1, 50);
    /// One of two has receipts that say the opposite of what happened.
    FlippedReceipts = "flipped receipts", OneEndpoint, 1, (3_000, 10_000), (0, 0);
    /// One of two never has one block in so many.
    MissingBlocks = "missing blocks", OneEndpoint, 1, (3_000, 10_000), (2, 3);
    /// One of two never has one receipt in so many, nor its transaction.
    MissingReceipts = "missing receipts", OneEndpoint, 1, (3_000, 10_000), (2, 4);
    /// Neither of two announces new heads over a WebSocket.
    MuteHeads = "mute heads", ChainLink, 1, (3_000, 10_000), (0, 0);
    /// Neither of two has receipts, or transactions by hash, of blocks that are older than so many.
    PrunedReceipts = "pruned receipts", ChainLink, 1, (3_000, 10_000), (0, 1);
}

impl Kind {
    const fn is_about_a_chain(self) -> bool {
        match self.reach() {
            Reach::Process | Reach::DatabaseLink | Reach::Database => false,
            Reach::ChainLink | Reach::OneEndpoint | Reach::EveryChainLink | Reach::Chain => true,
        }
    }

    /// A node can't do its work meanwhile, whatever the rest does.
    pub(crate) const fn harms_a_node(self) -> bool {
        matches!(self.reach(), Reach::Process | Reach::DatabaseLink)
    }
}

/// Below the finality of the run (see [`crate::cluster`]): what is final stays.
pub(crate) const REORG_DEPTH_MAX: u64 = 3;

/// Blocks that an endpoint is behind, at most: fewer seconds than a node's grace.
const LAG_MAX: u64 = 3;

/// Of a hundred calls so many fail for the whole of a run that has steady errors.
const STEADY_ERRORS: u64 = 15;

/// The endpoints that are called over a WebSocket where no others are drawn.
const SOCKETS: [usize; NODES] = [1, 0, 1];

/// Open transactions of each orphaned account, from and to.
const ORPHANS: (u64, u64) = (1, 6);

/// One fault of a chain in so many is one of the second chain.
const SECOND_CHAIN: u64 = 4;

struct Card {
    copies: usize,
    millis: (u64, u64),
    severity: (u64, u64),
}

/// The parts that a fault affects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Process,
    DatabaseLink,
    /// Both of a node's endpoints.
    ChainLink,
    /// One of a node's two endpoints.
    OneEndpoint,
    EveryChainLink,
    Database,
    Chain,
}

/// The target of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The node with this place.
    Node(usize),
    /// The database server.
    Database,
    /// The chain, or the way of all nodes to it.
    Chain,
}

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When it begins, after the start of the storm.
    pub at: Duration,
    /// The length; zero for what is over at once.
    pub length: Duration,
    /// Its kind.
    pub kind: Kind,
    /// Its target.
    pub target: Target,
    /// The place of the chain, if it is about one.
    pub chain: usize,
    /// Blocks of a reorg, of a lag, or before the head that have receipts; calls in a second of a quota;
    /// by how much counts are too low; of how many blocks or receipts one is missing; else how many of
    /// a hundred calls or transactions.
    pub severity: u64,
}

/// A fault of each node's second endpoint from the start to the very end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lasting {
    /// A kind that affects one of two endpoints.
    pub kind: Kind,
    /// As in [`Fault::severity`].
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

/// All faults of a run, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The faults, by their beginning.
    pub faults: Vec<Fault>,
    /// Of a hundred calls to the chain, how many fail from the start to the very end.
    pub steady_errors: u64,
    /// The lasting fault, in runs without steady errors.
    pub lasting: Option<Lasting>,
    /// By node: the place of the endpoint that it calls over a WebSocket.
    pub sockets: [usize; NODES],
    /// By account: the place of the node that lacks its key.
    pub missing_keys: Vec<Option<usize>>,
    /// The open transactions of each account that no node serves.
    pub orphans: u64,
}

impl Plan {
    /// The plan of a seed for a run of this length.
    pub fn draw(seed: u64, length: Duration) -> Self {
        let mut rng = Rng::new(seed ^ 0x6b65_7973);
        let all = NODES + 1;
        let missing_keys =
            SENDING.map(|_| Some(below(&mut rng, all)).filter(|place| *place < NODES)).collect();
        let orphans = between(&mut rng, ORPHANS);
        let sockets = [(); NODES].map(|()| below(&mut rng, 2));
        let plan =
            Self { sockets, missing_keys, orphans, ..Self::of_kinds(seed, length, Kind::ALL) };
        // Every second seed has errors, and the one that the test command takes. The others have an
        // endpoint that never becomes well.
        match seed.is_multiple_of(2) {
            true => Self { lasting: Some(Lasting::draw(seed)), ..plan },
            false => Self { steady_errors: STEADY_ERRORS, ..plan },
        }
    }

    /// The plan of a seed with nothing but faults of some kinds.
    pub fn of_kinds(seed: u64, length: Duration, kinds: &[Kind]) -> Self {
        let mut rng = Rng::new(seed);
        let end = length.saturating_sub(QUIET_END);
        let mut plan = Self {
            faults: Vec::new(),
            steady_errors: 0,
            lasting: None,
            sockets: SOCKETS,
            missing_keys: vec![None; SENDING.len()],
            orphans: 0,
        };
        let (mut deck, mut at) = (Vec::new(), FIRST);
        loop {
            let kind = match deck.pop() {
                Some(kind) => kind,
                None => {
                    deck = shuffled_deck(&mut rng, kinds);
                    continue;
                }
            };
            let card = kind.card();
            let length = Duration::from_millis(between(&mut rng, card.millis));
            let severity = between(&mut rng, card.severity);
            let first = below(&mut rng, NODES);
            let chain = usize::from(rng.below(SECOND_CHAIN) == 0);
            let chain = if kind.is_about_a_chain() { chain } else { 0 };
            let fault = loop {
                let targets = targets(kind, first);
                let fault = |target| Fault { at, length, kind, target, chain, severity };
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
}

impl Lasting {
    fn draw(seed: u64) -> Self {
        // Neighbouring seeds take different kinds.
        let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9));
        let all = Kind::ALL.iter().filter(|kind| kind.reach() == Reach::OneEndpoint);
        let all: Vec<Kind> = all.copied().collect();
        let kind = all[below(&mut rng, all.len())];
        Self { kind, severity: between(&mut rng, kind.card().severity) }
    }
}

fn share_a_lane(one: &Fault, other: &Fault) -> bool {
    use Reach::{ChainLink, EveryChainLink, OneEndpoint};
    match (one.kind.reach(), other.kind.reach()) {
        (ChainLink | OneEndpoint, EveryChainLink) | (EveryChainLink, ChainLink | OneEndpoint) => {
            true
        }
        (ChainLink | OneEndpoint, ChainLink | OneEndpoint) => one.target == other.target,
        (a, b) => a == b && one.target == other.target,
    }
}

/// The possible targets of a kind, the first choice first.
fn targets(kind: Kind, first: usize) -> Vec<Target> {
    match kind.reach() {
        Reach::Process | Reach::DatabaseLink | Reach::ChainLink | Reach::OneEndpoint => {
            (0..NODES).map(|n| Target::Node((first + n) % NODES)).collect()
        }
        Reach::EveryChainLink | Reach::Chain => vec![Target::Chain],
        Reach::Database => vec![Target::Database],
    }
}

fn shuffled_deck(rng: &mut Rng, kinds: &[Kind]) -> Vec<Kind> {
    let copies = |kind: Kind| std::iter::repeat_n(kind, kind.card().copies);
    let mut deck: Vec<Kind> = kinds.iter().copied().flat_map(copies).collect();
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
    fn same_seed_draws_the_same_plan() {
        for seed in 0..100 {
            assert_eq!(Plan::draw(seed, TWO_MINUTES), Plan::draw(seed, TWO_MINUTES));
        }
        assert_ne!(Plan::draw(1, TWO_MINUTES), Plan::draw(2, TWO_MINUTES));
    }

    #[test]
    fn two_minutes_have_every_kind_of_fault() {
        for seed in 0..2_000 {
            let faults = Plan::draw(seed, TWO_MINUTES).faults;
            for kind in Kind::ALL {
                assert!(faults.iter().any(|fault| fault.kind == *kind), "seed {seed}: no {kind:?}");
            }
        }
    }

    #[test]
    fn each_kind_of_one_endpoint_is_lasting_in_some_seed() {
        let lasting = |seed| Plan::draw(seed, TWO_MINUTES).lasting;
        for kind in Kind::ALL {
            let is_drawn = (0..1_000).any(|seed| lasting(seed).is_some_and(|it| it.kind == *kind));
            assert_eq!(is_drawn, kind.reach() == Reach::OneEndpoint, "{kind:?}");
        }
    }

    #[test]
    fn some_keys_are_missing_at_one_node_and_each_node_lacks_some_in_some_seed() {
        let missing = |seed| Plan::draw(seed, TWO_MINUTES).missing_keys;
        assert!((0..200).all(|seed| missing(seed).iter().any(Option::is_some)));
        let all: Vec<usize> = (0..20).flat_map(missing).flatten().collect();
        assert!((0..NODES).all(|place| all.contains(&place)));
    }

    #[test]
    fn run_has_steady_errors_or_a_lasting_fault_and_never_both() {
        for seed in 0..100 {
            let plan = Plan::draw(seed, TWO_MINUTES);
            assert_ne!(plan.steady_errors > 0, plan.lasting.is_some(), "seed {seed}");
        }
    }

    #[test]
    fn faults_are_in_order_and_end_before_the_calm() {
        for seed in 0..500 {
            let plan = Plan::draw(seed, TWO_MINUTES);
            assert!(plan.faults.is_sorted_by_key(|fault| fault.at), "seed {seed}");
            assert!(plan.faults.iter().all(|fault| fault.end() + QUIET_END <= TWO_MINUTES));
        }
    }

    #[test]
    fn some_node_is_unharmed_at_any_time() {
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
    fn reorgs_are_shallower_than_finality() {
        for seed in 0..500 {
            let plan = Plan::draw(seed, TWO_MINUTES);
            let reorgs = plan.faults.iter().filter(|fault| fault.kind == Kind::Reorg);
            for reorg in reorgs {
                assert!((1..crate::cluster::CONFIRMATIONS).contains(&reorg.severity));
            }
        }
    }
}
