//! Creates: one, or up to a thousand with an answer each.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_engine::Created;

use super::Api;
use super::body::{Asked, CreateBody, Json};
use super::problem::Problem;
use super::shape::tx_json;

/// Creates in one batch (I13).
const BATCH_MAX: usize = 1_000;

/// `POST /api/v1/tx`: 202 for a new transaction, 200 for one that is known.
pub(crate) async fn create(
    State(api): State<Api>,
    headers: HeaderMap,
    Json(body): Json<CreateBody>,
) -> Result<Response, Problem> {
    let key =
        match headers.get("idempotency-key") {
            Some(key) => Some(key.to_str().map_err(|_| {
                Problem::invalid("invalid_request_id", "Idempotency-Key is not text")
            })?),
            None => None,
        };
    let asked = body.read(api.engine.chain_id(), key)?;
    let (status, body) = carry_out(&api, asked).await?;
    Ok((status, axum::Json(body)).into_response())
}

/// `POST /api/v1/tx/batch`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    items: Vec<Box<RawValue>>,
}

/// One bad item never fails its neighbours.
pub(crate) async fn create_batch(
    State(api): State<Api>,
    Json(body): Json<BatchBody>,
) -> Result<axum::Json<Value>, Problem> {
    if body.items.is_empty() || body.items.len() > BATCH_MAX {
        let detail = format!("{} items, must be 1 to {BATCH_MAX}", body.items.len());
        return Err(Problem::invalid("invalid_batch", detail));
    }
    let answers = body.items.iter().map(|item| async {
        let body: CreateBody = serde_json::from_str(item.get())
            .map_err(|error| Problem::invalid("invalid_body", error.to_string()))?;
        carry_out(&api, body.read(api.engine.chain_id(), None)?).await
    });
    let items: Vec<Value> = join_all(answers)
        .await
        .into_iter()
        .map(|answer| match answer {
            Ok((status, tx)) => json!({ "status": status.as_u16(), "tx": tx }),
            Err(problem) => {
                json!({ "status": problem.status.as_u16(), "error": problem.to_json(None) })
            }
        })
        .collect();
    Ok(axum::Json(json!({ "items": items })))
}

async fn carry_out(api: &Api, asked: Asked) -> Result<(StatusCode, Value), Problem> {
    let Asked { submitter, request_id, intent } = asked;
    match api.engine.create(submitter, request_id, intent).await? {
        Created::New(record) => Ok((StatusCode::ACCEPTED, tx_json(&record, false))),
        Created::Known(tx_id) => {
            let record = api.store.tx(tx_id).await?;
            let record = record.ok_or_else(|| Problem::not_found("transaction"))?;
            Ok((StatusCode::OK, tx_json(&record, false)))
        }
    }
}
