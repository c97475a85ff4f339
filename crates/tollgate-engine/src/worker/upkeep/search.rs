//! Looks for proof of what is in slots that the chain has used, beside the worker's own work. Owns what is known
//! of each slot.
//!
//! One search at a time, of a few slots: endpoints that are slow, and histories that are long, delay
//! nobody who wants to send (I14). What a search brings is judged by the model; that it brings
//! nothing is never evidence (I8).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tollgate_model::port::TxUpdate;
use tollgate_model::port::chain::{Occupant, SlotSearch};
use tollgate_model::reconcile::{ReceiptLookup, Search, judge_search};
use tollgate_model::{B256, Nonce, StuckReason, Submitter, Timestamp, TxHash, TxState};
use tracing::{Instrument, warn};

use super::Upkeep;
use crate::context::Context;
use crate::mailbox::{SlotFindings, WorkerEvent};
use crate::view::{ChainView, Standing};
use crate::worker::evidence::record_receipts;
use crate::worker::in_flight::InFlightTx;
use crate::worker::{Session, Stop};

/// Slots of one search (I13); the others follow.
const SLOTS_MAX: usize = 16;
/// Slots whose receipts are looked for at once.
const AT_ONCE: usize = 4;
/// The pause after the first search in vain; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause while endpoints did not answer: they may be throttled for a moment only.
const PAUSE_UNANSWERED_MAX: Duration = Duration::from_secs(4);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A slot whose transaction is to be found.
struct WantedSlot {
    nonce: Nonce,
    /// All attempts, first to last.
    attempts: Vec<TxHash>,
    /// Receipts that were proven wrong, by hash and block.
    refuted: Vec<(TxHash, B256)>,
}

/// The search that is under way.
#[derive(Default)]
pub(super) struct SlotSearches {
    task: Option<JoinHandle<()>>,
}

impl SlotSearches {
    fn is_under_way(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl Drop for SlotSearches {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Knowledge about the transaction in a slot that the chain has used.
#[derive(Clone, Debug)]
pub(in crate::worker) struct SlotKnowledge {
    result: Search,
    /// Since when searches bring no proof.
    unproven_since: Option<Timestamp>,
    /// The reason, for people.
    problem: Option<String>,
    tries: u32,
    /// The next search begins no earlier.
    due_at: Option<Timestamp>,
}

impl SlotKnowledge {
    pub(in crate::worker) const NONE: Self = Self {
        result: Search::NotYet,
        unproven_since: None,
        problem: None,
        tries: 0,
        due_at: None,
    };

    /// The knowledge of a new owner: since when searches of earlier owners brought no proof.
    pub(in crate::worker) const fn taken_over(unproven_since: Option<Timestamp>) -> Self {
        Self { unproven_since, ..Self::NONE }
    }

    /// Has the slot searched anew. Patience goes on: a receipt that can't be taken notice of, and a
    /// further attempt, prove nothing.
    pub(in crate::worker) fn search_again(&mut self) {
        *self = Self::taken_over(self.unproven_since);
    }

    const fn is_in_vain(&self) -> bool {
        matches!(self.result, Search::ReceiptMissing { .. } | Search::InVain)
    }

    /// Notes a search. `unanswered` is how many answers about receipts were missing.
    fn note(&mut self, result: Search, problem: Option<String>, unanswered: usize, now: Timestamp) {
        let receipt_unknown = matches!(result, Search::ReceiptMissing { .. }) && unanswered > 0;
        let problem = match receipt_unknown {
            true => Some(format!("its receipt is not known: {unanswered} answers are missing")),
            false => problem,
        };
        let is_proven = match result {
            Search::Ours { .. } | Search::Foreign { .. } => true,
            Search::NotYet | Search::ReceiptMissing { .. } | Search::InVain => false,
        };
        let unproven_since = match result {
            Search::Foreign { .. } => None,
            // Proven once its receipt is taken notice of.
            Search::Ours { .. } | Search::NotYet => self.unproven_since,
            Search::ReceiptMissing { .. } | Search::InVain => self.unproven_since.or(Some(now)),
        };
        let (result, tries) = (result, if is_proven { 0 } else { self.tries.saturating_add(1) });
        let pause_max = if receipt_unknown { PAUSE_UNANSWERED_MAX } else { PAUSE_MAX };
        let pause = PAUSE_MIN.saturating_mul(1 << self.tries.min(8)).min(pause_max);
        let due_at = Some(now.after(pause));
        *self = Self { result, unproven_since, problem, tries, due_at };
    }

    pub(in crate::worker) const fn result(&self) -> Search {
        self.result
    }

    pub(in crate::worker) const fn unproven_since(&self) -> Option<Timestamp> {
        self.unproven_since
    }

    /// Forgets a transaction that was seen in one of these blocks, which left the chain.
    pub(in crate::worker) fn forget_blocks(&mut self, left: &HashSet<(u64, B256)>) {
        let seen = self.occupant().map(|seen| (seen.block_number, seen.block_hash));
        if seen.is_some_and(|block| left.contains(&block)) {
            *self = Self::NONE;
        }
    }

    /// The transaction that was seen in the slot, if one was.
    pub(in crate::worker) const fn occupant(&self) -> Option<Occupant> {
        match self.result {
            Search::Foreign { seen } | Search::ReceiptMissing { seen, .. } => Some(seen),
            Search::NotYet | Search::Ours { .. } | Search::InVain => None,
        }
    }

    /// The reason why nothing is proven, for people.
    pub(in crate::worker) fn reason(&self) -> String {
        match self.result {
            Search::ReceiptMissing { seen: Occupant { tx_hash, block_number, .. }, .. } => {
                let why = self.problem.as_deref().unwrap_or("no endpoint has its receipt");
                format!("block {block_number} holds {tx_hash}, which is ours, and {why}")
            }
            Search::NotYet | Search::Ours { .. } | Search::Foreign { .. } | Search::InVain => {
                let why = self.problem.as_deref().unwrap_or("too few endpoints could tell");
                format!("the chain has used the slot, and nobody shows by what: {why}")
            }
        }
    }
}

impl SlotSearches {
    /// Has the slots searched that are due, unless a search is under way. What is not begun now is begun at a
    /// later comparison.
    pub(super) fn begin(&mut self, session: &mut Session, wanted: &[Nonce], now: Timestamp) {
        let mut due = Vec::new();
        let in_flight = session.state.in_flight();
        for tx in wanted.iter().filter_map(|nonce| in_flight.at(*nonce)) {
            if tx.awaits_lookup() {
                session.agenda.reconcile_soon(now.after(PAUSE_MIN));
                continue;
            }
            match tx.slot.due_at.filter(|at| *at > now) {
                // It is shown already: the next regular comparison will do.
                Some(_) if is_shown(tx) => {}
                Some(at) => session.agenda.reconcile_soon(at),
                None => {
                    let (attempts, refuted) = (tx.hashes(), tx.refuted.clone());
                    let wanted = WantedSlot { nonce: tx.nonce, attempts, refuted };
                    due.push((tx.slot.due_at, wanted));
                }
            }
        }
        if due.is_empty() {
            return;
        }
        if due.len() > SLOTS_MAX || self.is_under_way() {
            session.agenda.reconcile_soon(now.after(PAUSE_MIN));
        }
        if self.is_under_way() {
            return;
        }
        // Those that were not searched for longest come first, so that none is left out for ever.
        due.sort_by_key(|(due_at, slot)| (*due_at, slot.nonce));
        due.truncate(SLOTS_MAX);
        let slots = due.into_iter().map(|(_, slot)| slot).collect();
        let (context, submitter) = (session.context.clone(), session.submitter);
        let mailbox = session.mailbox.clone();
        let look = async move {
            let found = search(&context, submitter, slots).await;
            mailbox.post([WorkerEvent::Searched(found)]);
        };
        self.task = Some(tokio::spawn(look.in_current_span()));
    }
}

impl Upkeep {
    /// Takes notice of what a search has brought.
    pub(in crate::worker) async fn note_searched(
        &self,
        session: &mut Session,
        searched: Vec<SlotFindings>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        let now = session.now();
        let mut unproven = Vec::new();
        let is_refuted = |slot: &SlotFindings| {
            let tx =
                slot.receipt.as_ref().and_then(|it| session.state.in_flight().by_hash(it.tx_hash));
            tx.zip(slot.receipt.as_ref()).is_some_and(|(tx, receipt)| tx.is_refuted(receipt))
        };
        let searched: Vec<SlotFindings> = searched
            .into_iter()
            .map(|slot| if is_refuted(&slot) { without_receipt(slot) } else { slot })
            .collect();
        let receipts = searched.iter().filter_map(|slot| slot.receipt.clone()).collect();
        record_receipts(session, receipts, view).await?;
        for slot in searched {
            let SlotFindings { nonce, attempts, looked, seen, problem, .. } = slot;
            let tx = session.state.in_flight_mut().at_mut(nonce).filter(|tx| tx.mined.is_none());
            // A further attempt meanwhile was not looked for.
            let Some(tx) = tx.filter(|tx| tx.hashes() == attempts) else { continue };
            let result = judge_search(&attempts, &looked, seen);
            let before = tx.slot.unproven_since;
            let unanswered = looked.iter().flatten().filter(|one| **one == ReceiptLookup::NoAnswer);
            tx.slot.note(result, problem, unanswered.count(), now);
            if !tx.slot.is_in_vain() {
                session.agenda.reconcile_soon(now);
                continue;
            }
            if before.is_none() {
                let mut update = TxUpdate::noted(tx.tx_id, tx.row, "unproven");
                update.unproven_since = Some(now);
                unproven.push(update);
            }
            let reason = tx.slot.reason();
            warn!(submitter = %session.submitter, %nonce, reason, "used slot not proven");
            // Without another comparison nobody would search again before the next regular one.
            if let Some(at) = tx.slot.due_at.filter(|_| !is_shown(tx)) {
                session.agenda.reconcile_soon(at);
            }
        }
        // So that a new owner is as patient as this one.
        session.apply_all(unproven).await.map(|_| ())
    }
}

fn is_shown(tx: &InFlightTx) -> bool {
    tx.row.state == TxState::Stuck(StuckReason::Unproven)
}

/// A receipt in a block that left the chain is none: who shows it says nothing about the slot (I9).
fn without_orphaned(searched: SlotFindings, view: &ChainView) -> SlotFindings {
    let receipt = searched.receipt.as_ref();
    let standing = receipt.map(|it| view.standing(it.block_number, it.block_hash));
    match standing {
        Some(Standing::Orphaned) => without_receipt(searched),
        _ => searched,
    }
}

/// The findings as if nobody had shown a receipt.
fn without_receipt(searched: SlotFindings) -> SlotFindings {
    let mut looked = searched.looked;
    for lookup in looked.iter_mut().flatten().filter(|lookup| **lookup == ReceiptLookup::Found) {
        *lookup = ReceiptLookup::NoAnswer;
    }
    SlotFindings { looked, receipt: None, ..searched }
}

async fn search(
    context: &Arc<Context>,
    submitter: Submitter,
    slots: Vec<WantedSlot>,
) -> Vec<SlotFindings> {
    let (chain, of) = (&context.chain, submitter.address);
    let receipts = stream::iter(slots).map(|slot| async move {
        let WantedSlot { nonce, attempts, refuted } = slot;
        let SlotSearch { looked, found } = chain.search(of, nonce, &attempts).await;
        let (receipt, seen, problem) = (found, None, None);
        let searched = SlotFindings { nonce, attempts, looked, receipt, seen, problem };
        let searched = without_orphaned(searched, &context.view.get());
        let receipt = searched.receipt.as_ref();
        let shown = receipt.map(|receipt| (receipt.tx_hash, receipt.block_hash));
        // An endpoint that goes on showing it must not keep the slot's true transaction unsearched (I15).
        match shown.is_some_and(|shown| refuted.contains(&shown)) {
            true => without_receipt(searched),
            false => searched,
        }
    });
    let mut searched: Vec<SlotFindings> = receipts.buffered(AT_ONCE).collect().await;
    let unknown = searched.iter().filter(|slot| slot.receipt.is_none());
    let unknown: Vec<Nonce> = unknown.map(|slot| slot.nonce).collect();
    if unknown.is_empty() {
        return searched;
    }
    let found = chain.occupants(of, &unknown, context.options.lookback_blocks).await;
    let seen: HashMap<Nonce, Occupant> = found.seen.iter().map(|one| (one.nonce, *one)).collect();
    for slot in searched.iter_mut().filter(|slot| slot.receipt.is_none()) {
        slot.seen = seen.get(&slot.nonce).copied();
        slot.problem = found.problem.clone().filter(|_| slot.seen.is_none());
    }
    searched
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::B256;
    use tollgate_model::port::chain::OccupantSupport;

    #[test]
    fn receipt_that_throttled_endpoints_did_not_tell_is_searched_again_soon_and_not_called_missing()
    {
        let hash = B256::repeat_byte(1);
        let (nonce, support) = (Nonce::MIN, OccupantSupport::Corroborated);
        let seen = Occupant { nonce, tx_hash: hash, block_number: 7, block_hash: hash, support };
        let result = Search::ReceiptMissing { attempt: 0, seen };
        let now = Timestamp::from_unix_micros(0);
        let pause_after = |unanswered: usize| {
            let mut searched = SlotKnowledge::NONE;
            for _ in 0..10 {
                searched.note(result, None, unanswered, now);
            }
            (searched.due_at.unwrap().since(now), searched.reason())
        };
        let (pause, reason) = pause_after(2);
        assert!(pause <= PAUSE_UNANSWERED_MAX, "{pause:?}");
        assert!(reason.ends_with("its receipt is not known: 2 answers are missing"), "{reason}");
        let (pause, reason) = pause_after(0);
        assert_eq!(pause, PAUSE_MAX);
        assert!(reason.ends_with("no endpoint has its receipt"), "{reason}");
    }
}
