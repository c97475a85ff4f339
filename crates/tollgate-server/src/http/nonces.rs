//! Nonces for callers that send by themselves: reserve one, report it used or return it, list them.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tollgate_api::{
    ErrorCode, Reservation, ReservationPage, Reserve, ReservedNonce, ReturnedNonce, UsedNonce,
    quoted, read_hash,
};
use tollgate_model::audit::AuditedAction;
use tollgate_model::{Nonce, Submitter};
use uuid::Uuid;

use super::Api;
use super::access::Caller;
use super::access::sight::nonce_reason_in_sight;
use super::body::{Json, required_reason};
use super::openapi::may_fail;
use super::params::{NonceParams, NoncesParams, SubmitterParams};
use super::problem::Problem;
use super::query::{
    PathParams, QueryParams, SubmitterCall, decimal, last_of_full_page, submitter_at,
};

may_fail! {
    ReserveProblems: UnreadableBody, InvalidPath, InvalidAddress, InvalidNumber, InvalidDuration,
        InvalidQuery, ReservationsDisabled, SubmitterNotActive, TooManyReservations, Busy;
    UsedProblems: UnreadableBody, InvalidPath, InvalidAddress, InvalidNumber, InvalidField,
        InvalidHex, MissingField, InvalidQuery, StaleOwnerToken, Busy;
    ReturnedProblems: UnreadableBody, InvalidPath, InvalidAddress, InvalidNumber, InvalidField,
        MissingField, InvalidQuery, StaleOwnerToken, Busy;
    NoncesProblems: InvalidPath, InvalidAddress, InvalidNumber, InvalidLimit, InvalidCursor,
        InvalidQuery, StoreUnavailable;
}

/// Reserve a nonce
///
/// For callers that sign and send by themselves, where `reservations.enabled` allows it. The lowest
/// nonce that came back, else the next one. Before you send, say so with `used`; if you will not
/// send, give it back with `recyclable`. If you say nothing until the deadline, the nonce goes to
/// somebody else.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/nonces",
    operation_id = "reserveNonce",
    tag = "nonces",
    params(SubmitterParams),
    request_body(content = Option<Reserve>, description = "May be left out.", examples(
        ("two minutes" = (summary = "For two minutes", value = json!({"holdSeconds": 120})))
    )),
    responses(
        (status = 201, description = "It is yours until the deadline.", body = ReservedNonce),
        ReserveProblems
    )
)]
pub(crate) async fn reserve(
    call: SubmitterCall<Reserve>,
) -> Result<(StatusCode, axum::Json<ReservedNonce>), Problem> {
    let hold = call.body.hold_seconds.map(|hold| hold.read_u64("holdSeconds", 0..=u64::MAX));
    let hold = hold.transpose()?.map(Duration::from_secs);
    let SubmitterCall { api, caller, submitter, .. } = call;
    caller.require_listed(submitter)?;
    caller.record(&*api.store, AuditedAction::ReserveNonce, submitter, None).await?;
    let reserved = api.engine.reservations().reserve(submitter, hold).await?;
    Ok((StatusCode::CREATED, axum::Json((&reserved).into())))
}

/// Say that a nonce is used
///
/// With the hash of what you have signed, *before* you send it: from then on nobody else gets the
/// nonce, whatever happens to you. A refusal (`stale_owner_token`) means: don't send. Safe to
/// repeat with the same hash.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/nonces/{nonce}/used",
    operation_id = "useNonce",
    tag = "nonces",
    params(NonceParams),
    request_body(content = UsedNonce, description = "By whom, for what.", examples(
        ("hash" = (summary = "A signed transaction", value = json!({
            "ownerToken": "2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11",
            "txHash": "0x88df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe6a713944b"
        })))
    )),
    responses(
        (status = 200, description = "It is used.", body = Reservation),
        UsedProblems
    )
)]
pub(crate) async fn used(
    State(api): State<Api>,
    caller: Caller,
    PathParams((address, nonce)): PathParams<(String, String)>,
    params: QueryParams,
    Json(body): Json<UsedNonce>,
) -> Result<axum::Json<Reservation>, Problem> {
    params.end()?;
    let (of, nonce) = slot_at(&api, &caller, &address, &nonce).await?;
    let (token, tx_hash) = (read_token(&body.owner_token)?, read_hash("txHash", &body.tx_hash)?);
    caller.record(&*api.store, AuditedAction::UseNonce, of_nonce(of, nonce), None).await?;
    let used = api.engine.reservations().used(of, nonce, token, tx_hash).await?;
    Ok(axum::Json((&used).into()))
}

/// Give a nonce back
///
/// You have not sent anything with it, and will not. The lowest that came back is handed out first.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/nonces/{nonce}/recyclable",
    operation_id = "returnNonce",
    tag = "nonces",
    params(NonceParams),
    request_body(content = ReturnedNonce, description = "By whom, and why.", examples(
        ("unused" = (summary = "Not needed after all", value = json!({
            "ownerToken": "2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11",
            "reason": "the order was withdrawn"
        })))
    )),
    responses(
        (status = 200, description = "It goes to whoever comes next.", body = Reservation),
        ReturnedProblems
    )
)]
pub(crate) async fn recyclable(
    State(api): State<Api>,
    caller: Caller,
    PathParams((address, nonce)): PathParams<(String, String)>,
    params: QueryParams,
    Json(body): Json<ReturnedNonce>,
) -> Result<axum::Json<Reservation>, Problem> {
    params.end()?;
    let (of, nonce) = slot_at(&api, &caller, &address, &nonce).await?;
    let (token, reason) = (read_token(&body.owner_token)?, required_reason(Some(body.reason))?);
    let (action, subject) = (AuditedAction::ReturnNonce, of_nonce(of, nonce));
    caller.record(&*api.store, action, subject, Some(&reason)).await?;
    let reason = caller.audited(&reason);
    let back = api.engine.reservations().recyclable(of, nonce, token, reason).await?;
    Ok(axum::Json((&back).into()))
}

/// List nonces that are out
///
/// Those that callers hold and those that came back and wait for the next, lowest first. Used ones
/// are left out, and so are the tokens.
#[utoipa::path(
    get,
    path = "/api/v1/submitters/{address}/nonces",
    operation_id = "listNonces",
    tag = "nonces",
    params(NoncesParams),
    responses((status = 200, description = "A page.", body = ReservationPage), NoncesProblems)
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    PathParams(address): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<ReservationPage>, Problem> {
    let page = params.page()?;
    let after = params.cursor("cursor", |text| Nonce::new(decimal(text)?).ok())?;
    params.end()?;
    let of = submitter_at(&api, &caller, &address).await?;
    let found = api.engine.reservations().list(of, after, page).await?;
    let next = last_of_full_page(&found, page).map(|last| last.nonce.to_string());
    let mut items = Vec::with_capacity(found.len());
    for reservation in found.iter().map(Reservation::from) {
        let reason = nonce_reason_in_sight(&api, &caller, reservation.reason).await?;
        items.push(Reservation { reason, ..reservation });
    }
    Ok(axum::Json(ReservationPage { items, next }))
}

/// A nonce as the audit log names it.
fn of_nonce(of: Submitter, nonce: Nonce) -> String {
    format!("{of} nonce {nonce}")
}

async fn slot_at(
    api: &Api,
    caller: &Caller,
    address: &str,
    nonce: &str,
) -> Result<(Submitter, Nonce), Problem> {
    let of = submitter_at(api, caller, address).await?;
    let number = decimal(nonce).and_then(|number| Nonce::new(number).ok());
    let bad = || {
        let what = format!("{} must be a whole number up to {}", quoted(nonce), Nonce::MAX);
        Problem::of_field(ErrorCode::InvalidNumber, "nonce", what)
    };
    Ok((of, number.ok_or_else(bad)?))
}

fn read_token(text: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| {
        let what = format!("{} must be the UUID from the reservation", quoted(text));
        Problem::of_field(ErrorCode::InvalidField, "ownerToken", what)
    })
}
