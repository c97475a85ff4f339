//! Compares the chain's count with cursor and open slots, and acts on what differs.
//!
//! The rules are the model's. A slot is called taken only after all its attempts were looked for at
//! every endpoint, after its use was settled, and after the chain was asked who is in it (I8).

use std::time::Duration;

use tollgate_model::finality::settled_up_to;
use tollgate_model::nonce::{ChainCount, SubmitterStatus, doubts};
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::{AlertKind, Section};
use tollgate_model::reconcile::{
    Foreign, OpenSlot, ReconcileStep, ReconcileView, judge_search, reconcile,
};
use tollgate_model::{Nonce, Text, Timestamp, TxEvent};
use tracing::{error, info, warn};

use super::act::Halt;
use super::alarm::About;
use super::open::Searched;
use super::write::moved;
use super::{Desk, Stop};
use crate::act::{ActError, Reconciled};
use crate::planted::PlantedBug;

/// How soon a foreign transaction in one of our slots is looked at again.
const FOREIGN_LOOK: Duration = Duration::from_secs(1);
/// A comparison that needs more looks than this goes on at the next tick (I13).
const PASSES_MAX: u32 = 3;

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

    /// Compares now, and does what follows.
    pub(super) async fn reconcile_now(&mut self) -> Result<Reconciled, Halt> {
        let now = self.context.clock.now();
        self.agenda.reconcile_at = now.after(self.context.options.reconcile_interval);
        let mut words = Vec::new();
        for _ in 0..PASSES_MAX {
            let counts = self.chain_counts().await?;
            let settled = self.settled_count(counts).await;
            let steps = self.with_reconcile_view(counts, settled, reconcile);
            let steps = steps.map_err(|error| Stop::Restart(error.to_string()))?;
            words.extend(steps.iter().map(ToString::to_string));
            let mut again = false;
            self.write_steps(&steps).await?;
            for step in &steps {
                again |= self.take_step(step, settled, now).await?;
            }
            if !again {
                self.note_holes(&steps).await?;
                break;
            }
        }
        words.dedup();
        let counts = self.chain_counts().await?;
        Ok(Reconciled { cursor: self.book.cursor, counts, steps: words })
    }

    /// The account's counts; remembered for the nonces that are given out next. Counts that are too far
    /// ahead for one endpoint's word are told and not used (I16): they would move the cursor for good.
    pub(super) async fn chain_counts(&mut self) -> Result<AccountCounts, ActError> {
        let counts = self.context.chain.counts(self.submitter.address).await;
        let counts = counts.map_err(|error| ActError::Unavailable(error.to_string()))?;
        let read_at = self.context.clock.now();
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
        settled: Option<Nonce>,
        rule: impl FnOnce(&ReconcileView<'_>) -> T,
    ) -> T {
        let open: Vec<OpenSlot> = self.book.iter().map(|open| open.slot()).collect();
        rule(&ReconcileView {
            mode: self.book.mode,
            status: self.book.status,
            cursor: self.book.cursor,
            counts,
            settled,
            open: &open,
            reserved: &self.book.pool.with_callers(),
        })
    }

    /// The count in a block that is settled, where a slot's fate hangs on it.
    async fn settled_count(&self, counts: AccountCounts) -> Option<Nonce> {
        let in_doubt = |open: &super::open::Open| open.nonce < counts.mined && open.mined.is_none();
        if !self.book.iter().any(in_doubt) {
            return None;
        }
        let height = self.context.view.get().height()?;
        let block = settled_up_to(self.context.options.finality, height)?;
        self.context.chain.count_at(self.submitter.address, block).await.ok()
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
                    section.updates.extend(self.taken(*nonce, now).await?);
                }
                ReconcileStep::FindReceipts { .. }
                | ReconcileStep::NoteReceipt { .. }
                | ReconcileStep::AwaitFinality { .. }
                | ReconcileStep::Hole(_) => {}
            }
        }
        let protected = section.status.is_some();
        self.apply(section).await?;
        if protected { self.align_holds().await } else { Ok(()) }
    }

    /// I12: the chain shows what our own slots can't explain. No new work until an operator says so.
    pub(super) fn protect(
        &mut self,
        why: &Foreign,
        now: Timestamp,
    ) -> tollgate_model::port::StatusChange {
        let why = why.to_string();
        error!(submitter = %self.submitter, why, "PROTECT: takes no new work");
        self.alarm.raise(AlertKind::Protect, About::default(), &why, now);
        self.status_change(SubmitterStatus::Protect, &why)
    }

    /// The end of a transaction whose slot is somebody else's, unless the chain shows one of ours
    /// there after all.
    async fn taken(
        &mut self,
        nonce: Nonce,
        now: Timestamp,
    ) -> Result<Option<tollgate_model::port::TxUpdate>, Stop> {
        let lookback = self.context.options.lookback_blocks;
        let address = self.submitter.address;
        let occupant = match self.context.chain.occupant(address, nonce, lookback).await {
            Ok(occupant) => occupant,
            // I8: who can't say who is there has not said that it is somebody else.
            Err(error) => {
                warn!(submitter = %self.submitter, %nonce, %error, "the occupant is not known");
                self.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
                return Ok(None);
            }
        };
        let Some(open) = self.book.at_mut(nonce) else { return Ok(None) };
        if occupant.is_some_and(|hash| open.hashes().contains(&hash)) {
            open.searched = Searched::NOT_YET;
            return Ok(None);
        }
        let detail = match occupant {
            Some(hash) => format!("used by {hash}, which is not ours"),
            None => "used by a transaction that is not ours".to_owned(),
        };
        let mut update = moved(open, TxEvent::SlotTaken)?;
        update.detail = Some(Text::lossy(&detail));
        let about = About { tx_id: Some(open.tx_id), nonce: Some(nonce) };
        self.alarm.raise(AlertKind::NonceTaken, about, &detail, now);
        Ok(Some(update))
    }

    /// Whether the comparison is to be made again after this step.
    async fn take_step(
        &mut self,
        step: &ReconcileStep,
        settled: Option<Nonce>,
        now: Timestamp,
    ) -> Result<bool, Stop> {
        match step {
            ReconcileStep::FindReceipts { nonce } => self.search(*nonce, settled).await,
            ReconcileStep::NoteReceipt { nonce, .. } => {
                // Noted when it was found; if the view did not know its block yet, it is looked
                // for again.
                if let Some(open) = self.book.at_mut(*nonce).filter(|open| open.mined.is_none()) {
                    open.searched = Searched::NOT_YET;
                    self.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
                }
                Ok(false)
            }
            ReconcileStep::AwaitFinality { nonce } => {
                let about = About { tx_id: None, nonce: Some(*nonce) };
                let detail = "a foreign transaction is in the slot, not settled yet";
                self.alarm.raise(AlertKind::NonceTaken, about, detail, now);
                self.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
                Ok(false)
            }
            ReconcileStep::Protect(_)
            | ReconcileStep::Hole(_)
            | ReconcileStep::MoveCursor(_)
            | ReconcileStep::SlotTaken { .. } => Ok(false),
        }
    }

    /// Looks for receipts of all attempts in a slot, at every endpoint.
    async fn search(&mut self, nonce: Nonce, settled: Option<Nonce>) -> Result<bool, Stop> {
        let Some(hashes) = self.book.at_mut(nonce).map(|open| open.hashes()) else {
            return Ok(false);
        };
        let found = self.context.chain.search(self.submitter.address, nonce, &hashes).await;
        let result = judge_search(&found.looked);
        let view = self.context.view.get();
        self.note_receipts(found.found.into_iter().collect(), &view).await?;
        let Some(open) = self.book.at_mut(nonce) else { return Ok(true) };
        open.searched = Searched { result, settled };
        if result == tollgate_model::reconcile::Search::Unfinished {
            // Too few could tell: again soon, not at once.
            let at = self.context.clock.now().after(FOREIGN_LOOK);
            self.agenda.reconcile_soon(at);
            return Ok(false);
        }
        Ok(true)
    }
}
