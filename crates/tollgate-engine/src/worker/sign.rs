//! Further signed forms of a transaction: at a higher price, with another call, or to close its
//! slot. Whatever it is, it has the transaction's nonce, and it replaces whichever of the earlier
//! forms a pool holds.

use tollgate_model::bump::{Ceiling, Raise, below_refused, offer_anew, to_beat};
use tollgate_model::port::chain::{Call, Trial};
use tollgate_model::port::policy::{NewCall, Replacement};
use tollgate_model::port::signer::{TxDraft, TxKind};
use tollgate_model::port::{AttemptKind, Fees, NewAttempt};
use tollgate_model::refusal::{Demand, estimated_gas, gas_for_estimate, gas_to_self, judge_gas};
use tollgate_model::rejected::provably_never_accepted;
use tollgate_model::{Bytes, Intent, U256, Wei};

use super::Desk;
use super::open::Open;
use crate::act::ActError;

impl Desk {
    /// Signs a further attempt. Nothing is written and nothing is sent. What closes a rejected slot
    /// is signed at the cap where a replacement would need more: the line must not stop for ever.
    pub(super) async fn sign_further(
        &self,
        open: &Open,
        kind: AttemptKind,
        with: &Replacement,
        closes_rejected: bool,
    ) -> Result<NewAttempt, ActError> {
        let intent = open.intent().map_err(ActError::Unavailable)?;
        let newest = open.newest().ok_or(tollgate_model::stuck::Forbidden::NoSlot)?;
        let newest = self.context.signer.read(self.submitter.chain_id, &newest.raw);
        let newest = newest.map_err(|error| ActError::Unavailable(error.to_string()))?;
        let closes = match kind {
            AttemptKind::Cancellation | AttemptKind::Placeholder => true,
            AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement => false,
        };
        let mut draft = match (&with.call, closes) {
            (_, true) => self.to_self(newest).await,
            (Some(call), false) => self.with_call(newest, call).await?,
            (None, false) => newest,
        };
        let demand = with.demand();
        demand.check(draft.kind)?;
        let quote = self.context.chain.fee_quote(intent.speed).await;
        let quote = quote.map_err(|error| ActError::Unavailable(error.to_string()))?;
        let gas_limit = draft.fees.gas_limit;
        // What every endpoint refused as too high is in no pool: it need not be beaten, and the next
        // offer is below it.
        let held = to_beat(open.offers());
        let last = held.or_else(|| open.dearest()).unwrap_or(draft.fees);
        let last = Fees { gas_limit, ..last };
        let most = below_refused(open.offers(), gas_limit).filter(|_| held.is_none());
        let ceiling = self.ceiling(&intent, closes);
        // A pool that never had an attempt wants no premium for another one: without this, a slot
        // whose first offer is the caller's cap could never be closed.
        let is_free = provably_never_accepted(open.seen.state, open.heard.all());
        let price = match is_free || held.is_none() {
            true => offer_anew(&last, &quote, &ceiling, &demand).at_most(most, &demand),
            false => self.context.policies.bump.raise(&last, &quote, &ceiling, &demand),
        };
        match if closes_rejected { price.or_at_cap(&last) } else { price } {
            Raise::To(fees) => {
                if with.call.is_some() && !closes {
                    self.judge_replacement(open.nonce, draft.value, &fees).await?;
                }
                self.sign_at(&mut draft, kind, fees).await
            }
            Raise::AboveCap(reached) => Err(ActError::AboveCap(reached)),
            Raise::TooLow(minimum) => Err(ActError::FeeTooLow(minimum)),
        }
    }

    /// What a further form may offer at most.
    pub(super) fn ceiling(&self, intent: &Intent, closes: bool) -> Ceiling {
        let options = &self.context.options;
        // The price of a transaction that the caller signed is its price, not a cap.
        let callers = intent.max_fee_per_gas.filter(|_| intent.signed.is_none());
        Ceiling::of(options.fee_caps, callers, closes, options.closing_price)
    }

    /// Signs the newest form again at a price that was decided already.
    pub(super) async fn sign_bump(
        &self,
        open: &Open,
        kind: AttemptKind,
        fees: Fees,
    ) -> Result<NewAttempt, ActError> {
        let newest = open.newest().ok_or(tollgate_model::stuck::Forbidden::NoSlot)?;
        let draft = self.context.signer.read(self.submitter.chain_id, &newest.raw);
        let mut draft = draft.map_err(|error| ActError::Unavailable(error.to_string()))?;
        let fees = Fees { gas_limit: draft.fees.gas_limit, ..fees };
        self.sign_at(&mut draft, kind, fees).await
    }

    async fn sign_at(
        &self,
        draft: &mut TxDraft,
        kind: AttemptKind,
        fees: Fees,
    ) -> Result<NewAttempt, ActError> {
        draft.fees = fees;
        if draft.kind != TxKind::DynamicFee {
            draft.fees.max_priority_fee = None;
        }
        let fees = draft.fees;
        let signed = self.context.signer.sign(vec![draft.clone()]).await.pop();
        let signed =
            signed.ok_or_else(|| ActError::Unavailable("nothing was signed".to_owned()))?;
        let signed = signed.map_err(|error| ActError::Unavailable(error.to_string()))?;
        Ok(NewAttempt { tx_hash: signed.tx_hash, raw: signed.raw, kind, fees })
    }

    /// A transfer of nothing to self. On some chains that takes more gas than on others.
    async fn to_self(&self, mut draft: TxDraft) -> TxDraft {
        draft.to = Some(self.submitter.address);
        draft.value = Wei(U256::ZERO);
        draft.data = Bytes::new();
        draft.access_list.clear();
        let tried = self.try_call(&draft).await.ok();
        draft.fees.gas_limit = gas_to_self(tried.as_ref(), &self.context.chain.limits());
        draft
    }

    async fn with_call(&self, mut draft: TxDraft, call: &NewCall) -> Result<TxDraft, ActError> {
        let NewCall { to, value, data, gas } = call;
        (draft.to, draft.value, draft.data) = (*to, Wei(*value), data.clone());
        draft.access_list.clear();
        let demand = |draft: &TxDraft| Demand {
            to: draft.to,
            value: draft.value.0,
            data: data.as_ref(),
            access_list: &[],
            callers_cap: None,
            fees: draft.fees,
        };
        let (limits, of_tx) = (self.context.chain.limits(), self.context.tx_limits());
        draft.fees.gas_limit = match gas {
            Some(gas) => *gas,
            None => {
                let estimate = estimated_gas(self.try_call(&draft).await?)?;
                gas_for_estimate(estimate, &demand(&draft), &limits, &of_tx)?
            }
        };
        judge_gas(&demand(&draft), &limits, &of_tx)?;
        Ok(draft)
    }

    async fn try_call(&self, draft: &TxDraft) -> Result<Trial, ActError> {
        let TxDraft { from, to, value, ref data, .. } = *draft;
        let call = Call { from, to, value, data: data.clone() };
        let tried = self.context.chain.try_call(&call).await;
        tried.map_err(|error| ActError::Unavailable(error.to_string()))
    }
}
