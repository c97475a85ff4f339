//! Creates many transactions in one call, and answers each for itself.
//!
//! Items are carried out where their submitters are owned: those of each other node together, in one
//! call to it. Items whose submitter moved meanwhile are tried once more.

mod round;

use std::borrow::Cow;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_api::limit::BATCH_ITEMS_MAX;
use tollgate_api::{Batch, BatchAnswer, BatchItem, ErrorCode, Tx};
use tracing::{info, warn};

use super::Api;
use super::access::Caller;
use super::account_pools::{give_to_member, read_pool_create};
use super::body::{Fields, FromFields, Json, read_object};
use super::create_request::CreateRequest;
use super::forward::{FORWARDED, set_owner};
use super::idempotency::{BatchKey, with_request_id};
use super::middleware::trace_id;
use super::openapi::may_fail;
use super::params::BatchParams;
use super::problem::Problem;
use super::query::QueryParams;
use round::Rounds;

/// Tries of an item: at its owner, and where its submitter went meanwhile (I13).
const ROUNDS_MAX: u32 = 2;
/// Items that are read at once. Reading one for a pool asks the database.
const READ_AT_ONCE: usize = 8;

may_fail! {
    BatchProblems: UnreadableBody, InvalidBatch, InvalidQuery, InvalidRequestId, MissingField,
        WrongChain, NotOwner;
}

/// The items of a batch, not read yet: each is answered for itself.
pub(crate) struct BatchItems(pub(super) Vec<Box<RawValue>>);

impl FromFields for BatchItems {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let items = fields.array("items")?;
        let items = fields.required("items", items)?;
        Ok(Self(items.into_iter().map(ToOwned::to_owned).collect()))
    }
}

/// Refuses a batch that is empty or too long (I13).
pub(crate) fn check_size(items: &[Box<RawValue>]) -> Result<(), Problem> {
    if items.is_empty() || items.len() > BATCH_ITEMS_MAX {
        let what = format!("{} items, must be 1 to {BATCH_ITEMS_MAX}", items.len());
        return Err(Problem::of_field(ErrorCode::InvalidBatch, "items", what));
    }
    Ok(())
}

/// Create many transactions
///
/// Each item is answered for itself, in order, with the status that a create of its own would have
/// had: one bad item never fails its neighbours. With an `Idempotency-Key`, the batch can be
/// repeated: an item without a `requestId` gets the key, a colon and its place as one.
#[utoipa::path(
    post,
    path = "/api/v1/tx/batch",
    operation_id = "createTxBatch",
    tag = "transactions",
    params(BatchParams),
    request_body(content = Batch, description = "At most 2 MiB.", examples(
        ("two" = (summary = "Two transfers", value = json!({"items": [
            {
                "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                "requestId": "salary-1",
                "payload": {"to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "value": "1"}
            },
            {
                "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                "requestId": "salary-2",
                "payload": {"to": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "value": "2"}
            }
        ]})))
    )),
    responses(
        (status = 200, description = "An answer to each item.", body = BatchAnswer),
        BatchProblems
    )
)]
pub(crate) async fn create_batch(
    State(api): State<Api>,
    caller: Caller,
    params: QueryParams,
    headers: HeaderMap,
    Json(BatchItems(items)): Json<BatchItems>,
) -> Result<Response, Problem> {
    params.end()?;
    check_size(&items)?;
    let rounds_max = if headers.contains_key(FORWARDED) { 1 } else { ROUNDS_MAX };
    let key = BatchKey::of(&headers)?;
    let reads: Vec<_> = items
        .iter()
        .enumerate()
        .map(|(place, text)| {
            Item::read(&api, &caller, key.as_ref(), place, text, trace_id(&headers))
        })
        .collect();
    let items = stream::iter(reads).buffered(READ_AT_ONCE).collect().await;
    let mut rounds = Rounds::new(&api, &caller, &headers, items);
    for _ in 0..rounds_max {
        rounds.run_one().await;
    }
    Ok(answer(rounds.items))
}

/// One create of a batch.
struct Item<'a> {
    /// Its JSON, as another node would be sent it.
    text: Cow<'a, RawValue>,
    /// The create, while there is no answer that stands.
    open: Option<CreateRequest>,
    answer: Option<ItemAnswer>,
    /// The node that owns its submitter, if that node gave the answer.
    owner: Option<String>,
    /// Another node was asked.
    forwarded: bool,
}

/// The answer to an item.
#[derive(Serialize)]
#[serde(untagged)]
enum ItemAnswer {
    /// Of this node.
    Own(Box<BatchItem>),
    /// Of another node, byte for byte.
    Forwarded(Box<RawValue>),
}

impl<'a> Item<'a> {
    async fn read(
        api: &Api,
        caller: &Caller,
        key: Option<&BatchKey>,
        place: usize,
        text: &'a RawValue,
        trace_id: &str,
    ) -> Self {
        let (open, text, answer) = match read_item(api, caller, key, place, text).await {
            Ok((request, text)) => (Some(request), text, None),
            Err(problem) => {
                (None, Cow::Borrowed(text), Some(ItemAnswer::own(Err(problem), trace_id)))
            }
        };
        Self { text, open, answer, owner: None, forwarded: false }
    }
}

/// Reads the item at a place; returns it with its JSON, which has the item's request id, and a member in
/// the place of a pool.
async fn read_item<'a>(
    api: &Api,
    caller: &Caller,
    key: Option<&BatchKey>,
    place: usize,
    text: &'a RawValue,
) -> Result<(CreateRequest, Cow<'a, RawValue>), Problem> {
    let (chain_id, tenant) = (api.engine.chain_id(), caller.tenant());
    let (pool, mut request) = match read_pool_create(api, caller, text, None)? {
        Some((pool, request)) => (Some(pool), request),
        None => (None, CreateRequest::read(read_object(text)?, chain_id, None, tenant)?),
    };
    if pool.is_none() {
        caller.require_sender(request.submitter)?;
    }
    let mut text = Cow::Borrowed(text);
    if let (None, Some(key)) = (&request.request_id, key) {
        let id = key.request_id(place, tenant)?;
        text = with_request_id(&text, &id).map_or(text, Cow::Owned);
        request.request_id = Some(id);
    }
    if let Some(pool) = pool {
        text = Cow::Owned(give_to_member(api, &pool, &mut request, &text).await?);
    }
    Ok((request, text))
}

impl ItemAnswer {
    fn own(answer: Result<(StatusCode, Tx), Problem>, trace_id: &str) -> Self {
        Self::Own(Box::new(match answer {
            Ok((status, tx)) => BatchItem { status: status.as_u16(), tx: Some(tx), error: None },
            Err(problem) => {
                let error = problem.with_trace_id(trace_id);
                BatchItem { status: error.status, tx: None, error: Some(error) }
            }
        }))
    }

    /// The code of the problem that it is, if it is one that this version knows.
    fn code(&self) -> Option<ErrorCode> {
        #[derive(Deserialize)]
        struct Error {
            code: String,
        }
        #[derive(Deserialize)]
        struct Failed {
            error: Error,
        }
        match self {
            Self::Own(item) => item.error.as_ref()?.known_code(),
            Self::Forwarded(text) => {
                let failed: Failed = serde_json::from_str(text.get()).ok()?;
                ErrorCode::of(&failed.error.code)
            }
        }
    }
}

/// All answers, in order. The owner is named where there is one for all.
fn answer(items: Vec<Item<'_>>) -> Response {
    #[derive(Serialize)]
    struct Answers {
        items: Vec<ItemAnswer>,
    }
    let forwarded = items.iter().any(|item| item.forwarded);
    let mut owners = items.iter().filter_map(|item| item.owner.as_ref());
    let owner = owners.next().filter(|first| owners.all(|owner| owner == *first)).cloned();
    let items: Vec<_> = items.into_iter().filter_map(|item| item.answer).collect();
    log_refusals(&items);
    let mut response = axum::Json(Answers { items }).into_response();
    set_owner(&mut response, owner.as_deref(), forwarded);
    response
}

/// Each refused item has a line in the log, as a refused create has. What another node refused is in
/// that node's log, under the same trace id.
fn log_refusals(answers: &[ItemAnswer]) {
    for (place, answer) in answers.iter().enumerate() {
        let ItemAnswer::Own(item) = answer else { continue };
        let Some(error) = &item.error else { continue };
        let (status, code, detail) = (item.status, &*error.code, error.detail.as_str());
        match status {
            500.. => warn!(place, status, code, detail, "batch item failed"),
            _ => info!(place, status, code, detail, "batch item refused"),
        }
    }
}
