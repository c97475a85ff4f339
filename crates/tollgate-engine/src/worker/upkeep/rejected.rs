//! Recycles, closes or holds the slots of transactions that every endpoint rejects.

use std::time::Duration;

use tollgate_model::port::AlertKind;
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::policy::{Replacement, StuckAction};
use tollgate_model::rejected::{RejectedDecision, RejectedSlot, RejectedView, decide};
use tollgate_model::{TxEvent, TxId};
use tracing::info;

use super::Effects;
use crate::worker::Stop;
use crate::worker::alarm::AlertSubject;
use crate::worker::commands::{ActionFailure, ActionOrigin, Commands, carry_out_action};
use crate::worker::in_flight::InFlightTx;
use crate::worker::session::{Session, moved};

/// The time between two looks at rejected slots that are held.
const LOOK: Duration = Duration::from_secs(5);

pub(super) async fn settle(session: &mut Session, commands: &mut Commands) -> Result<(), Stop> {
    let now = session.now();
    if !session.agenda.is_rejected_due(now) {
        return Ok(());
    }
    let rejected = session.state.in_flight().iter();
    let rejected = rejected.filter(|tx| tx.may_be_rejected() && !tx.awaits_lookup());
    let rejected: Vec<TxId> = rejected.map(|tx| tx.tx_id).collect();
    if rejected.is_empty() {
        return Ok(());
    }
    // A count of before the last answer proves nothing: it is read anew where it matters.
    let counts = match session.context.options.rejected_slot {
        RejectedSlot::Recycle => session.chain_counts().await.ok(),
        RejectedSlot::Hold | RejectedSlot::Placeholder => None,
    };
    session.agenda.look_at_rejected(now.after(LOOK));
    // One after the other: what is done about one changes what the others are asked about.
    for tx_id in rejected {
        let Some(tx) = session.state.tx(tx_id) else { continue };
        match judge(session, tx, counts) {
            RejectedDecision::Placeholder => place_holder(session, tx_id).await?,
            decision => effects(session, tx, decision)?.carry_out(session, commands).await?,
        }
    }
    Ok(())
}

fn judge(session: &Session, tx: &InFlightTx, counts: Option<AccountCounts>) -> RejectedDecision {
    let view = RejectedView {
        state: tx.row.state,
        nonce: tx.nonce,
        mode: session.state.mode(),
        answers: tx.answers.all(),
        counts,
        receipts_looked_for: tx.answers.no_receipts,
        higher_open: session.state.in_flight().highest() > Some(tx.nonce),
        next_waits: session.state.queue().has_next(session.now()),
        has_key: session.has_key(),
        closing: tx.closing().is_some(),
        is_private: tx.intent.private.is_some(),
    };
    decide(session.context.options.rejected_slot, &view)
}

fn effects(
    session: &Session,
    tx: &InFlightTx,
    decision: RejectedDecision,
) -> Result<Effects, Stop> {
    let mut effects = Effects::default();
    match decision {
        RejectedDecision::Leave | RejectedDecision::Placeholder => {}
        // It is decided about when the lookup has ended.
        RejectedDecision::FindReceipts => effects.lookups.push(tx.nonce),
        RejectedDecision::Hold(why) => {
            let subject = AlertSubject::slot(tx.tx_id, tx.nonce);
            let detail = with_answer(format!("nonce kept: {why}"), tx);
            effects.alerts.push((AlertKind::Rejected, subject, detail));
        }
        RejectedDecision::Recycle => {
            let (submitter, tx_id, nonce) = (session.submitter, tx.tx_id, tx.nonce);
            info!(%submitter, %tx_id, %nonce, "slot recycled; no node ever took the transaction");
            let mut update = moved(tx, TxEvent::SlotRecycled)?;
            update.freed_nonce = Some(nonce);
            effects.updates.push(update);
        }
    }
    Ok(effects)
}

async fn place_holder(session: &mut Session, tx_id: TxId) -> Result<(), Stop> {
    let Some(nonce) = session.state.tx(tx_id).map(|tx| tx.nonce) else { return Ok(()) };
    let reason = "every endpoint rejects it";
    let origin = ActionOrigin::new(ActionOrigin::REJECTED_SLOT, "placeholder", reason);
    let (wanted, with) = (StuckAction::Placeholder, Replacement::default());
    match carry_out_action(session, tx_id, wanted, &with, origin).await {
        Ok(_) => Ok(()),
        Err(ActionFailure::Stop(stop)) => Err(stop),
        Err(ActionFailure::Refused(why)) => {
            let Some(tx) = session.state.tx(tx_id) else { return Ok(()) };
            let detail = with_answer(format!("no placeholder: {why}"), tx);
            session.alert(AlertKind::Rejected, AlertSubject::slot(tx_id, nonce), &detail);
            Ok(())
        }
    }
}

/// A detail with the nodes' own text, by which people find the cause.
fn with_answer(detail: String, tx: &InFlightTx) -> String {
    match tx.answers.rejection() {
        Some(said) => format!("{detail}; the nodes said: {said}"),
        None => detail,
    }
}
