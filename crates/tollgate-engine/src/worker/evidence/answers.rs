//! What nodes answered to sends, turned into changes of the submitter's transactions.

use std::collections::BTreeMap;

use tollgate_model::answer::{AnswerAction, AnswerClass, AnsweredTx, action_for, event_for};
use tollgate_model::port::{AlertKind, Checkpoint, TxUpdate};
use tollgate_model::resubmit::hold_of;
use tollgate_model::{Nonce, StuckReason, Text, TxEvent};
use tracing::debug;

use super::record_at;
use crate::mailbox::SendOutcome;
use crate::worker::alarm::AlertSubject;
use crate::worker::in_flight::{AnswerNotes, InFlightTx};
use crate::worker::session::{Session, moved};
use crate::worker::{Stop, upkeep};

pub(in crate::worker) async fn record_answers(
    session: &mut Session,
    answers: Vec<SendOutcome>,
) -> Result<(), Stop> {
    let now = session.now();
    // The newest answer of each slot, from the lowest up.
    let mut newest: BTreeMap<Nonce, SendOutcome> = BTreeMap::new();
    let mut notes: BTreeMap<Nonce, AnswerNotes> = BTreeMap::new();
    for outcome in answers {
        let Some(tx) = session.state.tx_mut(outcome.tx_id) else { continue };
        let noted = tx.note_answer(&outcome.raw, outcome.answer.class, outcome.doubted);
        notes.entry(tx.nonce).or_default().add(noted);
        newest.insert(tx.nonce, outcome);
    }
    let hold_is_over = notes.values().any(|notes| notes.ends_hold);
    let mut section = session.section();
    let mut follow_up = FollowUp::default();
    for (nonce, outcome) in &newest {
        let tx = session.state.tx(outcome.tx_id);
        let Some(tx) = tx.filter(|tx| tx.mined.is_none()) else { continue };
        follow_up.add(*nonce, outcome.answer.class);
        section.updates.extend(update_for(tx, outcome, notes[nonce])?);
    }
    record_at(session, section, (Checkpoint::AnswersSeen, Checkpoint::AnswersRecorded)).await?;
    for outcome in newest.values() {
        if let Some(tx) = session.state.tx_mut(outcome.tx_id) {
            tx.note_hold_shown();
        }
        alert_hold(session, outcome);
    }
    let in_flight = session.state.in_flight_mut();
    if let Some(nonce) = follow_up.taken {
        in_flight.resend_refused_above(nonce, now);
    }
    if let Some(nonce) = follow_up.refused {
        in_flight.resend_missing(nonce, &session.context.options.resubmit, now);
    }
    if hold_is_over {
        // Somebody has paid in, or the market came down: what else was held is due now.
        let held = |tx: &&mut InFlightTx| tx.refused_for().is_some() && tx.mined.is_none();
        in_flight.iter_mut().filter(held).for_each(|tx| tx.sending.make_due(now));
    }
    if !follow_up.used.is_empty() {
        session.state.note_drift();
        session.agenda.reconcile_soon(now);
        upkeep::want_lookup(session, &follow_up.used);
        session.agenda.tick_now();
    }
    Ok(())
}

fn alert_hold(session: &mut Session, outcome: &SendOutcome) {
    let Some(tx) = session.state.tx(outcome.tx_id) else { return };
    let kind = match hold_of(Some(outcome.answer.class)) {
        Some(StuckReason::InsufficientFunds) => AlertKind::InsufficientFunds,
        Some(_) => AlertKind::FeeCap,
        None if outcome.answer.class.may_lead_to_rejection() => AlertKind::Rejected,
        None => return,
    };
    session.alert(kind, AlertSubject::slot(tx.tx_id, tx.nonce), &outcome.answer.said);
}

/// The steps that answers call for beside their records.
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

/// The change that an answer makes. The first answer to a further attempt is written down also where it moves
/// nothing, and so is a hold that begins or ends.
fn update_for(
    tx: &InFlightTx,
    outcome: &SendOutcome,
    AnswerNotes { is_first, is_news, .. }: AnswerNotes,
) -> Result<Option<TxUpdate>, Stop> {
    let (class, said) = (outcome.answer.class, &outcome.answer.said);
    let is_taken = action_for(class) == AnswerAction::Track;
    // I3: a send that was not answered may have been the one that a node took.
    let doubted = outcome.doubted || tx.answers.all().is_none();
    let (hold, shown) = (tx.hold(), tx.holds.shown());
    let noted = |what| TxUpdate::noted(tx.tx_id, tx.row, what);
    let (state, attempts) = (tx.row.state, tx.attempts.len());
    let event = event_for(action_for(class), &AnsweredTx { state, attempts, doubted, is_news });
    let mut update = match event {
        Some(event) => moved(tx, event)?,
        None if is_first && is_taken => noted(TxEvent::NodeAccepted.name()),
        None if is_first => noted(TxEvent::AnswerUnclear.name()),
        None if hold != shown && hold.is_some() => noted("held"),
        None if hold != shown && is_taken => noted("hold_over"),
        None => return Ok(None),
    };
    let is_taken = event.map_or(is_taken, |event| event == TxEvent::NodeAccepted);
    if !is_taken {
        update.last_error = Some(Text::lossy(said));
        debug!(tx_id = %tx.tx_id, class = class.name(), said, "send not accepted");
    } else if shown.is_some() && hold.is_none() {
        update.clear_error();
    }
    Ok(Some(update))
}
