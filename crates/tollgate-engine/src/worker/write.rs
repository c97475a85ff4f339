//! How a desk writes: one fenced section at a time, and the book follows what was committed.

use std::collections::VecDeque;

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    AlertKind, Evidence, Section, SectionOutcome, StatusChange, StoreError, TxUpdate, UpdateAnswer,
};
use tollgate_model::resubmit::{Patience, renews_patience};
use tollgate_model::{StuckReason, Text, TxEvent, TxState};
use tracing::{debug, error, info};

use super::alarm::About;
use super::open::Open;
use super::refusals::Unwritten;
use super::search::Searched;
use super::{Desk, Stop};
use crate::planted::PlantedBug;

impl Desk {
    /// Commits a section. Whatever is not an answer about its contents ends this desk.
    pub(super) async fn commit(&self, section: Section) -> Result<SectionOutcome, StoreError> {
        self.context.committer.commit(section).await
    }

    /// Commits a section without creates, and notes what it made of the rows. What is more than a batch
    /// takes goes in several commits, in order, with what changes of the submitter itself in the first.
    /// A change of a transaction that can't be written is set aside, and the others go on; a change of
    /// the submitter itself that can't be written ends the desk.
    pub(super) async fn apply(&mut self, mut section: Section) -> Result<Unwritten, Stop> {
        let mut unwritten = self.skip_refused(&mut section);
        if section.updates.is_empty() && !changes_submitter(&section) {
            return Ok(unwritten);
        }
        let mut parts = VecDeque::from(section.split(self.context.options.batch_max));
        while let Some(part) = parts.pop_front() {
            let Some((refused, why)) = self.apply_part(part).await? else { continue };
            match halves(refused) {
                // I14: whatever is to blame fails alone.
                Halves::Two(halves) => {
                    let (first, second) = *halves;
                    parts.push_front(second);
                    parts.push_front(first);
                }
                Halves::One(update) => {
                    self.set_refused(&update, &why).await?;
                    unwritten.add(update.tx_id, &why);
                }
                Halves::None => return Err(Stop::Restart(why)),
            }
        }
        Ok(unwritten)
    }

    /// Commits a section on which nothing else depends: what can't be written is set aside.
    pub(super) async fn record(&mut self, section: Section) -> Result<(), Stop> {
        self.apply(section).await.map(|_| ())
    }

    /// Takes out of a section what the store refused a while ago, and what waits behind such a change.
    fn skip_refused(&mut self, section: &mut Section) -> Unwritten {
        let (now, mut unwritten) = (self.context.clock.now(), Unwritten::default());
        let (refusals, book) = (&self.refusals, &mut self.book);
        section.updates.retain(|update| {
            let Some((why, until)) = refusals.of(update, now) else { return true };
            unwritten.add(update.tx_id, why);
            book.set_aside(update.tx_id, until);
            false
        });
        unwritten
    }

    /// Commits what one batch takes. Gives a section back that was refused: nothing of it is written.
    async fn apply_part(
        &mut self,
        mut section: Section,
    ) -> Result<Option<(Section, String)>, Stop> {
        self.renew_stored_patience(&mut section);
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
                Ok(None)
            }
            Ok(SectionOutcome::Fenced) => Err(Stop::Fenced),
            Ok(SectionOutcome::Refused(why)) => Ok(Some((section, why))),
            Err(StoreError::Invalid(why)) => Ok(Some((section, why.to_string()))),
            Ok(stale @ SectionOutcome::Stale { .. }) => Err(Stop::Restart(format!("{stale:?}"))),
            Err(error) => {
                self.doubt(section.updates.iter().map(|update| update.tx_id));
                Err(Stop::Restart(error.to_string()))
            }
        }
    }

    /// What renews patience overwrites what is stored of it; what is not stored costs no write.
    fn renew_stored_patience(&self, section: &mut Section) {
        let now = self.context.clock.now();
        for update in &mut section.updates {
            let is_stored = self.book.get(update.tx_id).is_some_and(|open| open.waits.is_stored);
            let renews = update.event().is_some_and(|it| renews_patience(update.seen.state, it));
            if is_stored && renews {
                update.patience = Some(Patience::from(now));
            }
        }
    }

    /// Commits updates, however many there are.
    pub(super) async fn apply_all(&mut self, updates: Vec<TxUpdate>) -> Result<Unwritten, Stop> {
        let mut section = Section::new(self.lease);
        section.updates = updates;
        self.apply(section).await
    }

    /// Remembers that a change can't be written, so that it is not tried at each tick, and tells people.
    /// Its transaction is marked STUCK, so that a policy is asked; one that is STUCK already, or mined,
    /// stays what it is, and one without a slot lets the others pass.
    async fn set_refused(&mut self, refused: &TxUpdate, why: &str) -> Result<(), Stop> {
        let (tx_id, event) = (refused.tx_id, refused.event_name());
        error!(submitter = %self.submitter, %tx_id, event, why, "change can't be written");
        let now = self.context.clock.now();
        let detail = format!("{event} can't be written: {why}");
        let nonce = self.book.get(tx_id).map(|open| open.nonce);
        self.alarm.raise(AlertKind::Stuck, About { tx_id: Some(tx_id), nonce }, &detail, now);
        let mark = self.book.get(tx_id).and_then(|open| unwritable(open, &detail));
        if let Some(mark) = mark {
            let mut section = Section::new(self.lease);
            section.updates.push(mark);
            if let Some((_, why)) = self.apply_part(section).await? {
                error!(submitter = %self.submitter, %tx_id, why, "STUCK can't be written either");
            }
        }
        let open = self.book.get(tx_id).map(|open| open.seen);
        let seen = open.or_else(|| self.book.waiting(tx_id).map(|waiting| waiting.seen));
        let version = seen.unwrap_or(refused.seen).version;
        let until = self.refusals.add(tx_id, event, version, why, now);
        self.book.set_aside(tx_id, until);
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
            self.refusals.forget(tx_id);
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
            if let Some(patience) = update.patience {
                open.waits.set(patience);
                open.waits.is_stored = true;
            } else if update.event().is_some_and(|event| renews_patience(from, event)) {
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

/// What is left to try of a section that was refused.
enum Halves {
    Two(Box<(Section, Section)>),
    /// A single change is to blame.
    One(Box<TxUpdate>),
    /// Only what changes of the submitter itself.
    None,
}

const fn changes_submitter(section: &Section) -> bool {
    section.status.is_some()
        || section.mode.is_some()
        || section.cursor.is_some()
        || section.waits.is_some()
}

fn halves(mut section: Section) -> Halves {
    let mut rest = Section::new(section.lease);
    if changes_submitter(&section) && !section.updates.is_empty() {
        rest.updates = std::mem::take(&mut section.updates);
        return Halves::Two(Box::new((section, rest)));
    }
    if section.updates.len() > 1 {
        rest.updates = section.updates.split_off(section.updates.len() / 2);
        return Halves::Two(Box::new((section, rest)));
    }
    section.updates.pop().map_or(Halves::None, |update| Halves::One(Box::new(update)))
}

fn note_evidence(open: &mut Open, evidence: &Evidence) {
    match evidence {
        Evidence::Keep => {}
        Evidence::Set(mined) => {
            if open.mined.replace(mined.clone()).is_some() {
                open.forked = true;
            }
        }
        Evidence::Clear => {
            open.mined = None;
            open.forked = true;
            open.searched = Searched::NOT_YET;
        }
    }
}

/// The change that marks a transaction STUCK because another change of it can't be written.
fn unwritable(open: &Open, detail: &str) -> Option<TxUpdate> {
    if matches!(open.seen.state, TxState::Stuck(_)) {
        return None;
    }
    let gave_up = TxEvent::GaveUp(StuckReason::Unwritable);
    let mut update = TxUpdate::moved(open.tx_id, open.seen, gave_up).ok()?;
    update.last_error = Some(Text::lossy(detail));
    update.detail = Some(Text::lossy(detail));
    Some(update)
}

/// A move of an open transaction.
pub(super) fn moved(open: &Open, event: TxEvent) -> Result<TxUpdate, Stop> {
    TxUpdate::moved(open.tx_id, open.seen, event).map_err(|error| Stop::Restart(error.to_string()))
}
