//! What people have done to a transaction that is under way.
//!
//! None of it outruns the chain: whichever attempt is mined decides.

use axum::extract::State;
use axum::http::StatusCode;
use tollgate_engine::{ActError, Acted, Action};
use tollgate_model::stuck::Forbidden;
use tollgate_model::{Failed, Text, TxState};

use super::Api;
use super::body::{OptionalJson, Reason, ReplaceBody};
use super::doc::may_fail;
use super::params::ActionParams;
use super::problem::Problem;
use super::query::{Segment, Words};
use super::read;
use super::shape::{ActionAnswer, ActionOutcome};

may_fail! {
    ActionProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidField,
        InvalidPath, InvalidTxId, InvalidQuery, NotFound, TxNotAllocated, TxMined, TxFinal,
        TxClosing, NoKey, SignedByCaller, FeeCap, WrongChain, UnknownSubmitter, NotOwner, Draining, Busy, Unavailable,
        StoreUnavailable;
    ReplaceProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidField,
        MissingField, InvalidAddress, InvalidNumber, InvalidHex, InvalidFees, InvalidPath,
        InvalidTxId, InvalidQuery, NotFound, TxNotAllocated, TxMined, TxFinal, TxClosing, NoKey,
        SignedByCaller, PayloadFixed, FeeTooLowToReplace, FeeCap, WouldRevert, InsufficientFunds,
        GasTooLow, GasAboveBlockLimit, GasAboveTxLimit, TxTooLarge, InvalidTransaction, WrongChain, UnknownSubmitter, NotOwner,
        Draining, Busy,
        Unavailable, StoreUnavailable;
}

type Answer = Result<(StatusCode, axum::Json<ActionAnswer>), Problem>;

/// Cancel a transaction
///
/// Without a nonce it ends at once. Later a transfer to self is sent in its slot, and whichever of
/// the two is mined decides: read the outcome. Safe to repeat. It has to be dearer than what it
/// cancels: where that is above the create's `maxFeePerGas` it is refused (`fee_cap`), unless
/// `cancel.may_exceed_cap` is set.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/cancel",
    operation_id = "cancelTx",
    tag = "actions",
    params(ActionParams),
    request_body(content = Option<Reason>, description = "May be left out.", examples(
        ("why" = (summary = "With a reason", value = json!({"reason": "order withdrawn"})))
    )),
    responses(
        (status = 202, description = "A cancellation is on its way.", body = ActionAnswer),
        (status = 200, description = "It ended without a nonce, is being cancelled, or is \
            cancelled already.", body = ActionAnswer),
        ActionProblems
    )
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    Segment(tx_id): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<Reason>,
) -> Answer {
    act(&api, &tx_id, words, Action::Cancel, body.read()?).await
}

/// Offer more for a transaction
///
/// A further attempt in the same slot, at a price that replaces the one before and that the market
/// asks now: of the call, or of what closes its slot. Never above a cap.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/speed-up",
    operation_id = "speedUpTx",
    tag = "actions",
    params(ActionParams),
    request_body(content = Option<Reason>, description = "May be left out."),
    responses(
        (status = 202, description = "A dearer attempt is on its way.", body = ActionAnswer),
        (status = 200, description = "It is under way already.", body = ActionAnswer),
        ActionProblems
    )
)]
pub(crate) async fn speed_up(
    State(api): State<Api>,
    Segment(tx_id): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<Reason>,
) -> Answer {
    act(&api, &tx_id, words, Action::SpeedUp, body.read()?).await
}

/// Send a transaction again now
///
/// The newest bytes, as they are: same nonce, same price, same hash.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/resubmit",
    operation_id = "resubmitTx",
    tag = "actions",
    params(ActionParams),
    request_body(content = Option<Reason>, description = "May be left out."),
    responses(
        (status = 202, description = "The bytes are on their way again.", body = ActionAnswer),
        (status = 200, description = "It is under way already.", body = ActionAnswer),
        ActionProblems
    )
)]
pub(crate) async fn resubmit(
    State(api): State<Api>,
    Segment(tx_id): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<Reason>,
) -> Answer {
    act(&api, &tx_id, words, Action::Resubmit, body.read()?).await
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
    request_body(content = ReplaceBody, description = "What stands in its place.", examples(
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
pub(crate) async fn replace(
    State(api): State<Api>,
    Segment(tx_id): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<ReplaceBody>,
) -> Answer {
    let (replacement, reason) = body.read()?;
    act(&api, &tx_id, words, Action::Replace(replacement), reason).await
}

/// Ask the stuck policy about a transaction now
///
/// What it decides is carried out and stands in the audit trail.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/resolve",
    operation_id = "resolveTx",
    tag = "actions",
    params(ActionParams),
    request_body(content = Option<Reason>, description = "May be left out."),
    responses(
        (status = 202, description = "The policy is being asked, or what it decided is on its way.",
            body = ActionAnswer),
        (status = 200, description = "It ended without a nonce.", body = ActionAnswer),
        ActionProblems
    )
)]
pub(crate) async fn resolve(
    State(api): State<Api>,
    Segment(tx_id): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<Reason>,
) -> Answer {
    act(&api, &tx_id, words, Action::AskPolicy, body.read()?).await
}

async fn act(api: &Api, tx_id: &str, words: Words, action: Action, reason: Text<500>) -> Answer {
    words.end()?;
    let tx_id = read::parse_id(tx_id)?;
    let (asks_policy, cancels) = (action == Action::AskPolicy, action == Action::Cancel);
    let acted = api.engine.act(tx_id, action, reason).await;
    let record =
        api.store.tx(tx_id).await?.ok_or_else(|| Problem::not_found("transaction", "txId"))?;
    let (status, outcome) = match acted {
        Ok(Acted::Withdrawn) => (StatusCode::OK, ActionOutcome::Withdrawn),
        Ok(Acted::Signed(hash)) => (StatusCode::ACCEPTED, ActionOutcome::Signed(hash)),
        Ok(Acted::Resent) => (StatusCode::ACCEPTED, ActionOutcome::Resent),
        Ok(Acted::UnderWay) if asks_policy => (StatusCode::ACCEPTED, ActionOutcome::UnderWay),
        Ok(Acted::UnderWay) => (StatusCode::OK, ActionOutcome::UnderWay),
        // Who cancels twice got what was wanted.
        Err(ActError::Forbidden(Forbidden::Final))
            if cancels && record.seen.state == TxState::Failed(Failed::Cancelled) =>
        {
            (StatusCode::OK, ActionOutcome::Done)
        }
        Err(error) => return Err(error.into()),
    };
    let tx = read::for_operators(api, &record).await?;
    Ok((status, axum::Json(ActionAnswer::new(outcome, tx))))
}
