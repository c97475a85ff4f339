//! Pause, resume, and changes of mode.

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{CursorMove, ModeChange};
use tollgate_model::reconcile::{CannotResume, ReconcileView, resume as resume_rule};
use tollgate_model::{Text, mode};
use tracing::info;

use super::{ActionFailure, lost_slots};
use crate::act::{ActError, ModeChanged, PauseOutcome};
use crate::worker::upkeep::{align_holds, with_reconcile_view};
use crate::worker::{Session, Stop};

pub(super) async fn pause(
    session: &mut Session,
    reason: &Text<500>,
) -> Result<PauseOutcome, ActionFailure> {
    let was = session.state.status();
    let is = match was {
        SubmitterStatus::Active => SubmitterStatus::Paused,
        // PROTECT is the stronger of the two.
        SubmitterStatus::Paused | SubmitterStatus::Protect => was,
    };
    change_status(session, is, reason, None).await?;
    Ok(PauseOutcome { was, is })
}

/// Lets the submitter take work again. Out of PROTECT it is re-aligned with the chain. Final transactions that
/// left the chain are sent again first.
pub(super) async fn resume(
    session: &mut Session,
    reason: &Text<500>,
) -> Result<PauseOutcome, ActionFailure> {
    let (was, is) = (session.state.status(), SubmitterStatus::Active);
    let resent = lost_slots::send_again(session, reason).await?;
    let strict = session.state.mode() == Mode::Strict;
    let step = if was == SubmitterStatus::Protect || strict {
        let counts = session.chain_counts().await?;
        let step = with_reconcile_view(session, counts, None, resume_rule);
        step.map_err(|why| match why {
            CannotResume::ChainBehind(gap) if resent > 0 => CannotResume::SentAgain { gap, resent },
            why => why,
        })
        .map_err(ActError::from)?
    } else {
        None
    };
    session.state.chain_count_mut().note_drift();
    change_status(session, is, reason, step).await?;
    Ok(PauseOutcome { was, is })
}

/// Makes the submitter pipelined or strict; to strict it is re-aligned with the chain (I12).
pub(super) async fn change_mode(
    session: &mut Session,
    to: Mode,
    reason: &Text<500>,
) -> Result<ModeChanged, ActionFailure> {
    let was = session.state.mode();
    if was == to {
        return Ok(ModeChanged { was, is: to });
    }
    let counts = session.chain_counts().await?;
    let (queued, held) = (session.state.queue().len(), session.state.pool().reserved());
    let rule = |view: &ReconcileView<'_>| mode::change(view, queued, held, to);
    let cursor = with_reconcile_view(session, counts, None, rule).map_err(ActError::from)?;
    let mut section = session.section();
    section.mode = Some(ModeChange { from: was, to, reason: reason.clone() });
    section.cursor = cursor;
    session.record(section).await?;
    session.state.chain_count_mut().note_drift();
    let (submitter, from, to_name) = (session.submitter, was.name(), to.name());
    info!(%submitter, from, to = to_name, %reason, "submitter mode changed");
    Ok(ModeChanged { was, is: to })
}

/// Writes the status, with the cursor's move if there is one, and lets what waits follow.
async fn change_status(
    session: &mut Session,
    to: SubmitterStatus,
    reason: &Text<500>,
    cursor: Option<CursorMove>,
) -> Result<(), Stop> {
    let from = session.state.status();
    if from == to && cursor.is_none() {
        return Ok(());
    }
    let (submitter, from, to_name) = (session.submitter, from.name(), to.name());
    info!(%submitter, from, to = to_name, %reason, "submitter status changed");
    let mut section = session.section();
    section.status = Some(session.status_change(to, reason.as_str()));
    section.cursor = cursor;
    session.record(section).await?;
    align_holds(session).await
}
