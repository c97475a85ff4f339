//! Liveness. Readiness is in `served_chains`.

use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::may_fail;

may_fail! {
    LiveProblems: ;
}

/// The process answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Alive {
    /// Always `alive`.
    status: &'static str,
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
