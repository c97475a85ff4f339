//! Transactions, read back.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tollgate_model::port::{ListFilter, StateFilter, TxRecord};
use tollgate_model::{RequestId, Submitter, Timestamp, TxId};

use super::Api;
use super::body::time;
use super::problem::Problem;
use super::query::Words;
use super::shape::{attempt_json, history_json, tx_json};

/// `GET /api/v1/tx/{txId}`.
pub(crate) async fn one(
    State(api): State<Api>,
    Path(tx_id): Path<String>,
    mut words: Words,
) -> Result<axum::Json<Value>, Problem> {
    let operator = is_operator(&mut words)?;
    words.end()?;
    let tx_id = parse_id(&tx_id)?;
    let found = api.store.tx(tx_id).await?.ok_or_else(|| Problem::not_found("transaction"))?;
    Ok(axum::Json(whole(&api, &found, operator).await?))
}

/// `GET /api/v1/tx/by-request`.
pub(crate) async fn by_request(
    State(api): State<Api>,
    mut words: Words,
) -> Result<axum::Json<Value>, Problem> {
    let operator = is_operator(&mut words)?;
    let missing = || Problem::invalid("missing_field", "submitter is missing");
    let address = words.address("submitter")?.ok_or_else(missing)?;
    let request_id = RequestId::new(words.required("requestId")?)
        .map_err(|error| Problem::invalid("invalid_request_id", error.to_string()))?;
    check_chain(&api, &mut words)?;
    words.end()?;
    let submitter = Submitter::new(api.engine.chain_id(), address);
    let found = api.store.tx_by_request(submitter, &request_id).await?;
    let found = found.ok_or_else(|| Problem::not_found("request"))?;
    Ok(axum::Json(whole(&api, &found, operator).await?))
}

/// `GET /api/v1/tx`: a page, newest first; as CSV if the caller accepts only that.
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    mut words: Words,
) -> Result<Response, Problem> {
    let page = words.page()?;
    let after = words.cursor()?;
    check_chain(&api, &mut words)?;
    let chain_id = api.engine.chain_id();
    let instant = |text: Option<String>| {
        text.as_deref().map(time).transpose().map(|at| at.map(Timestamp::from_unix_micros))
    };
    let filter = ListFilter {
        chain_id: Some(chain_id),
        submitter: words.address("submitter")?.map(|address| Submitter::new(chain_id, address)),
        states: words.states()?.map_or(StateFilter::Any, StateFilter::Of),
        from: instant(words.take("from"))?,
        to: instant(words.take("to"))?,
    };
    words.end()?;
    let found = api.store.list(&filter, after, page).await?;
    let full = found.len() == page.limit() as usize;
    let next = found.last().filter(|_| full).map(|tx| tx.tx_id.to_string());
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.starts_with("text/csv")) {
        return Ok(csv(&found, next.as_deref()));
    }
    let items: Vec<Value> = found.iter().map(|tx| tx_json(tx, false)).collect();
    Ok(axum::Json(json!({ "items": items, "next": next })).into_response())
}

/// `GET /api/v1/tx/{txId}/history`.
pub(crate) async fn history(
    State(api): State<Api>,
    Path(tx_id): Path<String>,
    mut words: Words,
) -> Result<axum::Json<Value>, Problem> {
    let page = words.page()?;
    let after = words.number("after")?.unwrap_or(0);
    words.end()?;
    let after = u32::try_from(after).unwrap_or(u32::MAX);
    let tx_id = parse_id(&tx_id)?;
    api.store.tx(tx_id).await?.ok_or_else(|| Problem::not_found("transaction"))?;
    let found = api.store.history(tx_id, after, page).await?;
    let full = found.len() == page.limit() as usize;
    let next = found.last().filter(|_| full).map(|entry| entry.version);
    let items: Vec<Value> = found.iter().map(history_json).collect();
    Ok(axum::Json(json!({ "items": items, "next": next })))
}

async fn whole(api: &Api, tx: &TxRecord, operator: bool) -> Result<Value, Problem> {
    let mut shape = tx_json(tx, operator);
    if operator {
        let attempts = api.store.attempts(tx.tx_id).await?;
        shape["attempts"] = attempts.iter().map(attempt_json).collect();
    }
    Ok(shape)
}

fn parse_id(text: &str) -> Result<TxId, Problem> {
    text.parse::<TxId>().map_err(|error| Problem::invalid("invalid_tx_id", error.to_string()))
}

fn is_operator(words: &mut Words) -> Result<bool, Problem> {
    match words.take("view").as_deref() {
        None => Ok(false),
        Some("operator") => Ok(true),
        Some(other) => {
            Err(Problem::invalid("invalid_query", format!("view: {other:?} is not a view")))
        }
    }
}

fn check_chain(api: &Api, words: &mut Words) -> Result<(), Problem> {
    match words.number("chainId")? {
        Some(asked) if asked != api.engine.chain_id().get() => {
            let detail = format!("this node works on chain {}", api.engine.chain_id());
            Err(Problem::invalid("wrong_chain", detail))
        }
        Some(_) | None => Ok(()),
    }
}

/// The same page as text, with the next place in a header.
fn csv(found: &[TxRecord], next: Option<&str>) -> Response {
    const COLUMNS: [&str; 8] =
        ["txId", "chainId", "submitter", "requestId", "state", "subState", "txHash", "createdAt"];
    let mut text = COLUMNS.join(",") + "\r\n";
    for tx in found {
        let shape = tx_json(tx, false);
        let cells = COLUMNS.map(|column| cell(&shape[column]));
        text += &(cells.join(",") + "\r\n");
    }
    let mut response = ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response();
    if let Some(next) = next.and_then(|next| next.parse().ok()) {
        response.headers_mut().insert("x-next-cursor", next);
    }
    response
}

/// Quoted where CSV needs it, and where a spreadsheet would take it for a formula.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let text = if formula { format!("'{text}") } else { text };
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
