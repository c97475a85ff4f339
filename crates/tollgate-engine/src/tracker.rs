//! Follows the head of a chain and tells workers what happened to their transactions.
//!
//! Owns the canonical view. Driven by blocks: each new block costs one look at its hashes and one
//! fetch of the receipts that are ours, however many transactions are pending. Never writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_model::finality::FinalityRule;
use tollgate_model::port::MinedIn;
use tollgate_model::port::chain::{Block, BlockRef, BlockTag, Chain, ChainUnavailable};
use tollgate_model::{Submitter, TxHash};
use tracing::{debug, warn};

use crate::context::AttemptIndex;
use crate::newest::Shown;
use crate::view::ChainView;

/// Blocks that the view keeps beyond those that finality needs.
const VIEW_MARGIN: u64 = 128;
/// The pause after a pass that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells the worker of a submitter about receipts.
pub(crate) trait Tell: Send + Sync + 'static {
    /// Never waits.
    fn mined(&self, submitter: Submitter, receipts: Vec<MinedIn>);
}

/// One chain's follower.
pub(crate) struct Tracker {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) rule: FinalityRule,
    pub(crate) attempts: AttemptIndex,
    pub(crate) tell: Arc<dyn Tell>,
    pub(crate) view: Shown<ChainView>,
}

impl Tracker {
    /// Follows until nobody looks at the view any more.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut known = None;
        while !self.view.is_unseen() {
            match self.chain.head_after(known).await {
                Ok(head) => match self.pass(head).await {
                    Ok(()) => known = Some(head),
                    Err(error) => {
                        warn!(%error, block = head.number, "pass over new blocks failed");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Err(error) => {
                    warn!(%error, "the head is not known");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Brings the view up to a head. A block that can't be fetched fails the pass, which is then
    /// tried again as a whole: no block is ever skipped.
    async fn pass(&self, head: BlockRef) -> Result<(), ChainUnavailable> {
        let mut view = ChainView::clone(&self.view.get());
        let added = self.blocks_up_to(&view, head).await?;
        let mut receipts = Vec::new();
        for block in &added {
            receipts.extend(self.receipts_in(block).await?);
        }
        let tag = match self.rule {
            FinalityRule::Confirmations(_) => None,
            FinalityRule::Safe => Some(BlockTag::Safe),
            FinalityRule::Finalized => Some(BlockTag::Finalized),
        };
        if let Some(tag) = tag {
            view.tagged = self.chain.block(tag).await?.map(|block| block.at.number);
        }
        let refs: Vec<BlockRef> = added.iter().map(|block| block.at).collect();
        let replaced = view.extend(&refs, self.view_length());
        debug!(block = head.number, added = refs.len(), replaced, "view moved");
        // The view first: what is told below is judged by it.
        self.view.show(view);
        for (submitter, receipts) in receipts {
            self.tell.mined(submitter, receipts);
        }
        Ok(())
    }

    fn view_length(&self) -> usize {
        let needed = match self.rule {
            FinalityRule::Confirmations(count) => count,
            FinalityRule::Safe | FinalityRule::Finalized => 0,
        };
        usize::try_from(needed.saturating_add(VIEW_MARGIN)).unwrap_or(usize::MAX)
    }

    /// The blocks from the view's own chain up to a head, oldest first, each the parent of the
    /// next. If the chain moves meanwhile, the pass fails and a new head is awaited.
    async fn blocks_up_to(
        &self,
        view: &ChainView,
        head: BlockRef,
    ) -> Result<Vec<Block>, ChainUnavailable> {
        let mut found: Vec<Block> = Vec::new();
        let mut wanted = (head.number, head.hash);
        loop {
            let block = self.chain.block(BlockTag::Number(wanted.0)).await?;
            let block = block.filter(|block| block.at.hash == wanted.1).ok_or_else(|| {
                ChainUnavailable(format!("block {} changed during the pass", wanted.0))
            })?;
            let BlockRef { number, parent, .. } = block.at;
            found.push(block);
            let joins = number == 0
                || view.head().is_none()
                || found.len() >= self.view_length()
                || view.at(number - 1).is_some_and(|known| known.hash == parent);
            if joins {
                found.reverse();
                return Ok(found);
            }
            wanted = (number - 1, parent);
        }
    }

    /// The receipts in a block that are ours, by submitter.
    async fn receipts_in(
        &self,
        block: &Block,
    ) -> Result<BTreeMap<Submitter, Vec<MinedIn>>, ChainUnavailable> {
        let ours: BTreeMap<TxHash, Submitter> =
            self.attempts.find(&block.transactions).into_iter().collect();
        if ours.is_empty() {
            return Ok(BTreeMap::new());
        }
        let hashes: Vec<TxHash> = ours.keys().copied().collect();
        let receipts = self.chain.receipts(&block.at, &hashes).await?;
        if receipts.len() < hashes.len() {
            return Err(ChainUnavailable(format!("receipts of block {} missing", block.at.number)));
        }
        let mut told = BTreeMap::<Submitter, Vec<MinedIn>>::new();
        for receipt in receipts {
            if let Some(owner) = ours.get(&receipt.tx_hash) {
                told.entry(*owner).or_default().push(receipt);
            }
        }
        Ok(told)
    }
}
