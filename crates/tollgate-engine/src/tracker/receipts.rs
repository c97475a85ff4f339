//! Reads receipts of our transactions in blocks of the view.
//!
//! Owns the list of open reads. Each entry is read by itself, with growing pauses, until it succeeds or
//! is no longer wanted, so that one entry never delays another (I14). Revert reasons are read
//! concurrently, and only the failed transaction itself waits for its reason.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tollgate_metrics::{ChainMetrics, ReceiptResult};
use tollgate_model::port::chain::{Block, BlockReceipts, BlockRef, Chain};
use tollgate_model::port::{Alert, AlertKind, Alerts, TxReceipt};
use tollgate_model::{Submitter, TxHash};
use tracing::warn;

use super::WorkerNotifier;
use super::retry::{PAUSE_BEFORE_ALERT_MAX, PAUSE_MAX, Retry, lock, run_jobs};
use crate::context::AttemptIndex;
use crate::mailbox::WorkerEvent;
use crate::view::{ChainView, Standing};
use crate::watch::ValueSender;

/// Replays of failed transactions at once.
const REASONS_AT_ONCE: usize = 4;
const REASON_WITHIN: Duration = Duration::from_secs(5);
/// A failed transaction and its submitter.
type Failure = (Submitter, TxReceipt);

/// The dependencies of those who read and check receipts.
pub(crate) struct ReaderSetup {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) attempts: AttemptIndex,
    pub(crate) workers: Arc<dyn WorkerNotifier>,
    pub(crate) alerts: Arc<dyn Alerts>,
    pub(crate) alert_after: Duration,
    pub(crate) metrics: Arc<ChainMetrics>,
}

/// Reads pending receipts.
pub(crate) struct ReceiptReader {
    setup: Arc<ReaderSetup>,
    /// At most one entry for each open attempt, and those are bounded by the windows (I13).
    pending: Mutex<BTreeMap<TxHash, PendingReceipt>>,
    changed: Notify,
    replays: Semaphore,
}

/// A receipt that is still to be read, of a transaction in a block of the view.
struct PendingReceipt {
    block: BlockRef,
    owner: Submitter,
    retry: Retry,
}

impl ReceiptReader {
    pub(crate) fn new(setup: Arc<ReaderSetup>) -> Self {
        let (pending, replays) = (Mutex::default(), Semaphore::new(REASONS_AT_ONCE));
        Self { setup, pending, changed: Notify::new(), replays }
    }

    /// Raises an alert that the view does not move. False if no submitter has an open attempt.
    pub(super) fn alert_stall(&self, detail: String) -> bool {
        let Some(submitter) = self.setup.attempts.any_owner() else { return false };
        let kind = AlertKind::BlockUnread;
        self.setup.alerts.raise(&Alert { kind, submitter, tx_id: None, nonce: None, detail });
        true
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.setup.attempts.is_empty()
    }

    pub(super) fn alert_after(&self) -> Duration {
        self.setup.alert_after
    }

    /// Requests our receipts in a block.
    pub(super) fn request_receipts(&self, block: &Block) {
        let ours = self.setup.attempts.find(&block.transactions);
        if ours.is_empty() {
            return;
        }
        let mut pending = lock(&self.pending);
        for (hash, owner) in ours {
            let retry = Retry::now();
            pending.insert(hash, PendingReceipt { block: block.at, owner, retry });
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Runs for ever.
    pub(super) async fn run(&self, view: &ValueSender<ChainView>) {
        // A run that panicked left its reads in flight.
        lock(&self.pending).values_mut().for_each(|one| one.retry.in_flight = false);
        // At most one for each open attempt.
        let (failed, failures) = mpsc::unbounded_channel();
        let next_due = || lock(&self.pending).values().filter_map(|one| one.retry.next()).min();
        let read = async |(block, of): (BlockRef, Vec<TxHash>)| {
            let read = self.setup.chain.receipts(&block, &of).await;
            self.note_receipts(block, &of, read)
        };
        let note_failed = |all: Vec<Failure>| {
            // The receiver lives as long as this call.
            all.into_iter().for_each(|one| failed.send(one).unwrap_or_default());
        };
        let take_due = || self.take_due(&view.get());
        tokio::join!(
            run_jobs(&self.changed, take_due, next_due, read, note_failed),
            self.deliver_failures(failures),
        );
    }

    /// The next read that is due: those with the fewest tries first, then the oldest block; all receipts
    /// of a block at once.
    fn take_due(&self, view: &ChainView) -> Option<(BlockRef, Vec<TxHash>)> {
        let now = Instant::now();
        let mut pending = lock(&self.pending);
        pending.retain(|hash, one| one.retry.in_flight || self.is_wanted(*hash, one, view));
        let due = pending.values().filter(|one| one.retry.is_due(now));
        let first = due.min_by_key(|one| (one.retry.tries, one.block.number));
        let block = first?.block;
        let of_it = pending.iter_mut();
        let of_it = of_it.filter(|(_, one)| one.block == block && one.retry.is_due(now));
        let hashes = of_it.map(|(hash, one)| {
            one.retry.in_flight = true;
            *hash
        });
        Some((block, hashes.collect()))
    }

    /// True while its submitter is served here and its block is canonical.
    fn is_wanted(&self, hash: TxHash, pending: &PendingReceipt, view: &ChainView) -> bool {
        let BlockRef { number, hash: block, .. } = pending.block;
        !self.setup.attempts.find(&[hash]).is_empty()
            && view.standing(number, block) != Standing::Orphaned
    }

    /// Delivers the receipts that were read, reschedules the others, and returns failed transactions
    /// without a reason.
    fn note_receipts(
        &self,
        block: BlockRef,
        asked: &[TxHash],
        read: BlockReceipts,
    ) -> Vec<Failure> {
        let BlockReceipts { found, problem } = read;
        let checks = &self.setup.metrics.receipt_check_total;
        let missing = asked.len().saturating_sub(found.len());
        checks.add(ReceiptResult::Found, found.len() as u64);
        checks.add(ReceiptResult::Missing, missing as u64);
        let mut by_owner = BTreeMap::<Submitter, Vec<TxReceipt>>::new();
        let mut failed = Vec::new();
        let mut alerts = Vec::new();
        {
            let mut pending = lock(&self.pending);
            for receipt in found {
                // An entry of another block stays.
                let entry = pending.get(&receipt.tx_hash).filter(|entry| entry.block == block);
                let Some(owner) = entry.map(|entry| entry.owner) else { continue };
                pending.remove(&receipt.tx_hash);
                match receipt.succeeded || receipt.revert_reason.is_some() {
                    true => by_owner.entry(owner).or_default().push(receipt),
                    false => failed.push((owner, receipt)),
                }
            }
            for hash in asked {
                let entry = pending.get_mut(hash).filter(|entry| entry.block == block);
                let Some(entry) = entry else { continue };
                entry.retry.failed(match entry.retry.since.elapsed() < self.setup.alert_after {
                    true => PAUSE_BEFORE_ALERT_MAX,
                    false => PAUSE_MAX,
                });
                alerts.extend(self.alert_of(*hash, entry, problem.as_deref()));
            }
        }
        for alert in alerts {
            warn!(error = alert.detail, submitter = %alert.submitter, "receipt can't be read");
            self.setup.alerts.raise(&alert);
        }
        for (owner, receipts) in by_owner {
            let events = receipts.into_iter().map(WorkerEvent::Mined).collect();
            self.setup.workers.notify(owner, events);
        }
        failed
    }

    /// Delivers failed transactions, each as soon as its reason is known.
    async fn deliver_failures(&self, mut failures: mpsc::UnboundedReceiver<Failure>) {
        let mut replays = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(()) = replays.next(), if !replays.is_empty() => {}
                Some((owner, receipt)) = failures.recv() => {
                    replays.push(self.deliver_failure(owner, receipt));
                }
                else => return,
            }
        }
    }

    /// Delivers a failed transaction with its reason, or without it after [`REASON_WITHIN`].
    async fn deliver_failure(&self, owner: Submitter, mut receipt: TxReceipt) {
        let replay = async {
            let _place = self.replays.acquire().await.ok()?;
            self.setup.chain.revert_reason(&receipt).await
        };
        let reason = timeout(REASON_WITHIN, replay).await;
        receipt.revert_reason = reason.ok().flatten();
        self.setup.workers.notify(owner, vec![WorkerEvent::Mined(receipt)]);
    }

    /// The alert about a receipt that could not be read for long, if it is due.
    fn alert_of(
        &self,
        hash: TxHash,
        pending: &mut PendingReceipt,
        problem: Option<&str>,
    ) -> Option<Alert> {
        if !pending.retry.take_alert(self.setup.alert_after) {
            return None;
        }
        let (number, tries) = (pending.block.number, pending.retry.tries);
        let problem = problem.unwrap_or("no endpoint gave a reason");
        Some(Alert {
            kind: AlertKind::ReceiptUnread,
            submitter: pending.owner,
            tx_id: None,
            nonce: None,
            detail: format!(
                "the receipt of {hash} in block {number} could not be read in {tries} tries: {problem}"
            ),
        })
    }
}
