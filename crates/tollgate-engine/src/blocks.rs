//! Blocks past the finality threshold, in order, each once, for whoever listens.
//!
//! Every listener has a bounded buffer (I13). One that is slow never holds the others up (I14): it
//! loses its place, is told so (`gap_potential`), and fetches what it missed from the chain, by
//! number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tollgate_model::finality::{FinalityRule, settled_up_to};
use tollgate_model::port::chain::{BlockRef, BlockTag, Chain, ChainUnavailable};
use tracing::warn;

use crate::supervisor::{Deaths, supervise};
use crate::view::ChainView;
use crate::watch::ValueReceiver;

/// The pause after a block that could not be fetched.
const PAUSE: Duration = Duration::from_millis(500);

/// A block that will not be reorganised away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StableBlock {
    /// Which.
    pub at: BlockRef,
    /// The listener was too slow, or the chain went back beyond the threshold: this block was not
    /// seen when it became stable but was fetched later, or it does not stand on the one before it.
    pub gap_potential: bool,
}

/// The publishing end: owns the next number and the listeners.
#[derive(Clone)]
pub(crate) struct Publisher {
    shared: Arc<Shared>,
}

struct Shared {
    chain: Arc<dyn Chain>,
    listeners: Mutex<Vec<mpsc::Sender<BlockRef>>>,
    /// The newest block that was published.
    newest: watch::Sender<Option<u64>>,
}

impl Publisher {
    /// Starts publishing what the view says is stable; ends when the last handle is gone.
    pub(crate) fn start(
        chain: Arc<dyn Chain>,
        rule: FinalityRule,
        view: ValueReceiver<ChainView>,
        deaths: &Deaths,
    ) -> Self {
        let listeners = Mutex::default();
        let shared = Arc::new(Shared { chain, listeners, newest: watch::Sender::new(None) });
        let weak = Arc::downgrade(&shared);
        supervise(deaths, "blocks", move || publish(weak.clone(), rule, view.clone()));
        Self { shared }
    }

    pub(crate) fn subscribe(&self, buffer: usize) -> BlockStream {
        let (blocks, inbox) = mpsc::channel(buffer.max(1));
        // Both under one lock: nothing is published in between.
        let mut listeners = self.shared.lock();
        listeners.push(blocks);
        let newest = self.shared.newest.subscribe();
        let next = newest.borrow().map(|number| number + 1);
        BlockStream {
            chain: self.shared.chain.clone(),
            inbox,
            newest,
            next,
            last: None,
            ahead: None,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<mpsc::Sender<BlockRef>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a block to everybody who has room for it. Who has none will notice the gap.
    fn give_out(&self, block: BlockRef) {
        let mut listeners = self.lock();
        listeners.retain(|listener| {
            !matches!(listener.try_send(block), Err(mpsc::error::TrySendError::Closed(_)))
        });
        self.newest.send_replace(Some(block.number));
    }
}

async fn publish(shared: Weak<Shared>, rule: FinalityRule, mut view: ValueReceiver<ChainView>) {
    while view.changed().await {
        let seen = view.latest();
        let Some(up_to) = seen.height().and_then(|height| settled_up_to(rule, height)) else {
            continue;
        };
        loop {
            let Some(shared) = shared.upgrade() else { return };
            // The first one is where the node came in.
            let next = shared.newest.borrow().map_or(up_to, |newest| newest + 1);
            if next > up_to {
                break;
            }
            match block_at(shared.chain.as_ref(), &seen, next).await {
                Ok(block) => shared.give_out(block),
                Err(error) => {
                    warn!(%error, block = next, "stable block not fetched");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn block_at(
    chain: &dyn Chain,
    view: &ChainView,
    number: u64,
) -> Result<BlockRef, ChainUnavailable> {
    match view.at(number) {
        Some(block) => Ok(block),
        None => fetch(chain, number).await,
    }
}

async fn fetch(chain: &dyn Chain, number: u64) -> Result<BlockRef, ChainUnavailable> {
    let block = chain.block(BlockTag::Number(number)).await?;
    let missing = || ChainUnavailable(format!("block {number} is not there"));
    block.map(|block| block.at).ok_or_else(missing)
}

/// A listener's end.
pub struct BlockStream {
    chain: Arc<dyn Chain>,
    inbox: mpsc::Receiver<BlockRef>,
    newest: watch::Receiver<Option<u64>>,
    /// The number that comes next; `None` before the first one.
    next: Option<u64>,
    last: Option<BlockRef>,
    /// Received, but perhaps with a gap before it.
    ahead: Option<BlockRef>,
}

impl BlockStream {
    /// The next block, or `None` when the engine has stopped. An error leaves the place: ask again.
    pub async fn next(&mut self) -> Result<Option<StableBlock>, ChainUnavailable> {
        loop {
            if let Some(block) = self.ahead {
                let next = *self.next.get_or_insert(block.number);
                if block.number == next {
                    self.ahead = None;
                    return Ok(Some(self.passed(block, false)));
                }
                return self.catch_up(next).await.map(Some);
            }
            if let Ok(block) = self.inbox.try_recv() {
                self.ahead = Some(block);
                continue;
            }
            let newest = *self.newest.borrow_and_update();
            if let (Some(next), Some(newest)) = (self.next, newest)
                && next <= newest
                && self.inbox.is_empty()
            {
                return self.catch_up(next).await.map(Some);
            }
            tokio::select! {
                biased;
                received = self.inbox.recv() => match received {
                    Some(block) => self.ahead = Some(block),
                    None => return Ok(None),
                },
                changed = self.newest.changed() => if changed.is_err() {
                    return Ok(None);
                },
            }
        }
    }

    /// Fetches what was missed.
    async fn catch_up(&mut self, next: u64) -> Result<StableBlock, ChainUnavailable> {
        let block = fetch(self.chain.as_ref(), next).await?;
        Ok(self.passed(block, true))
    }

    fn passed(&mut self, block: BlockRef, missed: bool) -> StableBlock {
        let unlinked = self.last.is_some_and(|last| last.hash != block.parent);
        self.last = Some(block);
        self.next = Some(block.number + 1);
        StableBlock { at: block, gap_potential: missed || unlinked }
    }
}
