//! The completions feed: pages, and a poll that waits.

use std::time::Duration;

use axum::extract::State;
use tokio::time::Instant;

use super::Api;
use super::doc::may_fail;
use super::params::FeedParams;
use super::problem::Problem;
use super::query::Words;
use super::shape::Feed;

/// How often a poll that waits looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

may_fail! {
    FeedProblems: InvalidQuery, InvalidNumber, InvalidLimit, InvalidCursor, InvalidDuration,
        StoreUnavailable;
}

/// Read the feed of outcomes
///
/// Every transaction that becomes final appears once, in an order that never changes. A reader that
/// remembers only `next` misses nothing. With `wait` the answer comes as soon as there is something,
/// or empty after that time.
#[utoipa::path(
    get,
    path = "/api/v1/tx/completions",
    operation_id = "readCompletions",
    tag = "feed",
    params(FeedParams),
    responses((status = 200, description = "Outcomes, in order.", body = Feed), FeedProblems)
)]
pub(crate) async fn completions(
    State(api): State<Api>,
    mut words: Words,
) -> Result<axum::Json<Feed>, Problem> {
    // I10: numbers follow the order of commits, so `next` is all that a reader needs.
    let after = words.seq()?;
    let page = words.page()?;
    let wait = words.wait()?;
    words.end()?;
    let until = Instant::now() + wait;
    loop {
        let found = api.store.completions(api.engine.chain_id(), after, page).await?;
        if found.items.is_empty() && Instant::now() < until {
            tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
            continue;
        }
        return Ok(axum::Json(Feed::new(&found, after, page)));
    }
}
