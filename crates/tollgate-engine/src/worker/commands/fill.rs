//! Hands nonces back for an operator, and moves the cursor where an operator vouches for it.
//!
//! A cursor never goes back (I4): what lies between the chain's count and a cursor that is too far ahead is
//! filled from below, through the pool (I3), a window at a time.

use tollgate_model::fill::{FillView, NoncesRefused, advance, fillable};
use tollgate_model::port::{CursorMove, ReturnedNonces, StoreError};
use tollgate_model::{Nonce, Text};
use tracing::info;

use super::ActionFailure;
use crate::act::{ActError, Fill, Filled};
use crate::context::Context;
use crate::errors::Unserved;
use crate::worker::{Session, Stop};

/// Hands nonces back by an operator's word: fenced, audited, bounded.
pub(super) async fn return_nonces(
    session: &mut Session,
    fill: Fill,
    reason: &Text<500>,
) -> Result<Filled, ActionFailure> {
    let Fill { range, with, used } = fill;
    let counts = session.chain_counts().await?;
    let view = FillView {
        mode: session.state.mode(),
        status: session.state.status(),
        cursor: session.state.cursor(),
        counts,
        has_key: session.has_key(),
        free: session.state.pool().recyclable().len(),
    };
    let nonces = fillable(&view, range, with).map_err(|why| match why {
        // Those that are free get filled: the same call succeeds later.
        NoncesRefused::TooManyFree { .. } => ActError::from(Unserved::Busy),
        why => ActError::Nonces(why),
    })?;
    let all = range.last.get() - range.first.get() + 1;
    let (wanted, reason) = (nonces.len() as u64, with.stored_reason(reason.as_str()));
    let wanted_back = ReturnedNonces { nonces, used, reason };
    let Context { store, node, .. } = session.context.as_ref();
    let returned = store.return_nonces(node, session.lease, &wanted_back).await;
    let free = match session.written(returned) {
        Err(error @ StoreError::Unavailable(_)) => return Err(ActError::from(error).into()),
        free => free.map_err(Stop::from)?,
    };
    let (submitter, handed_back) = (session.submitter, free.len() as u64);
    let (first, last, reason) = (range.first, range.last, &wanted_back.reason);
    info!(%submitter, %first, %last, handed_back, %reason, "nonces handed back by an operator");
    for nonce in &free {
        session.state.pool_mut().set_filled_with(*nonce, with);
    }
    session.state.put_back(free);
    let free = session.state.pool().recyclable().len() as u64;
    let (taken, counted) = (wanted - handed_back, all - wanted);
    Ok(Filled { handed_back, taken, counted, free })
}

/// Moves the cursor to a count that an operator vouches for. What no second endpoint confirms is read as it is
/// told: that is what the operator decides about.
pub(super) async fn advance_cursor(
    session: &mut Session,
    to: Nonce,
    reason: &Text<500>,
) -> Result<CursorMove, ActionFailure> {
    let counts = session.context.chain.counts(session.submitter.address).await;
    let counts = counts.map_err(ActError::from)?;
    let (mode, cursor) = (session.state.mode(), session.state.cursor());
    let step = advance(mode, cursor, &counts, to).map_err(ActError::from)?;
    info!(submitter = %session.submitter, cursor = %to, %reason, "cursor moved by an operator");
    let mut section = session.section();
    section.cursor = Some(step);
    section.cursor_reason = Some(reason.clone());
    session.record(section).await?;
    session.state.chain_count_mut().note_drift();
    Ok(step)
}
