//! What the chain and the nodes say, turned into changes of the submitter's transactions.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_model::answer::{AnswerAction, action_for, event_for};
use tollgate_model::finality::{is_settled, verdict};
use tollgate_model::nonce::Mode;
use tollgate_model::port::chain::{BlockTag, SendAnswer};
use tollgate_model::port::{
    AttemptKind, Checkpoint, Confirmations, Evidence, MinedIn, Schedule, Section, TxUpdate,
    UpdateAnswer,
};
use tollgate_model::transition::Verdict;
use tollgate_model::{Text, TxEvent, TxId, TxState};
use tracing::{debug, info, warn};

use super::book::Open;
use super::{Desk, Stop};
use crate::notes::Note;
use crate::view::{ChainView, Standing};

/// How soon what a node says is missing is sent again: soon, but no storm of answers and resends.
const PREDECESSOR_PAUSE: Duration = Duration::from_secs(1);

impl Desk {
    /// Takes notice of everything that happened, oldest kind of evidence first: receipts, forks,
    /// finality, answers, and at last what nobody has said anything about for too long.
    pub(super) async fn follow(&mut self, notes: Vec<Note>, view: &ChainView) -> Result<(), Stop> {
        let mut receipts = Vec::new();
        let mut answers = Vec::new();
        for note in notes {
            match note {
                Note::Mined(receipt) => receipts.push(receipt),
                Note::Answered(tx_id, answer) => answers.push((tx_id, answer)),
                Note::LeaseLost(_) | Note::Stop => {}
            }
        }
        self.note_receipts(receipts, view).await?;
        self.note_forks(view).await?;
        self.note_finality(view).await?;
        self.note_answers(answers, view).await?;
        self.resend_what_is_stale().await
    }

    async fn note_receipts(
        &mut self,
        receipts: Vec<MinedIn>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        let mut section = Section::new(self.lease);
        let mut noted = HashSet::new();
        // The newest word first: a transaction may have been in two blocks since the last look.
        for receipt in receipts.into_iter().rev() {
            let orphaned = Standing::Orphaned;
            if view.standing(receipt.block_number, receipt.block_hash) == orphaned {
                continue;
            }
            let Some(open) = self.book.by_hash(receipt.tx_hash) else { continue };
            if open.mined.as_ref() == Some(&receipt) || !noted.insert(open.tx_id) {
                continue;
            }
            let mut update = moved(open, TxEvent::Mined)?;
            if open.mined.is_some() {
                // From one block to another within one pass.
                update.confirmations = Some(confirmations(&receipt, view, true));
            }
            update.evidence = Evidence::Set(receipt);
            update.schedule = Schedule::Never;
            section.updates.push(update);
        }
        if section.updates.is_empty() {
            return Ok(());
        }
        self.reached(Checkpoint::ReceiptsSeen).await;
        self.apply(section).await?;
        self.reached(Checkpoint::ReceiptsRecorded).await;
        Ok(())
    }

    /// I9: a receipt whose block left the canonical chain is no receipt.
    async fn note_forks(&mut self, view: &ChainView) -> Result<(), Stop> {
        let mut section = Section::new(self.lease);
        for open in self.book.iter() {
            let Some(mined) = &open.mined else { continue };
            if view.standing(mined.block_number, mined.block_hash) != Standing::Orphaned {
                continue;
            }
            let mut update = moved(open, TxEvent::Orphaned)?;
            update.evidence = Evidence::Clear;
            update.confirmations = Some(confirmations(mined, view, true));
            section.updates.push(update);
        }
        let orphans: Vec<TxId> = section.updates.iter().map(|update| update.tx_id).collect();
        self.apply(section).await?;
        let now = self.context.clock.now();
        for tx_id in orphans {
            warn!(%tx_id, "its block left the chain: tracked and sent again");
            self.resend(tx_id, now);
        }
        Ok(())
    }

    /// I8: only a receipt in the canonical chain at the threshold is final.
    async fn note_finality(&mut self, view: &ChainView) -> Result<(), Stop> {
        let Some(height) = view.height() else { return Ok(()) };
        let rule = self.context.options.finality;
        let settled = |mined: &MinedIn| is_settled(rule, height, mined.block_number);
        let candidates: Vec<Open> = self
            .book
            .iter()
            .filter(|open| open.mined.as_ref().is_some_and(settled))
            .cloned()
            .collect();
        let mut section = Section::new(self.lease);
        for open in &candidates {
            let Some(mined) = &open.mined else { continue };
            if !self.is_canonical(mined, view).await {
                continue;
            }
            let mut update = moved(open, TxEvent::Finalised(verdict_of(open, mined)))?;
            let forked = self.was_forked(open).await?;
            update.confirmations = Some(confirmations(mined, view, forked));
            section.updates.push(update);
        }
        if section.updates.is_empty() {
            return Ok(());
        }
        self.reached(Checkpoint::FinalityJudged).await;
        self.apply(section).await?;
        self.reached(Checkpoint::FinalityRecorded).await;
        Ok(())
    }

    /// What lies below the view is asked for: no answer is no proof.
    async fn is_canonical(&self, mined: &MinedIn, view: &ChainView) -> bool {
        match view.standing(mined.block_number, mined.block_hash) {
            Standing::Canonical => true,
            Standing::Orphaned => false,
            Standing::Older => {
                let tag = BlockTag::Number(mined.block_number);
                let block = self.context.chain.block(tag).await;
                block.is_ok_and(|block| block.is_some_and(|b| b.at.hash == mined.block_hash))
            }
        }
    }

    async fn was_forked(&self, open: &Open) -> Result<bool, Stop> {
        if let Some(forked) = open.forked {
            return Ok(forked);
        }
        let stored = self.context.store.confirmations(open.tx_id).await;
        let stored = stored.map_err(|error| Stop::Restart(error.to_string()))?;
        Ok(stored.is_some_and(|list| list.new_fork))
    }

    async fn note_answers(
        &mut self,
        answers: Vec<(TxId, SendAnswer)>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        let mut section = Section::new(self.lease);
        let mut noted = HashSet::new();
        let mut lost_receipts = Vec::new();
        let mut gap_below = None;
        for (tx_id, answer) in answers.into_iter().rev() {
            let Some(open) = self.book.get(tx_id) else { continue };
            if open.mined.is_some() || !noted.insert(tx_id) {
                continue;
            }
            let action = action_for(answer.class);
            if action == AnswerAction::FindReceipts {
                self.book.drift = true;
                lost_receipts.extend(self.book.get(tx_id).into_iter().flat_map(|open| {
                    open.attempts.iter().map(|form| form.hash).collect::<Vec<_>>()
                }));
            }
            let Some(open) = self.book.get(tx_id) else { continue };
            if action == AnswerAction::ResendPredecessor {
                gap_below = gap_below.max(Some(open.nonce));
            }
            let Some(event) = event_for(action, open.seen.state, open.attempts.len(), false) else {
                continue;
            };
            let mut update = moved(open, event)?;
            if event != TxEvent::NodeAccepted {
                update.last_error = Some(Text::lossy(&answer.said));
                debug!(%tx_id, class = answer.class.name(), said = answer.said, "not clear");
            }
            section.updates.push(update);
        }
        if !section.updates.is_empty() {
            self.reached(Checkpoint::AnswersSeen).await;
            self.apply(section).await?;
            self.reached(Checkpoint::AnswersRecorded).await;
        }
        if let Some(nonce) = gap_below {
            // The predecessor and then this one: together, in the order of their nonces.
            let at = self.context.clock.now().after(PREDECESSOR_PAUSE);
            self.book.resend_up_to(nonce, at);
        }
        if lost_receipts.is_empty() {
            return Ok(());
        }
        let receipts = self.receipts_of(lost_receipts).await;
        self.note_receipts(receipts, view).await
    }

    /// What no block has picked up for a while is sent again: claimed first (I11), then the same
    /// bytes, lowest nonce first.
    async fn resend_what_is_stale(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let interval = self.context.options.resubmit.interval;
        let mut section = Section::new(self.lease);
        for open in self.book.iter() {
            let waits = !matches!(open.seen.state, TxState::Stuck(_)) && open.mined.is_none();
            if !waits || now < open.resend_at {
                continue;
            }
            let mut update = match open.seen.state {
                TxState::Tracking(_) => moved(open, TxEvent::Resent)?,
                _ => TxUpdate::noted(open.tx_id, open.seen, "resend_claimed"),
            };
            update.resubmitted = true;
            update.schedule = Schedule::In(interval);
            section.updates.push(update);
        }
        let claimed: Vec<TxId> = section.updates.iter().map(|update| update.tx_id).collect();
        if claimed.is_empty() {
            return Ok(());
        }
        self.apply(section).await?;
        let hashes = claimed.iter().filter_map(|id| self.book.get(*id));
        let hashes = hashes.flat_map(|open| open.attempts.iter().map(|form| form.hash)).collect();
        let receipts = self.receipts_of(hashes).await;
        let view = self.context.view.borrow().clone();
        self.note_receipts(receipts, &view).await?;
        for tx_id in claimed {
            if self.book.get(tx_id).is_some_and(|open| open.mined.is_none()) {
                self.resend(tx_id, now);
            }
        }
        Ok(())
    }

    /// Notes what a committed update made of its row.
    pub(super) fn applied(&mut self, update: &TxUpdate, answer: UpdateAnswer) -> Result<(), Stop> {
        if answer == UpdateAnswer::Lost {
            return Err(Stop::Restart(format!("{} is not what it was", update.tx_id)));
        }
        let (tx_id, to) = (update.tx_id, update.to());
        debug!(%tx_id, from = %update.seen.state, to = %to, event = update.event_name(), "moved");
        if to.is_final() {
            info!(%tx_id, state = %to, "final");
            let hashes = self.book.close(tx_id);
            self.context.attempts.remove(hashes);
            // Strict mode compares the chain's count with our slots: one of before is no use now.
            self.book.drift |= self.context.options.nonces.mode == Mode::Strict;
            return Ok(());
        }
        if let Some(open) = self.book.get_mut(tx_id) {
            open.seen = update.applied();
            match &update.evidence {
                Evidence::Keep => {}
                Evidence::Set(mined) => {
                    if open.mined.replace(mined.clone()).is_some() {
                        open.forked = Some(true);
                    }
                }
                Evidence::Clear => {
                    open.mined = None;
                    open.forked = Some(true);
                }
            }
        }
        Ok(())
    }
}

fn moved(open: &Open, event: TxEvent) -> Result<TxUpdate, Stop> {
    TxUpdate::moved(open.tx_id, open.seen, event).map_err(|error| Stop::Restart(error.to_string()))
}

/// The blocks on top of a receipt.
fn confirmations(mined: &MinedIn, view: &ChainView, new_fork: bool) -> Confirmations {
    let first_block = mined.block_number;
    Confirmations { first_block, hashes: view.hashes_from(first_block), new_fork }
}

fn verdict_of(open: &Open, mined: &MinedIn) -> Verdict {
    let form = open.attempts.iter().find(|form| form.hash == mined.tx_hash);
    let kind = form.map_or(AttemptKind::Intent, |form| form.kind);
    verdict(kind, mined.succeeded)
}
