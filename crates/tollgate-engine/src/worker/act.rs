//! Carries out what a policy or a person has decided: claimed and durable first (I5, I11), then
//! sent. Whichever attempt is mined decides.

use serde_json::{Value, json};
use tollgate_model::bump::{pays_the_market, to_beat};
use tollgate_model::port::policy::{Replacement, StuckAction};
use tollgate_model::port::signer::TxDraft;
use tollgate_model::port::{AttemptKind, Checkpoint, NewAttempt, Schedule, Section, TxUpdate};
use tollgate_model::resubmit::Patience;
use tollgate_model::stuck::{Forbidden, Plan, is_out_already, plan};
use tollgate_model::{Text, Tracking, TxEvent, TxHash, TxId, TxState, keccak256};

use super::open::Open;
use super::write::moved;
use super::{Desk, Stop};
use crate::act::{ActError, Acted};

/// Bytes of calldata that an audit entry shows in full.
const CALLDATA_SHOWN_MAX: usize = 256;

/// Why nothing was done: the worker can't go on, or what was asked for is not possible.
pub(super) enum Halt {
    Stop(Stop),
    Refused(ActError),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<ActError> for Halt {
    fn from(why: ActError) -> Self {
        Self::Refused(why)
    }
}

impl From<Forbidden> for Halt {
    fn from(why: Forbidden) -> Self {
        Self::Refused(why.into())
    }
}

/// Who wants something done and why: what the audit trail says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    /// `operator`, `policy`, `rejected_slot`, `gasbump`.
    pub(super) by: &'static str,
    /// What is done, in the words of whoever wants it.
    pub(super) action: &'static str,
    /// Why.
    pub(super) reason: &'a str,
    /// Why a policy was asked.
    pub(super) trigger: Option<&'static str>,
    /// The policy's own words, as JSON text.
    pub(super) fields: Option<&'a str>,
}

impl Ground<'_> {
    /// Who closes the slots of transactions that every endpoint rejects.
    pub(super) const REJECTED_SLOT: &'static str = "rejected_slot";

    /// The audit entry's detail; node, token and transaction stand beside it. `replaced` tells what
    /// another call in the slot changes.
    pub(super) fn detail(
        &self,
        open: &Open,
        submitter: &str,
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
            "submitter": submitter,
            "nonce": open.nonce.get(),
            "fields": fields,
            "payload": replaced,
        });
        Text::lossy(&words.to_string())
    }
}

impl Desk {
    /// Does to an open transaction what was decided, if it is possible.
    pub(super) async fn carry_out_action(
        &mut self,
        tx_id: TxId,
        action: StuckAction,
        with: &Replacement,
        ground: Ground<'_>,
    ) -> Result<Acted, Halt> {
        let Some(open) = self.book.get(tx_id).cloned() else { return Err(Forbidden::Final.into()) };
        let intent = open.intent().map_err(ActError::Unavailable)?;
        let subject = open.subject(&intent, self.has_key());
        let planned = match plan(action, with.call.is_some(), &subject)? {
            Plan::Sign { event, .. }
                if self.is_settled_by_resend(&open, action, with, ground).await =>
            {
                Plan::Resend { event }
            }
            planned => planned,
        };
        match planned {
            Plan::Alert => Ok(Acted::UnderWay),
            Plan::Resend { event } => {
                let mut update = claim(&open, event, ground.action)?;
                let next = self.context.options.resubmit.pause(tx_id, 1);
                update.resubmitted = true;
                update.schedule = Schedule::In(next);
                update.detail = Some(ground.detail(&open, &self.submitter.to_string(), None));
                self.claim_action(update).await?;
                self.dispatch(tx_id);
                Ok(Acted::Resent)
            }
            Plan::Sign { event, kind } => {
                let closes_rejected = ground.by == Ground::REJECTED_SLOT;
                let attempt = self.sign_further(&open, kind, with, closes_rejected).await?;
                let update = claim(&open, event, ground.action)?;
                Ok(Acted::Signed(self.send_further(&open, update, attempt, ground).await?))
            }
        }
    }

    /// Whether a policy asks once more for what is out already and pays the market.
    async fn is_settled_by_resend(
        &self,
        open: &Open,
        action: StuckAction,
        with: &Replacement,
        ground: Ground<'_>,
    ) -> bool {
        let newest = open.newest().map(|form| form.kind);
        let is_repeated = ground.trigger.is_some()
            && newest.is_some_and(|it| is_out_already(action, *with == Replacement::default(), it));
        let offered = to_beat(open.offers());
        let (Some(offered), Ok(intent)) = (offered, open.intent()) else { return false };
        if !is_repeated {
            return false;
        }
        let quote = self.context.chain.fee_quote(intent.speed).await;
        quote.is_ok_and(|quote| pays_the_market(&offered, &quote))
    }

    /// Makes a further signed form durable with its claim, and sends it.
    pub(super) async fn send_further(
        &mut self,
        open: &Open,
        mut update: TxUpdate,
        attempt: NewAttempt,
        ground: Ground<'_>,
    ) -> Result<TxHash, Halt> {
        let hash = attempt.tx_hash;
        self.reached(Checkpoint::AttemptsSigned).await;
        update.schedule = Schedule::In(self.context.options.resubmit.pause(open.tx_id, 0));
        let replaced = match attempt.kind {
            AttemptKind::Replacement => self.payload_change(open, &attempt),
            AttemptKind::Intent
            | AttemptKind::Bump
            | AttemptKind::Cancellation
            | AttemptKind::Placeholder => None,
        };
        update.detail = Some(ground.detail(open, &self.submitter.to_string(), replaced));
        update.attempt = Some(attempt);
        self.claim_action(update).await?;
        self.dispatch(open.tx_id);
        Ok(hash)
    }

    /// What a replacement changes: the call before and the call after it.
    fn payload_change(&self, open: &Open, attempt: &NewAttempt) -> Option<Value> {
        let read = |raw| self.context.signer.read(self.submitter.chain_id, raw).ok();
        let (before, after) = (read(&open.newest()?.raw)?, read(&attempt.raw)?);
        Some(json!({ "before": call_of(&before), "after": call_of(&after) }))
    }

    /// Nothing is done where the claim can't be written (I11).
    async fn claim_action(&mut self, mut update: TxUpdate) -> Result<(), Halt> {
        let (tx_id, now) = (update.tx_id, self.context.clock.now());
        if self.book.get(tx_id).is_some_and(|open| open.waits.is_stored) {
            update.patience = Some(Patience::from(now));
        }
        let mut section = Section::new(self.lease);
        section.updates.push(update);
        if let Some(why) = self.apply(section).await?.only() {
            return Err(ActError::Unavailable(format!("it can't be written: {why}")).into());
        }
        if let Some(open) = self.book.get_mut(tx_id) {
            open.waits.renew(now);
            open.asked.decided_at = Some(now);
            open.asked.noted = None;
        }
        self.reached(Checkpoint::ActionClaimed).await;
        Ok(())
    }
}

/// A call for the audit trail. Long calldata are named by their hash, so that the entry stays readable.
fn call_of(draft: &TxDraft) -> Value {
    let data = match draft.data.len() {
        ..=CALLDATA_SHOWN_MAX => draft.data.to_string(),
        length => format!("{length} bytes, keccak256 {}", keccak256(&draft.data)),
    };
    let to = draft.to.map(|to| to.to_string());
    json!({ "to": to, "value": draft.value.0.to_string(), "data": data, "gas": draft.fees.gas_limit })
}

/// The change with which an action is claimed.
pub(super) fn claim(
    open: &Open,
    event: Option<TxEvent>,
    what: &'static str,
) -> Result<TxUpdate, Stop> {
    match event {
        Some(event) => moved(open, event),
        None => Ok(TxUpdate::noted(open.tx_id, open.seen, what)),
    }
}

/// What speeds up what is under way: more for the intent, or more for what closes its slot.
pub(super) fn speed_up(open: &Open) -> Result<StuckAction, Forbidden> {
    if open.seen.state == TxState::Tracking(Tracking::Mined) {
        return Err(Forbidden::Mined);
    }
    Ok(match open.closing() {
        Some(AttemptKind::Cancellation) => StuckAction::Cancel,
        Some(AttemptKind::Placeholder) => StuckAction::Placeholder,
        Some(AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement) | None => {
            StuckAction::Replace
        }
    })
}
