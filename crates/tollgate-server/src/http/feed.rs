//! The completions feed: pages, and a poll that waits.

use std::time::Duration;

use axum::extract::State;
use tokio::time::Instant;
use tollgate_api::{ErrorCode, Feed, quoted};
use tollgate_model::Seq;
use tollgate_model::port::{FeedFilter, FeedStore, Page};

use super::Api;
use super::access::Caller;
use super::access::sight::Sight;
use super::chain_scope::ChainScope;
use super::openapi::may_fail;
use super::params::FeedParams;
use super::problem::Problem;
use super::query::{QueryParams, decimal};
use super::shared_poll::SharedPoll;

/// Pages that are read for one answer (I13): more than one if all entries of a page are hidden from the caller.
const PAGES_MAX: u32 = 100;

may_fail! {
    FeedProblems: InvalidQuery, InvalidNumber, InvalidLimit, InvalidCursor, InvalidDuration,
        CursorAhead, CursorRemoved, StoreUnavailable;
}

/// The end of the feed of each filter, for all long polls.
pub(crate) struct FeedEnds {
    /// One chain, all chains; without stuck transactions, with them.
    by_filter: [[SharedPoll<Seq>; 2]; 2],
}

impl Default for FeedEnds {
    fn default() -> Self {
        let end = || SharedPoll::new(Seq::MIN);
        Self { by_filter: [[end(), end()], [end(), end()]] }
    }
}

impl FeedEnds {
    /// Ends all waits, now and from now on: the node is shutting down.
    pub(crate) fn close(&self) {
        self.by_filter.iter().flatten().for_each(SharedPoll::close);
    }

    fn of(&self, filter: FeedFilter) -> &SharedPoll<Seq> {
        let scope = &self.by_filter[usize::from(filter.chain_id.is_none())];
        &scope[usize::from(filter.with_stuck)]
    }
}

/// Read the feed of outcomes
///
/// Every transaction that becomes final appears once, in an order that never changes. A reader that
/// remembers only `next` misses nothing; one that is before what retention removed is told so. With `wait` the answer comes as soon as there is something,
/// or empty after that time, and at once from a node that is being stopped. With `kind=all` there are
/// also entries of transactions that became stuck (`stuck`) or ceased to be (`unstuck`).
#[utoipa::path(
    get,
    path = "/api/v1/tx/completions",
    operation_id = "readCompletions",
    tag = "feed",
    params(FeedParams),
    responses((status = 200, description = "Entries, in order.", body = Feed), FeedProblems)
)]
pub(crate) async fn completions(
    State(api): State<Api>,
    caller: Caller,
    scope: ChainScope,
    mut params: QueryParams,
) -> Result<axum::Json<Feed>, Problem> {
    // I10: numbers follow the order of commits, so `next` is all that a reader needs.
    let after = params.cursor("after", |text| Seq::new(decimal(text)?).ok())?;
    let after = after.unwrap_or(Seq::MIN);
    let page = params.page()?;
    let wait = params.wait()?;
    let with_stuck = match params.take("kind").as_deref() {
        None | Some("final") => false,
        Some("all") => true,
        Some(other) => {
            let what = format!("{} must be final or all", quoted(other));
            return Err(Problem::of_field(ErrorCode::InvalidQuery, "kind", what));
        }
    };
    params.end()?;
    let filter = FeedFilter { chain_id: scope.chain_id(), with_stuck };
    let end = api.feed_ends.of(filter);
    let sight = Sight::of(&api, &caller);
    read(&*api.store, sight, end, filter, after, page, wait).await.map(axum::Json)
}

async fn read(
    feed: &dyn FeedStore,
    mut sight: Sight<'_>,
    end: &SharedPoll<Seq>,
    filter: FeedFilter,
    after: Seq,
    page: Page,
    wait: Duration,
) -> Result<Feed, Problem> {
    let until = Instant::now() + wait;
    let mut seen = after;
    for pages in 1.. {
        let mut found = feed.completions(filter, seen, page).await?;
        if seen > found.end {
            let detail = format!(
                "{after} is beyond the end of the feed, {}; it is a cursor of another database",
                found.end
            );
            return Err(Problem::of_field(ErrorCode::CursorAhead, "after", detail));
        }
        if seen < found.removed_through {
            return Err(Problem::cursor_removed(after, found.removed_through));
        }
        // What the filter leaves out, or the caller must not see, is passed over, and the wait goes on.
        let (begun, is_full) = (seen, found.items.len() >= page.limit() as usize);
        seen = found.next(seen, page);
        let mut items = Vec::with_capacity(found.items.len());
        for entry in std::mem::take(&mut found.items) {
            if sight.has_entry(&entry).await? {
                items.push(entry);
            }
        }
        let answer = Feed::of(&items, seen);
        if !items.is_empty() || pages >= PAGES_MAX {
            return Ok(answer);
        }
        if is_full && seen > begun {
            continue;
        }
        if wait.is_zero() {
            return Ok(answer);
        }
        let has_grown = end.reaches(until, || feed.feed_end(filter), |end| *end > seen).await?;
        if !has_grown {
            return Ok(answer);
        }
    }
    unreachable!("the number of pages is limited")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::watch;
    use tokio::task::JoinSet;
    use tollgate_model::port::{Completion, FeedPage, StoreError};
    use tollgate_model::{Address, ChainId, Submitter, Timestamp, TxId, TxState};
    use uuid::Uuid;

    use super::*;

    const READERS: u64 = 1_000;
    /// The chain of the node, and one of another node.
    const OWN: u64 = 7;
    const OTHER: u64 = 8;

    fn everything() -> Sight<'static> {
        Sight::of_everything()
    }

    fn chain(id: u64) -> ChainId {
        ChainId::new(id).unwrap()
    }

    fn own() -> FeedFilter {
        FeedFilter::finals(chain(OWN))
    }

    /// A feed that counts what it is asked.
    #[derive(Default)]
    struct Counted {
        entries: Mutex<Vec<Completion>>,
        removed: u64,
        pages: watch::Sender<u64>,
        ends: watch::Sender<u64>,
    }

    impl Counted {
        fn add(&self) {
            self.add_of(chain(OWN));
        }

        fn add_of(&self, chain: ChainId) {
            let mut entries = self.entries.lock().unwrap();
            let seq = Seq::new(entries.len() as u64 + 1).unwrap();
            entries.push(Completion {
                seq,
                tx_id: TxId::from_uuid(Uuid::now_v7()),
                submitter: Submitter::new(chain, Address::ZERO),
                request_id: None,
                state: TxState::Confirmed,
                tx_hash: None,
                at: Timestamp::EPOCH,
                payload: None,
                mined: None,
            });
        }

        fn end(&self) -> Seq {
            Seq::new(self.entries.lock().unwrap().len() as u64).unwrap()
        }

        async fn until_ends(&self, count: u64) {
            self.ends.subscribe().wait_for(|ends| *ends >= count).await.unwrap();
        }

        /// Until all readers have seen that there is nothing, and one of them looks for more.
        async fn until_all_wait(&self) {
            self.pages.subscribe().wait_for(|pages| *pages >= READERS).await.unwrap();
            self.until_ends(1).await;
        }
    }

    #[async_trait::async_trait]
    impl FeedStore for Counted {
        async fn completions(
            &self,
            of: FeedFilter,
            after: Seq,
            _: Page,
        ) -> Result<FeedPage, StoreError> {
            self.pages.send_modify(|pages| *pages += 1);
            let entries = self.entries.lock().unwrap();
            let wanted = |entry: &&Completion| {
                entry.seq > after && of.chain_id == Some(entry.submitter.chain_id)
            };
            let items = entries.iter().filter(wanted).cloned().collect();
            drop(entries);
            let removed_through = Seq::new(self.removed).unwrap();
            Ok(FeedPage { items, end: self.end(), removed_through })
        }

        async fn feed_end(&self, of: FeedFilter) -> Result<Seq, StoreError> {
            self.ends.send_modify(|ends| *ends += 1);
            let entries = self.entries.lock().unwrap();
            let last = entries.iter().rfind(|entry| of.chain_id == Some(entry.submitter.chain_id));
            Ok(last.map_or(Seq::MIN, |entry| entry.seq))
        }
    }

    fn readers(
        feed: &Arc<Counted>,
        watch: &Arc<SharedPoll<Seq>>,
    ) -> JoinSet<Result<Feed, Problem>> {
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let (feed, watch) = (feed.clone(), watch.clone());
            let (page, wait) = (Page::new(10).unwrap(), Duration::from_secs(60));
            readers.spawn(async move {
                read(&*feed, everything(), &watch, own(), Seq::MIN, page, wait).await
            });
        }
        readers
    }

    #[tokio::test]
    async fn waiting_readers_cost_one_query_for_each_look() {
        let (feed, watch) = (Arc::new(Counted::default()), Arc::new(SharedPoll::new(Seq::MIN)));
        let readers = readers(&feed, &watch);
        feed.until_all_wait().await;
        assert_eq!(*feed.pages.borrow(), READERS, "one page for each, at first");
        let begun = Instant::now();
        let ends = *feed.ends.borrow();
        feed.until_ends(ends + 5).await;
        assert!(begun.elapsed() >= Duration::from_millis(500), "the looks are of one watcher");
        feed.add();
        for answer in readers.join_all().await {
            let answer = serde_json::to_value(answer.unwrap()).unwrap();
            assert_eq!((&answer["next"], &answer["items"][0]["seq"]), (&1.into(), &1.into()));
        }
        assert_eq!(*feed.pages.borrow(), 2 * READERS);
    }

    #[tokio::test]
    async fn nobody_looks_when_nobody_waits() {
        let (feed, watch) = (Arc::new(Counted::default()), Arc::new(SharedPoll::new(Seq::MIN)));
        let readers = readers(&feed, &watch);
        feed.until_all_wait().await;
        feed.add();
        readers.join_all().await;
        assert!(watch.is_unwatched(), "nobody is left to look");
    }

    #[tokio::test]
    async fn waiting_readers_are_answered_empty_when_the_node_stops() {
        let (feed, watch) = (Arc::new(Counted::default()), Arc::new(SharedPoll::new(Seq::MIN)));
        let readers = readers(&feed, &watch);
        feed.until_all_wait().await;
        watch.close();
        for answer in readers.join_all().await {
            let answer = serde_json::to_value(answer.unwrap()).unwrap();
            assert_eq!(answer, serde_json::json!({ "items": [], "next": 0 }));
        }
        let (page, wait) = (Page::new(10).unwrap(), Duration::from_secs(60));
        let late = read(&*feed, everything(), &watch, own(), Seq::MIN, page, wait).await.unwrap();
        assert_eq!(serde_json::to_value(late).unwrap()["next"], 0);
    }

    #[tokio::test]
    async fn cursor_beyond_the_end_is_refused_and_one_at_the_end_waits() {
        let (feed, watch) = (Counted::default(), SharedPoll::new(Seq::MIN));
        let page = Page::new(10).unwrap();
        let at = |seq: u64| Seq::new(seq).unwrap();
        feed.add();
        for wait in [Duration::ZERO, Duration::from_secs(60)] {
            let ahead =
                read(&feed, everything(), &watch, own(), at(2), page, wait).await.err().unwrap();
            assert_eq!(
                (ahead.code, ahead.body.field.as_deref()),
                (ErrorCode::CursorAhead, Some("after"))
            );
        }
        let none =
            read(&feed, everything(), &watch, own(), at(1), page, Duration::from_millis(1)).await;
        let none = none.unwrap();
        assert_eq!(serde_json::to_value(none).unwrap()["next"], 1);
    }

    #[tokio::test]
    async fn cursor_before_removed_entries_is_refused_with_the_oldest_number() {
        let (feed, watch) =
            (Counted { removed: 2, ..Counted::default() }, SharedPoll::new(Seq::MIN));
        (0..3).for_each(|_| feed.add());
        let (page, at) = (Page::new(10).unwrap(), |seq: u64| Seq::new(seq).unwrap());
        for after in [0, 1] {
            let gone =
                read(&feed, everything(), &watch, own(), at(after), page, Duration::ZERO).await;
            let gone = gone.err().unwrap();
            assert_eq!((gone.code, gone.body.oldest), (ErrorCode::CursorRemoved, Some(3)));
        }
        assert!(
            read(&feed, everything(), &watch, own(), at(2), page, Duration::ZERO).await.is_ok()
        );
    }

    #[tokio::test]
    async fn completion_of_another_chain_ends_no_wait_and_is_passed_over() {
        let (feed, watch) = (Counted::default(), SharedPoll::new(Seq::MIN));
        let page = Page::new(10).unwrap();
        feed.add_of(chain(OTHER));
        let wait = Duration::from_secs(60);
        let waiting = read(&feed, everything(), &watch, own(), Seq::MIN, page, wait);
        let grow = async {
            feed.until_ends(1).await;
            feed.add_of(chain(OTHER));
            feed.until_ends(3).await;
            assert_eq!(*feed.pages.borrow(), 1, "no page is read for another chain's completion");
            feed.add();
        };
        let (answer, ()) = tokio::join!(waiting, grow);
        let answer = serde_json::to_value(answer.unwrap()).unwrap();
        assert_eq!((&answer["next"], &answer["items"][0]["seq"]), (&3.into(), &3.into()));
    }
}
