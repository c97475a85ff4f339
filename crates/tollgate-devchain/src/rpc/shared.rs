//! State shared by all endpoints of a chain: the core behind its lock, the heads, the mining switch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;

use crate::chain::{Block, Chain, Reorg, ReorgOutcome, ReorgRefused};

/// Heads that a slow subscriber may be behind before it misses some.
const HEADS_BUFFER: usize = 256;

/// When blocks come by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mining {
    /// The interval; `None`: on request only.
    pub(crate) interval: Option<Duration>,
    /// Mining is paused.
    pub(crate) is_paused: bool,
}

/// The chain and what hangs on it.
pub(crate) struct Shared {
    chain: Mutex<Chain>,
    started: Instant,
    /// Every block that became the head.
    pub(crate) heads: broadcast::Sender<Arc<Block>>,
    /// When blocks come.
    pub(crate) mining: watch::Sender<Mining>,
    /// Something is on its way between the pools.
    pub(crate) gossip: Notify,
}

impl Shared {
    pub(crate) fn new(chain: Chain, interval: Option<Duration>) -> Self {
        Self {
            chain: Mutex::new(chain),
            started: Instant::now(),
            heads: broadcast::channel(HEADS_BUFFER).0,
            mining: watch::channel(Mining { interval, is_paused: false }).0,
            gossip: Notify::new(),
        }
    }

    /// The core. A panic under the lock leaves a chain that is still worth looking at.
    pub(crate) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Mines one block and notifies the subscribers. Blocks are spaced by the interval, at least by a
    /// second: never by the wall clock, so that hashes are reproducible.
    pub(crate) fn mine(&self, timestamp: Option<u64>) -> Arc<Block> {
        let interval_s = self.mining.borrow().interval.map_or(1, |interval| interval.as_secs());
        let mut chain = self.chain();
        let spaced = chain.head().header.timestamp + interval_s.max(1);
        let block = chain.mine(timestamp.unwrap_or(spaced));
        drop(chain);
        self.announce(&block);
        block
    }

    /// Makes a reorg and notifies the subscribers.
    pub(crate) fn reorg(&self, reorg: Reorg) -> Result<ReorgOutcome, ReorgRefused> {
        let outcome = self.chain().reorg(reorg, 0)?;
        outcome.added.iter().for_each(|block| self.announce(block));
        Ok(outcome)
    }

    pub(crate) fn announce(&self, block: &Arc<Block>) {
        // Nobody listening is no error.
        let _ = self.heads.send(block.clone());
    }
}
