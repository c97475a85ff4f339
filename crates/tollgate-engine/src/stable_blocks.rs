//! Blocks past the finality threshold, in order, each once, for listeners inside the process.
//!
//! Each subscriber owns its place. The buffer between the tracker and all of them is the canonical view, which keeps a
//! bounded number of blocks (I13): the tracker waits for nobody, and a slow subscriber delays no other. One whose next
//! block has left the view reads it from the chain by its number; such a block is marked, because nothing links it to
//! the blocks before it.

use std::sync::Arc;

use tollgate_model::B256;
use tollgate_model::finality::{FinalityRule, settled_up_to};
use tollgate_model::port::chain::{BlockRef, BlockTag, Chain, ChainUnavailable};

use crate::engine::Engine;
use crate::view::ChainView;
use crate::watch::ValueReceiver;

/// A block past the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StableBlock {
    /// The block's number, hash and parent.
    pub at: BlockRef,
    /// The block may not follow from the one before: the subscriber had lost its place and read the block from the
    /// chain, or the chain was reorganised beyond the threshold.
    pub gap_potential: bool,
}

/// One subscriber's place among the stable blocks. The tracker runs until this is dropped.
pub struct StableBlocks {
    view: ValueReceiver<ChainView>,
    chain: Arc<dyn Chain>,
    rule: FinalityRule,
    /// The number of the next block; unset before the first one of a subscriber that began at the threshold.
    next: Option<u64>,
    last: Option<B256>,
}

impl StableBlocks {
    /// Subscribes to an engine's stable blocks: from this number on, or from the next one that passes the threshold.
    pub fn of(engine: &Engine, from: Option<u64>) -> Self {
        let context = &engine.context;
        let (view, chain) = (context.view.clone(), context.chain.clone());
        Self { view, chain, rule: context.options.finality, next: from, last: None }
    }

    /// Waits for the next block; `None` once the engine has stopped. Nothing is lost if the wait is given up.
    ///
    /// # Errors
    /// The subscriber has lost its place, and no endpoint delivers the block. The place is kept: ask again.
    pub async fn next(&mut self) -> Result<Option<StableBlock>, ChainUnavailable> {
        loop {
            let view = self.view.latest();
            if let Some(settled) = self.settled(&view) {
                let next = *self.next.get_or_insert(settled);
                if next <= settled {
                    let at = match view.at(next) {
                        Some(at) => at,
                        None => self.read(next).await?,
                    };
                    let is_linked = view
                        .at(next)
                        .is_some_and(|_| self.last.is_none_or(|last| at.parent == last));
                    (self.next, self.last) = (Some(next + 1), Some(at.hash));
                    return Ok(Some(StableBlock { at, gap_potential: !is_linked }));
                }
            }
            if !self.view.changed().await {
                return Ok(None);
            }
        }
    }

    /// The number of the newest block of the view that is past the threshold.
    fn settled(&self, view: &ChainView) -> Option<u64> {
        let height = view.height()?;
        settled_up_to(self.rule, height).map(|settled| settled.min(height.head))
    }

    async fn read(&self, number: u64) -> Result<BlockRef, ChainUnavailable> {
        let block = self.chain.block(BlockTag::Number(number)).await?;
        let block =
            block.ok_or_else(|| ChainUnavailable(format!("block {number} is not there")))?;
        Ok(block.at)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tollgate_testkit::fake_chain::{FakeChain, Query};

    use super::*;
    use crate::watch;
    use crate::watch::ValueSender;

    /// A chain of 30 blocks, a view, and a subscriber with a threshold of three.
    fn world(from: Option<u64>) -> (Arc<FakeChain>, ValueSender<ChainView>, StableBlocks) {
        let chain = Arc::new(FakeChain::new());
        (0..30).for_each(|_| chain.mine());
        let (sender, view) = watch::channel(ChainView::default());
        let rule = FinalityRule::Confirmations(3);
        let blocks = StableBlocks { view, chain: chain.clone(), rule, next: from, last: None };
        (chain, sender, blocks)
    }

    /// Extends the view by the chain's blocks with these numbers; it holds ten.
    async fn extend(
        sender: &ValueSender<ChainView>,
        chain: &FakeChain,
        numbers: std::ops::Range<u64>,
    ) {
        let mut view = ChainView::clone(&sender.get());
        for number in numbers {
            let block = chain.block(BlockTag::Number(number)).await.unwrap().unwrap();
            view.extend(&[block.at], 10);
        }
        sender.set(view);
    }

    /// The numbers of the blocks that are there now, and whether each is marked.
    fn taken(blocks: &mut StableBlocks) -> Vec<(u64, bool)> {
        let mut taken = Vec::new();
        while let Some(Ok(Some(block))) = blocks.next().now_or_never() {
            taken.push((block.at.number, block.gap_potential));
        }
        taken
    }

    #[tokio::test]
    async fn blocks_past_the_threshold_come_in_order_and_each_once() {
        let (chain, sender, mut blocks) = world(None);
        assert_eq!(taken(&mut blocks), [], "no view yet");
        extend(&sender, &chain, 5..10).await;
        assert_eq!(taken(&mut blocks), [(7, false)], "9 has three with 7");
        extend(&sender, &chain, 10..13).await;
        assert_eq!(taken(&mut blocks), [(8, false), (9, false), (10, false)]);
        assert_eq!(taken(&mut blocks), []);
        drop(sender);
        assert_eq!(blocks.next().await, Ok(None));
    }

    #[tokio::test]
    async fn slow_subscriber_loses_its_place_and_catches_up_by_number_while_others_do_not_wait() {
        let (chain, sender, mut slow) = world(None);
        extend(&sender, &chain, 5..10).await;
        assert_eq!(taken(&mut slow), [(7, false)]);
        let mut fast =
            StableBlocks { view: slow.view.clone(), chain: chain.clone(), ..world(Some(8)).2 };
        for number in 10..25 {
            extend(&sender, &chain, number..number + 1).await;
            assert_eq!(taken(&mut fast), [(number - 2, false)]);
        }
        chain.fail(Query::Block(8), true);
        assert!(slow.next().await.is_err(), "it is asked for again");
        chain.fail(Query::Block(8), false);
        let caught_up = taken(&mut slow);
        let wanted: Vec<_> = (8..=22).map(|number| (number, number < 15)).collect();
        assert_eq!(caught_up, wanted, "the view begins with 15");
    }

    #[tokio::test]
    async fn block_that_does_not_follow_from_the_one_before_is_marked() {
        let (chain, sender, mut blocks) = world(None);
        extend(&sender, &chain, 5..10).await;
        assert_eq!(taken(&mut blocks), [(7, false)]);
        blocks.last = Some(B256::ZERO);
        extend(&sender, &chain, 10..12).await;
        assert_eq!(taken(&mut blocks), [(8, true), (9, false)]);
    }
}
