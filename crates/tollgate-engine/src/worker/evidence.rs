//! Turns what blocks and nodes say into changes of transactions: receipts, forks, finality and answers to sends.
//! Owns no fields.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;
use tollgate_model::answer::{AnswerAction, AnswerClass, AnsweredTx, action_for, event_for};
use tollgate_model::finality::{is_settled, verdict};
use tollgate_model::port::{
    AlertKind, AttemptKind, Checkpoint, Confirmations, Evidence, Schedule, Section, TxReceipt,
    TxUpdate,
};
use tollgate_model::resubmit::hold_of;
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{Address, B256, Nonce, Route, StuckReason, Text, TxEvent, TxId};
use tracing::{debug, warn};

use super::alarm::AlertSubject;
use super::in_flight::{AnswerNotes, InFlightTx};
use super::session::{Session, moved};
use super::{Stop, upkeep};
use crate::mailbox::SendOutcome;
use crate::view::{ChainView, Standing};

/// Records receipts of attempts.
pub(super) async fn record_receipts(
    session: &mut Session,
    receipts: Vec<TxReceipt>,
    view: &ChainView,
) -> Result<(), Stop> {
    let mut section = session.section();
    let mut noted = HashSet::new();
    // The newest first: a transaction may have been in two blocks since the last look.
    for receipt in receipts.into_iter().rev() {
        if let Err(impossible) = receipt.check() {
            warn!(tx_hash = %receipt.tx_hash, error = %impossible, "receipt ignored");
            continue;
        }
        match view.standing(receipt.block_number, receipt.block_hash) {
            Standing::Canonical | Standing::Older => {}
            // The tracker delivers what is ahead once the view has its block.
            Standing::Orphaned | Standing::Ahead => continue,
        }
        let Some(tx) = session.state.in_flight().by_hash(receipt.tx_hash) else { continue };
        let is_known = tx.mined.as_ref().is_some_and(|known| known.has_outcome_of(&receipt));
        if !is_known && !tx.is_refuted(&receipt) && noted.insert(tx.tx_id) {
            section.updates.push(mined(session.submitter.address, tx, receipt, view)?);
        }
    }
    record_at(session, section, (Checkpoint::ReceiptsSeen, Checkpoint::ReceiptsRecorded)).await
}

fn mined(
    sender: Address,
    tx: &InFlightTx,
    receipt: TxReceipt,
    view: &ChainView,
) -> Result<TxUpdate, Stop> {
    let receipt = match tx.attempt(receipt.tx_hash) {
        Some(signed) => {
            let creates = tx.intent.to.is_none() && tx.closing().is_none();
            let created = creates.then(|| sender.create(tx.nonce.get()));
            receipt.checked_by(&signed.fees, created)
        }
        None => receipt,
    };
    let mut update = moved(tx, TxEvent::Mined)?;
    if tx.mined.is_some() {
        // From one block to another within one pass.
        update.confirmations = Some(confirmations(&receipt, view, true));
    }
    update.evidence = Evidence::Set(receipt);
    update.schedule = Schedule::Never;
    Ok(update)
}

/// I9: a receipt whose block left the canonical chain is no receipt, nor is one that was refuted.
/// `blocks_left` are blocks below the view; they count once, so that a receipt that is found again is
/// looked at anew.
pub(super) async fn record_forks(
    session: &mut Session,
    blocks_left: &HashSet<(u64, B256)>,
    refuted: &[TxReceipt],
    view: &ChainView,
) -> Result<(), Stop> {
    let left = |mined: &TxReceipt| match view.standing(mined.block_number, mined.block_hash) {
        Standing::Orphaned => true,
        Standing::Older => blocks_left.contains(&(mined.block_number, mined.block_hash)),
        Standing::Canonical | Standing::Ahead => {
            refuted.iter().any(|refuted| refuted.has_outcome_of(mined))
        }
    };
    for receipt in refuted {
        let tx = session.state.in_flight().by_hash(receipt.tx_hash).map(|tx| tx.tx_id);
        if let Some(tx) = tx.and_then(|tx_id| session.state.tx_mut(tx_id)) {
            tx.note_refuted(receipt);
        }
    }
    for tx in session.state.in_flight_mut().iter_mut() {
        // What was seen in a slot is looked for anew as well.
        tx.slot.forget_blocks(blocks_left);
    }
    let orphans = session.state.in_flight().iter();
    let orphans = orphans.filter(|tx| tx.mined.as_ref().is_some_and(left)).map(|tx| tx.tx_id);
    let orphans = orphans.collect();
    take_back(session, orphans, view).await
}

/// Goes back to tracking what was in blocks that left the chain, and sends it again.
async fn take_back(
    session: &mut Session,
    orphans: Vec<TxId>,
    view: &ChainView,
) -> Result<(), Stop> {
    let mut updates = Vec::new();
    for tx in orphans.iter().filter_map(|tx_id| session.state.tx(*tx_id)) {
        let Some(mined) = &tx.mined else { continue };
        let mut update = moved(tx, TxEvent::Orphaned)?;
        update.evidence = Evidence::Clear;
        update.confirmations = Some(confirmations(mined, view, true));
        updates.push(update);
    }
    let unwritten = session.apply_all(updates).await?;
    for tx_id in orphans.into_iter().filter(|tx_id| !unwritten.contains(*tx_id)) {
        warn!(%tx_id, "block left the chain; transaction is tracked and sent again");
        session.send(tx_id);
    }
    Ok(())
}

/// Notes receipts that are supported well enough to be final, and records those whose details were corrected.
pub(super) async fn note_support(
    session: &mut Session,
    supported: Vec<TxReceipt>,
) -> Result<(), Stop> {
    let mut section = session.section();
    for receipt in supported {
        let tx = session.state.in_flight().by_hash(receipt.tx_hash).map(|tx| tx.tx_id);
        let Some(tx) = tx.and_then(|tx_id| session.state.tx_mut(tx_id)) else { continue };
        tx.supported = Some(receipt);
        if let Some(corrected) = corrected_details(tx) {
            let mut update = TxUpdate::noted(tx.tx_id, tx.row, "receipt_corrected");
            update.evidence = Evidence::Set(corrected);
            section.updates.push(update);
        }
    }
    record_at(session, section, (Checkpoint::ReceiptsSeen, Checkpoint::ReceiptsRecorded)).await
}

/// The receipt of a transaction with the details that the endpoints support, if some of those that it has are not.
fn corrected_details(tx: &InFlightTx) -> Option<TxReceipt> {
    let (mined, supported) = (tx.mined.as_ref()?, tx.supported.as_ref()?);
    let differs = mined.has_outcome_of(supported) && mined.details != supported.details;
    differs.then(|| TxReceipt { details: supported.details, ..mined.clone() })
}

/// I8: only a receipt in the canonical chain at the threshold is final, and only with support. Support is
/// requested once another block is on top, so that it is there in time.
pub(super) async fn record_finality(session: &mut Session, view: &ChainView) -> Result<(), Stop> {
    let Some(height) = view.height() else { return Ok(()) };
    let (rule, support) = (session.context.options.finality, &session.context.support);
    let needs_support = support.is_needed();
    let (mut section, mut orphans) = (session.section(), Vec::new());
    for tx in session.state.in_flight().iter() {
        let Some(mined) = &tx.mined else { continue };
        let is_settled = is_settled(rule, height, mined.block_number);
        let is_supported = !needs_support || tx.is_supported();
        if !is_settled && (is_supported || height.head <= mined.block_number) {
            continue;
        }
        match view.standing(mined.block_number, mined.block_hash) {
            Standing::Canonical if !is_supported => support.request(session.submitter, mined),
            _ if !is_settled => {}
            Standing::Canonical => {
                let mut update = moved(tx, TxEvent::Finalised(verdict_of(tx, mined)))?;
                update.confirmations = Some(confirmations(mined, view, tx.forked));
                section.updates.push(update);
            }
            Standing::Orphaned => orphans.push(tx.tx_id),
            Standing::Ahead => {}
            Standing::Older => check_older(session, mined.block_number, mined.block_hash),
        }
    }
    record_at(session, section, (Checkpoint::FinalityJudged, Checkpoint::FinalityRecorded)).await?;
    take_back(session, orphans, view).await
}

/// Records a section that is not empty between two checkpoints.
async fn record_at(
    session: &mut Session,
    section: Section,
    (before, after): (Checkpoint, Checkpoint),
) -> Result<(), Stop> {
    if section.updates.is_empty() {
        return Ok(());
    }
    session.reached(before).await;
    session.record(section).await?;
    session.reached(after).await;
    Ok(())
}

/// Has a block below the view checked, beside the worker and once per block: it may have left the chain
/// before the view began.
pub(super) fn check_older(session: &Session, number: u64, hash: B256) {
    let newest = || session.context.view.get();
    session.context.older_blocks.check(session.submitter, (number, hash), newest);
}

/// The blocks on top of a receipt, as far down as the view holds them.
fn confirmations(mined: &TxReceipt, view: &ChainView, new_fork: bool) -> Confirmations {
    let (first_block, hashes) = view.hashes_from(mined.block_number);
    Confirmations { first_block, hashes, new_fork }
}

fn verdict_of(tx: &InFlightTx, mined: &TxReceipt) -> FinalOutcome {
    let kind = tx.attempt(mined.tx_hash).map_or(AttemptKind::Intent, |signed| signed.kind);
    verdict(kind, mined.succeeded)
}

/// Records the answers of nodes to sends.
pub(super) async fn record_answers(
    session: &mut Session,
    answers: Vec<SendOutcome>,
) -> Result<(), Stop> {
    let now = session.now();
    // The newest answer of each slot, from the lowest up.
    let mut newest: BTreeMap<Nonce, SendOutcome> = BTreeMap::new();
    let mut notes: BTreeMap<Nonce, AnswerNotes> = BTreeMap::new();
    for outcome in answers {
        session.context.metrics.tx_submit_total.inc(outcome.answer.class);
        let Some(tx) = session.state.tx_mut(outcome.tx_id) else { continue };
        let noted = tx.note_answer(&outcome.raw, &outcome.answer, outcome.doubted);
        notes.entry(tx.nonce).or_default().add(noted);
        newest.insert(tx.nonce, outcome);
    }
    let hold_is_over = notes.values().any(|notes| notes.ends_hold);
    let mut section = session.section();
    let mut follow_ups = Route::ALL.map(FollowUp::on);
    for (nonce, outcome) in &newest {
        let tx = session.state.tx(outcome.tx_id);
        let Some(tx) = tx.filter(|tx| tx.mined.is_none()) else { continue };
        let follow_up = follow_ups.iter_mut().find(|it| it.route == outcome.route);
        follow_up.into_iter().for_each(|it| it.add(*nonce, outcome.answer.class));
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
        session.state.note_drift();
        session.agenda.reconcile_soon(now);
        upkeep::want_lookup(session, &used);
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
