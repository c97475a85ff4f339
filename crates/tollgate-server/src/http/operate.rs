//! What operators have done to a submitter: stand still, go on, have another mode, be compared with
//! the chain, have its nonces filled.

use axum::extract::State;
use tollgate_model::{Address, Submitter};

use super::Api;
use super::body::{AdvanceBody, FillBody, ModeBody, NeededReason, OptionalJson, Reason};
use super::doc::may_fail;
use super::params::SubmitterParams;
use super::problem::Problem;
use super::query::{Segment, Words};
use super::shape::{
    AdvancedSubmitter, FilledSubmitter, ReconciledSubmitter, RemodedSubmitter, StoodSubmitter,
};
use super::submitters;

may_fail! {
    PauseProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, MissingField,
        InvalidField, InvalidPath, InvalidAddress, InvalidQuery, NotFound, WrongChain,
        UnknownSubmitter, NotOwner, Draining, Busy, Unavailable, StoreUnavailable;
    ResumeProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, MissingField,
        InvalidField, InvalidPath, InvalidAddress, InvalidQuery, NotFound, CannotResume,
        WrongChain, UnknownSubmitter, NotOwner, Draining, Busy, Unavailable, StoreUnavailable;
    ModeProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, MissingField,
        InvalidField, InvalidPath, InvalidAddress, InvalidQuery, NotFound, CannotChangeMode,
        WrongChain, UnknownSubmitter, NotOwner, Draining, Busy, Unavailable, StoreUnavailable;
    NoncesProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, MissingField,
        InvalidField, InvalidNumber, InvalidPath, InvalidAddress, InvalidQuery, NotFound,
        NoncesRefused, WrongChain, UnknownSubmitter, NotOwner, Draining, Busy, Unavailable, StoreUnavailable;
    ReconcileProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidField,
        InvalidPath, InvalidAddress, InvalidQuery, NotFound, WrongChain, UnknownSubmitter, NotOwner, Draining, Busy,
        Unavailable, StoreUnavailable;
}

/// Pause a submitter
///
/// New work is accepted and waits in QUEUED/HELD without a nonce. What has a slot goes on to its
/// end. Safe to repeat.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/pause",
    operation_id = "pauseSubmitter",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = NeededReason, description = "Why.", examples(
        ("why" = (summary = "With a reason", value = json!({"reason": "key rotation"})))
    )),
    responses(
        (status = 200, description = "It stands still.", body = StoodSubmitter),
        PauseProblems
    )
)]
pub(crate) async fn pause(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<NeededReason>,
) -> Result<axum::Json<StoodSubmitter>, Problem> {
    words.end()?;
    let (address, reason) = (submitters::parse(&address)?, body.read()?);
    let stood = api.engine.pause(of(&api, address), reason).await?;
    let submitter = submitters::shown(&api, address).await?;
    Ok(axum::Json(StoodSubmitter::new(submitter, stood.was)))
}

/// Resume a submitter
///
/// After a pause, or out of PROTECT: its nonces are compared with the chain first, and the cursor
/// moves forward where the chain is ahead. What was held gets its slots. Safe to repeat.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/resume",
    operation_id = "resumeSubmitter",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = NeededReason, description = "Why.", examples(
        ("why" = (summary = "With a reason", value = json!({"reason": "keys are in place"})))
    )),
    responses(
        (status = 200, description = "It takes work.", body = StoodSubmitter),
        ResumeProblems
    )
)]
pub(crate) async fn resume(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<NeededReason>,
) -> Result<axum::Json<StoodSubmitter>, Problem> {
    words.end()?;
    let (address, reason) = (submitters::parse(&address)?, body.read()?);
    let stood = api.engine.resume(of(&api, address), reason).await?;
    let submitter = submitters::shown(&api, address).await?;
    Ok(axum::Json(StoodSubmitter::new(submitter, stood.was)))
}

/// Change a submitter's mode
///
/// Only while none of its transactions is open and callers hold none of its nonces. To strict, its
/// nonces are compared with the chain first, as a resume does. The mode is the account's own: what a
/// node is configured with counts only when the account is first registered. Safe to repeat.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/mode",
    operation_id = "changeSubmitterMode",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = ModeBody, description = "Which, and why.", examples(
        ("strict" = (summary = "One at a time from now on", value = json!({
            "mode": "strict", "reason": "the bridge needs consecutive nonces"
        })))
    )),
    responses(
        (status = 200, description = "It has this mode.", body = RemodedSubmitter),
        ModeProblems
    )
)]
pub(crate) async fn mode(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<ModeBody>,
) -> Result<axum::Json<RemodedSubmitter>, Problem> {
    words.end()?;
    let address = submitters::parse(&address)?;
    let (to, reason) = body.read()?;
    let changed = api.engine.change_mode(of(&api, address), to, reason).await?;
    let submitter = submitters::shown(&api, address).await?;
    Ok(axum::Json(RemodedSubmitter::new(submitter, changed.was)))
}

/// Compare a submitter with the chain now
///
/// Cursor and open slots with what the chain counts, as it happens by itself every now and then.
/// `steps` tells what followed from it; it is empty if everything agrees.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/reconcile",
    operation_id = "reconcileSubmitter",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = Option<Reason>, description = "May be left out."),
    responses(
        (status = 200, description = "What was found.", body = ReconciledSubmitter),
        ReconcileProblems
    )
)]
pub(crate) async fn reconcile(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<Reason>,
) -> Result<axum::Json<ReconciledSubmitter>, Problem> {
    words.end()?;
    let address = submitters::parse(&address)?;
    // Nothing is decided here, so there is nothing to keep it with; but what is wrong is told.
    body.read()?;
    let found = api.engine.reconcile(of(&api, address)).await?;
    let submitter = submitters::shown(&api, address).await?;
    Ok(axum::Json(ReconciledSubmitter::new(submitter, found)))
}

/// Fill nonces that the chain waits for
///
/// For an account whose next nonce is far ahead of the chain: a cursor never goes back, so that what
/// lies between is filled, lowest first, by the transactions that come next or by zero-value transfers
/// to self. At most 1,000 nonces in one call and 10,000 free ones at a time (`busy` beyond that); what
/// a transaction or a caller has, and what the chain or a pool counts, is left alone. `chainNonce`
/// shows how far it is. Safe to repeat.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/fill",
    operation_id = "fillSubmitterNonces",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = FillBody, description = "Which, with what, and why.", examples(
        ("placeholders" = (summary = "Close a hole at once", value = json!({
            "first": 7, "last": 1006, "with": "placeholder", "reason": "a wrong pending count"
        })))
    )),
    responses(
        (status = 200, description = "They are free, and being filled.", body = FilledSubmitter),
        NoncesProblems
    )
)]
pub(crate) async fn fill(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<FillBody>,
) -> Result<axum::Json<FilledSubmitter>, Problem> {
    words.end()?;
    let address = submitters::parse(&address)?;
    let (fill, reason) = body.read()?;
    let filled = api.engine.fill(of(&api, address), fill, reason).await?;
    let submitter = submitters::shown(&api, address).await?;
    Ok(axum::Json(FilledSubmitter::new(submitter, filled)))
}

/// Move a submitter's next nonce forward
///
/// Where one endpoint alone counts far more than the submitter's next nonce, Tollgate does not follow
/// it by itself (alert `count_doubted`). This is a person's word that the count is right. It is
/// never moved back, nor beyond what the endpoints count.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{address}/advance",
    operation_id = "advanceSubmitter",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = AdvanceBody, description = "Where to, and why.", examples(
        ("count" = (summary = "Another system used the key", value = json!({
            "nextNonce": 5120, "reason": "the old signer's transactions are pending"
        })))
    )),
    responses(
        (status = 200, description = "It is there.", body = AdvancedSubmitter),
        NoncesProblems
    )
)]
pub(crate) async fn advance(
    State(api): State<Api>,
    Segment(address): Segment,
    words: Words,
    OptionalJson(body): OptionalJson<AdvanceBody>,
) -> Result<axum::Json<AdvancedSubmitter>, Problem> {
    words.end()?;
    let address = submitters::parse(&address)?;
    let (to, reason) = body.read()?;
    let step = api.engine.advance(of(&api, address), to, reason).await?;
    let submitter = submitters::shown(&api, address).await?;
    Ok(axum::Json(AdvancedSubmitter::new(submitter, step.from)))
}

fn of(api: &Api, address: Address) -> Submitter {
    Submitter::new(api.engine.chain_id(), address)
}
