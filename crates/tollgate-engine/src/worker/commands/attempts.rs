//! Further attempts of a transaction: at a higher price, with another call, or to close its slot. Whatever it is,
//! it has the transaction's nonce, and it replaces whichever of the earlier attempts a pool holds. Writes and
//! sends nothing.

use tollgate_model::bump::{Ceiling, Raise, below_refused, offer_anew, to_beat};
use tollgate_model::port::chain::{Call, CallEstimate};
use tollgate_model::port::policy::{NewCall, Replacement};
use tollgate_model::port::signer::{TxDraft, TxKind};
use tollgate_model::port::{AttemptKind, Fees, NewAttempt};
use tollgate_model::refusal::{PricedTx, estimated_gas, gas_for_estimate, gas_to_self, judge_gas};
use tollgate_model::rejected::provably_never_accepted;
use tollgate_model::stuck::Forbidden;
use tollgate_model::{Bytes, Intent, Route, U256, Wei};

use crate::act::ActError;
use crate::errors::Unserved;
use crate::worker::Session;
use crate::worker::in_flight::InFlightTx;
use crate::worker::intake::judge_replacement;

/// The newest attempt, as it was signed.
fn newest(session: &Session, tx: &InFlightTx) -> Result<TxDraft, ActError> {
    let newest = tx.newest().ok_or(Forbidden::NoSlot)?;
    Ok(session.context.signer.read(session.submitter.chain_id, &newest.signed.raw)?)
}

/// Signs a further attempt. What closes a rejected slot is signed at the cap where a replacement would need
/// more: the line must not stop for ever.
pub(super) async fn sign_attempt(
    session: &Session,
    tx: &InFlightTx,
    kind: AttemptKind,
    with: &Replacement,
    closes_rejected: bool,
) -> Result<NewAttempt, ActError> {
    let newest = newest(session, tx)?;
    let closes = match kind {
        AttemptKind::Cancellation | AttemptKind::Placeholder => true,
        AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement => false,
    };
    let route = tx.route(session.now());
    let mut draft = match (&with.call, closes) {
        (_, true) => to_self(session, newest, route).await,
        (Some(call), false) => with_call(session, newest, call, route).await?,
        (None, false) => newest,
    };
    let demand = with.demand();
    demand.check(draft.kind)?;
    let quote = session.context.chain.fee_quote(tx.intent.speed).await?;
    let gas_limit = draft.fees.gas_limit;
    // What every endpoint refused as too high is in no pool: it need not be beaten, and the next offer is
    // below it.
    let held = to_beat(tx.offers());
    let last = held.or_else(|| tx.dearest()).unwrap_or(draft.fees);
    let last = Fees { gas_limit, ..last };
    let most = below_refused(tx.offers(), gas_limit).filter(|_| held.is_none());
    let ceiling = ceiling(session, &tx.intent, closes);
    // A pool that never had an attempt wants no premium for another one: without this, a slot whose first
    // offer is the caller's cap could never be closed.
    let is_free = provably_never_accepted(tx.row.state, tx.answers.all());
    let price = match is_free || held.is_none() {
        true => offer_anew(&last, &quote, &ceiling, &demand).at_most(most, &demand),
        false => session.context.policies.bump.raise(&last, &quote, &ceiling, &demand),
    };
    match if closes_rejected { price.or_at_cap(&last) } else { price } {
        Raise::To(fees) => {
            if with.call.is_some() && !closes {
                judge_replacement(session, tx.nonce, draft.value, &fees).await?;
            }
            let mut fees = fees;
            loop {
                let attempt = sign_at(session, &mut draft, kind, fees).await?;
                if !tx.hashes().contains(&attempt.tx_hash) {
                    return Ok(attempt);
                }
                // A transfer of nothing to self that closes a slot of the same at the same price. One more
                // unit of gas makes it another attempt, and costs nothing.
                fees.gas_limit += 1;
            }
        }
        Raise::AboveCap(reached) => Err(ActError::AboveCap(reached)),
        Raise::TooLow(minimum) => Err(ActError::FeeTooLow(minimum)),
    }
}

pub(in crate::worker) fn ceiling(session: &Session, intent: &Intent, closes: bool) -> Ceiling {
    let options = &session.context.options;
    // The price of a transaction that the caller signed is its price, not a cap.
    let callers = intent.max_fee_per_gas.filter(|_| intent.signed.is_none());
    Ceiling::of(session.fee_caps(), callers, closes, options.closing_price)
}

/// Signs the newest attempt again at a price that was decided already.
pub(in crate::worker) async fn sign_bump(
    session: &Session,
    tx: &InFlightTx,
    kind: AttemptKind,
    fees: Fees,
) -> Result<NewAttempt, ActError> {
    let mut draft = newest(session, tx)?;
    let fees = Fees { gas_limit: draft.fees.gas_limit, ..fees };
    sign_at(session, &mut draft, kind, fees).await
}

async fn sign_at(
    session: &Session,
    draft: &mut TxDraft,
    kind: AttemptKind,
    fees: Fees,
) -> Result<NewAttempt, ActError> {
    draft.fees = fees;
    if !draft.kind.has_tip() {
        draft.fees.max_priority_fee = None;
    }
    let fees = draft.fees;
    let signed = session.context.signer.sign(vec![draft.clone()]).await.pop();
    let signed = signed.ok_or_else(|| Unserved::unavailable("nothing was signed"))??;
    Ok(NewAttempt { tx_hash: signed.tx_hash, raw: signed.raw, kind, fees })
}

/// A transfer of nothing to self. On some chains that takes more gas than on others.
async fn to_self(session: &Session, mut draft: TxDraft, route: Route) -> TxDraft {
    draft.to = Some(session.submitter.address);
    draft.value = Wei(U256::ZERO);
    draft.data = Bytes::new();
    draft.access_list.clear();
    draft.authorizations.clear();
    if draft.kind == TxKind::SetCode {
        draft.kind = TxKind::DynamicFee;
    }
    let tried = estimate_call(session, &draft, route).await.ok();
    draft.fees.gas_limit = gas_to_self(tried.as_ref(), &session.context.chain.limits());
    draft
}

async fn with_call(
    session: &Session,
    mut draft: TxDraft,
    call: &NewCall,
    route: Route,
) -> Result<TxDraft, ActError> {
    let NewCall { to, value, data, gas } = call;
    let rules = session.context.accounts.settings(session.submitter.address).spending;
    rules.judge_call(*to, *value, data)?;
    (draft.to, draft.value, draft.data) = (*to, Wei(*value), data.clone());
    draft.access_list.clear();
    let demand = |draft: &TxDraft| PricedTx {
        to: draft.to,
        value: draft.value.0,
        data: data.as_ref(),
        access_list: &[],
        authorizations: draft.authorizations.len(),
        callers_cap: None,
        fees: draft.fees,
    };
    let (limits, of_tx) = (session.context.chain.limits(), session.context.tx_limits());
    draft.fees.gas_limit = match gas {
        Some(gas) => *gas,
        None => {
            let estimate = estimated_gas(estimate_call(session, &draft, route).await?)?;
            gas_for_estimate(estimate, &demand(&draft), &limits, &of_tx)?
        }
    };
    judge_gas(&demand(&draft), &limits, &of_tx)?;
    Ok(draft)
}

async fn estimate_call(
    session: &Session,
    draft: &TxDraft,
    route: Route,
) -> Result<CallEstimate, ActError> {
    let TxDraft { from, to, value, ref data, .. } = *draft;
    let call = Call { from, to, value, data: data.clone() };
    Ok(session.context.chain.estimate_call(&call, route).await?)
}
