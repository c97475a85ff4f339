//! The completions feed: pages, and a poll that waits.

use std::time::Duration;

use axum::extract::State;
use tokio::time::Instant;
use tollgate_model::Seq;
use tollgate_model::port::{FeedStore, Page};

use super::Api;
use super::code::Code;
use super::doc::may_fail;
use super::feed_watch::FeedWatch;
use super::params::FeedParams;
use super::problem::Problem;
use super::query::Words;
use super::shape::Feed;

may_fail! {
    FeedProblems: InvalidQuery, InvalidNumber, InvalidLimit, InvalidCursor, InvalidDuration,
        CursorAhead, StoreUnavailable;
}

/// Read the feed of outcomes
///
/// Every transaction that becomes final appears once, in an order that never changes. A reader that
/// remembers only `next` misses nothing. With `wait` the answer comes as soon as there is something,
/// or empty after that time, and at once from a node that is being stopped.
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
    // I10: the store's order has no gaps, so the last `seq` is all that a reader needs.
    let after = words.seq()?;
    let page = words.page()?;
    let wait = words.wait()?;
    words.end()?;
    read(&*api.store, &api.feed_watch, after, page, wait).await.map(axum::Json)
}

async fn read(
    feed: &dyn FeedStore,
    watch: &FeedWatch,
    after: Seq,
    page: Page,
    wait: Duration,
) -> Result<Feed, Problem> {
    let until = Instant::now() + wait;
    let found = feed.completions(after, page).await?;
    if !found.is_empty() {
        return Ok(Feed::new(&found, after));
    }
    let end = feed.feed_end().await?;
    if after > end {
        let detail = format!(
            "{after} is beyond the end of the feed, {end}; it is a cursor of another database"
        );
        return Err(Problem::of_field(Code::CursorAhead, "after", detail));
    }
    if wait.is_zero() || !watch.has_grown(feed, after, until).await? {
        return Ok(Feed::new(&[], after));
    }
    let found = feed.completions(after, page).await?;
    Ok(Feed::new(&found, after))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use tokio::sync::watch;
    use tokio::task::JoinSet;
    use tollgate_model::port::{Completion, OutboxEvent, StoreError};
    use tollgate_model::{Address, ChainId, Submitter, Timestamp, TxId, TxState};
    use uuid::Uuid;

    use super::*;

    const READERS: u64 = 1_000;

    /// A feed that counts what it is asked.
    #[derive(Default)]
    struct Counted {
        entries: Mutex<Vec<Completion>>,
        pages: AtomicU64,
        ends: watch::Sender<u64>,
    }

    impl Counted {
        fn add(&self) {
            let mut entries = self.entries.lock().unwrap();
            let seq = Seq::new(entries.len() as u64 + 1).unwrap();
            entries.push(Completion {
                seq,
                tx_id: TxId::from_uuid(Uuid::now_v7()),
                submitter: Submitter::new(ChainId::new(7).unwrap(), Address::ZERO),
                request_id: None,
                state: TxState::Confirmed,
                tx_hash: None,
                at: Timestamp::EPOCH,
            });
        }

        async fn until_ends(&self, count: u64) {
            self.ends.subscribe().wait_for(|ends| *ends >= count).await.unwrap();
        }
    }

    #[async_trait::async_trait]
    impl FeedStore for Counted {
        async fn completions(&self, after: Seq, _: Page) -> Result<Vec<Completion>, StoreError> {
            self.pages.fetch_add(1, Ordering::SeqCst);
            let entries = self.entries.lock().unwrap();
            Ok(entries.iter().filter(|entry| entry.seq > after).cloned().collect())
        }

        async fn feed_end(&self) -> Result<Seq, StoreError> {
            self.ends.send_modify(|ends| *ends += 1);
            Ok(Seq::new(self.entries.lock().unwrap().len() as u64).unwrap())
        }

        async fn outbox(&self, _: Page) -> Result<Vec<OutboxEvent>, StoreError> {
            Ok(Vec::new())
        }

        async fn forget_outbox(&self, _: &[i64]) -> Result<(), StoreError> {
            Ok(())
        }
    }

    fn readers(feed: &Arc<Counted>, watch: &Arc<FeedWatch>) -> JoinSet<Result<Feed, Problem>> {
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let (feed, watch) = (feed.clone(), watch.clone());
            let (page, wait) = (Page::new(10).unwrap(), Duration::from_secs(60));
            readers.spawn(async move { read(&*feed, &watch, Seq::MIN, page, wait).await });
        }
        readers
    }

    #[tokio::test]
    async fn waiting_readers_cost_one_query_for_each_look() {
        let (feed, watch) = (Arc::new(Counted::default()), Arc::new(FeedWatch::default()));
        let readers = readers(&feed, &watch);
        feed.until_ends(READERS + 5).await;
        assert_eq!(feed.pages.load(Ordering::SeqCst), READERS, "one page for each, at first");
        let begun = Instant::now();
        let ends = *feed.ends.borrow();
        feed.until_ends(ends + 5).await;
        assert!(begun.elapsed() >= Duration::from_millis(500), "the looks are of one watcher");
        feed.add();
        for answer in readers.join_all().await {
            let answer = serde_json::to_value(answer.unwrap()).unwrap();
            assert_eq!((&answer["next"], &answer["items"][0]["seq"]), (&1.into(), &1.into()));
        }
        assert_eq!(feed.pages.load(Ordering::SeqCst), 2 * READERS);
    }

    #[tokio::test]
    async fn nobody_looks_when_nobody_waits() {
        let (feed, watch) = (Arc::new(Counted::default()), Arc::new(FeedWatch::default()));
        let readers = readers(&feed, &watch);
        feed.until_ends(READERS + 1).await;
        feed.add();
        readers.join_all().await;
        assert!(watch.is_unwatched(), "nobody is left to look");
    }

    #[tokio::test]
    async fn waiting_readers_are_answered_empty_when_the_node_stops() {
        let (feed, watch) = (Arc::new(Counted::default()), Arc::new(FeedWatch::default()));
        let readers = readers(&feed, &watch);
        feed.until_ends(READERS + 1).await;
        watch.close();
        for answer in readers.join_all().await {
            let answer = serde_json::to_value(answer.unwrap()).unwrap();
            assert_eq!(answer, serde_json::json!({ "items": [], "next": 0 }));
        }
        let (page, wait) = (Page::new(10).unwrap(), Duration::from_secs(60));
        let late = read(&*feed, &watch, Seq::MIN, page, wait).await.unwrap();
        assert_eq!(serde_json::to_value(late).unwrap()["next"], 0);
    }

    #[tokio::test]
    async fn cursor_beyond_the_end_is_refused_and_one_at_the_end_waits() {
        let (feed, watch) = (Counted::default(), FeedWatch::default());
        let page = Page::new(10).unwrap();
        let at = |seq: u64| Seq::new(seq).unwrap();
        feed.add();
        for wait in [Duration::ZERO, Duration::from_secs(60)] {
            let ahead = read(&feed, &watch, at(2), page, wait).await.err().unwrap();
            assert_eq!((ahead.code, ahead.field.as_deref()), (Code::CursorAhead, Some("after")));
        }
        let none = read(&feed, &watch, at(1), page, Duration::from_millis(1)).await.unwrap();
        assert_eq!(serde_json::to_value(none).unwrap()["next"], 1);
    }
}
