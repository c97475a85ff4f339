//! How a desk writes: one fenced section at a time, and the book follows what was committed.

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    Evidence, Section, SectionOutcome, StatusChange, StoreError, TxUpdate, UpdateAnswer,
};
use tollgate_model::resubmit::renews_patience;
use tollgate_model::{Text, TxEvent};
use tracing::{debug, info};

use super::open::Open;
use super::search::Searched;
use super::{Desk, Stop};
use crate::planted::PlantedBug;

impl Desk {
    /// Commits a section. Whatever is not an answer about its contents ends this desk.
    pub(super) async fn commit(&self, section: Section) -> Result<SectionOutcome, StoreError> {
        self.context.committer.commit(section).await
    }

    /// Commits a section without creates, and notes what it made of the rows.
    pub(super) async fn apply(&mut self, section: Section) -> Result<(), Stop> {
        let changes = section.status.is_some() || section.mode.is_some();
        if section.updates.is_empty() && !changes && section.cursor.is_none() {
            return Ok(());
        }
        match self.commit(section.clone()).await {
            Ok(SectionOutcome::Committed { updates: answers, .. }) => {
                if let Some(step) = section.cursor {
                    self.book.cursor = step.to;
                }
                if let Some(change) = section.status {
                    self.book.status = change.to;
                }
                if let Some(change) = section.mode {
                    self.book.mode = change.to;
                }
                for (update, answer) in section.updates.iter().zip(answers) {
                    self.applied(update, answer)?;
                }
                Ok(())
            }
            Ok(SectionOutcome::Fenced) => Err(Stop::Fenced),
            Ok(other) => Err(Stop::Restart(format!("{other:?}"))),
            Err(error) => {
                self.doubt(section.updates.iter().map(|update| update.tx_id));
                Err(Stop::Restart(error.to_string()))
            }
        }
    }

    /// Commits updates a batch at a time.
    pub(super) async fn apply_all(&mut self, updates: Vec<TxUpdate>) -> Result<(), Stop> {
        for chunk in updates.chunks(self.context.options.batch_max.max(1)) {
            let mut section = Section::new(self.lease);
            section.updates = chunk.to_vec();
            self.apply(section).await?;
        }
        Ok(())
    }

    /// The change of the submitter's status, to be written with whatever causes it.
    pub(super) fn status_change(&self, to: SubmitterStatus, reason: &str) -> StatusChange {
        StatusChange { from: self.book.status, to, reason: Text::lossy(reason) }
    }

    /// Notes what a committed update made of its row.
    fn applied(&mut self, update: &TxUpdate, answer: UpdateAnswer) -> Result<(), Stop> {
        if answer == UpdateAnswer::Lost {
            return Err(Stop::Restart(format!("{} is not what it was", update.tx_id)));
        }
        let (tx_id, to) = (update.tx_id, update.to());
        debug!(%tx_id, from = %update.seen.state, to = %to, event = update.event_name(), "moved");
        if to.is_final() {
            info!(%tx_id, state = %to, "final");
            let hashes = self.book.close(tx_id);
            self.context.attempts.remove(hashes);
            self.book.put_back(update.freed_nonce);
            // Strict mode compares the chain's count with our slots: one of before is no use now.
            self.book.drift |= self.book.mode == Mode::Strict;
            return Ok(());
        }
        let now = self.context.clock.now();
        if let Some(open) = self.book.get_mut(tx_id) {
            open.seen = update.applied();
            let from = update.seen.state;
            if update.event().is_some_and(|event| renews_patience(from, event)) {
                open.waits.renew(now);
            }
            note_evidence(open, &update.evidence);
            if let Some(attempt) = &update.attempt {
                open.add(attempt, now);
                let nonce = open.nonce;
                if self.context.options.breaks(PlantedBug::OlderHashesForgotten) {
                    let older = open.forget_older();
                    self.context.attempts.remove(older.iter().copied());
                    self.book.forget(&older);
                }
                self.context.attempts.insert(attempt.tx_hash, self.submitter);
                self.book.know(attempt.tx_hash, nonce);
            }
        } else if let Some(waiting) = self.book.waiting_mut(tx_id) {
            waiting.seen = update.applied();
        }
        Ok(())
    }
}

fn note_evidence(open: &mut Open, evidence: &Evidence) {
    match evidence {
        Evidence::Keep => {}
        Evidence::Set(mined) => {
            if open.mined.replace(mined.clone()).is_some() {
                open.forked = Some(true);
            }
        }
        Evidence::Clear => {
            open.mined = None;
            open.forked = Some(true);
            open.searched = Searched::NOT_YET;
        }
    }
}

/// A move of an open transaction.
pub(super) fn moved(open: &Open, event: TxEvent) -> Result<TxUpdate, Stop> {
    TxUpdate::moved(open.tx_id, open.seen, event).map_err(|error| Stop::Restart(error.to_string()))
}
