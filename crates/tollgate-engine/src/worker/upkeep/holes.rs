//! Holes: shown and alerted about as long as they are there, and filled where the policy or an operator wants it.

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_model::hole::{HoleDecision, HoleView, decide};
use tollgate_model::nonce::{Mode, SlotToFill, SubmitterStatus};
use tollgate_model::port::chain::{Call, CallEstimate};
use tollgate_model::port::{AlertKind, Page, WaitKind};
use tollgate_model::reconcile::{Hole, ReconcileStep};
use tollgate_model::refusal::gas_to_self;
use tollgate_model::{Bytes, Intent, Nonce, Route, Text, U256, Wei};
use tracing::{info, warn};

use super::pool::unless_unavailable;
use crate::context::Context;
use crate::create::CreateTimer;
use crate::worker::alarm::AlertSubject;
use crate::worker::intake::{CreateJob, Intake, slots_for_placeholders};
use crate::worker::state::NoncePool;
use crate::worker::{Session, Stop};

/// Holes that are filled by placeholders in one go (I13); the rest at the next comparison.
const FILLED_MAX: usize = 16;
/// Placeholders that are made in one go for an operator (I13); the rest at the next tick.
const MARKED_AT_ONCE: usize = 64;

/// Takes notice of all holes that a comparison showed.
pub(super) async fn note_holes(
    session: &mut Session,
    intake: &mut Intake,
    steps: &[ReconcileStep],
) -> Result<(), Stop> {
    let hole = |step: &ReconcileStep| match step {
        ReconcileStep::Hole(hole) => Some(*hole),
        _ => None,
    };
    let holes: Vec<Hole> = steps.iter().filter_map(hole).collect();
    // What is not seen any more was filled, or was none.
    let is_seen = |first: Nonce| holes.iter().any(|hole| hole.first == first);
    session.state.waits_mut().retain(WaitKind::Hole, is_seen);
    for hole in &holes {
        let detail = ReconcileStep::Hole(*hole).to_string();
        session.alert(AlertKind::Hole, AlertSubject::nonce(hole.first), &detail);
        note_hole(session, intake, hole).await?;
    }
    Ok(())
}

async fn note_hole(session: &mut Session, intake: &mut Intake, hole: &Hole) -> Result<(), Stop> {
    let now = session.now();
    let since = session.state.waits_mut().since(WaitKind::Hole, hole.first, now);
    let options = &session.context.options;
    let patience = options.stuck.head_after;
    let view = HoleView {
        hole: *hole,
        seen_for: now.since(since),
        patience,
        mode: session.state.mode(),
        status: session.state.status(),
        next_waits: session.state.queue().has_next(now),
        has_key: session.has_key(),
        window: session.nonce_rules().window,
        came_back: session.state.pool().recyclable().contains(&hole.first),
    };
    match decide(options.rejected_slot, &view) {
        HoleDecision::Show => Ok(()),
        HoleDecision::Wait => {
            session.agenda.reconcile_soon(now.max(since.after(patience)));
            Ok(())
        }
        HoleDecision::Recycle => adopt(session, hole).await.map(|_| ()),
        HoleDecision::Placeholder => {
            let nonces = adopt(session, hole).await?;
            let is_wanted = |_: &NoncePool, nonce| nonces.contains(&nonce);
            fill_with_placeholders(session, intake, FILLED_MAX, is_wanted).await
        }
    }
}

/// Puts the nonces of a hole into the pool; the store knows what is no hole at all (I3).
async fn adopt(session: &mut Session, hole: &Hole) -> Result<Vec<Nonce>, Stop> {
    let inside = (hole.first.get()..=hole.last.get()).map_while(|nonce| Nonce::new(nonce).ok());
    let nonces: Vec<Nonce> = inside.take(Page::MAX as usize).collect();
    let Context { store, node, .. } = session.context.as_ref();
    let adopted = store.adopt(node, session.lease, &nonces, &Text::lossy("hole")).await;
    let adopted = unless_unavailable(session, adopted)?;
    if !adopted.is_empty() {
        info!(submitter = %session.submitter, ?adopted, "nonces of a hole adopted");
    }
    session.state.put_back(adopted);
    // What was adopted before and is still free is as much in the way.
    let free = |nonce: &Nonce| session.state.pool().recyclable().contains(nonce);
    Ok(nonces.into_iter().filter(free).collect())
}

/// Makes placeholders for nonces that an operator wants filled so, unless queued transactions will fill them. A
/// strict submitter's queue fills no hole, nor does that of a submitter that accepts no work.
pub(super) async fn fill_marked(session: &mut Session, intake: &mut Intake) -> Result<(), Stop> {
    let state = &session.state;
    let queue_fills = state.mode() == Mode::Pipelined && state.status() == SubmitterStatus::Active;
    let next_fills = queue_fills && state.queue().has_next(session.now());
    if !state.pool().has_marked() || !session.has_key() || next_fills {
        return Ok(());
    }
    let is_wanted = |pool: &NoncePool, nonce| pool.is_marked(nonce);
    fill_with_placeholders(session, intake, MARKED_AT_ONCE, is_wanted).await
}

/// Fills the lowest free nonces with transfers to self, as far as they are wanted. They have no request ids: a
/// nonce that is returned once more gets another placeholder.
async fn fill_with_placeholders(
    session: &mut Session,
    intake: &mut Intake,
    most: usize,
    is_wanted: impl Fn(&NoncePool, Nonce) -> bool,
) -> Result<(), Stop> {
    let mut slots = slots_for_placeholders(session, most).await?;
    let unwanted = slots.iter().position(|slot| !is_wanted(session.state.pool(), slot.nonce));
    slots.truncate(unwanted.unwrap_or(slots.len()));
    let Some(lowest) = slots.first().map(|slot| slot.nonce) else { return Ok(()) };
    let from = session.submitter.address;
    let (to, value) = (Some(from), Wei(U256::ZERO));
    let call = Call { from, to, value, data: Bytes::new() };
    let gas = match session.context.chain.estimate_call(&call, Route::Public).await {
        Ok(tried @ CallEstimate::Gas(_)) => {
            gas_to_self(Some(&tried), &session.context.chain.limits())
        }
        Ok(CallEstimate::Reverts(_) | CallEstimate::Refused(_)) | Err(_) => return Ok(()),
    };
    let (mut creates, mut answers) = (Vec::new(), Vec::new());
    for SlotToFill { nonce, .. } in &slots {
        let metadata = Some(serde_json::json!({ "placeholder": nonce.get() }).to_string());
        let intent = Intent { gas: Some(gas), metadata, ..Intent::call(to, U256::ZERO) };
        let Ok(payload) = intent.to_payload() else { return Ok(()) };
        let (reply, answer) = oneshot::channel();
        let tx_id = session.context.ids.tx_id();
        let (request_id, author, signed, looked_up) = (None, None, None, Instant::now());
        let timer = CreateTimer::begin(&session.context.metrics);
        let create = CreateJob {
            tx_id,
            request_id,
            intent,
            payload,
            author,
            signed,
            looked_up,
            reply,
            timer,
            trace: None,
        };
        creates.push(create);
        answers.push(answer);
    }
    intake.fill_holes(session, &slots, creates).await?;
    for answer in answers {
        if let Ok(Err(why)) = answer.await {
            let detail = format!("no placeholder: {why}");
            session.alert(AlertKind::Hole, AlertSubject::nonce(lowest), &detail);
            warn!(submitter = %session.submitter, %lowest, error = %why, "no placeholder for a hole");
            break;
        }
    }
    Ok(())
}
