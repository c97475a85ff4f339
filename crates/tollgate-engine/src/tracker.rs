//! Follows the head of a chain and tells workers what happened to their transactions.
//!
//! Owns the canonical view. Driven by blocks: each new block costs one look at its hashes and one
//! fetch of the receipts that are ours, however many transactions are pending. Never writes.
//!
//! The view moves block by block with what was delivered: a block that can't be fetched leaves what
//! lies below it in the view, and the next try goes on from there. If it can't be fetched for
//! `receipt_alert_after` although the head can, an alert is raised and the view goes on above it:
//! transactions in the blocks that are left out are found by their hashes (I15). Receipts are read beside that
//! ([`receipts`]), so that one that can't be read holds nobody up (I14, I15).

mod fetched;
mod receipts;
mod stall;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::MinedIn;
use tollgate_model::port::chain::{Block, BlockRef, BlockTag, Chain, ChainUnavailable};
use tollgate_model::{B256, Submitter};
use tracing::{debug, warn};

use crate::view::ChainView;
use crate::watch::ValueSender;
use fetched::Fetched;
pub(crate) use receipts::{ReaderSetup, ReceiptReader};
use stall::Stall;

/// Blocks that the view keeps beyond those that finality needs.
const VIEW_MARGIN: u64 = 128;
/// Blocks that are fetched at once when the view is behind.
const AHEAD: u64 = 8;
/// The first pause after a try that did not reach the head; it doubles while nothing is delivered.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often the tag is read while the head stands. On some chains it advances without new blocks, and
/// its last read may have failed.
const TAG_INTERVAL: Duration = Duration::from_secs(2);
/// A gap above this, after a long outage, is not closed block by block. Transactions in the blocks
/// that are left out are found by their hashes, when they are due to be sent again.
const GAP_MAX: u64 = 4_096;

/// Tells the worker of a submitter about receipts.
pub(crate) trait Tell: Send + Sync + 'static {
    /// Never waits.
    fn mined(&self, submitter: Submitter, receipts: Vec<MinedIn>);

    /// A block below the view that the worker asked about has left the chain. Never waits.
    fn block_left(&self, submitter: Submitter, number: u64, hash: B256);
}

/// One chain's follower.
pub(crate) struct Tracker {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) rule: FinalityRule,
    pub(crate) reader: Arc<ReceiptReader>,
    pub(crate) view: ValueSender<ChainView>,
}

impl Tracker {
    /// Follows until nobody looks at the view any more.
    pub(crate) async fn run(self: Arc<Self>) {
        // In one task: what they show in the view is never interleaved.
        tokio::select! {
            biased;
            () = self.follow() => {}
            () = self.follow_tag() => {}
            () = self.reader.run(&self.view) => {}
        }
    }

    async fn follow(&self) {
        let (mut fetched, mut stall, mut pause) = (Fetched::default(), Stall::default(), PAUSE_MIN);
        while !self.view.is_closed() {
            // A head counts once its block was delivered.
            let known = self.view.get().head();
            let reached = match self.chain.head_after(known).await {
                Ok(head) => self.advance(head, &mut fetched, &mut stall).await.map(|()| head),
                Err(error) => Err(error),
            };
            let delivered = self.view.get().head();
            if delivered != known {
                pause = PAUSE_MIN;
            }
            match reached {
                Ok(head) if delivered == Some(head) => continue,
                Ok(head) => debug!(block = head.number, "announced block is not the delivered one"),
                Err(error) => warn!(%error, "new blocks are not delivered yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Reads the tag now and then while something waits for it, whether or not the head moves.
    async fn follow_tag(&self) {
        while !self.view.is_closed() {
            tokio::time::sleep(TAG_INTERVAL).await;
            if self.reader.is_waited_for() {
                self.note_tag().await;
            }
        }
    }

    /// Brings the view as near to a head as the blocks that are delivered go. What is delivered
    /// stays, whatever fails after it.
    async fn advance(
        &self,
        head: BlockRef,
        fetched: &mut Fetched,
        stall: &mut Stall,
    ) -> Result<(), ChainUnavailable> {
        let mut climbed = self.climb(head, fetched).await;
        match &climbed {
            Ok(()) => stall.end(),
            Err(error) => {
                stall.note_failure(self.view.get().head(), Instant::now());
                self.alert_if_stalled(stall, error);
                if self.skip_to(head, fetched, stall).await {
                    climbed = Ok(());
                }
            }
        }
        self.note_tag().await;
        climbed
    }

    fn alert_if_stalled(&self, stall: &mut Stall, error: &ChainUnavailable) {
        let (now, after) = (Instant::now(), self.reader.alert_after());
        if !stall.is_alert_due(now, after) {
            return;
        }
        let next = self.view.get().head().map_or(0, |top| top.number + 1);
        let detail = format!(
            "no endpoint has delivered block {next} for {} s, and finality of all accounts waits for \
             it; it is left out once the head can be read: {error}",
            after.as_secs()
        );
        warn!(block = next, %error, "next block can't be read");
        if self.reader.alert_stall(detail) {
            stall.note_alert(now);
        }
    }

    /// Goes on at the head if the block above the view could not be read for long although the head
    /// could; takes those blocks below the head that are delivered. Whether it did.
    async fn skip_to(&self, head: BlockRef, fetched: &mut Fetched, stall: &mut Stall) -> bool {
        let Ok(block) = self.delivered(head.number).await else { return false };
        if !stall.may_skip(Instant::now(), self.reader.alert_after()) {
            return false;
        }
        let (branch, _) = self.branch_below(block, fetched).await;
        let from = self.view.get().head().map(|top| top.number);
        let to = branch.first().map(|block| block.at.number);
        warn!(?from, ?to, "blocks left out because they can't be read");
        self.add(&branch);
        stall.end();
        true
    }

    async fn climb(&self, head: BlockRef, fetched: &mut Fetched) -> Result<(), ChainUnavailable> {
        let top = self.view.get().head();
        match top {
            Some(top) if head.number > top.number && head.number - top.number <= GAP_MAX => {}
            Some(top) if head.number > top.number => return self.jump(top, head, fetched).await,
            // The first block, or another branch that is not longer.
            Some(_) | None => {
                let block = self.delivered(head.number).await?;
                return self.join(block, fetched).await;
            }
        }
        self.climb_to(head.number, fetched).await
    }

    /// Adds block after block up to this number.
    async fn climb_to(&self, last: u64, fetched: &mut Fetched) -> Result<(), ChainUnavailable> {
        while let Some(top) = self.view.get().head().filter(|top| top.number < last) {
            if let Some(block) = fetched.child_of(top) {
                self.add(&[block]);
                continue;
            }
            let next = self.fetch_from(top.number + 1, last, fetched).await?;
            if next.at.parent == top.hash {
                self.add(&[next]);
            } else {
                self.join(next, fetched).await?;
            }
        }
        Ok(())
    }

    /// Fetches the next few blocks at once; returns the first and keeps the others.
    async fn fetch_from(
        &self,
        next: u64,
        head: u64,
        fetched: &mut Fetched,
    ) -> Result<Block, ChainUnavailable> {
        let last = head.min(next.saturating_add(AHEAD - 1));
        let wanted = (next..=last).filter(|number| *number == next || !fetched.has(*number));
        let mut answers = stream::iter(wanted.collect::<Vec<_>>())
            .map(|number| async move { (number, self.delivered(number).await) })
            .buffered(AHEAD as usize);
        let mut first = Err(ChainUnavailable(format!("block {next} was not asked for")));
        while let Some((number, answer)) = answers.next().await {
            if number == next {
                first = answer;
            } else if let Ok(block) = answer {
                fetched.keep(block, self.view_length());
            }
        }
        first
    }

    async fn delivered(&self, number: u64) -> Result<Block, ChainUnavailable> {
        let block = self.chain.block(BlockTag::Number(number)).await?;
        block.ok_or_else(|| ChainUnavailable(format!("block {number} is not there yet")))
    }

    /// Adds a block that need not stand on the view's head, with those below it down to one that
    /// the view holds. The view changes once the whole branch was delivered.
    async fn join(&self, block: Block, fetched: &mut Fetched) -> Result<(), ChainUnavailable> {
        let (branch, whole) = self.branch_below(block, fetched).await;
        whole?;
        self.add(&branch);
        Ok(())
    }

    /// A block with those below it down to one that stands on the view, oldest first; an error and
    /// the part above it, if one of them was not delivered.
    async fn branch_below(
        &self,
        block: Block,
        fetched: &mut Fetched,
    ) -> (Vec<Block>, Result<(), ChainUnavailable>) {
        let mut branch = vec![block];
        let whole = self.complete(&mut branch, fetched).await;
        branch.reverse();
        (branch, whole)
    }

    async fn complete(
        &self,
        branch: &mut Vec<Block>,
        fetched: &mut Fetched,
    ) -> Result<(), ChainUnavailable> {
        let view = self.view.get();
        while let Some(lowest) = branch.last().map(|block| block.at) {
            let linked = lowest.number == 0
                || view.head().is_none()
                || branch.len() >= self.view_length()
                || view.at(lowest.number - 1).is_some_and(|known| known.hash == lowest.parent);
            if linked {
                break;
            }
            let below = match fetched.parent_of(lowest) {
                Some(block) => block,
                None => self.delivered(lowest.number - 1).await?,
            };
            if below.at.hash != lowest.parent {
                let number = below.at.number;
                return Err(ChainUnavailable(format!("block {number} changed meanwhile")));
            }
            fetched.keep(below.clone(), self.view_length());
            branch.push(below);
        }
        Ok(())
    }

    /// Goes on at a head that is too far away to fetch everything below it, once its block was
    /// delivered: one that nobody has moves nothing.
    async fn jump(
        &self,
        top: BlockRef,
        head: BlockRef,
        fetched: &mut Fetched,
    ) -> Result<(), ChainUnavailable> {
        let block = match self.delivered(head.number).await {
            Ok(block) => block,
            // Perhaps only the announcement is wrong: what is there is taken, as far as it goes. One
            // block for each announcement would fall behind a chain with fast blocks for ever.
            Err(_) => return self.climb_to(top.number + GAP_MAX, fetched).await,
        };
        let (from, to) = (top.number, block.at.number);
        self.join(block, fetched).await?;
        let (first, _) = self.view.get().hashes_from(0);
        warn!(from, to, "blocks left out after a long gap");
        // Nothing is left out in silence; if nobody waits for anything, nothing is lost by it.
        let _is_told = self.reader.alert_stall(format!(
            "blocks {} to {} were left out because {} blocks had to be caught up with; \
             transactions in them are found by their hashes when they are due to be sent again",
            from + 1,
            first.saturating_sub(1),
            to - from,
        ));
        Ok(())
    }

    /// Shows the view with these blocks, and has our receipts in them read.
    fn add(&self, blocks: &[Block]) {
        let mut view = ChainView::clone(&self.view.get());
        let refs: Vec<BlockRef> = blocks.iter().map(|block| block.at).collect();
        let replaced = view.extend(&refs, self.view_length());
        debug!(block = ?view.head().map(|head| head.number), replaced, "view moved");
        // The view first: receipts are judged by it.
        self.view.set(view);
        for block in blocks {
            self.reader.request_receipts(block);
        }
    }

    /// Asks how far the chain is settled, where the rule is a tag. An error changes nothing.
    async fn note_tag(&self) {
        let tag = match self.rule {
            FinalityRule::Confirmations(_) => return,
            FinalityRule::Safe => BlockTag::Safe,
            FinalityRule::Finalized => BlockTag::Finalized,
        };
        match self.chain.block(tag).await {
            Ok(block) => {
                let view = self.view.get();
                let tagged = block.map(|block| block.at);
                // I8: blocks below the tag are settled only in a view that holds the tagged block.
                // One that is behind may still hold a branch that was left.
                if tagged.is_some_and(|at| !view.is_below_or_holds(at)) {
                    return debug!("settled block is not in the view yet");
                }
                let tagged = tagged.map(|at| at.number);
                if view.tagged != tagged {
                    let mut view = ChainView::clone(&view);
                    view.tagged = tagged;
                    self.view.set(view);
                }
            }
            Err(error) => warn!(%error, "settled block not known"),
        }
    }

    fn view_length(&self) -> usize {
        let needed = match self.rule {
            FinalityRule::Confirmations(count) => count,
            FinalityRule::Safe | FinalityRule::Finalized => 0,
        };
        usize::try_from(needed.saturating_add(VIEW_MARGIN)).unwrap_or(usize::MAX)
    }
}
