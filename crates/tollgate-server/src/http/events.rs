//! The log of events: pages, a poll that waits, and a stream.

mod hub;
mod stream;
mod viewer;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, timeout_at};
use tollgate_api::{ErrorCode, Event, EventPage, quoted};
use tollgate_model::event::{EventKinds, NumberedEvent};
use tollgate_model::{Address, ChainId, Seq, TxId};

pub(crate) use hub::EventHub;
use hub::Follower;

use super::access::Caller;
use super::forward::CHAIN_ID;
use super::openapi::may_fail;
use super::params::EventParams;
use super::problem::Problem;
use super::query::{QueryParams, decimal};
use super::read::parse_id;
use super::served_chains::Chains;
use viewer::Viewer;

/// The position of an event source that connects again.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";
const EVENT_STREAM: &str = "text/event-stream";
/// Parts that are read for one answer (I13): more than one if all events of a part are hidden from the caller.
const PARTS_MAX: u32 = 100;

may_fail! {
    EventProblems: InvalidQuery, InvalidNumber, InvalidLimit, InvalidCursor, InvalidDuration,
        InvalidAddress, InvalidTxId, CursorAhead, CursorRemoved, TooManyConnections, StoreUnavailable;
}

/// The events that a caller wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFilter {
    kinds: EventKinds,
    chain_id: Option<ChainId>,
    submitter: Option<Address>,
    tx_id: Option<TxId>,
}

impl EventFilter {
    pub(super) fn read(params: &mut QueryParams, headers: &HeaderMap) -> Result<Self, Problem> {
        let kinds = params.take("kind").unwrap_or_default();
        let kinds = EventKinds::from_names(kinds.split(',').filter(|name| !name.is_empty()))
            .map_err(|bad| Problem::of_field(ErrorCode::InvalidQuery, "kind", bad.problem))?;
        let by_header = headers.get(CHAIN_ID).and_then(|id| decimal(id.to_str().ok()?));
        let chain_id = params.number("chainId")?.or(by_header).map(ChainId::new).transpose();
        let bad_chain = |bad: tollgate_model::ids::InvalidValue| {
            Problem::of_field(ErrorCode::InvalidNumber, "chainId", bad.problem)
        };
        Ok(Self {
            kinds,
            chain_id: chain_id.map_err(bad_chain)?,
            submitter: params.address("submitter")?,
            tx_id: params.take("txId").as_deref().map(parse_id).transpose()?,
        })
    }

    /// Returns whether an event was asked for. Whether the caller may see it is for its [`Viewer`] to say.
    fn wants(&self, numbered: &NumberedEvent) -> bool {
        let event = &numbered.event;
        let is_of_tx = |tx_id| event.tx.as_ref().is_some_and(|tx| tx.tx_id == tx_id);
        self.kinds.contains(event.kind)
            && self.chain_id.is_none_or(|chain_id| event.submitter.chain_id == chain_id)
            && self.submitter.is_none_or(|address| event.submitter.address == address)
            && self.tx_id.is_none_or(is_of_tx)
    }
}

/// Follow the events
///
/// Every change that others may want to know of, once, in an order that never changes; the changes of one
/// transaction in their own order. With `Accept: text/event-stream` the answer is a stream of server-sent
/// events that goes on until the caller leaves; it continues after `Last-Event-ID`, or after `after`, or begins
/// now. Callers that read too slowly are cut off. Otherwise the answer is a page, and with `wait` it comes as
/// soon as there is something. A reader that remembers only `next`, or the last id, misses nothing; one that is
/// before what was removed is told so.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    operation_id = "followEvents",
    tag = "feed",
    params(EventParams),
    responses(
        (status = 200, description = "Events, in order.", content(
            (EventPage = "application/json"),
            (String = "text/event-stream", example = "id: 7\nevent: TxConfirmed\ndata: {…}\n\n")
        )),
        EventProblems
    )
)]
pub(crate) async fn events(
    State(chains): State<Chains>,
    caller: Caller,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, Problem> {
    let after = params.cursor("after", |text| Seq::new(decimal(text)?).ok())?;
    let from_end = match params.take("from").as_deref() {
        None => false,
        Some("end") => true,
        Some(other) => {
            let what = format!("{} must be end", quoted(other));
            return Err(Problem::of_field(ErrorCode::InvalidQuery, "from", what));
        }
    };
    let (page, wait) = (params.page()?, params.wait()?);
    let filter = EventFilter::read(&mut params, &headers)?;
    params.end()?;
    let wants_stream = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains(EVENT_STREAM)));
    let follower = chains.event_hub().follow(chains.store(), &caller).ok_or_else(|| {
        let detail = "too many callers follow the events, or too many with this key or tenant";
        Problem::new(ErrorCode::TooManyConnections, detail)
    })?;
    let bounds = chains.store().event_bounds().await?;
    let check = |position: Seq| match position {
        position if position > bounds.end => {
            let detail = format!(
                "{position} is beyond the end of the log, {}; it is a cursor of another database",
                bounds.end
            );
            Err(Problem::of_field(ErrorCode::CursorAhead, "after", detail))
        }
        position if position < bounds.removed_through => {
            Err(Problem::cursor_removed(position, bounds.removed_through))
        }
        position => Ok(position),
    };
    let viewer = Viewer::new(chains.clone(), caller, filter);
    if wants_stream {
        let position = last_event_id(&headers)?.or(after).unwrap_or(bounds.end);
        return Ok(stream::answer(follower, viewer, check(position)?));
    }
    let start = if from_end { bounds.end } else { Seq::MIN };
    let mut position = check(after.unwrap_or(start))?;
    let until = Instant::now() + wait;
    for parts in 1.. {
        let part = follower.after(position, page).await?;
        let shown = viewer.shown(part.events).await?;
        let items: Vec<Event> = shown.iter().map(|event| (&**event).into()).collect();
        let (has_moved, is_late) = (part.next > position, part.is_live && Instant::now() >= until);
        position = part.next;
        let is_over = !has_moved && !waits(&follower, position, until).await;
        if !items.is_empty() || is_over || is_late || parts >= PARTS_MAX {
            let page = EventPage { items, next: position.get() };
            return Ok(axum::Json(page).into_response());
        }
    }
    unreachable!("the number of parts is limited")
}

/// Waits for something after a position; false if nothing comes in time.
async fn waits(follower: &Follower, position: Seq, until: Instant) -> bool {
    timeout_at(until, follower.grows(position)).await.unwrap_or(false)
}

pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, Problem> {
    let Some(given) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let text = given.to_str().unwrap_or_default();
    let seq = decimal(text).and_then(|seq| Seq::new(seq).ok());
    seq.map(Some).ok_or_else(|| {
        let what = format!("{} must be the id of an event of this log", quoted(text));
        Problem::of_field(ErrorCode::InvalidCursor, "Last-Event-ID", what)
    })
}
