//! Nonces for callers that send by themselves: reserve, tell what became of it, list what is out.

use axum::extract::State;
use axum::http::StatusCode;
use tollgate_model::{Nonce, Submitter};

use super::Api;
use super::body::{Json, OptionalJson, ReserveBody, ReturnedBody, UsedBody, quoted};
use super::code::Code;
use super::doc::may_fail;
use super::params::{NonceParams, NoncesParams, SubmitterParams};
use super::problem::Problem;
use super::query::{Segment, TwoSegments, Words};
use super::shape::{Reservation, ReservationPage, ReservedNonce};
use super::submitters;

may_fail! {
    ReserveProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidPath,
        InvalidAddress, InvalidNumber, InvalidDuration, InvalidQuery, WrongChain, UnknownSubmitter,
        ReservationsDisabled, SubmitterNotActive, TooManyReservations, NotOwner, Draining, Busy, Unavailable,
        StoreUnavailable;
    UsedProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidPath,
        InvalidAddress, InvalidNumber, InvalidField, InvalidHex, MissingField, InvalidQuery,
        WrongChain, UnknownSubmitter,
        StaleOwnerToken, NotOwner, Draining, Busy, Unavailable, StoreUnavailable;
    ReturnedProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidPath,
        InvalidAddress, InvalidNumber, InvalidField, MissingField, InvalidQuery, WrongChain,
        UnknownSubmitter,
        StaleOwnerToken, NotOwner, Draining, Busy, Unavailable, StoreUnavailable;
    NoncesProblems: InvalidPath, InvalidAddress, InvalidNumber, InvalidLimit, InvalidQuery,
        StoreUnavailable;
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
    request_body(content = Option<ReserveBody>, description = "May be left out.", examples(
        ("two minutes" = (summary = "For two minutes", value = json!({"holdSeconds": 120})))
    )),
    responses(
        (status = 201, description = "It is yours until the deadline.", body = ReservedNonce),
        ReserveProblems
    )
)]
pub(crate) async fn reserve(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<ReserveBody>,
) -> Result<(StatusCode, axum::Json<ReservedNonce>), Problem> {
    words.end()?;
    let of = Submitter::new(api.engine.chain_id(), submitters::parse(&address)?);
    let reserved = api.engine.reserve(of, body.read()?).await?;
    Ok((StatusCode::CREATED, axum::Json(ReservedNonce::new(&reserved))))
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
    request_body(content = UsedBody, description = "By whom, for what.", examples(
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
    TwoSegments(address, nonce): TwoSegments,
    words: Words,
    Json(body): Json<UsedBody>,
) -> Result<axum::Json<Reservation>, Problem> {
    words.end()?;
    let (of, nonce) = place(&api, &address, &nonce)?;
    let (token, tx_hash) = body.read()?;
    let used = api.engine.reservation_used(of, nonce, token, tx_hash).await?;
    Ok(axum::Json(Reservation::new(&used)))
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
    request_body(content = ReturnedBody, description = "By whom, and why.", examples(
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
    TwoSegments(address, nonce): TwoSegments,
    words: Words,
    Json(body): Json<ReturnedBody>,
) -> Result<axum::Json<Reservation>, Problem> {
    words.end()?;
    let (of, nonce) = place(&api, &address, &nonce)?;
    let (token, reason) = body.read()?;
    let back = api.engine.reservation_recyclable(of, nonce, token, reason).await?;
    Ok(axum::Json(Reservation::new(&back)))
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
    Segment(address): Segment,
    mut words: Words,
) -> Result<axum::Json<ReservationPage>, Problem> {
    let page = words.page()?;
    let after = words.number("cursor")?.map(Nonce::new).transpose()?;
    words.end()?;
    let of = Submitter::new(api.engine.chain_id(), submitters::parse(&address)?);
    let found = api.engine.reservations(of, after, page).await?;
    let full = found.len() == page.limit() as usize;
    Ok(axum::Json(ReservationPage::new(&found, full)))
}

fn place(api: &Api, address: &str, nonce: &str) -> Result<(Submitter, Nonce), Problem> {
    let of = Submitter::new(api.engine.chain_id(), submitters::parse(address)?);
    let number = nonce.parse().ok().and_then(|number: u64| Nonce::new(number).ok());
    let bad = || {
        let what = format!("{} must be a whole number up to {}", quoted(nonce), Nonce::MAX);
        Problem::of_field(Code::InvalidNumber, "nonce", what)
    };
    Ok((of, number.ok_or_else(bad)?))
}
