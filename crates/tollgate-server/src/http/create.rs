//! Creates one transaction. Many at once are in `batch`.

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tollgate_api::{Create, ErrorCode, Simulation, Tx, path};
use tollgate_engine::{CreateError, Created, PendingCreate, PreparedCreate, Simulated, Unserved};
use tollgate_model::{Submitter, TraceParent, TxId};
use utoipa::ToSchema;

use super::Api;
use super::access::Caller;
use super::account_pools::FromPool;
use super::body::Json;
use super::create_request::{CreateContent, CreateRequest};
use super::idempotency::key_of;
use super::middleware::traceparent;
use super::openapi::may_fail;
use super::params::CreateParams;
use super::problem::Problem;
use super::query::QueryParams;
use super::read::for_callers;

may_fail! {
    CreateProblems: UnreadableBody, MissingField, InvalidField, InvalidAddress, InvalidNumber,
        InvalidHex, InvalidTime, InvalidFees, InvalidRequestId, RequestIdMismatch,
        MetadataTooLarge, InvalidRawTx, NonceMismatch, AuthorizationRefused,
        AuthorizationEarly, Expired, WouldRevert, InsufficientFunds,
        GasTooLow, GasAboveBlockLimit, GasAboveTxLimit, TxTooLarge, FeeCapTooLow, ValueAboveCap, CallNotAllowed,
        InvalidTransaction, InvalidQuery, RequestIdConflict, SubmitterDisabled, Busy;
}

/// Create a transaction
///
/// Durable when it is answered. What the chain would certainly refuse is refused before a nonce is
/// touched, and a refused create leaves nothing behind. Safe to repeat with the same `requestId` (or
/// `Idempotency-Key`), also after a timeout: one request makes one transaction, and a repeat is
/// answered with it whatever the chain says by then. With `Prefer: wait=30` the answer comes when the
/// transaction is final, or after that time.
#[utoipa::path(
    post,
    path = "/api/v1/tx",
    operation_id = "createTx",
    tag = "transactions",
    params(CreateParams),
    request_body(content = Create, description = "At most 2 MiB.", examples(
        ("transfer" = (summary = "Pay somebody", value = json!({
            "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "requestId": "order-17",
            "payload": {
                "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                "value": "1000000000"
            },
            "metadata": {"order": 17}
        }))),
        ("pool" = (summary = "Let a pool pay", value = json!({
            "submitter": "pool:payouts",
            "requestId": "payout-17",
            "payload": {
                "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                "value": "1000000000"
            }
        }))),
        ("call" = (summary = "Call a contract, with a cap on the price", value = json!({
            "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "requestId": "approve-17",
            "payload": {
                "to": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
                "data": "0x095ea7b300000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c80000000000000000000000000000000000000000000000000000000000000001",
                "gas": 100000
            },
            "speed": "fast",
            "maxFeePerGas": "50000000000"
        })))
    )),
    responses(
        (status = 202, description = "New, and durable.", body = Tx, headers(
            ("location" = String, description = "The path of the transaction."),
            ("preference-applied" = String, description = "The wait that was applied.")
        )),
        (status = 200, description = "The same request was made before: its transaction. With \
            `simulate=true`, and if it is new: what it would cost.", body = inline(CreateAnswer)),
        CreateProblems
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller,
    from_pool: Option<Extension<FromPool>>,
    mut params: QueryParams,
    headers: HeaderMap,
    Json(body): Json<Create>,
) -> Result<Response, Problem> {
    let simulate = params.flag("simulate")?;
    params.end()?;
    let key = key_of(&headers)?;
    let (chain_id, tenant) = (api.engine.chain_id(), caller.tenant());
    let request = CreateRequest::read(body, chain_id, key.as_deref(), tenant)?;
    if from_pool.is_none() {
        caller.require_sender(request.submitter)?;
    }
    if simulate {
        let CreateContent::Intent(intent) = request.content else {
            let what = "there is nothing to prepare in a signed transaction";
            return Err(Problem::of_field(ErrorCode::InvalidRawTx, "rawTx", what));
        };
        let (submitter, value) = (request.submitter, intent.value);
        let simulated = api.engine.simulate(submitter, request.request_id, *intent).await;
        return match simulated.map_err(|error| refused(submitter, error))? {
            Simulated::Costs(fees) => {
                Ok(axum::Json(Simulation::new(submitter, value, &fees)).into_response())
            }
            Simulated::Known(tx_id) => {
                Ok(axum::Json(known(&api, &caller, tx_id).await?).into_response())
            }
        };
    }
    let submitter = request.submitter;
    let trace = traceparent(&headers);
    let prepared = prepare(&api, &caller, request.named_for(tenant)?, trace).await?;
    let (status, tx) = outcome(&api, &caller, submitter, api.engine.submit(prepared)).await?;
    let location = (status == StatusCode::ACCEPTED).then(|| path::tx(&tx.tx_id));
    let location = location.and_then(|path| HeaderValue::from_str(&path).ok());
    let mut response = (status, axum::Json(tx)).into_response();
    response.headers_mut().extend(location.map(|path| (header::LOCATION, path)));
    Ok(response)
}

/// A transaction that was there before, or a simulation.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes two answers, is neither")]
#[schema(as = CreateAnswer)]
#[serde(untagged)]
enum CreateAnswer {
    /// The transaction of the same request.
    Known(Box<Tx>),
    /// The cost.
    Simulated(Simulation),
}

/// Everything about a create that needs no nonce, by its author and under the trace of its request.
pub(crate) async fn prepare(
    api: &Api,
    caller: &Caller,
    request: CreateRequest,
    trace: Option<TraceParent>,
) -> Result<PreparedCreate, Problem> {
    let CreateRequest { submitter, request_id, content } = request;
    let prepared = match content {
        CreateContent::Intent(intent) => api.engine.prepare(submitter, request_id, *intent).await,
        CreateContent::Signed(signed) => {
            api.engine.prepare_signed(submitter, request_id, *signed).await
        }
    };
    let prepared = prepared.map_err(|error| refused(submitter, error))?;
    Ok(prepared.by(caller.create_author()).traced(trace))
}

/// Waits for the outcome of a create that its worker has.
pub(crate) async fn outcome(
    api: &Api,
    caller: &Caller,
    submitter: Submitter,
    pending: PendingCreate,
) -> Result<(StatusCode, Tx), Problem> {
    match pending.decided().await.map_err(|error| refused(submitter, error))? {
        Created::New(record) => Ok((StatusCode::ACCEPTED, Tx::from(record.as_ref()))),
        Created::Known(tx_id) => Ok((StatusCode::OK, known(api, caller, tx_id).await?)),
    }
}

fn refused(submitter: Submitter, error: CreateError) -> Problem {
    match error {
        CreateError::Unserved(Unserved::UnknownSubmitter) => {
            let what = format!(
                "{} is not served here; GET /api/v1/submitters lists those that are",
                submitter.address
            );
            Problem::of_field(ErrorCode::UnknownSubmitter, "submitter", what)
        }
        other => other.into(),
    }
}

/// The answer to a request that was accepted before, at any node (I7); `None` if it is new, or if that
/// can't be said now.
pub(crate) async fn answer_to_known(
    api: &Api,
    caller: &Caller,
    request: &CreateRequest,
) -> Option<Result<Tx, Problem>> {
    let CreateRequest { submitter, request_id, content } = request;
    let found = match content {
        CreateContent::Intent(intent) => {
            api.engine.known(*submitter, request_id.as_ref(), intent).await
        }
        CreateContent::Signed(signed) => {
            api.engine.known_signed(*submitter, request_id.clone(), signed).await
        }
    };
    match found {
        Ok(Some(tx_id)) => Some(known(api, caller, tx_id).await),
        Ok(None) => None,
        Err(error @ CreateError::RequestIdConflict(_)) => Some(Err(refused(*submitter, error))),
        Err(_) => None,
    }
}

/// The transaction of the same request, or what is kept of it if it was removed.
async fn known(api: &Api, caller: &Caller, tx_id: TxId) -> Result<Tx, Problem> {
    if let Some(record) = api.store.tx(tx_id).await? {
        return for_callers(api, caller, &record).await;
    }
    let removed = api.store.removed(tx_id).await?;
    let removed = removed.ok_or_else(|| Problem::not_found("transaction", "txId"))?;
    Ok(Tx::archived(&removed))
}
