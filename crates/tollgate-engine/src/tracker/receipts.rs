//! Reads receipts of our transactions in blocks of the view, and checks whether blocks below the view
//! that hold transactions of ours are still canonical.
//!
//! Owns the list of open reads. Each entry is read by itself, with growing pauses, until it succeeds or
//! is no longer wanted, so that one entry never delays another (I14). Revert reasons are read
//! concurrently, and only the failed transaction itself waits for its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tollgate_model::port::chain::{Block, BlockReceipts, BlockRef, BlockTag, Chain};
use tollgate_model::port::{Alert, AlertKind, Alerts, TxReceipt};
use tollgate_model::{B256, Submitter, TxHash};
use tracing::warn;

use super::WorkerNotifier;
use crate::context::AttemptIndex;
use crate::mailbox::WorkerEvent;
use crate::view::{ChainView, Standing};
use crate::watch::ValueSender;

/// Reads in flight at once (I13).
pub(super) const JOBS_MAX: usize = 8;
/// The pause after the first failed try; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause before the alert about a receipt. Its block is in the view, so endpoints have it: a
/// rate limit of some seconds must not delay it for much longer.
pub(super) const PAUSE_BEFORE_ALERT_MAX: Duration = Duration::from_secs(4);
/// The longest pause after that.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause between two alerts about the same receipt or block.
pub(super) const ALERT_REPEAT: Duration = Duration::from_secs(600);
/// Replays of failed transactions at once.
const REASONS_AT_ONCE: usize = 4;
const REASON_WITHIN: Duration = Duration::from_secs(5);
/// A block below the view that no worker has asked about for this long is no longer checked.
const OLDER_WANTED: Duration = Duration::from_secs(60);

/// The dependencies of those who read and check receipts.
pub(crate) struct ReaderSetup {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) attempts: AttemptIndex,
    pub(crate) workers: Arc<dyn WorkerNotifier>,
    pub(crate) alerts: Arc<dyn Alerts>,
    pub(crate) alert_after: Duration,
}

/// Reads pending receipts and checks blocks below the view.
pub(crate) struct ReceiptReader {
    setup: Arc<ReaderSetup>,
    /// At most one entry for each open attempt, and those are bounded by the windows (I13).
    pending: Mutex<BTreeMap<TxHash, PendingReceipt>>,
    /// At most one entry for each block below the view that holds an unfinished transaction.
    older: Mutex<BTreeMap<(u64, B256), OlderBlock>>,
    changed: Notify,
    replays: Semaphore,
}

/// When a read is tried.
#[derive(Clone, Copy)]
pub(super) struct Retry {
    pub(super) tries: u32,
    pub(super) due: Instant,
    pub(super) in_flight: bool,
}

impl Retry {
    pub(super) fn now() -> Self {
        Self { tries: 0, due: Instant::now(), in_flight: false }
    }

    pub(super) fn failed(&mut self, pause_max: Duration) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.tries.min(16)).min(pause_max);
        *self = Self { tries: self.tries + 1, due: Instant::now() + pause, in_flight: false };
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.in_flight && self.due <= now
    }
}

/// A receipt that is still to be read, of a transaction in a block of the view.
struct PendingReceipt {
    block: BlockRef,
    owner: Submitter,
    since: Instant,
    alerted: Option<Instant>,
    retry: Retry,
}

/// A block below the view that is in the evidence of unfinished transactions.
struct OlderBlock {
    wanted_at: Instant,
    asked_by: BTreeSet<Submitter>,
    /// The other block that the last answer showed at this height. One answer may be wrong, so the
    /// block has left the chain only if the next answer is the same.
    contradicted_by: Option<B256>,
    retry: Retry,
}

/// One read.
enum ReadJob {
    Receipts(BlockRef, Vec<TxHash>),
    Older(u64, B256),
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReceiptReader {
    pub(crate) fn new(setup: Arc<ReaderSetup>) -> Self {
        let (pending, older) = (Mutex::default(), Mutex::default());
        let replays = Semaphore::new(REASONS_AT_ONCE);
        Self { setup, pending, older, changed: Notify::new(), replays }
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
            let (block, since, retry) = (block.at, Instant::now(), Retry::now());
            pending.insert(hash, PendingReceipt { block, owner, since, alerted: None, retry });
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Requests a check of a block below the view. The view shows it once it is confirmed; if it is no
    /// longer canonical, the workers that asked are notified once, and a later call checks it anew.
    /// Nothing is checked that the newest view shows already, whatever view the caller has.
    pub(crate) fn check_older(
        &self,
        submitter: Submitter,
        (number, hash): (u64, B256),
        newest: impl FnOnce() -> Arc<ChainView>,
    ) {
        let mut older = lock(&self.older);
        if newest().standing(number, hash) != Standing::Older {
            return;
        }
        let block = older.entry((number, hash)).or_insert_with(|| {
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
        lock(&self.pending).values_mut().for_each(|one| one.retry.in_flight = false);
        lock(&self.older).values_mut().for_each(|older| older.retry.in_flight = false);
        let mut jobs = FuturesUnordered::new();
        // At most one for each open attempt.
        let mut reasons = FuturesUnordered::new();
        loop {
            while jobs.len() < JOBS_MAX
                && let Some(job) = self.take_due(&view.get())
            {
                jobs.push(self.run_job(job, view));
            }
            let has_room = jobs.len() < JOBS_MAX;
            let next = self.next_due();
            let due = async {
                match next {
                    Some(at) if has_room => sleep_until(at).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(failed) = jobs.next(), if !jobs.is_empty() => {
                    let failed: Vec<(Submitter, TxReceipt)> = failed;
                    let told = failed.into_iter().map(|(owner, it)| self.deliver_failure(owner, it));
                    reasons.extend(told);
                }
                Some(()) = reasons.next(), if !reasons.is_empty() => {}
                () = self.changed.notified() => {}
                () = due => {}
            }
        }
    }

    /// The next read that is due: those with the fewest tries first, then the oldest block; all receipts
    /// of a block at once.
    fn take_due(&self, view: &ChainView) -> Option<ReadJob> {
        let now = Instant::now();
        let mut pending = lock(&self.pending);
        pending.retain(|hash, one| one.retry.in_flight || self.is_wanted(*hash, one, view));
        let due = pending.values().filter(|one| one.retry.is_due(now));
        let first = due.min_by_key(|one| (one.retry.tries, one.block.number));
        if let Some(block) = first.map(|one| one.block) {
            let of_it = pending.iter_mut();
            let of_it = of_it.filter(|(_, one)| one.block == block && one.retry.is_due(now));
            let hashes = of_it.map(|(hash, one)| {
                one.retry.in_flight = true;
                *hash
            });
            return Some(ReadJob::Receipts(block, hashes.collect()));
        }
        drop(pending);
        let mut older = lock(&self.older);
        older.retain(|_, one| one.retry.in_flight || one.wanted_at + OLDER_WANTED > now);
        let due = older.iter_mut().filter(|(_, one)| one.retry.is_due(now));
        let ((number, hash), first) = due.min_by_key(|(at, one)| (one.retry.tries, **at))?;
        first.retry.in_flight = true;
        Some(ReadJob::Older(*number, *hash))
    }

    /// True while its submitter is served here and its block is canonical.
    fn is_wanted(&self, hash: TxHash, pending: &PendingReceipt, view: &ChainView) -> bool {
        let BlockRef { number, hash: block, .. } = pending.block;
        !self.setup.attempts.find(&[hash]).is_empty()
            && view.standing(number, block) != Standing::Orphaned
    }

    fn next_due(&self) -> Option<Instant> {
        let waits = |retry: &Retry| (!retry.in_flight).then_some(retry.due);
        let receipts = lock(&self.pending).values().filter_map(|one| waits(&one.retry)).min();
        let older = lock(&self.older).values().filter_map(|one| waits(&one.retry)).min();
        receipts.into_iter().chain(older).min()
    }

    /// Does one read; returns failed transactions whose reasons are still to be read.
    async fn run_job(
        &self,
        job: ReadJob,
        view: &ValueSender<ChainView>,
    ) -> Vec<(Submitter, TxReceipt)> {
        match job {
            ReadJob::Receipts(block, of) => {
                let read = self.setup.chain.receipts(&block, &of).await;
                self.note_receipts(block, &of, read)
            }
            ReadJob::Older(number, hash) => {
                let answer = self.setup.chain.block(BlockTag::Number(number)).await;
                // A missing answer proves nothing.
                let there = answer.ok().flatten().map(|block| block.at.hash);
                if there == Some(hash) {
                    let mut older = lock(&self.older);
                    let mut seen = ChainView::clone(&view.get());
                    seen.confirm_older(number, hash);
                    // Under the lock, so that later callers see it.
                    view.set(seen);
                    older.remove(&(number, hash));
                } else {
                    self.note_contradiction(number, hash, there);
                }
                Vec::new()
            }
        }
    }

    /// Schedules another check, or notifies the workers that a block below the view is no longer
    /// canonical if this is the second answer in a row that shows the same other block.
    fn note_contradiction(&self, number: u64, hash: B256, there: Option<B256>) {
        let mut older = lock(&self.older);
        let Some(block) = older.get_mut(&(number, hash)) else { return };
        if there.is_none() || block.contradicted_by != there {
            block.contradicted_by = there.or(block.contradicted_by);
            block.retry.failed(PAUSE_MAX);
            return;
        }
        let asked_by = std::mem::take(&mut block.asked_by);
        older.remove(&(number, hash));
        drop(older);
        warn!(number, %hash, "block below the view is no longer canonical");
        for submitter in asked_by {
            self.setup.workers.notify(submitter, vec![WorkerEvent::BlockLeft { number, hash }]);
        }
    }

    /// Delivers the receipts that were read, reschedules the others, and returns failed transactions
    /// without a reason.
    fn note_receipts(
        &self,
        block: BlockRef,
        asked: &[TxHash],
        read: BlockReceipts,
    ) -> Vec<(Submitter, TxReceipt)> {
        let BlockReceipts { found, problem } = read;
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
                entry.retry.failed(match entry.since.elapsed() < self.setup.alert_after {
                    true => PAUSE_BEFORE_ALERT_MAX,
                    false => PAUSE_MAX,
                });
                alerts.extend(self.alert_of(*hash, entry, problem.as_deref()));
            }
        }
        for alert in alerts {
            warn!(problem = alert.detail, submitter = %alert.submitter, "receipt can't be read");
            self.setup.alerts.raise(&alert);
        }
        for (owner, receipts) in by_owner {
            let events = receipts.into_iter().map(WorkerEvent::Mined).collect();
            self.setup.workers.notify(owner, events);
        }
        failed
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
        let now = Instant::now();
        let is_long = now.saturating_duration_since(pending.since) >= self.setup.alert_after;
        let is_recent =
            pending.alerted.is_some_and(|at| now.saturating_duration_since(at) < ALERT_REPEAT);
        if !is_long || is_recent {
            return None;
        }
        pending.alerted = Some(now);
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
