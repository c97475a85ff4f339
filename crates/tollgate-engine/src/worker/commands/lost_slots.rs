//! Sends final transactions again that the chain has lost to a reorg deeper than finality, for an operator.
//!
//! The bytes are the stored ones of the same slots (I3), so nothing is signed, and no state changes (I9): once the
//! chain has them again, it counts what was final.

use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{FinalSlot, Page};
use tollgate_model::{Failed, Route, Text, TxState};
use tracing::warn;

use super::ActionFailure;
use crate::act::ActError;
use crate::worker::in_flight::stored_intent;
use crate::worker::{Session, Stop};

/// Transactions that one call sends again (I13); the next call goes on behind those that a pool has.
const LOST_MAX: usize = 100;

/// Sends the lowest final transactions again that no endpoint counts; returns how many. Audited before (I11).
pub(super) async fn send_again(
    session: &mut Session,
    reason: &Text<500>,
) -> Result<u64, ActionFailure> {
    let end = session.state.final_end();
    let counts = session.context.chain.counts(session.submitter.address).await;
    // Whether the submitter may be resumed does not depend on this: a chain that can't be asked is judged there.
    let Ok(counts) = counts else { return Ok(0) };
    // A lower count alone is mostly lag: PROTECT was proven by a settled block, and a pipelined account's
    // alert has lasted.
    let is_protected = session.state.status() == SubmitterStatus::Protect;
    let (now, patience) = (session.now(), session.context.options.receipt_alert_after);
    let lacking_since = session.lacks_final_slots_since();
    let has_lasted = lacking_since.is_some_and(|since| now.since(since) >= patience);
    if counts.highest >= end || !(is_protected || has_lasted) {
        return Ok(0);
    }
    let store = session.context.store.clone();
    let page = Page::new(Page::MAX).map_err(Stop::from)?;
    let mut lost = store.final_slots(session.submitter, page).await.map_err(ActError::from)?;
    lost.retain(|slot| slot.nonce >= counts.mined.max(counts.pending));
    lost.reverse();
    lost.truncate(LOST_MAX);
    let (mut public, mut private) = (Vec::new(), Vec::new());
    for FinalSlot { tx_id, .. } in &lost {
        let tx = store.tx(*tx_id).await.map_err(ActError::from)?;
        // One that reverted may succeed on the other branch, after its caller has paid in another way.
        if tx.as_ref().is_some_and(|tx| tx.row.state == TxState::Failed(Failed::Reverted)) {
            break;
        }
        let attempts = store.attempts(*tx_id).await.map_err(ActError::from)?;
        let signed_at = attempts.first().map(|attempt| attempt.created_at);
        let raws = match tx.as_ref().map(|tx| stored_intent(tx).route(signed_at, session.now())) {
            Some(Route::Private) => &mut private,
            Some(Route::Public) | None => &mut public,
        };
        let mined = tx.and_then(|tx| tx.mined);
        let is_mined = |hash| mined.as_ref().is_some_and(|mined| mined.tx_hash == hash);
        let attempt = attempts.into_iter().find(|attempt| is_mined(attempt.tx_hash));
        raws.extend(attempt.map(|attempt| attempt.raw));
    }
    let (submitter, resent) = (session.submitter, (public.len() + private.len()) as u64);
    if resent == 0 {
        return Ok(0);
    }
    let why = format!("{resent} final transactions that left the chain are sent again: {reason}");
    warn!(%submitter, resent, %reason, "final transactions sent again by an operator");
    let mut section = session.section();
    section.status = Some(session.status_change(session.state.status(), &why));
    session.record(section).await?;
    for (raws, route) in [(public, Route::Public), (private, Route::Private)] {
        if !raws.is_empty() {
            session.context.chain.send_in_order(&raws, route).await;
        }
    }
    Ok(resent)
}
