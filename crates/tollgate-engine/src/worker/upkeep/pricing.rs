//! Bumps the price of the head of line, if the policy says so.

use tollgate_model::bump::{BumpDecision, BumpView, to_beat};
use tollgate_model::port::{AlertKind, AttemptKind, TxUpdate};
use tollgate_model::resubmit::is_resent;
use tracing::{info, warn};

use crate::worker::alarm::AlertSubject;
use crate::worker::commands::{ActionFailure, ActionOrigin, ceiling, send_attempt, sign_bump};
use crate::worker::in_flight::InFlightTx;
use crate::worker::{Session, Stop};

/// Asks the bump policy about the head, and carries out what it says.
pub(super) async fn bump_head(session: &mut Session) -> Result<(), Stop> {
    let head = session.state.in_flight().head().filter(|tx| is_resent(tx.row.state));
    let Some(tx) = head.filter(|_| session.context.policies.bump.is_on()).cloned() else {
        return Ok(());
    };
    let Some((view, kind)) = bump_view(session, &tx).await else { return Ok(()) };
    match session.context.policies.bump.decide(&view, session.now()) {
        BumpDecision::Bump { to } => {
            let bumped = match sign_bump(session, &tx, kind, to).await {
                Ok(attempt) => {
                    let update = TxUpdate::noted(tx.tx_id, tx.row, "bumped");
                    let reason = format!("{} wei", attempt.fees.max_fee.wei());
                    let origin = ActionOrigin::new("gasbump", "bump", &reason);
                    send_attempt(session, &tx, update, attempt, origin).await
                }
                Err(why) => Err(why.into()),
            };
            match bumped {
                Ok(hash) => info!(tx_id = %tx.tx_id, tx_hash = %hash, "gas bumped"),
                Err(ActionFailure::Stop(stop)) => return Err(stop),
                Err(ActionFailure::Refused(why)) => {
                    warn!(tx_id = %tx.tx_id, error = %why, "gas bump not possible");
                }
            }
        }
        BumpDecision::HoldAtCap { why } => {
            let (allows, _) = view.ceiling.price_for(view.last.gas_limit);
            let detail = format!(
                "a cap is reached: the market asks for {} wei per gas, and {} allows {} wei",
                view.quote.max_fee.wei(),
                why.name(),
                allows.wei()
            );
            session.alert(AlertKind::FeeCap, AlertSubject::slot(tx.tx_id, tx.nonce), &detail);
        }
        BumpDecision::NotPrice
        | BumpDecision::Wait { .. }
        | BumpDecision::Exhausted
        | BumpDecision::Off => {}
    }
    Ok(())
}

/// The question to the bump policy and the kind of the next attempt; `None` if the chain can't be asked.
async fn bump_view(session: &Session, tx: &InFlightTx) -> Option<(BumpView, AttemptKind)> {
    let closing = tx.closing();
    let view = BumpView {
        may_sign: session.has_key() && (closing.is_some() || tx.intent.signed.is_none()),
        is_head: true,
        last: to_beat(tx.offers()).or_else(|| tx.dearest())?,
        last_at: tx.newest()?.signed_at,
        bumps: u16::try_from(tx.attempts.len().saturating_sub(1)).unwrap_or(u16::MAX),
        quote: session.context.chain.fee_quote(tx.intent.speed).await.ok()?,
        ceiling: ceiling(session, &tx.intent, closing.is_some()),
        last_answer: tx.answers.last(),
        diagnosis: tx.diagnosis,
    };
    Some((view, closing.unwrap_or(AttemptKind::Bump)))
}
