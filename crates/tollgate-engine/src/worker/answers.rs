//! What nodes answered to sends, turned into changes of the submitter's transactions.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_model::answer::{AnswerAction, AnswerClass, action_for, event_for};
use tollgate_model::port::{AlertKind, Checkpoint, Section, TxUpdate};
use tollgate_model::resubmit::hold_of;
use tollgate_model::{Nonce, StuckReason, Text, Timestamp, TxEvent};
use tracing::debug;

use super::alarm::About;
use super::open::Open;
use super::write::moved;
use super::{Desk, Stop};
use crate::notes::Answered;

impl Desk {
    pub(super) async fn note_answers(&mut self, answers: Vec<Answered>) -> Result<(), Stop> {
        let now = self.context.clock.now();
        // The newest word of each slot, from the lowest up.
        let mut newest: BTreeMap<Nonce, Answered> = BTreeMap::new();
        let (mut further, mut hold_is_over) = (BTreeSet::new(), false);
        for answered in answers {
            let Some(open) = self.book.get_mut(answered.tx_id) else { continue };
            let class = answered.answer.class;
            hold_is_over |= open.is_held() && action_for(class) == AnswerAction::Track;
            let is_first_word = open.attempts.len() > 1 && !open.heard.newest;
            open.note_answer(&answered.raw, class, answered.doubted);
            if is_first_word {
                further.insert(open.nonce);
            }
            newest.insert(open.nonce, answered);
        }
        let mut section = Section::new(self.lease);
        let mut follow_up = FollowUp::default();
        for (nonce, answered) in &newest {
            let Some(open) = self.book.get(answered.tx_id) else { continue };
            if open.mined.is_some() {
                continue;
            }
            follow_up.add(*nonce, answered.answer.class);
            section.updates.extend(update_for(open, answered, further.contains(nonce))?);
        }
        if !section.updates.is_empty() {
            self.reached(Checkpoint::AnswersSeen).await;
            self.record(section).await?;
            self.reached(Checkpoint::AnswersRecorded).await;
        }
        for answered in newest.values() {
            self.book.note_shown_hold(answered.tx_id);
            self.alert_hold(answered, now);
        }
        if let Some(nonce) = follow_up.taken {
            self.book.resend_refused_above(nonce, now);
        }
        if let Some(nonce) = follow_up.refused {
            self.book.resend_missing(nonce, &self.context.options.resubmit, now);
        }
        if hold_is_over {
            self.resend_held(now);
        }
        if follow_up.used.is_empty() {
            return Ok(());
        }
        self.book.drift = true;
        self.agenda.reconcile_soon(now);
        self.want_look(&follow_up.used);
        self.agenda.tick_now();
        Ok(())
    }

    /// Somebody has paid in, or the market came down: what else was held is due now.
    fn resend_held(&mut self, now: Timestamp) {
        for open in self.book.iter_mut().filter(|open| open.is_held() && open.mined.is_none()) {
            open.waits.due_at = Some(now);
        }
    }

    fn alert_hold(&mut self, answered: &Answered, now: Timestamp) {
        let Some(open) = self.book.get(answered.tx_id) else { return };
        let kind = match hold_of(Some(answered.answer.class)) {
            Some(StuckReason::InsufficientFunds) => AlertKind::InsufficientFunds,
            Some(_) => AlertKind::FeeCap,
            None if answered.answer.class.may_lead_to_rejection() => AlertKind::Rejected,
            None => return,
        };
        let about = About { tx_id: Some(open.tx_id), nonce: Some(open.nonce) };
        self.alarm.raise(kind, about, &answered.answer.said, now);
    }
}

/// What answers call for beside their records.
#[derive(Default)]
struct FollowUp {
    /// The lowest nonce below which a node lacks one.
    refused: Option<Nonce>,
    /// The lowest nonce that a node has now: what was refused behind it is sent again.
    taken: Option<Nonce>,
    /// Slots that a node counts as used.
    used: Vec<Nonce>,
}

impl FollowUp {
    /// Adds an answer; from the lowest nonce up.
    fn add(&mut self, nonce: Nonce, class: AnswerClass) {
        match action_for(class) {
            // From the lowest up: the first is the lowest.
            AnswerAction::ResendPredecessor => self.refused = self.refused.or(Some(nonce)),
            AnswerAction::Track => self.taken = self.taken.or(Some(nonce)),
            AnswerAction::FindReceipts => self.used.push(nonce),
            AnswerAction::EarlierStands
            | AnswerAction::BumpOrHold
            | AnswerAction::TryElsewhereOrHold
            | AnswerAction::HoldForFunds
            | AnswerAction::RejectIfAllAgree
            | AnswerAction::ResendSame => {}
        }
    }
}

/// The change that an answer makes. The first word on a further form is written down also where it
/// moves nothing.
fn update_for(
    open: &Open,
    answered: &Answered,
    is_first_word: bool,
) -> Result<Option<TxUpdate>, Stop> {
    let class = answered.answer.class;
    // I3: a send that was not answered may have been the one that a node took.
    let doubted = answered.doubted || open.heard.all().is_none();
    let event = event_for(action_for(class), open.seen.state, open.attempts.len(), doubted);
    let (hold, shown) = (open.hold(), open.holds.shown);
    let (event, mut update) = match event {
        Some(event) => (event, moved(open, event)?),
        None if is_first_word => {
            let taken = action_for(class) == AnswerAction::Track;
            let event = if taken { TxEvent::NodeAccepted } else { TxEvent::AnswerUnclear };
            (event, TxUpdate::noted(open.tx_id, open.seen, event.name()))
        }
        // Nothing moves, but people see why nothing does.
        None if hold != shown && hold.is_some() => {
            (TxEvent::AnswerUnclear, TxUpdate::noted(open.tx_id, open.seen, "held"))
        }
        None if hold != shown && action_for(class) == AnswerAction::Track => {
            (TxEvent::NodeAccepted, TxUpdate::noted(open.tx_id, open.seen, "hold_over"))
        }
        None => return Ok(None),
    };
    if event == TxEvent::NodeAccepted && shown.is_some() && hold.is_none() {
        update.clear_error();
    }
    if event != TxEvent::NodeAccepted {
        update.last_error = Some(Text::lossy(&answered.answer.said));
        let (tx_id, said) = (open.tx_id, &answered.answer.said);
        debug!(%tx_id, class = class.name(), said, "not clear");
    }
    Ok(Some(update))
}
