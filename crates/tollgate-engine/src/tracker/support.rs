//! Has the receipts of transactions confirmed by a second endpoint before they become final (I8, I16).
//!
//! Owns the list of receipts that wait for it. The rule is [`tollgate_model::receipt_support`]. Each block
//! is asked about by itself, with growing pauses, so that one dispute never delays another (I14).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_model::finality::{FinalityRule, is_settled};
use tollgate_model::port::{Alert, AlertKind, TxReceipt};
use tollgate_model::receipt_support::{ReceiptSupport, lone_is_enough};
use tollgate_model::{Submitter, TxHash};
use tracing::{info, warn};

use super::receipts::ReaderSetup;
use super::retry::{PAUSE_BEFORE_ALERT_MAX, PAUSE_MAX, Retry, lock, run_jobs};
use crate::mailbox::WorkerEvent;
use crate::view::{ChainView, Standing};
use crate::watch::ValueSender;

/// Answers further apart don't show that there was no second endpoint between them.
const LONE_APART_MAX: Duration = Duration::from_secs(60);

/// Asks for the support of receipts.
pub(crate) struct SupportChecker {
    setup: Arc<ReaderSetup>,
    rule: FinalityRule,
    /// At most one entry for each open attempt, and those are bounded by the windows (I13).
    waiting: Mutex<BTreeMap<TxHash, WaitingReceipt>>,
    /// The first and the last of the answers in a row in which no receipt had a second endpoint.
    lone: Mutex<Option<(Instant, Instant)>>,
    changed: Notify,
}

/// A receipt that waits for support.
struct WaitingReceipt {
    receipt: TxReceipt,
    owner: Submitter,
    /// The first of the answers in a row in which only one endpoint supported it.
    lone_since: Option<Instant>,
    retry: Retry,
}

impl SupportChecker {
    pub(crate) fn new(setup: Arc<ReaderSetup>, rule: FinalityRule) -> Self {
        let (waiting, lone) = (Mutex::default(), Mutex::default());
        Self { setup, rule, waiting, lone, changed: Notify::new() }
    }

    /// Returns whether receipts need support at all.
    pub(crate) fn is_needed(&self) -> bool {
        self.setup.chain.has_several_endpoints()
    }

    /// Requests support for a receipt of a transaction. Its worker is notified of the result; until then
    /// further requests change nothing.
    pub(crate) fn request(&self, owner: Submitter, receipt: &TxReceipt) {
        let mut waiting = lock(&self.waiting);
        let known = waiting.get(&receipt.tx_hash);
        if known.is_some_and(|known| known.receipt.has_outcome_of(receipt)) {
            return;
        }
        let (receipt, retry) = (receipt.clone(), Retry::now());
        let entry = WaitingReceipt { receipt, owner, lone_since: None, retry };
        waiting.insert(entry.receipt.tx_hash, entry);
        drop(waiting);
        self.changed.notify_one();
    }

    /// Runs for ever.
    pub(super) async fn run(&self, view: &ValueSender<ChainView>) {
        // A run that panicked left its questions in flight.
        lock(&self.waiting).values_mut().for_each(|one| one.retry.in_flight = false);
        let next_due = || lock(&self.waiting).values().filter_map(|one| one.retry.next()).min();
        let take_due = || self.take_due(&view.get());
        let ask = |receipts| self.ask(receipts, view);
        run_jobs(&self.changed, take_due, next_due, ask, |()| {}).await;
    }

    /// The receipts of one block that are due: those with the fewest tries first, then the oldest block.
    fn take_due(&self, view: &ChainView) -> Option<Vec<TxReceipt>> {
        let now = Instant::now();
        let mut waiting = lock(&self.waiting);
        waiting.retain(|hash, one| {
            let TxReceipt { block_number, block_hash, .. } = one.receipt;
            let is_left = view.standing(block_number, block_hash) == Standing::Orphaned;
            one.retry.in_flight || (!is_left && !self.setup.attempts.find(&[*hash]).is_empty())
        });
        let due = waiting.values().filter(|one| one.retry.is_due(now));
        let first = due.min_by_key(|one| (one.retry.tries, one.receipt.block_number))?;
        let block = first.receipt.block_hash;
        let of_it = waiting.values_mut();
        let of_it = of_it.filter(|one| one.receipt.block_hash == block && one.retry.is_due(now));
        let receipts = of_it.map(|one| {
            one.retry.in_flight = true;
            one.receipt.clone()
        });
        Some(receipts.collect())
    }

    async fn ask(&self, receipts: Vec<TxReceipt>, view: &ValueSender<ChainView>) {
        let support = self.setup.chain.receipt_support(&receipts).await;
        let all_alone = self.note_alone(&support);
        let height = view.get().height();
        for (receipt, support) in receipts.iter().zip(support) {
            let is_settled =
                height.is_some_and(|height| is_settled(self.rule, height, receipt.block_number));
            self.note_support(receipt, support, (is_settled, all_alone));
        }
    }

    /// Returns for how long no receipt has had a second endpoint in any answer. Answers far apart say nothing
    /// about the time between them.
    fn note_alone(&self, support: &[ReceiptSupport]) -> Duration {
        let (mut lone, now) = (lock(&self.lone), Instant::now());
        if support.iter().any(|support| *support != ReceiptSupport::Lone) {
            *lone = None;
            return Duration::ZERO;
        }
        let known = lone.filter(|(_, last)| now.saturating_duration_since(*last) <= LONE_APART_MAX);
        let first = known.map_or(now, |(first, _)| first);
        *lone = Some((first, now));
        now.saturating_duration_since(first)
    }

    /// Notifies the worker of a result, or schedules the next try.
    fn note_support(
        &self,
        asked: &TxReceipt,
        support: ReceiptSupport,
        (is_settled, all_alone): (bool, Duration),
    ) {
        let mut waiting = lock(&self.waiting);
        let Some(entry) = waiting.get_mut(&asked.tx_hash) else { return };
        // A newer request of the same attempt.
        if !entry.receipt.has_outcome_of(asked) {
            return;
        }
        let tx_hash = asked.tx_hash;
        let alone = match support {
            ReceiptSupport::Lone => entry.lone_since.get_or_insert_with(Instant::now).elapsed(),
            _ => {
                entry.lone_since = None;
                Duration::ZERO
            }
        };
        let events = match support {
            ReceiptSupport::Confirmed => vec![WorkerEvent::Supported(asked.clone())],
            ReceiptSupport::Lone if lone_is_enough(is_settled, alone, all_alone) => {
                info!(%tx_hash, "receipt of one endpoint used: no second one answers");
                vec![WorkerEvent::Supported(asked.clone())]
            }
            ReceiptSupport::Corrected(receipt) => {
                warn!(%tx_hash, succeeded = receipt.succeeded, "receipt of an endpoint was wrong");
                vec![WorkerEvent::Mined((*receipt).clone()), WorkerEvent::Supported(*receipt)]
            }
            ReceiptSupport::Refuted => {
                warn!(%tx_hash, block = asked.block_number, "block does not hold the transaction");
                vec![WorkerEvent::Refuted(asked.clone())]
            }
            ReceiptSupport::Lone | ReceiptSupport::Unanswered => {
                return entry.retry.failed(PAUSE_BEFORE_ALERT_MAX);
            }
            ReceiptSupport::Disputed(claims) => {
                let is_long = entry.retry.since.elapsed() >= self.setup.alert_after;
                entry.retry.failed(if is_long { PAUSE_MAX } else { PAUSE_BEFORE_ALERT_MAX });
                if entry.retry.take_alert(self.setup.alert_after) {
                    let alert = disputed(entry.owner, asked, &claims);
                    drop(waiting);
                    warn!(%tx_hash, claims, "endpoints contradict each other about a receipt");
                    self.setup.alerts.raise(&alert);
                }
                return;
            }
        };
        let owner = entry.owner;
        waiting.remove(&tx_hash);
        drop(waiting);
        self.setup.workers.notify(owner, events);
    }
}

fn disputed(submitter: Submitter, receipt: &TxReceipt, claims: &str) -> Alert {
    let TxReceipt { tx_hash, block_number, .. } = receipt;
    let detail = format!(
        "the transaction {tx_hash} in block {block_number} waits for finality, because endpoints \
         contradict each other about its receipt and none could be proven wrong: {claims}"
    );
    Alert { kind: AlertKind::ReceiptDisputed, submitter, tx_id: None, nonce: None, detail }
}
