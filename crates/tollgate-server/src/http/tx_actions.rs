//! Actions on an open transaction: cancel, speed up, resubmit, replace, resolve.
//!
//! No action is faster than the chain: whichever attempt is mined decides.

use axum::http::StatusCode;
use tollgate_api::{
    ActionAnswer, ActionOutcome, ErrorCode, Reason, Replacement, TxAnswer, check_fees,
};
use tollgate_engine::{ActError, Acted, Action};
use tollgate_model::audit::AuditedAction;
use tollgate_model::port::policy::Replacement as ModelReplacement;
use tollgate_model::stuck::Forbidden;
use tollgate_model::{Failed, TxId, TxState};

use super::Api;
use super::access::Caller;
use super::body::{given_reason, reason_or_none};
use super::openapi::may_fail;
use super::params::ActionParams;
use super::problem::Problem;
use super::query::TxCall;
use super::read;

may_fail! {
    ActionProblems: UnreadableBody, InvalidField, InvalidPath, InvalidTxId, InvalidQuery,
        NotFound, TxRemoved, TxNotAllocated, TxMined, TxFinal, TxClosing, NoKey, SignedByCaller,
        FeeCap, Busy;
    ReplaceProblems: UnreadableBody, InvalidField, MissingField, InvalidAddress, InvalidNumber,
        InvalidHex, InvalidFees, InvalidPath, InvalidTxId, InvalidQuery, NotFound,
        TxRemoved, TxNotAllocated, TxMined, TxFinal, TxClosing, NoKey, SignedByCaller, PayloadFixed,
        FeeTooLowToReplace, FeeCap, WouldRevert, InsufficientFunds, GasTooLow,
        GasAboveBlockLimit, GasAboveTxLimit, TxTooLarge, InvalidTransaction, Busy;
}

type ActionResult = Result<(StatusCode, axum::Json<ActionAnswer>), Problem>;

/// Declares the actions whose body is a reason at most: path, name in the document, action, and the
/// meaning of 202 and of 200.
macro_rules! actions {
    ($($(#[doc = $about:literal])+
        $name:ident: $path:literal, $id:literal, $action:expr, $accepted:literal, $done:literal;)+) => {$(
        $(#[doc = $about])+
        #[utoipa::path(
            post,
            path = $path,
            operation_id = $id,
            tag = "actions",
            params(ActionParams),
            request_body(content = Option<Reason>, description = "May be left out.", examples(
                ("why" = (summary = "With a reason", value = json!({"reason": "order withdrawn"})))
            )),
            responses(
                (status = 202, description = $accepted, body = ActionAnswer),
                (status = 200, description = $done, body = ActionAnswer),
                ActionProblems
            )
        )]
        pub(crate) async fn $name(call: TxCall<Reason>) -> ActionResult {
            act(&call.api, &call.caller, call.tx_id, $action, call.body.reason).await
        }
    )+};
}

actions! {
    /// Cancel a transaction
    ///
    /// Without a nonce it ends at once. Later a transfer to self is sent in its slot, and whichever of
    /// the two is mined decides: read the outcome. Safe to repeat. The cancellation costs more than what
    /// it cancels: where that is above the create's `maxFeePerGas` it is refused (`fee_cap`), unless
    /// `cancel.may_exceed_cap` is set.
    cancel: "/api/v1/tx/{txId}/cancel", "cancelTx", Action::Cancel,
        "A cancellation is on its way.",
        "It ended without a nonce, is being cancelled, or is cancelled already.";
    /// Offer more for a transaction
    ///
    /// A further attempt in the same slot, at a price that replaces the one before and that the market
    /// asks now: of the call, or of what closes its slot. Never above a cap.
    speed_up: "/api/v1/tx/{txId}/speed-up", "speedUpTx", Action::SpeedUp,
        "A dearer attempt is on its way.", "It is under way already.";
    /// Send a transaction again now
    ///
    /// The newest bytes, as they are: same nonce, same price, same hash.
    resubmit: "/api/v1/tx/{txId}/resubmit", "resubmitTx", Action::Resubmit,
        "The bytes are on their way again.", "It is under way already.";
    /// Ask the stuck policy about a transaction now
    ///
    /// What it decides is carried out and stands in the audit trail.
    resolve: "/api/v1/tx/{txId}/resolve", "resolveTx", Action::AskPolicy,
        "The policy is being asked, or what it decided is on its way.", "It ended without a nonce.";
}

/// Replace a transaction
///
/// In the same slot: the same call at another price, or another call where the create said
/// `replaceable`. Whichever attempt is mined decides. A price that is given is signed as it is; one
/// that nodes would not take as a replacement is refused with the least that they would. Left out,
/// the price is what a replacement needs and the market asks, within all caps.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/replace",
    operation_id = "replaceTx",
    tag = "actions",
    params(ActionParams),
    request_body(content = Replacement, description = "What stands in its place.", examples(
        ("price" = (summary = "At another price", value = json!({
            "maxFeePerGas": "60000000000",
            "maxPriorityFeePerGas": "2000000000",
            "reason": "the market has moved"
        }))),
        ("call" = (summary = "Another call", value = json!({
            "payload": {"to": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "value": "1"},
            "reason": "wrong receiver"
        })))
    )),
    responses(
        (status = 202, description = "The replacement is on its way.", body = ActionAnswer),
        (status = 200, description = "It is under way already.", body = ActionAnswer),
        ReplaceProblems
    )
)]
pub(crate) async fn replace(call: TxCall<Replacement>) -> ActionResult {
    let TxCall { api, caller, tx_id, body } = call;
    let Replacement { max_fee_per_gas, max_priority_fee_per_gas, payload, reason } = body;
    let max_fee = max_fee_per_gas.map(|fee| fee.read_price("maxFeePerGas")).transpose()?;
    let tip_field = "maxPriorityFeePerGas";
    let tip = max_priority_fee_per_gas.map(|tip| tip.read_price(tip_field)).transpose()?;
    check_fees(max_fee, tip, tip_field)?;
    let replacement = ModelReplacement {
        max_fee_per_gas: max_fee,
        max_priority_fee_per_gas: tip,
        call: payload.map(|payload| payload.read()).transpose()?,
    };
    if replacement == ModelReplacement::default() {
        let detail = "one of maxFeePerGas, maxPriorityFeePerGas and payload is required";
        return Err(Problem::new(ErrorCode::MissingField, detail));
    }
    act(&api, &caller, tx_id, Action::Replace(replacement), reason).await
}

/// The name of an action in the audit log.
const fn recorded_as(action: &Action) -> AuditedAction {
    match action {
        Action::Cancel => AuditedAction::CancelTx,
        Action::SpeedUp => AuditedAction::SpeedUpTx,
        Action::Resubmit => AuditedAction::ResubmitTx,
        Action::Replace(_) => AuditedAction::ReplaceTx,
        Action::AskPolicy => AuditedAction::ResolveTx,
    }
}

async fn act(
    api: &Api,
    caller: &Caller,
    tx_id: TxId,
    action: Action,
    reason: Option<String>,
) -> ActionResult {
    let given = given_reason(reason)?;
    read::find(api, caller, tx_id).await?;
    caller.record(&*api.store, recorded_as(&action), tx_id, given.as_ref()).await?;
    let reason = caller.audited(&reason_or_none(given.as_ref()));
    let (asks_policy, cancels) = (action == Action::AskPolicy, action == Action::Cancel);
    let acted = api.engine.operator().act(tx_id, action, reason).await;
    let record = read::find(api, caller, tx_id).await?;
    let (status, outcome) = match acted {
        Ok(Acted::Withdrawn) => (StatusCode::OK, ActionOutcome::Withdrawn),
        Ok(Acted::Signed(hash)) => (StatusCode::ACCEPTED, ActionOutcome::Signed(hash)),
        Ok(Acted::Resent) => (StatusCode::ACCEPTED, ActionOutcome::Resent),
        Ok(Acted::UnderWay) if asks_policy => (StatusCode::ACCEPTED, ActionOutcome::UnderWay),
        Ok(Acted::UnderWay) => (StatusCode::OK, ActionOutcome::UnderWay),
        // Who cancels twice got what was wanted.
        Err(ActError::Forbidden(Forbidden::Final))
            if cancels && record.row.state == TxState::Failed(Failed::Cancelled) =>
        {
            (StatusCode::OK, ActionOutcome::Done)
        }
        Err(error) => return Err(error.into()),
    };
    let tx = match caller.is_operator() {
        true => TxAnswer::Operator(Box::new(read::for_operators(api, caller, &record).await?)),
        false => TxAnswer::Caller(Box::new(read::for_callers(api, caller, &record).await?)),
    };
    Ok((status, axum::Json(ActionAnswer::new(outcome, tx))))
}
