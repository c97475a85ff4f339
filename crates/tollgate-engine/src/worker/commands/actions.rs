//! Carries out what a policy or an operator has decided: claimed and durable first (I5, I11), then sent.
//! Whichever attempt is mined decides.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_model::bump::{pays_the_market, to_beat};
use tollgate_model::port::policy::{Replacement, StuckAction};
use tollgate_model::port::signer::TxDraft;
use tollgate_model::port::{AttemptKind, Checkpoint, NewAttempt, Schedule, TxUpdate};
use tollgate_model::resubmit::Patience;
use tollgate_model::stuck::{Forbidden, Plan, Trigger, is_out_already, plan};
use tollgate_model::{Text, Tracking, TxEvent, TxHash, TxId, TxState, keccak256};

use super::attempts::sign_attempt;
use super::{ActionFailure, Commands};
use crate::act::{Acted, Action};
use crate::errors::Unserved;
use crate::worker::Stop;
use crate::worker::in_flight::InFlightTx;
use crate::worker::session::{Session, moved};

/// Bytes of calldata that an audit entry shows in full.
const CALLDATA_SHOWN_MAX: usize = 256;

/// The origin of an action, for the audit trail.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct ActionOrigin<'a> {
    /// `operator`, `policy`, `rejected_slot`, `gasbump`.
    pub(super) by: &'static str,
    /// The name of the action.
    pub(super) action: &'static str,
    pub(super) reason: &'a str,
    pub(super) trigger: Option<&'static str>,
    /// The policy's own words, as JSON text.
    pub(super) fields: Option<&'a str>,
}

impl<'a> ActionOrigin<'a> {
    /// The origin of placeholders in the slots of rejected transactions.
    pub(in crate::worker) const REJECTED_SLOT: &'static str = "rejected_slot";

    pub(in crate::worker) const fn new(
        by: &'static str,
        action: &'static str,
        reason: &'a str,
    ) -> Self {
        Self { by, action, reason, trigger: None, fields: None }
    }

    /// The audit entry's detail; node, token and transaction stand beside it. `replaced` tells what another
    /// call in the slot changes.
    pub(super) fn detail(
        &self,
        session: &Session,
        tx: &InFlightTx,
        replaced: Option<Value>,
    ) -> Text<4000> {
        let fields = self
            .fields
            .map(|text| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!(text)));
        let words = json!({
            "action": self.action,
            "by": self.by,
            "reason": self.reason,
            "trigger": self.trigger,
            "submitter": session.submitter.to_string(),
            "nonce": tx.nonce.get(),
            "fields": fields,
            "payload": replaced,
        });
        Text::lossy(&words.to_string())
    }
}

impl Commands {
    /// Does to a transaction what an operator wants done.
    pub(super) async fn act(
        &mut self,
        session: &mut Session,
        tx_id: TxId,
        action: Action,
        reason: &Text<500>,
    ) -> Result<Acted, ActionFailure> {
        let origin = ActionOrigin::new("operator", action.name(), reason.as_str());
        if session.state.queue().get(tx_id).is_some() {
            return match action {
                Action::Cancel => withdraw(session, tx_id, origin.reason).await,
                Action::SpeedUp | Action::Resubmit | Action::Replace(_) | Action::AskPolicy => {
                    Err(Forbidden::NoSlot.into())
                }
            };
        }
        let Some(tx) = session.state.tx(tx_id) else { return Err(Forbidden::Final.into()) };
        let (wanted, with) = match action {
            Action::Cancel if tx.mined.is_none() && tx.closing().is_some() => {
                return Ok(Acted::UnderWay);
            }
            Action::Cancel => (StuckAction::Cancel, Replacement::default()),
            Action::SpeedUp => (speed_up(tx)?, Replacement::default()),
            Action::Resubmit => (StuckAction::Resubmit, Replacement::default()),
            Action::Replace(with) => (StuckAction::Replace, with),
            Action::AskPolicy if tx.mined.is_some() => return Err(Forbidden::Mined.into()),
            Action::AskPolicy => {
                self.ask_later(tx_id, Trigger::OperatorAsked);
                self.ask_about_head(session);
                return Ok(Acted::UnderWay);
            }
        };
        carry_out_action(session, tx_id, wanted, &with, origin).await
    }
}

/// Ends what has no slot: no nonce is used.
async fn withdraw(
    session: &mut Session,
    tx_id: TxId,
    reason: &str,
) -> Result<Acted, ActionFailure> {
    let Some(queued) = session.state.queue().get(tx_id) else {
        return Err(Forbidden::Final.into());
    };
    let update = TxUpdate::moved(tx_id, queued.row, TxEvent::Withdrawn);
    let mut update = update.map_err(Stop::from)?;
    let words = json!({ "action": "cancel", "by": "operator", "reason": reason });
    update.detail = Some(Text::lossy(&words.to_string()));
    match session.apply_one(update).await? {
        Some(why) => Err(unwritten(&why)),
        None => Ok(Acted::Withdrawn),
    }
}

fn unwritten(why: &str) -> ActionFailure {
    Unserved::unavailable(format!("it can't be written: {why}")).into()
}

/// Does to an open transaction what was decided, if it is possible.
pub(in crate::worker) async fn carry_out_action(
    session: &mut Session,
    tx_id: TxId,
    action: StuckAction,
    with: &Replacement,
    origin: ActionOrigin<'_>,
) -> Result<Acted, ActionFailure> {
    let Some(tx) = session.state.tx(tx_id).cloned() else { return Err(Forbidden::Final.into()) };
    let subject = tx.subject(session.has_key());
    let planned = match plan(action, with.call.is_some(), &subject)? {
        Plan::Sign { .. } if is_settled_by_resend(session, &tx, action, with, origin).await => {
            plan(StuckAction::Resubmit, false, &subject)?
        }
        planned => planned,
    };
    match planned {
        Plan::Alert => Ok(Acted::UnderWay),
        Plan::Resend { event } => {
            let mut update = claim(&tx, event, origin.action)?;
            update.resubmitted = true;
            update.schedule = Schedule::In(pause(session, &tx, 1));
            update.detail = Some(origin.detail(session, &tx, None));
            claim_action(session, update).await?;
            session.send(tx_id);
            Ok(Acted::Resent)
        }
        Plan::Sign { event, kind } => {
            let closes_rejected = origin.by == ActionOrigin::REJECTED_SLOT;
            let attempt = sign_attempt(session, &tx, kind, with, closes_rejected).await?;
            let update = claim(&tx, event, origin.action)?;
            Ok(Acted::Signed(send_attempt(session, &tx, update, attempt, origin).await?))
        }
    }
}

/// The pause before a transaction is sent again.
fn pause(session: &Session, tx: &InFlightTx, resends: u32) -> Duration {
    session.context.options.resubmit.pause(tx.route(session.now()), tx.tx_id, resends)
}

/// True if a policy repeats an action whose attempt was sent and pays the market.
async fn is_settled_by_resend(
    session: &Session,
    tx: &InFlightTx,
    action: StuckAction,
    with: &Replacement,
    origin: ActionOrigin<'_>,
) -> bool {
    let newest = tx.newest().map(|attempt| attempt.signed.kind);
    let is_plain = *with == Replacement::default();
    let is_repeated = origin.trigger.is_some()
        && newest.is_some_and(|kind| is_out_already(action, is_plain, kind));
    let Some(offered) = to_beat(tx.offers()).filter(|_| is_repeated) else { return false };
    let quote = session.context.chain.fee_quote(tx.intent.speed).await;
    quote.is_ok_and(|quote| pays_the_market(&offered, &quote))
}

/// Makes a further attempt durable with its claim, and sends it.
pub(in crate::worker) async fn send_attempt(
    session: &mut Session,
    tx: &InFlightTx,
    mut update: TxUpdate,
    attempt: NewAttempt,
    origin: ActionOrigin<'_>,
) -> Result<TxHash, ActionFailure> {
    let hash = attempt.tx_hash;
    session.reached(Checkpoint::AttemptsSigned).await;
    update.schedule = Schedule::In(pause(session, tx, 0));
    let is_replaced = attempt.kind == AttemptKind::Replacement;
    let replaced = is_replaced.then(|| payload_change(session, tx, &attempt)).flatten();
    update.detail = Some(origin.detail(session, tx, replaced));
    update.attempt = Some(attempt);
    claim_action(session, update).await?;
    session.send(tx.tx_id);
    Ok(hash)
}

/// The call before a replacement and the call after it.
fn payload_change(session: &Session, tx: &InFlightTx, attempt: &NewAttempt) -> Option<Value> {
    let read = |raw| session.context.signer.read(session.submitter.chain_id, raw).ok();
    let (before, after) = (read(&tx.newest()?.signed.raw)?, read(&attempt.raw)?);
    Some(json!({ "before": call_of(&before), "after": call_of(&after) }))
}

/// A call for the audit trail. Long calldata are named by their hash, so that the entry stays readable.
fn call_of(draft: &TxDraft) -> Value {
    let data = match draft.data.len() {
        ..=CALLDATA_SHOWN_MAX => draft.data.to_string(),
        length => format!("{length} bytes, keccak256 {}", keccak256(&draft.data)),
    };
    let (to, value) = (draft.to.map(|to| to.to_string()), draft.value.0.to_string());
    json!({ "to": to, "value": value, "data": data, "gas": draft.fees.gas_limit })
}

/// Nothing is done where the claim can't be written (I11).
async fn claim_action(session: &mut Session, mut update: TxUpdate) -> Result<(), ActionFailure> {
    let (tx_id, now) = (update.tx_id, session.now());
    if session.state.tx(tx_id).is_some_and(|tx| tx.sending.is_stored()) {
        update.patience = Some(Patience::from(now));
    }
    if let Some(why) = session.apply_one(update).await? {
        return Err(unwritten(&why));
    }
    if let Some(tx) = session.state.tx_mut(tx_id) {
        tx.note_acted(now);
    }
    session.reached(Checkpoint::ActionClaimed).await;
    Ok(())
}

/// The change with which an action is claimed.
fn claim(tx: &InFlightTx, event: Option<TxEvent>, what: &'static str) -> Result<TxUpdate, Stop> {
    match event {
        Some(event) => moved(tx, event),
        None => Ok(TxUpdate::noted(tx.tx_id, tx.row, what)),
    }
}

/// The action that speeds a transaction up: a higher price for the intent, or for the attempt that closes its
/// slot.
fn speed_up(tx: &InFlightTx) -> Result<StuckAction, Forbidden> {
    if tx.row.state == TxState::Tracking(Tracking::Mined) {
        return Err(Forbidden::Mined);
    }
    Ok(match tx.closing() {
        Some(AttemptKind::Cancellation) => StuckAction::Cancel,
        Some(AttemptKind::Placeholder) => StuckAction::Placeholder,
        Some(AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement) | None => {
            StuckAction::Replace
        }
    })
}
