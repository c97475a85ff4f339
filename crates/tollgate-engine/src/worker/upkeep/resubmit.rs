//! Resubmits transactions that no block has picked up for a while: claimed first (I11), then the same bytes.

use std::time::Duration;

use tollgate_model::hindrance::Hindrance;
use tollgate_model::port::{Schedule, TxUpdate};
use tollgate_model::resubmit::{Patience, ResubmitDecision, ResubmitView, decide, is_resent};
use tollgate_model::{Text, TxEvent, TxState};

use super::Effects;
use super::head::HeadWatch;
use crate::worker::Stop;
use crate::worker::in_flight::InFlightTx;
use crate::worker::session::{Session, moved};

pub(super) fn resubmit(session: &Session, head: &HeadWatch) -> Result<Effects, Stop> {
    let (now, rules) = (session.now(), session.context.options.resubmit);
    let mut effects = Effects::default();
    for tx in session.state.in_flight().unmined().filter(|tx| !tx.awaits_lookup()) {
        let patience = tx.sending.patience();
        let view = ResubmitView {
            tx_id: tx.tx_id,
            route: tx.route(now),
            fell_back: tx.fell_back(now),
            state: tx.row.state,
            is_head: head.is(tx.tx_id),
            since: patience.since,
            resends: patience.resends,
            sent_at: tx.sending.sent_at(),
            last_answer: tx.answers.last(),
            hindered_by: tx.holds.hindrance().map(Hindrance::reason),
            hold_may_be_over: head.hold_may_be_over(),
            hindrance_is_over: tx.holds.hindrance_is_over(),
        };
        let is_due = is_resent(tx.row.state) && tx.sending.is_due(now);
        match decide(&rules, &view, now) {
            ResubmitDecision::AskPolicy(reason) => {
                effects.updates.push(moved(tx, TxEvent::GaveUp(reason))?);
                effects.stuck.push((tx.tx_id, reason));
            }
            ResubmitDecision::Wait { .. } | ResubmitDecision::Leave if !is_due => {}
            ResubmitDecision::Resend if view.fell_back => {
                let patience = Patience::from(now);
                let mut claim = resend_claim(tx, rules.pause(view.route, tx.tx_id, 0))?;
                claim.patience = view.is_head.then_some(patience);
                claim.detail =
                    Some(Text::lossy("public endpoints get it too: fallbackAfter has passed"));
                effects.updates.push(claim);
                effects.resends.push(tx.tx_id);
                effects.tried.insert(tx.tx_id, patience);
            }
            // It may be mined: it is looked for first, beside the work.
            _ if !tx.lookup.is_fresh(now) => effects.lookups.push(tx.nonce),
            ResubmitDecision::Wait { until } if tx.sending.is_taken_over => {
                let mut claim = resend_claim(tx, until.since(now))?;
                claim.patience = view.is_head.then_some(patience);
                effects.updates.push(claim);
                effects.resends.push(tx.tx_id);
            }
            ResubmitDecision::Resend | ResubmitDecision::Wait { .. } | ResubmitDecision::Leave => {
                let patience = patience.resent();
                let mut claim =
                    resend_claim(tx, rules.pause(view.route, tx.tx_id, patience.resends))?;
                claim.patience = view.is_head.then_some(patience);
                effects.updates.push(claim);
                effects.resends.push(tx.tx_id);
                effects.tried.insert(tx.tx_id, patience);
            }
        }
    }
    Ok(effects)
}

fn resend_claim(tx: &InFlightTx, next: Duration) -> Result<TxUpdate, Stop> {
    let mut update = match tx.row.state {
        TxState::Tracking(_) => moved(tx, TxEvent::Resent)?,
        TxState::Queued(_)
        | TxState::Allocated(_)
        | TxState::Confirmed
        | TxState::Failed(_)
        | TxState::Stuck(_) => TxUpdate::noted(tx.tx_id, tx.row, "resend_claimed"),
    };
    update.resubmitted = true;
    update.schedule = Schedule::In(next);
    Ok(update)
}
