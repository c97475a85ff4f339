//! Ends what expired without a slot; marks what has one, so that the policy is asked.

use tollgate_model::expiry::{ExpiryDecision, ExpiryView, decide};
use tollgate_model::port::{RowVersion, TxUpdate};
use tollgate_model::{StuckReason, Text, Timestamp, TxId};
use tracing::info;

use super::Effects;
use crate::worker::{Session, Stop};

pub(super) fn expire(session: &Session) -> Result<Effects, Stop> {
    let now = session.now();
    let mut effects = Effects { updates: queued(session, now)?, ..Effects::default() };
    for tx in session.state.in_flight().iter().filter(|tx| !tx.awaits_lookup()) {
        let view = ExpiryView {
            state: tx.row.state,
            valid_until: tx.intent.expires_at(),
            closing: tx.closing().is_some(),
            decided_at: tx.decisions.acted_at,
        };
        if let Some(update) = expired(&view, tx.tx_id, tx.row, now)? {
            effects.stuck.push((tx.tx_id, StuckReason::Expired));
            effects.updates.push(update);
        }
    }
    Ok(effects)
}

/// Ends what expired without a slot.
pub(in crate::worker) async fn withdraw_expired(session: &mut Session) -> Result<(), Stop> {
    let updates = queued(session, session.now())?;
    session.apply_all(updates).await.map(|_| ())
}

fn queued(session: &Session, now: Timestamp) -> Result<Vec<TxUpdate>, Stop> {
    let mut updates = Vec::new();
    for queued in session.state.queue().iter() {
        let view = ExpiryView {
            state: queued.row.state,
            valid_until: queued.intent.expires_at(),
            closing: false,
            decided_at: None,
        };
        updates.extend(expired(&view, queued.tx_id, queued.row, now)?);
    }
    Ok(updates)
}

/// The change that an expiry makes, if it makes one.
fn expired(
    view: &ExpiryView,
    tx_id: TxId,
    row: RowVersion,
    now: Timestamp,
) -> Result<Option<TxUpdate>, Stop> {
    let decision = decide(view, now);
    let Some(event) = decision.event() else { return Ok(None) };
    if decision == ExpiryDecision::Withdraw {
        info!(%tx_id, "transaction expired before it had a slot");
    }
    let mut update = TxUpdate::moved(tx_id, row, event)?;
    update.detail = Some(Text::lossy("validUntil has passed"));
    Ok(Some(update))
}
