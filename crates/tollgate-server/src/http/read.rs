//! Reads transactions, lists and audit trails.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tollgate_api::header::NEXT_CURSOR;
use tollgate_api::{
    BlockedBy, ErrorCode, HistoryEntry, HistoryPage, OperatorTx, Tx, TxAnswer, TxPage, quoted,
};
use tollgate_model::port::{ListFilter, Page, StateFilter, TxRecord};
use tollgate_model::{RequestId, Submitter, TxId};

use super::Api;
use super::create_request::read_time;
use super::openapi::may_fail;
use super::params::{HistoryParams, ListParams, RequestParams, TxParams};
use super::problem::Problem;
use super::query::{PathParams, QueryParams, last_of_full_page};

may_fail! {
    TxProblems: InvalidPath, InvalidTxId, NotFound, InvalidQuery, StoreUnavailable;
    RequestProblems: MissingField, InvalidAddress, InvalidRequestId, InvalidNumber, WrongChain,
        NotFound, InvalidQuery, StoreUnavailable;
    ListProblems: InvalidQuery, InvalidLimit, InvalidCursor, InvalidNumber, InvalidAddress,
        InvalidState, InvalidTime, WrongChain, StoreUnavailable;
    HistoryProblems: InvalidPath, InvalidTxId, NotFound, InvalidQuery, InvalidLimit, InvalidNumber,
        InvalidCursor,
        StoreUnavailable;
}

/// Read a transaction
///
/// Callers see states and results. `view=operator` adds nonce, fencing token, attempts and schedule. With
/// `Prefer: wait=30` the answer comes when the transaction is final, or after that time.
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}",
    operation_id = "getTx",
    tag = "transactions",
    params(TxParams),
    responses((status = 200, description = "The transaction.", body = TxAnswer), TxProblems)
)]
pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(tx_id): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<TxAnswer>, Problem> {
    let operator = is_operator(&mut params)?;
    params.end()?;
    let tx_id = parse_id(&tx_id)?;
    let found =
        api.store.tx(tx_id).await?.ok_or_else(|| Problem::not_found("transaction", "txId"))?;
    Ok(axum::Json(in_view(&api, &found, operator).await?))
}

/// Read a transaction by its request
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-request",
    operation_id = "getTxByRequest",
    tag = "transactions",
    params(RequestParams),
    responses((status = 200, description = "The transaction.", body = TxAnswer), RequestProblems)
)]
pub(crate) async fn by_request(
    State(api): State<Api>,
    mut params: QueryParams,
) -> Result<axum::Json<TxAnswer>, Problem> {
    let operator = is_operator(&mut params)?;
    let address = params.address("submitter")?.ok_or_else(|| Problem::missing("submitter"))?;
    let request_id = RequestId::new(params.required("requestId")?).map_err(|error| {
        Problem::of_field(ErrorCode::InvalidRequestId, "requestId", error.problem)
    })?;
    check_chain(&api, &mut params)?;
    params.end()?;
    let submitter = Submitter::new(api.engine.chain_id(), address);
    let found = api.store.tx_by_request(submitter, &request_id).await?;
    let found = found.ok_or_else(|| Problem::not_found("request", "requestId"))?;
    Ok(axum::Json(in_view(&api, &found, operator).await?))
}

/// List transactions
///
/// Newest first. With `Accept: text/csv` the same page comes as CSV, and `next` in the header
/// `x-next-cursor`.
#[utoipa::path(
    get,
    path = "/api/v1/tx",
    operation_id = "listTx",
    tag = "transactions",
    params(ListParams),
    responses(
        (status = 200, description = "A page.", content(
            (TxPage = "application/json"),
            (String = "text/csv", example = "txId,chainId,submitter,requestId,state,subState,txHash,createdAt,blockNumber,gasUsed,effectiveGasPrice,fee,contractAddress\r\n")
        ), headers(("x-next-cursor" = String, description = "`next`, of a page as CSV."))),
        ListProblems
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, Problem> {
    let page = params.page()?;
    let after = params.cursor("cursor", |text| text.parse::<TxId>().ok())?;
    check_chain(&api, &mut params)?;
    let chain_id = api.engine.chain_id();
    let instant =
        |name: &str, text: Option<String>| text.map(|text| read_time(name, &text)).transpose();
    let filter = ListFilter {
        chain_id: Some(chain_id),
        submitter: params.address("submitter")?.map(|address| Submitter::new(chain_id, address)),
        states: params.states()?.map_or(StateFilter::Any, StateFilter::Of),
        from: instant("from", params.take("from"))?,
        to: instant("to", params.take("to"))?,
    };
    params.end()?;
    let found = api.store.list(&filter, after, page).await?;
    let next = last_of_full_page(&found, page).map(|tx| tx.tx_id.to_string());
    // One account has one line: one read tells what blocks all that wait in it.
    let head = match filter.submitter {
        Some(submitter) if found.iter().any(waits) => api.store.line_head(submitter).await?,
        Some(_) | None => None,
    };
    let blocked = |tx: &TxRecord| BlockedBy::of(tx, head.as_ref().filter(|_| waits(tx))?);
    let shown = |tx: &TxRecord| {
        let blocked_by = blocked(tx).map(BlockedBy::for_callers);
        Tx { blocked_by, ..Tx::from(tx) }
    };
    let items: Vec<Tx> = found.iter().map(shown).collect();
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.starts_with("text/csv")) {
        return Ok(csv(&items, next.as_deref()));
    }
    Ok(axum::Json(TxPage { items, next }).into_response())
}

/// Read a transaction's audit trail
///
/// Every change, oldest first: what happened, when, by which node, under which token.
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}/history",
    operation_id = "getTxHistory",
    tag = "transactions",
    params(HistoryParams),
    responses((status = 200, description = "A page.", body = HistoryPage), HistoryProblems)
)]
pub(crate) async fn history(
    State(api): State<Api>,
    PathParams(tx_id): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<HistoryPage>, Problem> {
    let page = params.page()?;
    let after = params.after(|number| u32::try_from(number).ok())?;
    params.end()?;
    let tx_id = parse_id(&tx_id)?;
    api.store.tx(tx_id).await?.ok_or_else(|| Problem::not_found("transaction", "txId"))?;
    let found = api.store.history(tx_id, after, page).await?;
    let next = last_of_full_page(&found, page).map(|entry| entry.version);
    let items = found.iter().map(HistoryEntry::from).collect();
    Ok(axum::Json(HistoryPage { items, next }))
}

async fn in_view(api: &Api, tx: &TxRecord, operator: bool) -> Result<TxAnswer, Problem> {
    if !operator {
        return Ok(TxAnswer::Caller(Box::new(for_callers(api, tx).await?)));
    }
    Ok(TxAnswer::Operator(Box::new(for_operators(api, tx).await?)))
}

/// A transaction as callers see it, with what it waits for.
pub(crate) async fn for_callers(api: &Api, tx: &TxRecord) -> Result<Tx, Problem> {
    let blocked_by = blocked_by(api, tx).await?.map(BlockedBy::for_callers);
    Ok(Tx { blocked_by, ..Tx::from(tx) })
}

/// A transaction with all that operators see.
pub(crate) async fn for_operators(api: &Api, tx: &TxRecord) -> Result<OperatorTx, Problem> {
    let attempts = api.store.attempts(tx.tx_id).await?;
    let history = api.store.history(tx.tx_id, 0, Page::new(Page::MAX)?).await?;
    Ok(OperatorTx::new(tx, &attempts, &history, blocked_by(api, tx).await?))
}

/// A transaction can wait for another one while it is in no block and not final.
fn waits(tx: &TxRecord) -> bool {
    !tx.row.state.is_final() && tx.mined.is_none()
}

/// The transaction that this one waits for, if one before it does not move.
async fn blocked_by(api: &Api, tx: &TxRecord) -> Result<Option<BlockedBy>, Problem> {
    if !waits(tx) {
        return Ok(None);
    }
    let head = api.store.line_head(tx.submitter).await?;
    Ok(head.and_then(|head| BlockedBy::of(tx, &head)))
}

pub(crate) fn parse_id(text: &str) -> Result<TxId, Problem> {
    text.parse::<TxId>()
        .map_err(|error| Problem::of_field(ErrorCode::InvalidTxId, "txId", error.problem))
}

fn is_operator(params: &mut QueryParams) -> Result<bool, Problem> {
    match params.take("view").as_deref() {
        None => Ok(false),
        Some("operator") => Ok(true),
        Some(other) => {
            let what = format!("{} must be operator", quoted(other));
            Err(Problem::of_field(ErrorCode::InvalidQuery, "view", what))
        }
    }
}

fn check_chain(api: &Api, params: &mut QueryParams) -> Result<(), Problem> {
    match params.number("chainId")? {
        Some(asked) if asked != api.engine.chain_id().get() => {
            Err(Problem::wrong_chain("chainId", asked, api.engine.chain_id()))
        }
        Some(_) | None => Ok(()),
    }
}

/// The columns of the export. New ones are added at the end.
const CSV_HEADER: &str = "txId,chainId,submitter,requestId,state,subState,txHash,createdAt,\
     blockNumber,gasUsed,effectiveGasPrice,fee,contractAddress";

/// The page as CSV, with the next cursor in a header.
fn csv(found: &[Tx], next: Option<&str>) -> Response {
    let mut text = format!("{CSV_HEADER}\r\n");
    for tx in found {
        let result = tx.result.as_ref();
        let cells = [
            cell(&tx.tx_id),
            tx.chain_id.to_string(),
            cell(&tx.submitter),
            cell(tx.request_id.as_deref().unwrap_or_default()),
            cell(&tx.state),
            cell(tx.sub_state.as_deref().unwrap_or_default()),
            cell(tx.tx_hash.as_deref().unwrap_or_default()),
            cell(&tx.created_at),
            result.map(|result| result.block_number.to_string()).unwrap_or_default(),
            result.map(|result| result.gas_used.clone()).unwrap_or_default(),
            result.and_then(|result| result.effective_gas_price.clone()).unwrap_or_default(),
            result.and_then(|result| result.fee.clone()).unwrap_or_default(),
            result.and_then(|result| result.contract_address.clone()).unwrap_or_default(),
        ];
        text += &(cells.join(",") + "\r\n");
    }
    let mut response = ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response();
    if let Some(next) = next.and_then(|next| next.parse().ok()) {
        response.headers_mut().insert(NEXT_CURSOR, next);
    }
    response
}

/// Quoted where CSV needs it, and where a spreadsheet would take it for a formula.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
