//! Operators' actions on a submitter: pause, resume, change the mode, reconcile, fill nonces, advance.

use tollgate_api::{
    CursorMoved, FillNonces, Filled, ModeChanged, NewCursor, NewMode, Reason, Reconciled,
    RequiredReason, StatusChanged, Submitter as ShownSubmitter,
};
use tollgate_engine::Fill;
use tollgate_model::Nonce;
use tollgate_model::audit::AuditedAction;
use tollgate_model::fill::{FillWith, NonceRange};
use tollgate_model::nonce::Mode;

use super::body::{given_reason, one_of, read_nonce, required_reason};
use super::openapi::may_fail;
use super::params::SubmitterParams;
use super::problem::Problem;
use super::query::SubmitterCall;
use super::submitters::current;

may_fail! {
    PauseProblems: UnreadableBody, MissingField, InvalidField, InvalidPath, InvalidAddress,
        InvalidQuery, NotFound, Busy;
    ResumeProblems: UnreadableBody, MissingField, InvalidField, InvalidPath, InvalidAddress,
        InvalidQuery, NotFound, CannotResume, Busy;
    ModeProblems: UnreadableBody, MissingField, InvalidField, InvalidPath, InvalidAddress,
        InvalidQuery, NotFound, CannotChangeMode, Busy;
    NoncesProblems: UnreadableBody, MissingField, InvalidField, InvalidNumber, InvalidPath,
        InvalidAddress, InvalidQuery, NotFound, NoncesRefused, Busy;
    ReconcileProblems: UnreadableBody, InvalidField, InvalidPath, InvalidAddress, InvalidQuery,
        NotFound, Busy;
}

type ActionResult<T> = Result<axum::Json<T>, Problem>;

/// Declares the changes of a submitter's status.
macro_rules! status_changes {
    ($($(#[doc = $about:literal])+
        $name:ident: $path:literal, $id:literal, $action:expr, $problems:ident, $why:literal,
        $done:literal;)+) => {$(
        $(#[doc = $about])+
        #[utoipa::path(
            post,
            path = $path,
            operation_id = $id,
            tag = "submitters",
            params(SubmitterParams),
            request_body(content = RequiredReason, description = "Why.", examples(
                ("why" = (summary = "With a reason", value = json!({"reason": $why})))
            )),
            responses((status = 200, description = $done, body = StatusChanged), $problems)
        )]
        pub(crate) async fn $name(
            call: SubmitterCall<RequiredReason>,
        ) -> ActionResult<StatusChanged> {
            let SubmitterCall { api, caller, submitter, body } = call;
            let reason = required_reason(body.reason)?;
            caller.record(&*api.store, $action, submitter, Some(&reason)).await?;
            let changed = api.engine.operator().$name(submitter, caller.audited(&reason)).await?;
            let was = changed.was.name().into();
            Ok(axum::Json(StatusChanged { submitter: current(&api, &caller, submitter).await?, was }))
        }
    )+};
}

status_changes! {
    /// Pause a submitter
    ///
    /// New work is accepted and waits in QUEUED/HELD without a nonce. What has a slot goes on to its
    /// end. Safe to repeat.
    pause: "/api/v1/submitters/{address}/pause", "pauseSubmitter", AuditedAction::PauseSubmitter,
        PauseProblems, "key rotation", "It stands still.";
    /// Resume a submitter
    ///
    /// After a pause, or out of PROTECT: its nonces are compared with the chain first, and the cursor
    /// moves forward where the chain is ahead. What was held gets its slots. Safe to repeat.
    resume: "/api/v1/submitters/{address}/resume", "resumeSubmitter", AuditedAction::ResumeSubmitter,
        ResumeProblems, "keys are in place", "It takes work.";
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
    request_body(content = NewMode, description = "Which, and why.", examples(
        ("strict" = (summary = "One at a time from now on", value = json!({
            "mode": "strict", "reason": "the bridge needs consecutive nonces"
        })))
    )),
    responses(
        (status = 200, description = "It has this mode.", body = ModeChanged),
        ModeProblems
    )
)]
pub(crate) async fn mode(call: SubmitterCall<NewMode>) -> ActionResult<ModeChanged> {
    let SubmitterCall { api, caller, submitter, body } = call;
    let name = body.mode.ok_or_else(|| Problem::missing("mode"))?;
    let mode = one_of("mode", &name, &Mode::ALL.map(|mode| (mode.name(), mode)))?;
    let reason = required_reason(body.reason)?;
    let action = AuditedAction::ChangeSubmitterMode;
    caller.record(&*api.store, action, submitter, Some(&reason)).await?;
    let changed =
        api.engine.operator().change_mode(submitter, mode, caller.audited(&reason)).await?;
    let was_mode = changed.was.name().into();
    Ok(axum::Json(ModeChanged { submitter: current(&api, &caller, submitter).await?, was_mode }))
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
        (status = 200, description = "What was found.", body = Reconciled),
        ReconcileProblems
    )
)]
pub(crate) async fn reconcile(call: SubmitterCall<Reason>) -> ActionResult<Reconciled> {
    let SubmitterCall { api, caller, submitter, body } = call;
    let reason = given_reason(body.reason)?;
    let action = AuditedAction::ReconcileSubmitter;
    caller.record(&*api.store, action, submitter, reason.as_ref()).await?;
    let found = api.engine.operator().reconcile(submitter).await?;
    let chain_nonce = found.counts.confirmed_mined().map(Nonce::get);
    Ok(axum::Json(Reconciled {
        submitter: ShownSubmitter { chain_nonce, ..current(&api, &caller, submitter).await? },
        pending_nonce: found.counts.pending.get(),
        steps: found.steps,
    }))
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
    request_body(content = FillNonces, description = "Which, with what, and why.", examples(
        ("placeholders" = (summary = "Close a hole at once", value = json!({
            "first": 7, "last": 1006, "with": "placeholder", "reason": "a wrong pending count"
        })))
    )),
    responses(
        (status = 200, description = "They are free, and being filled.", body = Filled),
        NoncesProblems
    )
)]
pub(crate) async fn fill(call: SubmitterCall<FillNonces>) -> ActionResult<Filled> {
    let SubmitterCall { api, caller, submitter, body } = call;
    let range = NonceRange {
        first: read_nonce("first", body.first.as_ref())?,
        last: read_nonce("last", body.last.as_ref())?,
    };
    let name = body.with.ok_or_else(|| Problem::missing("with"))?;
    let with = one_of("with", &name, &FillWith::ALL.map(|with| (with.name(), with)))?;
    let fill = Fill { range, with, used: body.used.unwrap_or_default() };
    let reason = required_reason(body.reason)?;
    let action = AuditedAction::FillSubmitterNonces;
    caller.record(&*api.store, action, submitter, Some(&reason)).await?;
    let filled = api.engine.operator().fill(submitter, fill, caller.audited(&reason)).await?;
    let tollgate_engine::Filled { handed_back, taken, counted, free } = filled;
    let submitter = current(&api, &caller, submitter).await?;
    Ok(axum::Json(Filled { submitter, handed_back, taken, counted, free }))
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
    request_body(content = NewCursor, description = "Where to, and why.", examples(
        ("count" = (summary = "Another system used the key", value = json!({
            "nextNonce": 5120, "reason": "the old signer's transactions are pending"
        })))
    )),
    responses(
        (status = 200, description = "It is there.", body = CursorMoved),
        NoncesProblems
    )
)]
pub(crate) async fn advance(call: SubmitterCall<NewCursor>) -> ActionResult<CursorMoved> {
    let SubmitterCall { api, caller, submitter, body } = call;
    let to = read_nonce("nextNonce", body.next_nonce.as_ref())?;
    let reason = required_reason(body.reason)?;
    let action = AuditedAction::AdvanceSubmitter;
    caller.record(&*api.store, action, submitter, Some(&reason)).await?;
    let moved = api.engine.operator().advance(submitter, to, caller.audited(&reason)).await?;
    let was_next_nonce = moved.from.get();
    Ok(axum::Json(CursorMoved {
        submitter: current(&api, &caller, submitter).await?,
        was_next_nonce,
    }))
}
