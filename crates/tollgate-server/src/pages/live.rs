//! Tells open pages that what they show has changed, as server-sent events. A page then reads itself again.
//!
//! However many pages are open, the store is read by one of them at a time ([`SharedPoll`]), and not at all
//! while none is. An event carries nothing but a number, so that it tells nobody what they may not see.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tollgate_api::{ErrorCode, path};
use tollgate_model::ids::parse_address;
use tollgate_model::port::{Page, StoreError};
use tollgate_model::{ChainId, Submitter, TxId};

use super::api::Api;
use super::submitter::api_path;
use super::viewer::Viewer;
use super::with_headers;
use crate::http::{Chains, Problem, SharedPoll};

/// Listeners at once (I13); a page that finds no place reads itself again every now and then.
const LISTENERS_MAX: usize = 256;
/// The interval at which the store is read while somebody listens, and the shortest one between two events.
const LOOK_EVERY: Duration = Duration::from_millis(700);
/// A sign of life goes out when nothing has changed for this long.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A listener is let go after this time, and comes back by itself: it may have lost its right meanwhile.
const LISTEN_MAX: Duration = Duration::from_secs(120);

/// The subject of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Topic {
    Everything,
    Of(Submitter),
    Tx(TxId),
}

impl Topic {
    /// `all`, `tx:ID` or `submitter:CHAIN:ADDRESS`.
    fn parse(text: &str) -> Option<Self> {
        match text.split(':').collect::<Vec<_>>().as_slice() {
            ["all"] => Some(Self::Everything),
            ["tx", id] => id.parse().ok().map(Self::Tx),
            ["submitter", chain, address] => {
                let chain = ChainId::new(chain.parse().ok()?).ok()?;
                Some(Self::Of(Submitter::new(chain, parse_address(address).ok()?)))
            }
            _ => None,
        }
    }
}

/// Digests of what can change, as they were last read.
#[derive(Clone, PartialEq, Eq, Default)]
struct Digests {
    submitters: BTreeMap<Submitter, u64>,
    heads: BTreeMap<ChainId, u64>,
    /// Version of each transaction that somebody looks at, and its account.
    txs: BTreeMap<TxId, (u32, bool)>,
}

impl Digests {
    fn of(&self, topic: Topic) -> u64 {
        let mut hasher = DefaultHasher::new();
        match topic {
            Topic::Everything => (&self.submitters, &self.heads).hash(&mut hasher),
            Topic::Of(submitter) => {
                (self.submitters.get(&submitter), self.heads.get(&submitter.chain_id))
                    .hash(&mut hasher);
            }
            // A final transaction changes no more; an open one also shows its line and its confirmations.
            Topic::Tx(tx_id) => match self.txs.get(&tx_id) {
                Some((version, true)) => version.hash(&mut hasher),
                open => (open, &self.submitters, &self.heads).hash(&mut hasher),
            },
        }
        hasher.finish()
    }
}

/// The listeners, and what was read for them.
pub(crate) struct Live {
    poll: SharedPoll<Arc<Digests>>,
    places: Arc<Semaphore>,
    topics: Arc<Mutex<BTreeMap<Topic, usize>>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            poll: SharedPoll::every(Arc::default(), LOOK_EVERY),
            places: Arc::new(Semaphore::new(LISTENERS_MAX)),
            topics: Arc::default(),
        }
    }
}

impl Live {
    pub(crate) fn close(&self) {
        self.poll.close();
    }

    fn listen(&self, topic: Topic) -> Option<Listener> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        *topics.entry(topic).or_default() += 1;
        drop(topics);
        let topics = self.topics.clone();
        let listened = Listened { topics, topic, _place: place };
        let ends = Instant::now() + LISTEN_MAX;
        Some(Listener { listened, seen: None, ends, said_hello: false })
    }

    /// Reads what somebody listens to.
    async fn read(&self, chains: &Chains) -> Result<Arc<Digests>, StoreError> {
        let mut digests = Digests::default();
        let watched: Vec<TxId> = {
            let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            let txs = topics.keys().filter_map(|topic| match topic {
                Topic::Tx(tx_id) => Some(*tx_id),
                Topic::Everything | Topic::Of(_) => None,
            });
            txs.collect()
        };
        let invalid =
            |error: tollgate_model::ids::InvalidValue| StoreError::Defect(error.to_string().into());
        let page = Page::new(Page::MAX).map_err(invalid)?;
        for chain in chains.served() {
            for found in chains.store().submitters(chain.id, None, page).await? {
                let mut hasher = DefaultHasher::new();
                let record = &found.record;
                (record.next_nonce.get(), record.status.name(), record.mode.name())
                    .hash(&mut hasher);
                let owner =
                    found.owner.as_ref().map(|owner| (owner.node.as_str(), owner.token.get()));
                (owner, &found.depth, found.oldest_open.map(|at| at.unix_micros()))
                    .hash(&mut hasher);
                digests.submitters.insert(record.submitter, hasher.finish());
            }
        }
        for engine in chains.engines() {
            let head = engine.view().head().map(|head| head.number);
            digests.heads.insert(engine.chain_id(), head.unwrap_or_default());
        }
        if !watched.is_empty() {
            let rows = chains.store().row_versions(&watched).await?;
            for (tx_id, row) in watched.into_iter().zip(rows) {
                let shown = row.map_or((0, true), |row| (row.version, row.state.is_final()));
                digests.txs.insert(tx_id, shown);
            }
        }
        Ok(Arc::new(digests))
    }
}

/// A topic that somebody listens to; given back when it is dropped.
struct Listened {
    topics: Arc<Mutex<BTreeMap<Topic, usize>>>,
    topic: Topic,
    _place: OwnedSemaphorePermit,
}

impl Drop for Listened {
    fn drop(&mut self) {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = topics.get_mut(&self.topic) {
            *count -= 1;
            if *count == 0 {
                topics.remove(&self.topic);
            }
        }
    }
}

struct Listener {
    listened: Listened,
    seen: Option<u64>,
    ends: Instant,
    said_hello: bool,
}

impl Listener {
    /// The next event; `None` ends the stream.
    async fn next(&mut self, chains: &Chains) -> Option<Event> {
        if !self.said_hello {
            self.said_hello = true;
            return Some(Event::default().retry(Duration::from_secs(2)).comment("listening"));
        }
        let live = &chains.pages().live;
        if live.poll.is_closed() || Instant::now() >= self.ends {
            return None;
        }
        let (topic, seen) = (self.listened.topic, self.seen);
        let until = self.ends.min(Instant::now() + KEEP_ALIVE);
        let is_news = |digests: &Arc<Digests>| Some(digests.of(topic)) != seen;
        match live.poll.reaches(until, || live.read(chains), is_news).await {
            Ok(true) => {}
            Ok(false) => return Some(Event::default().comment("still here")),
            // The script asks again later.
            Err(_) => return None,
        }
        let digest = live.poll.latest().of(topic);
        self.seen = Some(digest);
        let name = if seen.is_none() { "current" } else { "changed" };
        Some(Event::default().event(name).data(format!("{digest:016x}")))
    }
}

/// Refuses a topic that the viewer can't see, as one that does not exist: changes tell that something does.
async fn check_sight(api: &Api<'_>, topic: Topic) -> Result<(), Problem> {
    let shown = match topic {
        Topic::Everything => return Err(Problem::not_found("topic", "topic")),
        Topic::Of(of) => api_path(of, "", &[]),
        Topic::Tx(tx_id) => format!("{}/{tx_id}", path::TX),
    };
    api.get::<serde_json::Value>(&shown).await.map(drop)
}

/// Listens to the topic that the address names.
pub(crate) async fn events(
    State(chains): State<Chains>,
    viewer: Viewer,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    let topic = query.get("topic").and_then(|text| Topic::parse(text));
    let topic = topic.ok_or_else(|| {
        let what = "must be all, tx:ID or submitter:CHAIN:ADDRESS";
        Problem::of_field(ErrorCode::InvalidQuery, "topic", what)
    })?;
    if !viewer.sees_everything() {
        check_sight(&Api { chains: &chains, viewer: &viewer }, topic).await?;
    }
    let listener = chains.pages().live.listen(topic).ok_or_else(|| {
        Problem::new(ErrorCode::Busy, format!("{LISTENERS_MAX} pages listen already"))
    })?;
    let events = stream::unfold((listener, chains), |(mut listener, chains)| async move {
        let event = listener.next(&chains).await?;
        Some((Ok::<_, Infallible>(event), (listener, chains)))
    });
    Ok(with_headers(Sse::new(events).into_response()))
}

#[cfg(test)]
mod tests {
    use tollgate_model::Address;
    use uuid::Uuid;

    use super::*;

    fn submitter(n: u8) -> Submitter {
        Submitter::new(ChainId::new(7).unwrap(), Address::repeat_byte(n))
    }

    #[test]
    fn topics_are_read_and_others_refused() {
        let address = submitter(1).address;
        let of = Topic::parse(&format!("submitter:7:{address}"));
        assert_eq!(of, Some(Topic::Of(submitter(1))));
        assert_eq!(Topic::parse("all"), Some(Topic::Everything));
        for text in ["", "tx:", "tx:1", "submitter:7", "submitter:0:0x", "everything"] {
            assert_eq!(Topic::parse(text), None, "{text}");
        }
    }

    #[test]
    fn page_of_an_account_hears_of_its_own_changes_alone() {
        let mut digests = Digests::default();
        digests.submitters.insert(submitter(1), 1);
        digests.submitters.insert(submitter(2), 1);
        let of = |digests: &Digests, n| digests.of(Topic::Of(submitter(n)));
        let before = (of(&digests, 1), of(&digests, 2), digests.of(Topic::Everything));
        digests.submitters.insert(submitter(2), 2);
        assert_eq!(of(&digests, 1), before.0);
        assert_ne!(of(&digests, 2), before.1);
        assert_ne!(digests.of(Topic::Everything), before.2);
    }

    #[test]
    fn page_of_a_final_tx_hears_of_nothing_more() {
        let tx_id = TxId::from_uuid(Uuid::nil());
        let mut digests = Digests::default();
        digests.txs.insert(tx_id, (3, false));
        let open = digests.of(Topic::Tx(tx_id));
        digests.submitters.insert(submitter(1), 1);
        assert_ne!(digests.of(Topic::Tx(tx_id)), open, "what is before it has changed");
        digests.txs.insert(tx_id, (4, true));
        let done = digests.of(Topic::Tx(tx_id));
        digests.submitters.insert(submitter(1), 2);
        assert_eq!(digests.of(Topic::Tx(tx_id)), done);
    }

    #[test]
    fn listener_that_leaves_gives_its_place_and_topic_back() {
        let live = Live::default();
        let listeners: Vec<_> =
            (0..LISTENERS_MAX).map(|_| live.listen(Topic::Everything).unwrap()).collect();
        assert!(live.listen(Topic::Everything).is_none());
        drop(listeners);
        assert!(live.topics.lock().unwrap().is_empty());
        assert!(live.listen(Topic::Everything).is_some());
    }
}
