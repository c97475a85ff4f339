//! What a node turned out to lack, found out by asking and remembered for a while.
//!
//! Needs no configuration, and forgets: nodes are upgraded, and behind one URL there may be many.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

/// For how long a method that was missing is not asked for.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Something that not every node can do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ability {
    /// `eth_getBlockReceipts`.
    BlockReceipts,
    /// `eth_feeHistory`.
    FeeHistory,
    /// `eth_maxPriorityFeePerGas`.
    PriorityFee,
    /// Many calls in one (a JSON-RPC batch).
    Batch,
    /// `txpool_contentFrom`.
    PoolContent,
    /// `eth_estimateGas` with a block as its second argument.
    EstimateAtBlock,
}

/// What a node lacks, and what its bulk receipts cost.
#[derive(Debug, Default)]
pub struct Abilities {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    missing: [Option<Instant>; 6],
    bulk: Option<(usize, Duration)>,
}

impl Abilities {
    /// Whether it is worth asking.
    pub fn may_have(&self, ability: Ability, now: Instant) -> bool {
        self.with(|state| state.missing[ability as usize])
            .is_none_or(|since| now.saturating_duration_since(since) >= REMEMBERED)
    }

    /// The node said that it has no such method, or takes fewer arguments.
    pub fn lacks(&self, ability: Ability, now: Instant) {
        self.with(|state| state.missing[ability as usize] = Some(now));
    }

    /// The receipts of a block of this size took this long.
    pub(crate) fn bulk_took(&self, size: usize, took: Duration) {
        self.with(|state| state.bulk = Some((size, took)));
    }

    /// The last measured cost of a block's receipts.
    pub(crate) fn bulk(&self) -> Option<(usize, Duration)> {
        self.with(|state| state.bulk)
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missing_is_asked_for_again_after_a_while() {
        let (abilities, now) = (Abilities::default(), Instant::now());
        assert!(abilities.may_have(Ability::BlockReceipts, now));
        abilities.lacks(Ability::BlockReceipts, now);
        assert!(!abilities.may_have(Ability::BlockReceipts, now));
        assert!(abilities.may_have(Ability::FeeHistory, now));
        assert!(abilities.may_have(Ability::BlockReceipts, now + REMEMBERED));
    }
}
