//! What a seed makes of the world: its size, its rules, and how bad the weather is.

use std::time::Duration;

use tollgate_devchain::chain::Rng;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, StrictAdvance};
use tollgate_model::rejected::RejectedSlot;

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
    pub(crate) moody_policy: bool,
    /// Where the cursors, and the chain's counts, start.
    pub(crate) block_millis: u64,
    /// How long there is work and bad weather.
    pub(crate) storm: Duration,
    pub(crate) faults: Faults,
}

/// How often what goes wrong. Chances are per call, rates per second of the storm.
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
    /// One reorg goes beyond finality.
    pub(crate) breaks_finality: bool,
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let confirmations = 2 + rng.below(3);
        let finality = match rng.below(4) {
            0 => FinalityRule::Safe,
            1 => FinalityRule::Finalized,
            _ => FinalityRule::Confirmations(confirmations),
        };
        Self {
            nodes: 2 + rng.below(3) as usize,
            submitters: 1 + rng.below(3) as usize,
            intents: 20 + rng.below(21) as usize,
            mode: if rng.below(3) == 0 { Mode::Strict } else { Mode::Pipelined },
            strict_advance: if rng.below(2) == 0 {
                StrictAdvance::Final
            } else {
                StrictAdvance::Mined
            },
            window: 1 + rng.below(8) as u32,
            confirmations,
            finality,
            rejected_slot: RejectedSlot::ALL[rng.below(3) as usize],
            bumps: rng.chance(0.4),
            moody_policy: rng.chance(0.3),
            block_millis: 500 + rng.below(1_500),
            storm: Duration::from_secs(20 + rng.below(25)),
            faults: Faults::draw(rng),
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
            breaks_finality: false,
        };
        faults.breaks_finality = faults.reorg > 0.0 && rng.chance(0.08);
        faults
    }
}
