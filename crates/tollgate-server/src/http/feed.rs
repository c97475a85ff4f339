//! The completions feed: pages, and a poll that waits.

use std::time::Duration;

use axum::extract::State;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Api;
use super::problem::Problem;
use super::query::Words;
use super::shape::completion_json;

/// How often a poll that waits looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// `GET /api/v1/tx/completions`: a reader that remembers only `next` misses nothing (I10).
pub(crate) async fn completions(
    State(api): State<Api>,
    mut words: Words,
) -> Result<axum::Json<Value>, Problem> {
    let after = words.seq()?;
    let page = words.page()?;
    let wait = words.wait()?;
    words.end()?;
    let until = Instant::now() + wait;
    loop {
        let found = api.store.completions(after, page).await?;
        if found.is_empty() && Instant::now() < until {
            tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
            continue;
        }
        let next = found.last().map_or(after, |entry| entry.seq);
        let items: Vec<Value> = found.iter().map(completion_json).collect();
        return Ok(axum::Json(json!({ "items": items, "next": next.get() })));
    }
}
