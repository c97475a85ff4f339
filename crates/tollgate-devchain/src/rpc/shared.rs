//! State shared by all endpoints of a chain: the core behind its lock, the heads, the mining switch; and
//! the tasks that mine at an interval and deliver late transactions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;

use super::endpoint::Endpoint;
use crate::chain::{Block, Chain, Reorg, ReorgOutcome, ReorgRefused};

/// Heads that a slow subscriber may be behind before it misses some.
const HEADS_BUFFER: usize = 256;

/// The production of blocks without requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mining {
    /// The interval; `None`: on request only.
    pub(crate) interval: Option<Duration>,
    pub(crate) is_paused: bool,
}

/// The chain and its announcements.
pub(crate) struct Shared {
    chain: Mutex<Chain>,
    started: Instant,
    /// Every block that became the head.
    pub(crate) heads: broadcast::Sender<Arc<Block>>,
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

/// Mines at the interval until the chain is gone. The faults are those of the first endpoint.
pub(crate) async fn keep_mining(shared: Arc<Shared>, endpoint: Weak<Endpoint>) {
    let mut changes = shared.mining.subscribe();
    loop {
        let mining = *changes.borrow_and_update();
        let interval = mining.interval.filter(|_| !mining.is_paused);
        let is_due = tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                false
            }
            () = sleep_or_wait(interval) => true,
        };
        if is_due {
            shared.mine(None);
            let Some(endpoint) = endpoint.upgrade() else { return };
            after_block(&shared, &endpoint);
        }
    }
}

async fn sleep_or_wait(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}

fn after_block(shared: &Shared, endpoint: &Endpoint) {
    let (reorg, evict) = endpoint.faults().after_block();
    if let Some(reorg) = reorg {
        // A chain that is too short yet, or a promise in the way: no reorg this time.
        let _ = shared.reorg(reorg);
    }
    if let Some(probability) = evict {
        shared.chain().evict(endpoint.pool, probability);
    }
}

/// Delivers late transactions when they are due.
pub(crate) async fn keep_gossiping(shared: Arc<Shared>) {
    loop {
        let next_ms = {
            let now_ms = shared.now_ms();
            shared.chain().gossip(now_ms)
        };
        let wait =
            next_ms.map(|due| Duration::from_millis(due.saturating_sub(shared.now_ms()) + 1));
        tokio::select! {
            () = shared.gossip.notified() => {}
            () = sleep_or_wait(wait) => {}
        }
    }
}
