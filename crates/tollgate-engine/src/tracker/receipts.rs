//! Reads receipts of our transactions in blocks of the view, and hashes of blocks below it.
//!
//! Owns the list of what is still to be read. Each entry is asked for by itself until it is read or
//! no longer wanted, with growing pauses; who waits for one thing waits for nothing else (I14). The
//! first try and every later one are the same code.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tollgate_model::port::chain::{Block, BlockReceipts, BlockRef, BlockTag, Chain};
use tollgate_model::port::{Alert, AlertKind, Alerts, MinedIn};
use tollgate_model::{Submitter, TxHash};
use tracing::warn;

use super::Tell;
use crate::context::AttemptIndex;
use crate::newest::Shown;
use crate::view::{ChainView, Standing};

/// Questions that are open at once (I13).
const JOBS_MAX: usize = 8;
/// The pause after the first try in vain; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How soon an alert about the same receipt is repeated.
const ALERT_REPEAT: Duration = Duration::from_secs(600);
/// Replays of failed transactions of one block at once, and how long all of them may take.
const REASONS_AT_ONCE: usize = 4;
const REASONS_WITHIN: Duration = Duration::from_secs(5);
/// A hash below the view that nobody has asked for again in this time is not wanted any more.
const OLDER_WANTED: Duration = Duration::from_secs(60);

/// What the reader works with.
pub(crate) struct ReaderSetup {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) attempts: AttemptIndex,
    pub(crate) tell: Arc<dyn Tell>,
    pub(crate) alerts: Arc<dyn Alerts>,
    /// How long a receipt may be unread before people are told.
    pub(crate) alert_after: Duration,
}

/// Reads what the view's blocks owe us.
pub(crate) struct ReceiptReader {
    setup: ReaderSetup,
    /// At most one entry for each open attempt, and those are bounded by the windows (I13).
    owed: Mutex<BTreeMap<TxHash, Owed>>,
    /// At most one entry for each block below the view that holds an unfinished transaction.
    older: Mutex<BTreeMap<u64, Older>>,
    changed: Notify,
}

/// When something is tried.
#[derive(Clone, Copy)]
struct Retry {
    tries: u32,
    due: Instant,
    in_flight: bool,
}

impl Retry {
    fn now() -> Self {
        Self { tries: 0, due: Instant::now(), in_flight: false }
    }

    fn failed(&mut self) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.tries.min(16)).min(PAUSE_MAX);
        *self = Self { tries: self.tries + 1, due: Instant::now() + pause, in_flight: false };
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.in_flight && self.due <= now
    }
}

/// A receipt that a block of the view owes us.
struct Owed {
    block: BlockRef,
    owner: Submitter,
    since: Instant,
    alerted: Option<Instant>,
    retry: Retry,
}

/// A block below the view whose hash somebody needs.
struct Older {
    wanted_at: Instant,
    retry: Retry,
}

/// One question.
enum Job {
    Receipts(BlockRef, Vec<TxHash>),
    Older(u64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReceiptReader {
    pub(crate) fn new(setup: ReaderSetup) -> Self {
        let (owed, older) = (Mutex::default(), Mutex::default());
        Self { setup, owed, older, changed: Notify::new() }
    }

    /// Has our receipts in a block read.
    pub(super) fn owe(&self, block: &Block) {
        let ours = self.setup.attempts.find(&block.transactions);
        if ours.is_empty() {
            return;
        }
        let mut owed = lock(&self.owed);
        for (hash, owner) in ours {
            let (since, retry) = (Instant::now(), Retry::now());
            owed.insert(hash, Owed { block: block.at, owner, since, alerted: None, retry });
        }
        drop(owed);
        self.changed.notify_one();
    }

    /// Has the hash of a canonical block below the view read; the view shows it when it is.
    pub(crate) fn want_older(&self, number: u64) {
        let wanted_at = Instant::now();
        match lock(&self.older).entry(number) {
            Entry::Occupied(mut known) => known.get_mut().wanted_at = wanted_at,
            Entry::Vacant(new) => {
                new.insert(Older { wanted_at, retry: Retry::now() });
                self.changed.notify_one();
            }
        }
    }

    /// Reads for ever.
    pub(super) async fn run(&self, view: &Shown<ChainView>) {
        // A run that died left its questions open.
        lock(&self.owed).values_mut().for_each(|owed| owed.retry.in_flight = false);
        lock(&self.older).values_mut().for_each(|older| older.retry.in_flight = false);
        let mut jobs = FuturesUnordered::new();
        loop {
            while jobs.len() < JOBS_MAX
                && let Some(job) = self.take_due(&view.get())
            {
                jobs.push(self.carry_out(job, view));
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
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
                () = self.changed.notified() => {}
                () = due => {}
            }
        }
    }

    /// What is due: what was never tried first, the oldest block of it; all of that block at once.
    fn take_due(&self, view: &ChainView) -> Option<Job> {
        let now = Instant::now();
        let mut owed = lock(&self.owed);
        owed.retain(|hash, owed| owed.retry.in_flight || self.is_wanted(*hash, owed, view));
        let due = owed.values().filter(|owed| owed.retry.is_due(now));
        let first = due.min_by_key(|owed| (owed.retry.tries, owed.block.number));
        if let Some(block) = first.map(|owed| owed.block) {
            let of_it = owed.iter_mut();
            let of_it = of_it.filter(|(_, o)| o.block == block && o.retry.is_due(now));
            let hashes = of_it.map(|(hash, owed)| {
                owed.retry.in_flight = true;
                *hash
            });
            return Some(Job::Receipts(block, hashes.collect()));
        }
        drop(owed);
        let mut older = lock(&self.older);
        older.retain(|_, one| one.retry.in_flight || one.wanted_at + OLDER_WANTED > now);
        let due = older.iter_mut().filter(|(_, one)| one.retry.is_due(now));
        let (number, first) = due.min_by_key(|(number, one)| (one.retry.tries, **number))?;
        first.retry.in_flight = true;
        Some(Job::Older(*number))
    }

    /// Its submitter is still worked for here, and its block has not left the chain.
    fn is_wanted(&self, hash: TxHash, owed: &Owed, view: &ChainView) -> bool {
        let BlockRef { number, hash: block, .. } = owed.block;
        !self.setup.attempts.find(&[hash]).is_empty()
            && view.standing(number, block) != Standing::Orphaned
    }

    fn next_due(&self) -> Option<Instant> {
        let waits = |retry: &Retry| (!retry.in_flight).then_some(retry.due);
        let receipts = lock(&self.owed).values().filter_map(|owed| waits(&owed.retry)).min();
        let older = lock(&self.older).values().filter_map(|one| waits(&one.retry)).min();
        receipts.into_iter().chain(older).min()
    }

    async fn carry_out(&self, job: Job, view: &Shown<ChainView>) {
        match job {
            Job::Receipts(block, of) => {
                let read = self.setup.chain.receipts(&block, &of).await;
                self.note_receipts(block, &of, read).await;
            }
            Job::Older(number) => {
                let there = self.setup.chain.block(BlockTag::Number(number)).await;
                let mut older = lock(&self.older);
                match there {
                    Ok(Some(block)) => {
                        older.remove(&number);
                        let mut seen = ChainView::clone(&view.get());
                        seen.note_older(number, block.at.hash);
                        view.show(seen);
                    }
                    // No answer is no proof.
                    Ok(None) | Err(_) => {
                        if let Some(one) = older.get_mut(&number) {
                            one.retry.failed();
                        }
                    }
                }
            }
        }
    }

    /// Delivers what was read at once, failures after their reasons were looked for; puts aside what
    /// was not.
    async fn note_receipts(&self, block: BlockRef, asked: &[TxHash], read: BlockReceipts) {
        let BlockReceipts { found, problem, .. } = read;
        let mut told = BTreeMap::<Submitter, Vec<MinedIn>>::new();
        let mut failed = Vec::new();
        let mut alerts = Vec::new();
        {
            let mut owed = lock(&self.owed);
            for receipt in found {
                // The entry of another block, meanwhile, stays.
                let entry = owed.get(&receipt.tx_hash).filter(|entry| entry.block == block);
                let Some(owner) = entry.map(|entry| entry.owner) else { continue };
                owed.remove(&receipt.tx_hash);
                match receipt.succeeded || receipt.revert_reason.is_some() {
                    true => told.entry(owner).or_default().push(receipt),
                    false => failed.push((owner, receipt)),
                }
            }
            for hash in asked {
                let entry = owed.get_mut(hash).filter(|entry| entry.block == block);
                let Some(entry) = entry else { continue };
                entry.retry.failed();
                alerts.extend(self.alert_of(*hash, entry, problem.as_deref()));
            }
        }
        for alert in alerts {
            warn!(problem = alert.detail, submitter = %alert.submitter, "receipt can't be read");
            self.setup.alerts.raise(&alert);
        }
        self.tell_all(told);
        self.tell_all(self.explained(failed).await);
    }

    fn tell_all(&self, receipts: BTreeMap<Submitter, Vec<MinedIn>>) {
        for (owner, receipts) in receipts {
            self.setup.tell.mined(owner, receipts);
        }
    }

    /// Adds reasons to failures, as far as they can be found out in time.
    async fn explained(
        &self,
        failed: Vec<(Submitter, MinedIn)>,
    ) -> BTreeMap<Submitter, Vec<MinedIn>> {
        let ends = Instant::now() + REASONS_WITHIN;
        let explained = stream::iter(failed).map(|(owner, mut receipt)| async move {
            let left = ends.saturating_duration_since(Instant::now());
            let reason = timeout(left, self.setup.chain.revert_reason(&receipt)).await;
            receipt.revert_reason = reason.ok().flatten();
            (owner, receipt)
        });
        let mut told = BTreeMap::<Submitter, Vec<MinedIn>>::new();
        let mut explained = explained.buffered(REASONS_AT_ONCE);
        while let Some((owner, receipt)) = explained.next().await {
            told.entry(owner).or_default().push(receipt);
        }
        told
    }

    /// What people are told about a receipt that could not be read for a while.
    fn alert_of(&self, hash: TxHash, owed: &mut Owed, problem: Option<&str>) -> Option<Alert> {
        let now = Instant::now();
        let is_long = now.saturating_duration_since(owed.since) >= self.setup.alert_after;
        let is_said =
            owed.alerted.is_some_and(|at| now.saturating_duration_since(at) < ALERT_REPEAT);
        if !is_long || is_said {
            return None;
        }
        owed.alerted = Some(now);
        let (number, tries) = (owed.block.number, owed.retry.tries);
        let problem = problem.unwrap_or("every endpoint shows another block there");
        Some(Alert {
            kind: AlertKind::ReceiptUnread,
            submitter: owed.owner,
            tx_id: None,
            nonce: None,
            detail: format!(
                "the receipt of {hash} in block {number} could not be read in {tries} tries: {problem}"
            ),
        })
    }
}
