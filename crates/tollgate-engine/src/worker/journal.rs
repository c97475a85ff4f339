//! Writes: one fenced section at a time, and the state follows what was committed. Owns what the store
//! refused (`refusals`) and the commit whose outcome is unknown (`unknown_commit`).

mod refusals;
mod unknown_commit;

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_model::port::{
    AlertKind, Lease, Section, SectionOutcome, StoreError, TxUpdate, UpdateAnswer,
};
use tollgate_model::resubmit::{Patience, renews_patience};
use tollgate_model::{StuckReason, Text, Timestamp, TxEvent, TxId, TxState};
use tracing::error;

use super::Stop;
use super::alarm::{Alarm, AlertSubject};
use super::in_flight::InFlightTx;
use super::state::SubmitterState;
use super::state_changes::{Writer, note_changed};
use crate::context::Context;
pub(super) use refusals::{Refusals, Unwritten};
pub(super) use unknown_commit::{UnknownCommit, answer_unknown};

/// One worker's writes.
pub(super) struct Journal {
    context: Arc<Context>,
    lease: Lease,
    refusals: Refusals,
    unknown: Option<UnknownCommit>,
}

impl Journal {
    pub(super) const fn new(context: Arc<Context>, lease: Lease, refusals: Refusals) -> Self {
        Self { context, lease, refusals, unknown: None }
    }

    /// Ends the session; returns the refused changes, and the commit that must be resolved first.
    pub(super) fn leave(self) -> (Refusals, Option<UnknownCommit>) {
        (self.refusals, self.unknown)
    }

    /// Writes a section without creates, and notes in the state what it made of the rows. What is more than
    /// a batch takes goes in several commits, in order, with what changes of the submitter itself in the
    /// first. A change of a transaction that can't be written is set aside, and the others go on; a change of
    /// the submitter itself that can't be written restarts the worker.
    pub(super) async fn apply(
        &mut self,
        state: &mut SubmitterState,
        alarm: &mut Alarm,
        mut section: Section,
    ) -> Result<Unwritten, Stop> {
        let mut unwritten = self.skip_refused(state, &mut section);
        if section.updates.is_empty() && !changes_submitter(&section) {
            return Ok(unwritten);
        }
        let mut parts = VecDeque::from(section.split(self.context.options.batch_max));
        while let Some(part) = parts.pop_front() {
            let Some((refused, why)) = self.apply_part(state, part).await? else { continue };
            match halves(refused) {
                // I14: whatever is to blame fails alone.
                Halves::Two(halves) => {
                    let (first, second) = *halves;
                    parts.push_front(second);
                    parts.push_front(first);
                }
                Halves::One(update) => {
                    self.set_refused(state, alarm, &update, &why).await?;
                    unwritten.add(update.tx_id, &why);
                }
                Halves::None => return Err(Stop::restart(why)),
            }
        }
        Ok(unwritten)
    }

    /// Takes out of a section what the store refused a while ago, and what waits behind such a change.
    fn skip_refused(&self, state: &mut SubmitterState, section: &mut Section) -> Unwritten {
        let (now, mut unwritten) = (self.context.clock.now(), Unwritten::default());
        section.updates.retain(|update| {
            let Some((why, until)) = self.refusals.of(update, now) else { return true };
            unwritten.add(update.tx_id, why);
            state.queue_mut().set_aside(update.tx_id, until);
            false
        });
        unwritten
    }

    /// Writes what one batch takes. Gives a section back that was refused: nothing of it is written.
    async fn apply_part(
        &mut self,
        state: &mut SubmitterState,
        mut section: Section,
    ) -> Result<Option<(Section, String)>, Stop> {
        let now = self.context.clock.now();
        complete(state, &mut section, now);
        match self.context.committer.commit(section.clone()).await {
            Ok(SectionOutcome::Committed { updates: answers, .. }) => {
                state.note_committed(&section);
                for (update, answer) in section.updates.iter().zip(answers) {
                    self.note_applied(state, update, answer)?;
                }
                Ok(None)
            }
            Ok(SectionOutcome::Fenced) => Err(Stop::Fenced),
            Ok(SectionOutcome::Refused(why)) => Ok(Some((section, why))),
            Err(StoreError::Invalid(why)) => Ok(Some((section, why.to_string()))),
            Ok(stale @ SectionOutcome::Stale { .. }) => Err(Stop::restart(format!("{stale:?}"))),
            Err(error) => {
                self.note_unknown(section.updates.iter().map(|update| update.tx_id));
                Err(error.into())
            }
        }
    }

    /// The outcome of a commit is unknown: it is resolved before the worker starts again.
    pub(super) fn note_unknown(&mut self, tx_ids: impl Iterator<Item = TxId>) -> &UnknownCommit {
        self.unknown.insert(UnknownCommit { lease: self.lease, tx_ids: tx_ids.collect() })
    }

    pub(super) fn note_resolved(&mut self) {
        self.unknown = None;
    }

    /// Lets what waits pass transactions with a change that the store refused before a restart.
    pub(super) fn set_aside_refused(&self, state: &mut SubmitterState, now: Timestamp) {
        for (tx_id, version, until) in self.refusals.standing(now) {
            if state.row(tx_id).is_some_and(|row| row.version == version) {
                state.queue_mut().set_aside(tx_id, until);
            }
        }
    }

    /// The store refused a change: it is not tried again for a while, and what waits behind its transaction
    /// passes that.
    pub(super) fn note_refused(
        &mut self,
        state: &mut SubmitterState,
        (tx_id, event, version): (TxId, &'static str, u32),
        why: &str,
    ) {
        let until = self.refusals.add(tx_id, event, version, why, self.context.clock.now());
        state.queue_mut().set_aside(tx_id, until);
    }

    /// Remembers that a change can't be written, so that it is not tried at each tick, and raises an alert.
    /// Its transaction is marked STUCK, so that a policy is asked; one that is STUCK already, or mined,
    /// stays what it is, and one without a slot lets the others pass.
    async fn set_refused(
        &mut self,
        state: &mut SubmitterState,
        alarm: &mut Alarm,
        refused: &TxUpdate,
        why: &str,
    ) -> Result<(), Stop> {
        let (tx_id, event) = (refused.tx_id, refused.event_name());
        let submitter = self.lease.submitter;
        error!(%submitter, %tx_id, event, error = why, "change refused by the store");
        let detail = format!("{event} can't be written: {why}");
        let subject =
            AlertSubject { tx_id: Some(tx_id), nonce: state.tx(tx_id).map(|tx| tx.nonce) };
        alarm.raise(AlertKind::Stuck, subject, &detail, self.context.clock.now());
        if let Some(mark) = state.tx(tx_id).and_then(|tx| unwritable(tx, &detail)) {
            let mut section = Section::new(self.lease);
            section.updates.push(mark);
            if let Some((_, why)) = self.apply_part(state, section).await? {
                error!(%submitter, %tx_id, error = why, "STUCK refused by the store");
            }
        }
        let version = state.row(tx_id).unwrap_or(refused.row).version;
        self.note_refused(state, (tx_id, event, version), why);
        Ok(())
    }

    /// Notes what a committed update made of its row.
    fn note_applied(
        &mut self,
        state: &mut SubmitterState,
        update: &TxUpdate,
        answer: UpdateAnswer,
    ) -> Result<(), Stop> {
        if answer == UpdateAnswer::Lost {
            return Err(Stop::restart(format!("{} was changed by another writer", update.tx_id)));
        }
        let (tx_id, to) = (update.tx_id, update.to());
        let now = self.context.clock.now();
        note_changed(Writer::new(&self.context, self.lease), state, update, now);
        let index = &self.context.attempts;
        if to.is_final() {
            index.remove(state.close(tx_id, update.freed_nonce));
            self.refusals.forget(tx_id);
            return Ok(());
        }
        if let Some(tx) = state.tx_mut(tx_id) {
            tx.note_applied(update, now);
            if let Some(attempt) = &update.attempt {
                state.in_flight_mut().add_attempt(tx_id, attempt, now);
                index.insert(attempt.tx_hash, self.lease.submitter);
            }
        } else if let Some(queued) = state.queue_mut().get_mut(tx_id) {
            queued.row = update.applied();
        }
        Ok(())
    }
}

/// Gives each change the trace of its transaction, and stores a renewed patience with the change that renews it, if
/// patience is stored at all.
fn complete(state: &SubmitterState, section: &mut Section, now: Timestamp) {
    for update in &mut section.updates {
        let tx = state.tx(update.tx_id);
        let queued = || state.queue().get(update.tx_id)?.trace;
        update.trace = tx.map_or_else(queued, |tx| tx.trace);
        let is_stored = tx.is_some_and(|tx| tx.sending.is_stored());
        let renews = update.event().is_some_and(|it| renews_patience(update.row.state, it));
        if is_stored && renews {
            update.patience = Some(Patience::from(now));
        }
    }
}

/// The parts of a refused section that are tried next.
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

/// The change that marks a transaction STUCK because another change of it can't be written.
fn unwritable(tx: &InFlightTx, detail: &str) -> Option<TxUpdate> {
    if matches!(tx.row.state, TxState::Stuck(_)) {
        return None;
    }
    let gave_up = TxEvent::GaveUp(StuckReason::Unwritable);
    let mut update = TxUpdate::moved(tx.tx_id, tx.row, gave_up).ok()?;
    update.last_error = Some(Text::lossy(detail));
    update.detail = Some(Text::lossy(detail));
    Some(update)
}
