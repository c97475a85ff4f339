//! Is it alive, is it ready.

use axum::extract::State;
use serde_json::{Value, json};
use tollgate_model::Seq;
use tollgate_model::port::Page;

use super::Api;
use super::problem::Problem;

/// `GET /livez`: the process answers.
pub(crate) async fn live() -> axum::Json<Value> {
    axum::Json(json!({ "status": "alive" }))
}

/// `GET /readyz`: the database answers. Trouble with the chain never takes a node out of service.
pub(crate) async fn ready(State(api): State<Api>) -> Result<axum::Json<Value>, Problem> {
    api.store.completions(Seq::MAX, Page::new(1)?).await?;
    let head = api.engine.view().head().map(|head| head.number);
    Ok(axum::Json(json!({ "status": "ready", "head": head })))
}
