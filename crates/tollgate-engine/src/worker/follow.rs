//! What the chain and the nodes say, turned into changes of the submitter's transactions.

use std::collections::HashSet;

use tollgate_model::finality::{is_settled, verdict};
use tollgate_model::port::{
    AttemptKind, Checkpoint, Confirmations, Evidence, MinedIn, Schedule, Section,
};
use tollgate_model::transition::Verdict;
use tollgate_model::{B256, TxEvent, TxId};
use tracing::warn;

use super::open::Open;
use super::search::Searched;
use super::write::moved;
use super::{Desk, Stop};
use crate::notes::Note;
use crate::planted::PlantedBug;
use crate::view::{ChainView, Standing};

impl Desk {
    /// Takes notice of everything that happened, oldest kind of evidence first: receipts, forks,
    /// finality, answers, decisions.
    pub(super) async fn follow(&mut self, notes: Vec<Note>, view: &ChainView) -> Result<(), Stop> {
        let (mut receipts, mut answers, mut decisions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut blocks_left, mut searched) = (HashSet::new(), Vec::new());
        let mut looked = Vec::new();
        for note in notes {
            match note {
                Note::Mined(receipt) => receipts.push(receipt),
                Note::BlockLeft { number, hash } => {
                    blocks_left.insert((number, hash));
                }
                Note::Searched(slots) => searched.extend(slots),
                Note::Looked { number, looked: found } => looked.push((number, found)),
                Note::Answered(answered) => answers.push(answered),
                Note::Decided(decided) => decisions.push(decided),
                Note::LeaseLost(_) | Note::Stop => {}
            }
        }
        self.note_receipts(receipts, view).await?;
        self.note_searched(searched, view).await?;
        for (number, looked) in looked {
            self.note_looked(number, looked, view).await?;
        }
        self.note_forks(&blocks_left, view).await?;
        self.note_finality(view).await?;
        self.note_answers(answers).await?;
        for decided in decisions {
            self.note_decision(*decided).await?;
        }
        Ok(())
    }

    pub(super) async fn note_receipts(
        &mut self,
        receipts: Vec<MinedIn>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        let mut section = Section::new(self.lease);
        let mut noted = HashSet::new();
        // The newest word first: a transaction may have been in two blocks since the last look.
        for receipt in receipts.into_iter().rev() {
            if let Err(impossible) = receipt.check() {
                warn!(tx_hash = %receipt.tx_hash, %impossible, "receipt ignored");
                continue;
            }
            match view.standing(receipt.block_number, receipt.block_hash) {
                Standing::Canonical | Standing::Older => {}
                // The tracker delivers what is ahead once the view has its block.
                Standing::Orphaned | Standing::Ahead => continue,
            }
            let Some(open) = self.book.by_hash(receipt.tx_hash) else { continue };
            let is_known = open.mined.as_ref().is_some_and(|known| known.is_same_receipt(&receipt));
            if is_known || !noted.insert(open.tx_id) {
                continue;
            }
            let signed = open.attempts.iter().find(|form| form.hash == receipt.tx_hash);
            let receipt = match signed {
                Some(form) => receipt.priced_by(&form.fees),
                None => receipt,
            };
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
        self.record(section).await?;
        self.reached(Checkpoint::ReceiptsRecorded).await;
        Ok(())
    }

    /// I9: a receipt whose block left the canonical chain is no receipt. `blocks_left` are blocks
    /// below the view; they count once, so that a receipt that is found again is looked at anew.
    async fn note_forks(
        &mut self,
        blocks_left: &HashSet<(u64, B256)>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        let left = |mined: &MinedIn| match view.standing(mined.block_number, mined.block_hash) {
            Standing::Orphaned => true,
            Standing::Older => blocks_left.contains(&(mined.block_number, mined.block_hash)),
            Standing::Canonical | Standing::Ahead => false,
        };
        for open in self.book.iter_mut() {
            // What was seen in a slot is looked for anew as well.
            let seen = open.searched.seen().map(|seen| (seen.block_number, seen.block_hash));
            if seen.is_some_and(|block| blocks_left.contains(&block)) {
                open.searched = Searched::NOT_YET;
            }
        }
        let orphans = self.book.iter().filter(|open| open.mined.as_ref().is_some_and(left));
        let orphans = orphans.map(|open| open.tx_id).collect();
        self.take_back(orphans, view).await
    }

    /// Goes back to tracking what was in blocks that left the chain, and sends it again.
    async fn take_back(&mut self, orphans: Vec<TxId>, view: &ChainView) -> Result<(), Stop> {
        if self.context.options.breaks(PlantedBug::ForksIgnored) {
            return Ok(());
        }
        let mut section = Section::new(self.lease);
        for open in orphans.iter().filter_map(|tx_id| self.book.get(*tx_id)) {
            let Some(mined) = &open.mined else { continue };
            let mut update = moved(open, TxEvent::Orphaned)?;
            update.evidence = Evidence::Clear;
            update.confirmations = Some(confirmations(mined, view, true));
            section.updates.push(update);
        }
        let unwritten = self.apply(section).await?;
        for tx_id in orphans.into_iter().filter(|tx_id| !unwritten.contains(*tx_id)) {
            warn!(%tx_id, "its block left the chain: tracked and sent again");
            self.dispatch(tx_id);
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
        let mut orphans = Vec::new();
        for open in &candidates {
            let Some(mined) = &open.mined else { continue };
            match self.standing(mined, view) {
                Standing::Canonical => {}
                Standing::Orphaned => {
                    orphans.push(open.tx_id);
                    continue;
                }
                Standing::Ahead => continue,
                Standing::Older => {
                    self.check_older(mined.block_number, mined.block_hash);
                    continue;
                }
            }
            let mut update = moved(open, TxEvent::Finalised(verdict_of(open, mined)))?;
            update.confirmations = Some(confirmations(mined, view, open.forked));
            section.updates.push(update);
        }
        if !section.updates.is_empty() {
            self.reached(Checkpoint::FinalityJudged).await;
            self.record(section).await?;
            self.reached(Checkpoint::FinalityRecorded).await;
        }
        self.take_back(orphans, view).await
    }

    /// Has a block below the view checked.
    pub(super) fn check_older(&self, number: u64, hash: B256) {
        let newest = || self.context.view.get();
        self.context.reader.check_older(self.submitter, (number, hash), newest);
    }

    /// What lies below the view is asked for beside the worker, one look per block, because its
    /// block may have left the chain before the view began.
    fn standing(&self, mined: &MinedIn, view: &ChainView) -> Standing {
        if self.context.options.breaks(PlantedBug::ForksIgnored) {
            return Standing::Canonical;
        }
        view.standing(mined.block_number, mined.block_hash)
    }
}

/// The blocks on top of a receipt, as far down as the view holds them.
fn confirmations(mined: &MinedIn, view: &ChainView, new_fork: bool) -> Confirmations {
    let (first_block, hashes) = view.hashes_from(mined.block_number);
    Confirmations { first_block, hashes, new_fork }
}

fn verdict_of(open: &Open, mined: &MinedIn) -> Verdict {
    let form = open.attempts.iter().find(|form| form.hash == mined.tx_hash);
    let kind = form.map_or(AttemptKind::Intent, |form| form.kind);
    verdict(kind, mined.succeeded)
}
