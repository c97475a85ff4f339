//! Remembers which methods a node lacks.
//!
//! Learnt from its answers, without configuration, and forgotten after a while: nodes are upgraded, and
//! one URL may have many nodes behind it.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

/// The time for which a missing method is not called.
const REMEMBERED: Duration = Duration::from_secs(600);

/// A method or a feature that not every node has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Capability {
    /// `eth_getBlockReceipts`.
    BlockReceipts,
    /// `eth_feeHistory`.
    FeeHistory,
    /// `eth_maxPriorityFeePerGas`.
    PriorityFee,
    /// JSON-RPC batches.
    Batch,
    /// `txpool_contentFrom`.
    PoolContent,
    /// `eth_estimateGas` with a block as its second argument.
    EstimateAtBlock,
}

/// The capabilities that a node lacks, and the cost of its bulk receipts.
#[derive(Debug, Default)]
pub struct Capabilities {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    missing: [Option<Instant>; 6],
    bulk: Option<(usize, Duration)>,
}

impl Capabilities {
    /// Returns whether the node may have it.
    pub fn may_have(&self, ability: Capability, now: Instant) -> bool {
        self.with(|state| state.missing[ability as usize])
            .is_none_or(|since| now.saturating_duration_since(since) >= REMEMBERED)
    }

    /// Notes that the node has no such method, or takes fewer arguments.
    pub fn lacks(&self, ability: Capability, now: Instant) {
        self.with(|state| state.missing[ability as usize] = Some(now));
    }

    /// Notes how long the receipts of a block of this size took.
    pub(crate) fn bulk_took(&self, size: usize, took: Duration) {
        self.with(|state| state.bulk = Some((size, took)));
    }

    /// The last measured cost of a block's receipts.
    pub(crate) fn bulk(&self) -> Option<(usize, Duration)> {
        self.with(|state| state.bulk)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_method_is_tried_again_after_a_while() {
        let (capabilities, now) = (Capabilities::default(), Instant::now());
        assert!(capabilities.may_have(Capability::BlockReceipts, now));
        capabilities.lacks(Capability::BlockReceipts, now);
        assert!(!capabilities.may_have(Capability::BlockReceipts, now));
        assert!(capabilities.may_have(Capability::FeeHistory, now));
        assert!(capabilities.may_have(Capability::BlockReceipts, now + REMEMBERED));
    }
}
