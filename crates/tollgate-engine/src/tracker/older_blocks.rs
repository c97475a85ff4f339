//! Checks whether blocks below the view that hold transactions of ours are still canonical.
//!
//! Owns the list of these blocks. Each is checked by itself, with growing pauses, until the answer is clear
//! or no worker asks any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_model::port::chain::BlockTag;
use tollgate_model::port::{Alert, AlertKind};
use tollgate_model::{B256, Submitter};
use tracing::warn;

use super::receipts::ReaderSetup;
use super::retry::{PAUSE_MAX, Retry, lock, run_jobs};
use crate::mailbox::WorkerEvent;
use crate::view::{ChainView, Standing};
use crate::watch::ValueSender;

/// A block that no worker has asked about for this long is no longer checked.
const WANTED_FOR: Duration = Duration::from_secs(60);

/// Checks blocks below the view.
pub(crate) struct OlderBlocks {
    setup: Arc<ReaderSetup>,
    /// At most one entry for each block that holds an unfinished transaction.
    blocks: Mutex<BTreeMap<(u64, B256), OlderBlock>>,
    changed: Notify,
}

/// A block that is in the evidence of unfinished transactions.
struct OlderBlock {
    wanted_at: Instant,
    asked_by: BTreeSet<Submitter>,
    /// The other block that the last answer showed at this height. One answer may be wrong, so the
    /// block has left the chain only if the next answer is the same.
    contradicted_by: Option<B256>,
    retry: Retry,
}

impl OlderBlocks {
    pub(crate) fn new(setup: Arc<ReaderSetup>) -> Self {
        Self { setup, blocks: Mutex::default(), changed: Notify::new() }
    }

    /// Requests a check of a block. The view shows it once it is confirmed; if it is no longer canonical,
    /// the workers that asked are notified once, and a later call checks it anew. Nothing is checked that
    /// the newest view shows already, whatever view the caller has.
    pub(crate) fn check(
        &self,
        submitter: Submitter,
        (number, hash): (u64, B256),
        newest: impl FnOnce() -> Arc<ChainView>,
    ) {
        let mut blocks = lock(&self.blocks);
        if newest().standing(number, hash) != Standing::Older {
            return;
        }
        let block = blocks.entry((number, hash)).or_insert_with(|| {
            self.changed.notify_one();
            OlderBlock {
                wanted_at: Instant::now(),
                asked_by: BTreeSet::new(),
                contradicted_by: None,
                retry: Retry::now(),
            }
        });
        block.wanted_at = Instant::now();
        block.asked_by.insert(submitter);
    }

    /// Runs for ever.
    pub(super) async fn run(&self, view: &ValueSender<ChainView>) {
        // A run that panicked left its reads in flight.
        lock(&self.blocks).values_mut().for_each(|block| block.retry.in_flight = false);
        let next_due = || lock(&self.blocks).values().filter_map(|block| block.retry.next()).min();
        let read = |at| self.read(at, view);
        run_jobs(&self.changed, || self.take_due(), next_due, read, |()| {}).await;
    }

    /// The next block that is due: those with the fewest tries first, then the lowest.
    fn take_due(&self) -> Option<(u64, B256)> {
        let now = Instant::now();
        let mut blocks = lock(&self.blocks);
        blocks.retain(|_, block| block.retry.in_flight || block.wanted_at + WANTED_FOR > now);
        let due = blocks.iter_mut().filter(|(_, block)| block.retry.is_due(now));
        let (at, first) = due.min_by_key(|(at, block)| (block.retry.tries, **at))?;
        first.retry.in_flight = true;
        Some(*at)
    }

    async fn read(&self, (number, hash): (u64, B256), view: &ValueSender<ChainView>) {
        let answer = self.setup.chain.block(BlockTag::Number(number)).await;
        // A missing answer proves nothing.
        let there = answer.ok().flatten().map(|block| block.at.hash);
        if there == Some(hash) {
            let mut blocks = lock(&self.blocks);
            let mut seen = ChainView::clone(&view.get());
            seen.confirm_older(number, hash);
            // Under the lock, so that later callers see it.
            view.set(seen);
            blocks.remove(&(number, hash));
        } else {
            self.note_contradiction(number, hash, there);
        }
    }

    /// Schedules another check, or notifies the workers that a block is no longer canonical if this is the
    /// second answer in a row that shows the same other block.
    fn note_contradiction(&self, number: u64, hash: B256, there: Option<B256>) {
        let mut blocks = lock(&self.blocks);
        let Some(block) = blocks.get_mut(&(number, hash)) else { return };
        if there.is_none() || block.contradicted_by != there {
            block.contradicted_by = there.or(block.contradicted_by);
            block.retry.failed(PAUSE_MAX);
            if there.is_none() && block.retry.take_alert(self.setup.alert_after) {
                let alerts: Vec<_> = block
                    .asked_by
                    .iter()
                    .map(|of| unread(*of, number, block.retry.tries))
                    .collect();
                drop(blocks);
                alerts.iter().for_each(|alert| self.setup.alerts.raise(alert));
            }
            return;
        }
        let asked_by = std::mem::take(&mut block.asked_by);
        blocks.remove(&(number, hash));
        drop(blocks);
        warn!(block = number, block_hash = %hash, "block below the view is no longer canonical");
        for submitter in asked_by {
            self.setup.workers.notify(submitter, vec![WorkerEvent::BlockLeft { number, hash }]);
        }
    }
}

fn unread(submitter: Submitter, number: u64, tries: u32) -> Alert {
    let detail = format!(
        "transactions in block {number} wait for finality, because no endpoint delivered the block in \
         {tries} tries"
    );
    Alert { kind: AlertKind::BlockUnread, submitter, tx_id: None, nonce: None, detail }
}
