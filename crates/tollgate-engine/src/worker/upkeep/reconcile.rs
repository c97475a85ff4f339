//! Compares the chain's count with cursor and open slots, and acts on what differs.
//!
//! The rules are the model's. A slot is called taken only after a foreign transaction was seen in it, in a
//! settled block of the canonical chain, and is none of its attempts (I8). The looking is
//! [`super::search`]'s.

use std::time::Duration;

use tollgate_metrics::ReconcileResult;
use tollgate_model::finality::{is_settled, settled_up_to};
use tollgate_model::nonce::{Mode, SubmitterStatus, Unexplained, unexplained};
use tollgate_model::port::chain::{AccountCounts, Occupant, PastCount};
use tollgate_model::port::{AlertKind, FinalSlot, Page, StatusChange, TxUpdate, WaitKind};
use tollgate_model::reconcile::{
    BlockStanding, Foreign, OpenSlot, ReconcileStep, ReconcileView, SettledCount,
    has_disputed_slots, reconcile,
};
use tollgate_model::{Nonce, StuckReason, Text, Timestamp, TxEvent};
use tracing::{error, info, warn};

use super::{Upkeep, align_holds, holes};
use crate::act::Reconciled;
use crate::view::{ChainView, Standing};
use crate::worker::Stop;
use crate::worker::alarm::AlertSubject;
use crate::worker::commands::ActionFailure;
use crate::worker::evidence::check_older;
use crate::worker::in_flight::InFlightTx;
use crate::worker::intake::Intake;
use crate::worker::session::{Session, moved};

/// The pause before a foreign transaction in one of our slots is looked at again.
pub(in crate::worker) const FOREIGN_LOOK: Duration = Duration::from_secs(1);

/// Comparisons that fail in a row, five seconds apart, before an alert is raised.
const FAILURES_TO_ALERT: u32 = 6;

impl Upkeep {
    pub(super) async fn reconcile_if_due(
        &mut self,
        session: &mut Session,
        intake: &mut Intake,
    ) -> Result<(), Stop> {
        let now = session.now();
        if !session.agenda.is_reconcile_due(now) {
            return Ok(());
        }
        match self.reconcile_now(session, intake).await {
            Ok(_) => {
                self.reconcile_failures = 0;
                Ok(())
            }
            Err(ActionFailure::Stop(stop)) => Err(stop),
            // The chain can't be asked: soon again.
            Err(ActionFailure::Refused(why)) => {
                warn!(submitter = %session.submitter, error = %why, "not reconciled");
                self.reconcile_failures = self.reconcile_failures.saturating_add(1);
                if self.reconcile_failures >= FAILURES_TO_ALERT {
                    let detail = format!("not compared with the chain: {why}");
                    session.alert(AlertKind::ReconcileFailure, AlertSubject::default(), &detail);
                }
                session.agenda.reconcile_at(now.after(FOREIGN_LOOK * 5));
                Ok(())
            }
        }
    }

    /// Compares now, and does what follows. Searches run beside it; when one is done, it is compared again.
    pub(in crate::worker) async fn reconcile_now(
        &mut self,
        session: &mut Session,
        intake: &mut Intake,
    ) -> Result<Reconciled, ActionFailure> {
        let reconciled = self.compare(session, intake).await;
        session.context.metrics.reconcile_total.inc(match &reconciled {
            Ok(done) if done.steps.is_empty() => ReconcileResult::Agreed,
            Ok(_) => ReconcileResult::Acted,
            Err(_) => ReconcileResult::Error,
        });
        reconciled
    }

    async fn compare(
        &mut self,
        session: &mut Session,
        intake: &mut Intake,
    ) -> Result<Reconciled, ActionFailure> {
        let now = session.now();
        session.agenda.reconcile_at(now.after(session.context.options.reconcile_interval));
        let counts = session.chain_counts().await?;
        let settled = settled_count(session, counts).await?;
        let steps = with_reconcile_view(session, counts, settled, reconcile).map_err(Stop::from)?;
        if with_reconcile_view(session, counts, settled, has_disputed_slots).map_err(Stop::from)? {
            session.prove_count();
            session.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
        }
        write_steps(session, &steps).await?;
        self.take_steps(session, &steps, now);
        holes::note_holes(session, intake, &steps).await?;
        let mut words: Vec<_> = steps.iter().map(ToString::to_string).collect();
        words.dedup();
        words.extend(session.lacks_final_slots_since().map(|_| {
            let end = session.state.final_end();
            format!("no endpoint counts the transactions below nonce {end}, which are final here")
        }));
        Ok(Reconciled { cursor: session.state.cursor(), counts, steps: words })
    }

    /// Does what is not written.
    fn take_steps(&mut self, session: &mut Session, steps: &[ReconcileStep], now: Timestamp) {
        let (mut wanted, mut unexplained) = (Vec::new(), None);
        for step in steps {
            match step {
                ReconcileStep::FindReceipts { nonce } => wanted.push(*nonce),
                ReconcileStep::NoteReceipt { nonce, .. } => search_again(session, *nonce, now),
                ReconcileStep::AwaitFinality { nonce } => await_finality(session, *nonce, now),
                ReconcileStep::AwaitProof(why) => unexplained = Some(*why),
                ReconcileStep::Protect(_)
                | ReconcileStep::Hole(_)
                | ReconcileStep::MoveCursor(_)
                | ReconcileStep::Unproven { .. }
                | ReconcileStep::SlotTaken { .. } => {}
            }
        }
        await_proof(session, unexplained, now);
        self.searches.begin(session, &wanted, now);
    }
}

/// Asks a rule of reconciliation.
pub(in crate::worker) fn with_reconcile_view<T>(
    session: &Session,
    counts: AccountCounts,
    settled: Option<SettledCount>,
    rule: impl FnOnce(&ReconcileView<'_>) -> T,
) -> T {
    let (now, view) = (session.now(), session.context.view.get());
    let slot = |tx: &InFlightTx| {
        let seen = tx.slot.occupant();
        let block = seen.map_or(BlockStanding::Open, |seen| block_standing(session, seen, &view));
        tx.open_slot(block, now)
    };
    let state = &session.state;
    let open: Vec<OpenSlot> = state.in_flight().iter().map(slot).collect();
    rule(&ReconcileView {
        mode: state.mode(),
        status: state.status(),
        cursor: state.cursor(),
        counts,
        settled,
        final_end: state.final_end(),
        open: &open,
        reserved: &state.pool().with_callers(),
        patience: session.context.options.resubmit.grey_zone_timeout,
    })
}

/// I8: only a block that the view knows to be canonical can be settled.
fn block_standing(session: &Session, seen: Occupant, view: &ChainView) -> BlockStanding {
    let rule = session.context.options.finality;
    let is_settled = view.height().is_some_and(|at| is_settled(rule, at, seen.block_number));
    match view.standing(seen.block_number, seen.block_hash) {
        Standing::Canonical if is_settled => BlockStanding::Settled,
        Standing::Canonical | Standing::Ahead | Standing::Older => BlockStanding::Open,
        Standing::Orphaned => BlockStanding::Left,
    }
}

/// The count in a block that is settled, where something depends on it.
async fn settled_count(
    session: &Session,
    counts: AccountCounts,
) -> Result<Option<SettledCount>, Stop> {
    let state = &session.state;
    let unexplained = match state.mode() {
        Mode::Strict => unexplained(state.cursor(), session.open_slots(), counts.mined),
        Mode::Pipelined => None,
    };
    let is_in_doubt = state.in_flight().unmined().any(|tx| tx.nonce < counts.mined);
    if unexplained.is_none() && !is_in_doubt {
        return Ok(None);
    }
    let height = session.context.view.get().height();
    let rule = session.context.options.finality;
    let Some(block) = height.and_then(|at| settled_up_to(rule, at)) else { return Ok(None) };
    let past = session.context.chain.count_at(session.submitter.address, block).await;
    let Ok(PastCount { count, highest }) = past else { return Ok(None) };
    let covers_final_slots = match unexplained.filter(|why| count < why.at_least) {
        Some(why) => {
            last_final_block(session, why.at_least).await?.is_some_and(|last| last <= block)
        }
        None => false,
    };
    Ok(Some(SettledCount { count, highest, covers_final_slots }))
}

/// The block of the last of our final slots, which is the one below `end`; `None` if it is not known, as for a
/// slot that an outsider used.
async fn last_final_block(session: &Session, end: Nonce) -> Result<Option<u64>, Stop> {
    let last = session.context.store.final_slots(session.submitter, Page::new(1)?).await?;
    let is_last = |slot: &FinalSlot| slot.nonce.get() + 1 == end.get();
    Ok(last.into_iter().find(is_last).and_then(|slot| slot.block_number))
}

/// PROTECT, the cursor's move and the ends of transactions go into one section: what belongs together is
/// durable together.
async fn write_steps(session: &mut Session, steps: &[ReconcileStep]) -> Result<(), Stop> {
    let mut section = session.section();
    for step in steps {
        match step {
            ReconcileStep::Protect(why) => section.status = Some(protect(session, why)),
            ReconcileStep::MoveCursor(step) => {
                info!(submitter = %session.submitter, cursor = %step.to, "cursor moved past outsiders");
                section.cursor = Some(*step);
            }
            ReconcileStep::SlotTaken { nonce } => section.updates.extend(taken(session, *nonce)?),
            ReconcileStep::Unproven { nonce } => section.updates.extend(unproven(session, *nonce)?),
            ReconcileStep::FindReceipts { .. }
            | ReconcileStep::NoteReceipt { .. }
            | ReconcileStep::AwaitFinality { .. }
            | ReconcileStep::AwaitProof(_)
            | ReconcileStep::Hole(_) => {}
        }
    }
    let protected = section.status.is_some();
    session.record(section).await?;
    if protected { align_holds(session).await } else { Ok(()) }
}

/// I12: a settled block shows what our own slots can't explain. No new work until an operator says so.
fn protect(session: &mut Session, why: &Foreign) -> StatusChange {
    let why = why.to_string();
    error!(submitter = %session.submitter, error = why, "PROTECT: takes no new work");
    // Each time it goes to PROTECT is an event of its own, also soon after the last one.
    session.alert_anew(AlertKind::Protect, AlertSubject::default(), &why);
    session.status_change(SubmitterStatus::Protect, &why)
}

/// The end of a transaction whose slot an outsider used, by what was seen there.
fn taken(session: &mut Session, nonce: Nonce) -> Result<Option<TxUpdate>, Stop> {
    let Some(tx) = session.state.in_flight().at(nonce) else { return Ok(None) };
    let Some(Occupant { tx_hash, block_number, .. }) = tx.slot.occupant() else { return Ok(None) };
    let detail = format!("used by {tx_hash} in block {block_number}, which is not ours");
    let (mut update, subject) =
        (moved(tx, TxEvent::SlotTaken)?, AlertSubject::slot(tx.tx_id, nonce));
    update.detail = Some(Text::lossy(&detail));
    session.alert(AlertKind::NonceTaken, subject, &detail);
    Ok(Some(update))
}

/// I8: what can't be proven is no end. An alert is raised; there is nothing that a policy could do in a slot
/// that is used.
fn unproven(session: &mut Session, nonce: Nonce) -> Result<Option<TxUpdate>, Stop> {
    let Some(tx) = session.state.in_flight().at(nonce) else { return Ok(None) };
    let (reason, detail) = (StuckReason::Unproven, tx.slot.reason());
    let (mut update, subject) =
        (moved(tx, TxEvent::GaveUp(reason))?, AlertSubject::slot(tx.tx_id, nonce));
    update.detail = Some(Text::lossy(&detail));
    session.alert(AlertKind::Stuck, subject, &format!("{}: {detail}", reason.name()));
    Ok(Some(update))
}

/// A receipt is noted when it is found; if the view did not know its block yet, it is looked for again.
fn search_again(session: &mut Session, nonce: Nonce, now: Timestamp) {
    let tx = session.state.in_flight_mut().at_mut(nonce);
    if let Some(tx) = tx.filter(|tx| tx.mined.is_none()) {
        tx.slot.search_again();
        session.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
    }
}

fn await_finality(session: &mut Session, nonce: Nonce, now: Timestamp) {
    let seen = session.state.in_flight().at(nonce).and_then(|tx| tx.slot.occupant());
    let Some(seen) = seen else { return };
    let (number, hash) = (seen.block_number, seen.block_hash);
    if session.context.view.get().standing(number, hash) == Standing::Older {
        check_older(session, number, hash);
    }
    let detail = "a foreign transaction is in the slot, not settled yet";
    session.alert(AlertKind::NonceTaken, AlertSubject::nonce(nonce), detail);
    session.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
}

/// Asks again soon; an alert is raised if that goes on.
fn await_proof(session: &mut Session, why: Option<Unexplained>, now: Timestamp) {
    let Some(why) = why else {
        session.state.waits_mut().retain(WaitKind::Unexplained, |_| false);
        return;
    };
    let since = session.state.waits_mut().since(WaitKind::Unexplained, Nonce::MIN, now);
    session.state.chain_count_mut().note_drift();
    session.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
    let detail = Foreign::Count(why).to_string();
    warn!(submitter = %session.submitter, detail, "count not explained; asked again");
    if now.since(since) >= session.context.options.receipt_alert_after {
        let detail = format!("{detail}; no slot is opened, and no settled block shows it yet");
        session.alert(AlertKind::Protect, AlertSubject::nonce(why.at_most), &detail);
    }
}
