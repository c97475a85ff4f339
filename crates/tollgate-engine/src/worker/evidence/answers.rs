//! Turns answers of nodes to sends into changes of transactions, and into what else they call for.

use std::collections::BTreeMap;

use serde_json::json;
use tollgate_model::answer::{AnswerAction, AnswerClass, AnsweredTx, action_for, event_for};
use tollgate_model::port::span::{SpanKind, SpanSink};
use tollgate_model::port::{AlertKind, TxUpdate};
use tollgate_model::resubmit::hold_of;
use tollgate_model::{Nonce, Route, StuckReason, Submitter, Text, TraceParent, TxEvent};
use tracing::debug;

use super::{ANSWERS, Changes};
use crate::mailbox::SendOutcome;
use crate::spans::{self, About, OfTx};
use crate::worker::alarm::AlertSubject;
use crate::worker::in_flight::{AnswerNotes, InFlightTx};
use crate::worker::session::{Session, moved};
use crate::worker::{Stop, upkeep};

/// The follow-ups of answers, once their records are durable.
pub(super) struct Answered {
    /// The newest answer of each slot.
    newest: BTreeMap<Nonce, SendOutcome>,
    follow_ups: [FollowUp; Route::ALL.len()],
    hold_is_over: bool,
}

/// Notes the answers of nodes to sends, and adds the changes that they call for.
pub(super) fn judge(
    session: &mut Session,
    changes: &mut Changes,
    answers: Vec<SendOutcome>,
) -> Result<Answered, Stop> {
    // The newest answer of each slot, from the lowest up.
    let mut newest: BTreeMap<Nonce, SendOutcome> = BTreeMap::new();
    let mut notes: BTreeMap<Nonce, AnswerNotes> = BTreeMap::new();
    for outcome in answers {
        session.context.metrics.tx_submit_total.inc(outcome.answer.class);
        let Some(tx) = session.state.tx_mut(outcome.tx_id) else { continue };
        let noted = tx.note_answer(&outcome.raw, &outcome.answer, outcome.doubted);
        if let Some(trace) = tx.trace {
            record_send(&*session.context.spans, (session.submitter, trace), tx, &outcome);
        }
        notes.entry(tx.nonce).or_default().add(noted);
        newest.insert(tx.nonce, outcome);
    }
    let hold_is_over = notes.values().any(|notes| notes.ends_hold);
    let mut updates = Vec::new();
    let mut follow_ups = Route::ALL.map(FollowUp::on);
    for (nonce, outcome) in &newest {
        let tx = session.state.tx(outcome.tx_id);
        // A receipt says more, be it recorded already or with these changes.
        let Some(tx) = tx.filter(|tx| tx.mined.is_none() && !changes.has(tx.tx_id)) else {
            continue;
        };
        let follow_up = follow_ups.iter_mut().find(|it| it.route == outcome.route);
        follow_up.into_iter().for_each(|it| it.add(*nonce, outcome.answer.class));
        updates.extend(update_for(tx, outcome, notes[nonce])?);
    }
    changes.add(ANSWERS, updates);
    Ok(Answered { newest, follow_ups, hold_is_over })
}

impl Answered {
    /// Carries out what answers call for beside their records.
    pub(super) fn follow_up(self, session: &mut Session) {
        let Self { newest, follow_ups, hold_is_over } = self;
        let now = session.now();
        for outcome in newest.values() {
            if let Some(tx) = session.state.tx_mut(outcome.tx_id) {
                tx.note_hold_shown();
            }
            alert_hold(session, outcome);
        }
        let in_flight = session.state.in_flight_mut();
        for follow_up in &follow_ups {
            if let Some(nonce) = follow_up.taken {
                in_flight.resend_refused_above(nonce, Some(follow_up.route), now);
            }
            if let Some(nonce) = follow_up.refused {
                in_flight.resend_missing(nonce, &session.context.options.resubmit, now);
            }
        }
        if hold_is_over {
            // Somebody has paid in, or the market came down: what else was held is due now.
            let held = |tx: &&mut InFlightTx| tx.refused_for().is_some() && tx.mined.is_none();
            in_flight.iter_mut().filter(held).for_each(|tx| tx.sending.make_due(now));
        }
        let used: Vec<Nonce> = follow_ups.into_iter().flat_map(|it| it.used).collect();
        if !used.is_empty() {
            session.state.chain_count_mut().note_drift();
            session.agenda.reconcile_soon(now);
            upkeep::want_lookup(session, &used);
            session.agenda.tick_now();
        }
    }
}

/// Records a send of a traced transaction.
fn record_send(
    spans: &dyn SpanSink,
    (submitter, trace): (Submitter, TraceParent),
    tx: &InFlightTx,
    outcome: &SendOutcome,
) {
    let class = outcome.answer.class;
    let failed = action_for(class) != AnswerAction::Track;
    let about =
        About { name: "transaction send", kind: SpanKind::Client, took: outcome.took, failed };
    let sent = tx.attempts.iter().find(|attempt| attempt.signed.raw == outcome.raw);
    let tx_hash = sent.map(|attempt| attempt.signed.tx_hash);
    let of = OfTx { tx_id: tx.tx_id, submitter, tx_hash };
    let answer = ("tollgate.answer", class.name().to_owned());
    spans::record(spans, trace, &about, of, [answer]);
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

/// The steps that answers on one route call for beside their records.
struct FollowUp {
    route: Route,
    /// The lowest nonce below which a node lacks one.
    refused: Option<Nonce>,
    /// The lowest nonce that a node has now: what was refused behind it is sent again.
    taken: Option<Nonce>,
    /// Slots that a node counts as used.
    used: Vec<Nonce>,
}

impl FollowUp {
    const fn on(route: Route) -> Self {
        Self { route, refused: None, taken: None, used: Vec::new() }
    }

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
        debug!(tx_id = %tx.tx_id, class = class.name(), error = said, "send not accepted");
    } else if shown.is_some() && hold.is_none() {
        update.clear_error();
    }
    let sent = tx.attempts.iter().find(|it| is_taken && it.signed.raw == outcome.raw);
    update.sent_hash = sent.map(|it| it.signed.tx_hash);
    if is_taken && tx.intent.private.is_some() {
        let taken = json!({ "route": outcome.route.name(), "answer": said });
        update.detail = Some(Text::lossy(&taken.to_string()));
    }
    Ok(Some(update))
}
