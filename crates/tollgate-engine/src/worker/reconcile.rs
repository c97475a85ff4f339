//! Compares the chain's count with cursor and open slots, and acts on what differs.
//!
//! The rules are the model's. A slot is called taken only after a foreign transaction was seen in it,
//! in a settled block of the canonical chain, and all its attempts were looked for at every endpoint
//! (I8). The looking is [`super::search`]'s.

use std::time::Duration;

use tollgate_model::finality::{is_settled, settled_up_to};
use tollgate_model::nonce::{
    ChainCount, Mode, SubmitterStatus, Unexplained, doubts, unexplained, without_lag,
};
use tollgate_model::port::chain::{AccountCounts, Occupant, PastCount};
use tollgate_model::port::{
    AlertKind, ListFilter, Page, Section, StateFilter, StatusChange, TxUpdate, WaitKind,
};
use tollgate_model::reconcile::{
    BlockStanding, Foreign, OpenSlot, ReconcileStep, ReconcileView, SettledCount, reconcile,
};
use tollgate_model::{Nonce, StuckReason, Text, Timestamp, TxEvent, TxState};
use tracing::{error, info, warn};

use super::act::Halt;
use super::alarm::About;
use super::open::Open;
use super::write::moved;
use super::{Desk, Stop};
use crate::act::{ActError, Reconciled};
use crate::planted::PlantedBug;
use crate::view::{ChainView, Standing};

/// How soon a foreign transaction in one of our slots is looked at again.
pub(super) const FOREIGN_LOOK: Duration = Duration::from_secs(1);
/// Final transactions among which the last slot is looked for.
const FINALS_MAX: u32 = 100;

impl Desk {
    pub(super) async fn reconcile_if_due(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        if now < self.agenda.reconcile_at {
            return Ok(());
        }
        match self.reconcile_now().await {
            Ok(_) => Ok(()),
            Err(Halt::Stop(stop)) => Err(stop),
            // The chain can't be asked: soon again.
            Err(Halt::Refused(why)) => {
                warn!(submitter = %self.submitter, %why, "not reconciled");
                self.agenda.reconcile_at = now.after(FOREIGN_LOOK * 5);
                Ok(())
            }
        }
    }

    /// Compares now, and does what follows. Searches run beside it; when one is done, it is compared
    /// again.
    pub(super) async fn reconcile_now(&mut self) -> Result<Reconciled, Halt> {
        let now = self.context.clock.now();
        self.agenda.reconcile_at = now.after(self.context.options.reconcile_interval);
        let counts = self.chain_counts().await?;
        let settled = self.settled_count(counts).await?;
        let steps = self.with_reconcile_view(counts, settled, reconcile);
        let steps = steps.map_err(|error| Stop::Restart(error.to_string()))?;
        self.write_steps(&steps).await?;
        self.take_steps(&steps, now);
        self.note_holes(&steps).await?;
        let mut words: Vec<_> = steps.iter().map(ToString::to_string).collect();
        words.dedup();
        Ok(Reconciled { cursor: self.book.cursor, counts, steps: words })
    }

    /// The account's counts; remembered for the nonces that are given out next. Counts that are too far
    /// ahead for one endpoint's word are told and not used (I16): they would move the cursor for good.
    pub(super) async fn chain_counts(&mut self) -> Result<AccountCounts, ActError> {
        // I3: it is as old as the question. What happened while the answer was awaited is not in it.
        let read_at = self.context.clock.now();
        let counts = self.context.chain.counts(self.submitter.address).await;
        let counts = counts.map_err(|error| ActError::Unavailable(error.to_string()))?;
        let counts = match self.book.mode {
            Mode::Strict => without_lag(self.book.cursor, self.open_slots(), counts),
            Mode::Pipelined => counts,
        };
        if let Some(doubt) = doubts(self.book.cursor, &counts, self.context.options.nonces.window) {
            self.alarm.raise(
                AlertKind::CountDoubted,
                About::default(),
                &doubt.to_string(),
                read_at,
            );
            return Err(ActError::Unavailable(doubt.to_string()));
        }
        let AccountCounts { pending, mined, .. } = counts;
        self.book.chain = Some(ChainCount { pending, mined, read_at });
        self.book.drift = false;
        Ok(counts)
    }

    /// Asks a rule of reconciliation.
    pub(super) fn with_reconcile_view<T>(
        &self,
        counts: AccountCounts,
        settled: Option<SettledCount>,
        rule: impl FnOnce(&ReconcileView<'_>) -> T,
    ) -> T {
        let (now, view) = (self.context.clock.now(), self.context.view.get());
        let slot = |open: &Open| {
            let seen = open.searched.seen();
            let block = seen.map_or(BlockStanding::Open, |seen| self.block_standing(seen, &view));
            open.slot(block, now)
        };
        let open: Vec<OpenSlot> = self.book.iter().map(slot).collect();
        rule(&ReconcileView {
            mode: self.book.mode,
            status: self.book.status,
            cursor: self.book.cursor,
            counts,
            settled,
            open: &open,
            reserved: &self.book.pool.with_callers(),
            patience: self.context.options.resubmit.grey_zone_timeout,
        })
    }

    /// I8: only a block that the view knows to be canonical can be settled.
    fn block_standing(&self, seen: Occupant, view: &ChainView) -> BlockStanding {
        let rule = self.context.options.finality;
        let is_settled = view.height().is_some_and(|at| is_settled(rule, at, seen.block_number));
        match view.standing(seen.block_number, seen.block_hash) {
            Standing::Canonical if is_settled => BlockStanding::Settled,
            Standing::Canonical | Standing::Ahead | Standing::Older => BlockStanding::Open,
            Standing::Orphaned => BlockStanding::Left,
        }
    }

    /// The count in a block that is settled, where something hangs on it.
    async fn settled_count(&self, counts: AccountCounts) -> Result<Option<SettledCount>, Stop> {
        let in_doubt = |open: &Open| open.nonce < counts.mined && open.mined.is_none();
        let unexplained = self.unexplained(counts);
        if unexplained.is_none() && !self.book.iter().any(in_doubt) {
            return Ok(None);
        }
        let height = self.context.view.get().height();
        let rule = self.context.options.finality;
        let Some(block) = height.and_then(|at| settled_up_to(rule, at)) else { return Ok(None) };
        let past = self.context.chain.count_at(self.submitter.address, block).await;
        let Ok(PastCount { count, highest }) = past else { return Ok(None) };
        let covers_final_slots = match unexplained.filter(|why| count < why.at_least) {
            Some(why) => {
                self.last_final_block(why.at_least).await?.is_some_and(|last| last <= block)
            }
            None => false,
        };
        Ok(Some(SettledCount { count, highest, covers_final_slots }))
    }

    fn unexplained(&self, counts: AccountCounts) -> Option<Unexplained> {
        match self.book.mode {
            Mode::Strict => unexplained(self.book.cursor, self.open_slots(), counts.mined),
            Mode::Pipelined => None,
        }
    }

    fn open_slots(&self) -> u32 {
        u32::try_from(self.book.iter().count()).unwrap_or(u32::MAX)
    }

    /// The block of the last of our final slots, which is the one below `end`; `None` if it is not
    /// known, as for a slot that somebody else used.
    async fn last_final_block(&self, end: Nonce) -> Result<Option<u64>, Stop> {
        let restart = |error: String| Stop::Restart(error);
        let page = Page::new(FINALS_MAX).map_err(|error| restart(error.to_string()))?;
        let finals = TxState::ALL.into_iter().filter(|state| state.is_final()).collect();
        let states = StateFilter::Of(finals);
        let submitter = Some(self.submitter);
        let filter = ListFilter { submitter, states, ..ListFilter::default() };
        let list = self.context.store.list(&filter, None, page).await;
        let list = list.map_err(|error| restart(error.to_string()))?;
        let is_last = |nonce: Option<Nonce>| nonce.is_some_and(|at| at.get() + 1 == end.get());
        let last = list.into_iter().find(|tx| is_last(tx.nonce)).and_then(|tx| tx.mined);
        Ok(last.map(|mined| mined.block_number))
    }

    /// PROTECT, the cursor's move and the ends of transactions go into one section: what belongs
    /// together is durable together.
    async fn write_steps(&mut self, steps: &[ReconcileStep]) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let mut section = Section::new(self.lease);
        for step in steps {
            match step {
                ReconcileStep::Protect(_)
                    if self.context.options.breaks(PlantedBug::StrictUnchecked) => {}
                ReconcileStep::Protect(why) => {
                    section.status = Some(self.protect(why, now));
                }
                ReconcileStep::MoveCursor(step) => {
                    info!(submitter = %self.submitter, to = %step.to, "outsiders used the key");
                    section.cursor = Some(*step);
                }
                ReconcileStep::SlotTaken { nonce } => {
                    section.updates.extend(self.taken(*nonce, now)?);
                }
                ReconcileStep::Unproven { nonce } => {
                    section.updates.extend(self.unproven(*nonce, now)?);
                }
                ReconcileStep::FindReceipts { .. }
                | ReconcileStep::NoteReceipt { .. }
                | ReconcileStep::AwaitFinality { .. }
                | ReconcileStep::AwaitProof(_)
                | ReconcileStep::Hole(_) => {}
            }
        }
        let protected = section.status.is_some();
        self.record(section).await?;
        if protected { self.align_holds().await } else { Ok(()) }
    }

    /// I12: a settled block shows what our own slots can't explain. No new work until an operator says
    /// so.
    fn protect(&mut self, why: &Foreign, now: Timestamp) -> StatusChange {
        let why = why.to_string();
        error!(submitter = %self.submitter, why, "PROTECT: takes no new work");
        self.alarm.raise(AlertKind::Protect, About::default(), &why, now);
        self.status_change(SubmitterStatus::Protect, &why)
    }

    /// The end of a transaction whose slot is somebody else's, by what was seen there.
    fn taken(&mut self, nonce: Nonce, now: Timestamp) -> Result<Option<TxUpdate>, Stop> {
        let Some(open) = self.book.at_mut(nonce) else { return Ok(None) };
        let Some(Occupant { tx_hash, block_number, .. }) = open.searched.seen() else {
            return Ok(None);
        };
        let detail = format!("used by {tx_hash} in block {block_number}, which is not ours");
        let mut update = moved(open, TxEvent::SlotTaken)?;
        update.detail = Some(Text::lossy(&detail));
        let about = About { tx_id: Some(open.tx_id), nonce: Some(nonce) };
        self.alarm.raise(AlertKind::NonceTaken, about, &detail, now);
        Ok(Some(update))
    }

    /// I8: what can't be proven is no end. People are told; there is nothing that a policy could do in
    /// a slot that is used.
    fn unproven(&mut self, nonce: Nonce, now: Timestamp) -> Result<Option<TxUpdate>, Stop> {
        let Some(open) = self.book.at_mut(nonce) else { return Ok(None) };
        let reason = StuckReason::Unproven;
        let detail = open.searched.reason();
        let mut update = moved(open, TxEvent::GaveUp(reason))?;
        update.detail = Some(Text::lossy(&detail));
        let about = About { tx_id: Some(open.tx_id), nonce: Some(nonce) };
        let detail = format!("{}: {detail}", reason.name());
        self.alarm.raise(AlertKind::Stuck, about, &detail, now);
        Ok(Some(update))
    }

    /// Does what is not written.
    fn take_steps(&mut self, steps: &[ReconcileStep], now: Timestamp) {
        let (mut wanted, mut await_proof) = (Vec::new(), None);
        for step in steps {
            match step {
                ReconcileStep::FindReceipts { nonce } => wanted.push(*nonce),
                ReconcileStep::NoteReceipt { nonce, .. } => self.look_again(*nonce, now),
                ReconcileStep::AwaitFinality { nonce } => self.await_finality(*nonce, now),
                ReconcileStep::AwaitProof(why) => await_proof = Some(*why),
                ReconcileStep::Protect(_)
                | ReconcileStep::Hole(_)
                | ReconcileStep::MoveCursor(_)
                | ReconcileStep::Unproven { .. }
                | ReconcileStep::SlotTaken { .. } => {}
            }
        }
        self.await_proof(await_proof, now);
        self.search(&wanted, now);
    }

    /// A receipt is noted when it is found; if the view did not know its block yet, it is looked for
    /// again.
    fn look_again(&mut self, nonce: Nonce, now: Timestamp) {
        if let Some(open) = self.book.at_mut(nonce).filter(|open| open.mined.is_none()) {
            open.searched.search_again();
            self.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
        }
    }

    fn await_finality(&mut self, nonce: Nonce, now: Timestamp) {
        let Some(seen) = self.book.at_mut(nonce).and_then(|open| open.searched.seen()) else {
            return;
        };
        let (number, hash) = (seen.block_number, seen.block_hash);
        if self.context.view.get().standing(number, hash) == Standing::Older {
            self.check_older(number, hash);
        }
        let about = About { tx_id: None, nonce: Some(nonce) };
        let detail = "a foreign transaction is in the slot, not settled yet";
        self.alarm.raise(AlertKind::NonceTaken, about, detail, now);
        self.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
    }

    /// Asks again soon; people are told if that goes on.
    fn await_proof(&mut self, why: Option<Unexplained>, now: Timestamp) {
        let Some(why) = why else {
            self.book.waits.retain(WaitKind::Unexplained, |_| false);
            return;
        };
        let since = self.book.waits.since(WaitKind::Unexplained, Nonce::MIN, now);
        self.book.drift = true;
        self.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
        let detail = Foreign::Count(why).to_string();
        warn!(submitter = %self.submitter, detail, "count not explained; asked again");
        if now.since(since) >= self.context.options.receipt_alert_after {
            let detail = format!("{detail}; no slot is opened, and no settled block shows it yet");
            let about = About { tx_id: None, nonce: Some(why.at_most) };
            self.alarm.raise(AlertKind::Protect, about, &detail, now);
        }
    }
}
