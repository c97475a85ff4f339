//! Follows the head of a chain and notifies workers of their receipts.
//!
//! Owns the canonical view. Each new block costs one lookup of its hashes and one read of our receipts,
//! however many transactions are pending. Never writes to the store.
//!
//! The view is extended block by block. A block that can't be read leaves the blocks below it in the
//! view, and the next try continues from there. If it can't be read for `receipt_alert_after` although
//! the head can, an alert is raised and the view continues above it: transactions in the skipped blocks
//! are found by their hashes (I15). Receipts are read concurrently ([`receipts`]), so that one that can't
//! be read delays no other (I14, I15).

mod block_buffer;
mod older_blocks;
mod receipts;
mod retry;
mod stall;
mod support;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;
use tollgate_metrics::ChainMetrics;
use tollgate_model::Submitter;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::{Block, BlockRef, BlockTag, Chain, ChainUnavailable};
use tollgate_model::port::clock::Clock;
use tracing::{debug, warn};

use crate::mailbox::WorkerEvent;
use crate::view::ChainView;
use crate::watch::ValueSender;
use block_buffer::{AHEAD_MAX, BlockBuffer};
pub(crate) use older_blocks::OlderBlocks;
pub(crate) use receipts::{ReaderSetup, ReceiptReader};
use stall::Stall;
pub(crate) use support::SupportChecker;

/// Blocks that the view keeps beyond those that finality needs.
const VIEW_MARGIN: u64 = 128;
/// The first pause after a try that did not reach the head; it doubles while no block is delivered.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The interval at which the finality tag is read while there is no new block. On some chains it advances without
/// one, and its last read may have failed.
const TAG_INTERVAL: Duration = Duration::from_secs(2);
/// A longer gap, after a long outage, is not closed block by block. Transactions in the skipped blocks are
/// found by their hashes when they are due to be resent.
const GAP_MAX: u64 = 4_096;

/// Notifies the worker of a submitter. Never blocks.
pub(crate) trait WorkerNotifier: Send + Sync + 'static {
    fn notify(&self, submitter: Submitter, events: Vec<WorkerEvent>);
}

/// Follows one chain.
pub(crate) struct Tracker {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) rule: FinalityRule,
    pub(crate) reader: Arc<ReceiptReader>,
    pub(crate) older_blocks: Arc<OlderBlocks>,
    pub(crate) support: Arc<SupportChecker>,
    pub(crate) view: ValueSender<ChainView>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<ChainMetrics>,
}

impl Tracker {
    /// Runs until the view has no readers any more.
    pub(crate) async fn run(self: Arc<Self>) {
        // One task, so that their changes of the view are never interleaved.
        tokio::select! {
            biased;
            () = self.follow() => {}
            () = self.follow_tag() => {}
            () = self.reader.run(&self.view) => {}
            () = self.older_blocks.run(&self.view) => {}
            () = self.support.run(&self.view) => {}
        }
    }

    async fn follow(&self) {
        let (mut buffer, mut stall, mut pause) =
            (BlockBuffer::default(), Stall::default(), PAUSE_MIN);
        while !self.view.is_closed() {
            // A head counts once its block was delivered.
            let known = self.view.get().head();
            let reached = match self.chain.head_after(known).await {
                Ok(head) => self.advance(head, &mut buffer, &mut stall).await.map(|()| head),
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

    /// Reads the finality tag regularly while a transaction waits for it, whether or not the head moves.
    async fn follow_tag(&self) {
        while !self.view.is_closed() {
            tokio::time::sleep(TAG_INTERVAL).await;
            if self.reader.is_waited_for() {
                self.refresh_tag().await;
            }
        }
    }

    /// Extends the view towards a head as far as blocks are delivered. Delivered blocks stay in the view
    /// whatever fails after them.
    async fn advance(
        &self,
        head: BlockRef,
        buffer: &mut BlockBuffer,
        stall: &mut Stall,
    ) -> Result<(), ChainUnavailable> {
        let before = self.view.get().head();
        let mut extended = self.extend(head, buffer).await;
        match &extended {
            Ok(()) => stall.end(),
            Err(error) => {
                stall.note_failure(self.view.get().head(), Instant::now());
                self.alert_if_stalled(stall, error);
                if self.skip_to(head, buffer, stall).await {
                    extended = Ok(());
                }
            }
        }
        // Tries in vain read no tag; it is read now and then whatever the head does (`follow_tag`).
        if self.view.get().head() != before {
            self.refresh_tag().await;
        }
        extended
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

    /// Continues at the head if the block above the view could not be read for long although the head
    /// could, with the blocks below the head that are delivered. Returns whether it did.
    async fn skip_to(&self, head: BlockRef, buffer: &mut BlockBuffer, stall: &mut Stall) -> bool {
        if !stall.is_head_check_due(Instant::now()) {
            return false;
        }
        let Ok(block) = self.fetch(head.number).await else { return false };
        if !stall.may_skip(Instant::now(), self.reader.alert_after()) {
            return false;
        }
        let (branch, _) = self.branch_below(block, buffer).await;
        let from = self.view.get().head().map(|top| top.number);
        let to = branch.first().map(|block| block.at.number);
        warn!(?from, ?to, "blocks left out because they can't be read");
        self.add(&branch);
        stall.end();
        true
    }

    async fn extend(
        &self,
        head: BlockRef,
        buffer: &mut BlockBuffer,
    ) -> Result<(), ChainUnavailable> {
        let top = self.view.get().head();
        match top {
            Some(top) if head.number > top.number && head.number - top.number <= GAP_MAX => {}
            Some(top) if head.number > top.number => return self.skip_gap(top, head, buffer).await,
            // The first block, or another branch that is not longer.
            Some(_) | None => {
                let block = self.fetch(head.number).await?;
                return self.add_branch(block, buffer).await;
            }
        }
        self.extend_to(head.number, buffer).await
    }

    /// Adds block after block up to this number.
    async fn extend_to(&self, last: u64, buffer: &mut BlockBuffer) -> Result<(), ChainUnavailable> {
        while let Some(top) = self.view.get().head().filter(|top| top.number < last) {
            if let Some(block) = buffer.child_of(top) {
                self.add(&[block]);
                continue;
            }
            let next = self.fetch_from(top.number + 1, last, buffer).await?;
            if next.at.parent == top.hash {
                self.add(&[next]);
            } else {
                self.add_branch(next, buffer).await?;
            }
        }
        Ok(())
    }

    /// Fetches the next few blocks at once; returns the first and buffers the others.
    async fn fetch_from(
        &self,
        next: u64,
        head: u64,
        buffer: &mut BlockBuffer,
    ) -> Result<Block, ChainUnavailable> {
        let last = head.min(next.saturating_add(buffer.ahead() - 1));
        let wanted = (next..=last).filter(|number| *number == next || !buffer.has(*number));
        let mut answers = stream::iter(wanted.collect::<Vec<_>>())
            .map(|number| async move { (number, self.fetch(number).await) })
            .buffered(AHEAD_MAX as usize);
        let mut first = Err(ChainUnavailable(format!("block {next} was not asked for")));
        let mut all_delivered = true;
        while let Some((number, answer)) = answers.next().await {
            all_delivered &= answer.is_ok();
            if number == next {
                first = answer;
            } else if let Ok(block) = answer {
                buffer.keep(block, self.view_length());
            }
        }
        buffer.note_fetch(first.is_ok(), all_delivered);
        first
    }

    async fn fetch(&self, number: u64) -> Result<Block, ChainUnavailable> {
        let block = self.chain.block(BlockTag::Number(number)).await?;
        block.ok_or_else(|| ChainUnavailable(format!("block {number} is not there yet")))
    }

    /// Adds a block that need not be a child of the view's head, with those below it down to a block of
    /// the view. The view changes once the whole branch was delivered.
    async fn add_branch(
        &self,
        block: Block,
        buffer: &mut BlockBuffer,
    ) -> Result<(), ChainUnavailable> {
        let (branch, whole) = self.branch_below(block, buffer).await;
        whole?;
        self.add(&branch);
        Ok(())
    }

    /// A block with those below it down to a child of a block in the view, oldest first. If one of them
    /// was not delivered: the part above it, and the error.
    async fn branch_below(
        &self,
        block: Block,
        buffer: &mut BlockBuffer,
    ) -> (Vec<Block>, Result<(), ChainUnavailable>) {
        let mut branch = vec![block];
        let whole = self.complete_branch(&mut branch, buffer).await;
        branch.reverse();
        (branch, whole)
    }

    async fn complete_branch(
        &self,
        branch: &mut Vec<Block>,
        buffer: &mut BlockBuffer,
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
            let below = match buffer.parent_of(lowest) {
                Some(block) => block,
                None => self.fetch(lowest.number - 1).await?,
            };
            if below.at.hash != lowest.parent {
                let number = below.at.number;
                return Err(ChainUnavailable(format!("block {number} changed meanwhile")));
            }
            buffer.keep(below.clone(), self.view_length());
            branch.push(below);
        }
        Ok(())
    }

    /// Continues at a head that is too far away to fetch all blocks below it, once its block was
    /// delivered.
    async fn skip_gap(
        &self,
        top: BlockRef,
        head: BlockRef,
        buffer: &mut BlockBuffer,
    ) -> Result<(), ChainUnavailable> {
        let block = match self.fetch(head.number).await {
            Ok(block) => block,
            // The announcement may be wrong: take as many blocks as there are. One block for each
            // announcement would fall behind a chain with fast blocks for ever.
            Err(_) => return self.extend_to(top.number + GAP_MAX, buffer).await,
        };
        let (from, to) = (top.number, block.at.number);
        self.add_branch(block, buffer).await?;
        let (first, _) = self.view.get().hashes_from(0);
        warn!(from, to, "blocks left out after a long gap");
        // If no transaction is open, there is nobody to alert.
        let _is_raised = self.reader.alert_stall(format!(
            "blocks {} to {} were left out because {} blocks had to be caught up with; \
             transactions in them are found by their hashes when they are due to be sent again",
            from + 1,
            first.saturating_sub(1),
            to - from,
        ));
        Ok(())
    }

    /// Adds these blocks to the view, and requests our receipts in them.
    fn add(&self, blocks: &[Block]) {
        let mut view = ChainView::clone(&self.view.get());
        let refs: Vec<BlockRef> = blocks.iter().map(|block| block.at).collect();
        let replaced = view.extend(&refs, self.view_length());
        debug!(block = ?view.head().map(|head| head.number), replaced, "view moved");
        if replaced > 0 {
            self.metrics.reorg_total.inc();
        }
        if let Some(head) = view.head() {
            self.metrics.head.note(head.number, self.clock.now());
        }
        // The view first, because receipts are judged by it.
        self.view.set(view);
        for block in blocks {
            self.reader.request_receipts(block);
        }
    }

    /// Reads the finality tag, if the rule has one. An error changes nothing.
    async fn refresh_tag(&self) {
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
                // A view that is behind may still hold a branch that was replaced.
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
