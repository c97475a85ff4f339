//! Liveness and readiness.

use axum::extract::State;
use serde::Serialize;
use tollgate_api::ErrorCode;
use tollgate_model::Seq;
use tollgate_model::port::Page;
use utoipa::ToSchema;

use super::Api;
use super::openapi::may_fail;
use super::problem::Problem;

may_fail! {
    LiveProblems: ;
    ReadyProblems: Draining, Unavailable, StoreUnavailable;
}

/// The process answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Alive {
    /// Always `alive`.
    status: &'static str,
}

/// The node can work.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Always `ready`; a node that is not answers with a problem.
    status: &'static str,
    /// The newest block that it has seen.
    head: u64,
}

/// Is the process alive
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "getLiveness",
    tag = "health",
    responses((status = 200, description = "It is.", body = Alive), LiveProblems)
)]
pub(crate) async fn live() -> axum::Json<Alive> {
    axum::Json(Alive { status: "alive" })
}

/// Can the node take requests
///
/// Yes if its database answers, it is not being stopped, and it has seen a block since its start. Trouble with the chain after that never takes a node out of service.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "health",
    responses((status = 200, description = "It can.", body = Ready), ReadyProblems)
)]
pub(crate) async fn ready(State(api): State<Api>) -> Result<axum::Json<Ready>, Problem> {
    if api.engine.is_draining() {
        return Err(Problem::new(
            ErrorCode::Draining,
            "the node is shutting down and takes no new work",
        ));
    }
    api.store.completions(api.engine.chain_id(), Seq::MAX, Page::new(1)?).await?;
    let head = api.engine.view().head().ok_or_else(|| {
        let detail = "no endpoint of the chain has delivered a block since the node was started";
        Problem::new(ErrorCode::Unavailable, detail)
    })?;
    Ok(axum::Json(Ready { status: "ready", head: head.number }))
}
