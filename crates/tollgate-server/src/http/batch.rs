//! Many creates in one call, each answered for itself.
//!
//! Items go where their submitters are: those of each other node together, in one call to it. What
//! moved meanwhile is brought there as well, once.

use std::borrow::Cow;
use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::{join, join_all};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_engine::{Destination, PendingCreate, Place, PreparedCreate};
use tollgate_model::{NodeId, Submitter};
use tracing::{info, warn};
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{Array, Ref};

use super::Api;
use super::body::{Asked, CreateBody, Fields, FromFields, Json, read_object};
use super::code::Code;
use super::create::{answer_to_known, decided, prepare};
use super::doc::may_fail;
use super::forward::{Belongs, FORWARDED, PATH_BATCH, answered_by, belongs, code_of};
use super::guard::trace_id;
use super::idempotency::{BatchKey, with_request_id};
use super::params::BatchParams;
use super::peers::Unanswered;
use super::problem::Problem;
use super::query::Words;
use super::shape::{BatchAnswer, BatchEntry, BatchItem};

/// Creates in one batch (I13).
pub(crate) const BATCH_MAX: usize = 1_000;
/// How often items are brought somewhere: where they belong, and where they went meanwhile (I13).
const ROUNDS_MAX: u32 = 2;

may_fail! {
    BatchProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidBatch,
        InvalidQuery, InvalidRequestId, MissingField, WrongChain, NotOwner;
}

/// Creates to be carried out side by side.
#[derive(ToSchema)]
#[schema(as = Batch)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    #[schema(schema_with = items)]
    items: Vec<Box<RawValue>>,
}

impl FromFields for BatchBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let items = fields.array("items")?;
        let items = fields.needed("items", items)?;
        Ok(Self { items: items.into_iter().map(ToOwned::to_owned).collect() })
    }
}

fn items() -> Array {
    let create = ArrayBuilder::new().items(Ref::from_schema_name(CreateBody::name()));
    let about = create.description(Some("Each as in a create of its own."));
    about.min_items(Some(1)).max_items(Some(BATCH_MAX)).build()
}

/// Create many transactions
///
/// Each item is answered for itself, in order, with the status that a create of its own would have
/// had: one bad item never fails its neighbours. With an `Idempotency-Key`, the batch can be
/// repeated: an item without a `requestId` gets the key, a colon and its place as one.
#[utoipa::path(
    post,
    path = "/api/v1/tx/batch",
    operation_id = "createTxBatch",
    tag = "transactions",
    params(BatchParams),
    request_body(content = BatchBody, description = "At most 2 MiB.", examples(
        ("two" = (summary = "Two transfers", value = json!({"items": [
            {
                "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                "requestId": "salary-1",
                "payload": {"to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "value": "1"}
            },
            {
                "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                "requestId": "salary-2",
                "payload": {"to": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "value": "2"}
            }
        ]})))
    )),
    responses(
        (status = 200, description = "An answer to each item.", body = BatchAnswer),
        BatchProblems
    )
)]
pub(crate) async fn create_batch(
    State(api): State<Api>,
    words: Words,
    headers: HeaderMap,
    Json(body): Json<BatchBody>,
) -> Result<Response, Problem> {
    words.end()?;
    let items = body.items;
    if items.is_empty() || items.len() > BATCH_MAX {
        let what = format!("{} items, must be 1 to {BATCH_MAX}", items.len());
        return Err(Problem::of_field(Code::InvalidBatch, "items", what));
    }
    let rounds = if headers.contains_key(FORWARDED) { 1 } else { ROUNDS_MAX };
    let key = BatchKey::of(&headers)?;
    let mut batch = Batch::read(&api, &headers, key.as_ref(), &items);
    for _ in 0..rounds {
        batch.go_round().await;
    }
    Ok(batch.answer())
}

/// A batch on its way.
struct Batch<'a> {
    api: &'a Api,
    headers: &'a HeaderMap,
    items: Vec<Item<'a>>,
    /// Whom the round before asked for a submitter.
    asked: HashMap<Submitter, NodeId>,
}

/// One create of it.
struct Item<'a> {
    text: Cow<'a, RawValue>,
    /// What it wants, while nobody has given an answer that stands.
    open: Option<Asked>,
    answer: Option<BatchEntry>,
    /// The node that works for it, if it gave the answer.
    owner: Option<String>,
    /// Another node was asked.
    forwarded: bool,
}

/// An answer to the item at a place.
struct Answered {
    place: usize,
    entry: BatchEntry,
    /// No other node would give a better one.
    stands: bool,
    forwarded: bool,
}

/// Items of one other node, by their places in the batch.
struct Parcel {
    to: Destination,
    places: Vec<usize>,
}

/// The places of open items, by where they belong.
#[derive(Default)]
struct Sorted {
    /// To this node.
    here: Vec<usize>,
    /// To other nodes.
    there: Vec<Parcel>,
    /// This node stops, and there is no other.
    nowhere: Vec<usize>,
}

impl<'a> Batch<'a> {
    fn read(
        api: &'a Api,
        headers: &'a HeaderMap,
        key: Option<&BatchKey>,
        items: &'a [Box<RawValue>],
    ) -> Self {
        let read = |(place, text): (usize, &'a RawValue)| {
            let (open, text, answer) = match understood(api, key, place, text) {
                Ok((asked, text)) => (Some(asked), text, None),
                Err(problem) => {
                    (None, Cow::Borrowed(text), Some(entry(Err(problem), trace_id(headers))))
                }
            };
            Item { text, open, answer, owner: None, forwarded: false }
        };
        let items = items.iter().map(AsRef::as_ref).enumerate().map(read).collect();
        Self { api, headers, items, asked: HashMap::new() }
    }

    /// Brings each open item where it belongs.
    async fn go_round(&mut self) {
        let Sorted { here, mut there, nowhere } = self.sort().await;
        self.answer_known(&mut there, nowhere).await;
        let local = self.try_here(&here);
        let remote = join_all(there.iter().map(|parcel| self.pass_on(parcel)));
        let (local, remote) = join(local, remote).await;
        let own = self.api.engine.own_url().map(|url| url.as_str().to_owned());
        for answered in local {
            self.note(answered, own.as_deref());
        }
        for (parcel, answers) in there.iter().zip(remote) {
            for answered in answers {
                let there = Some(parcel.to.url.as_str());
                let by = if answered.forwarded { there } else { own.as_deref() };
                self.note(answered, by);
            }
        }
    }

    /// Answers those items that were accepted before, by whichever node (I7), and takes them out of the
    /// parcels. What belongs nowhere and is new is refused.
    async fn answer_known(&mut self, there: &mut Vec<Parcel>, nowhere: Vec<usize>) {
        let mut places = nowhere.clone();
        places.extend(there.iter().flat_map(|parcel| &parcel.places));
        let look_up = |place: usize| {
            let (api, open) = (self.api, self.items[place].open.as_ref());
            async move { Some((place, answer_to_known(api, open?).await?)) }
        };
        let known = join_all(places.into_iter().map(look_up)).await;
        for (place, answer) in known.into_iter().flatten() {
            let answer = answer.map(|tx| (StatusCode::OK, tx));
            let item = &mut self.items[place];
            (item.answer, item.open) = (Some(entry(answer, trace_id(self.headers))), None);
        }
        for place in nowhere {
            let item = &mut self.items[place];
            if item.open.take().is_some() {
                item.answer = Some(entry(Err(Problem::draining()), trace_id(self.headers)));
            }
        }
        for parcel in there.iter_mut() {
            parcel.places.retain(|place| self.items[*place].open.is_some());
        }
        there.retain(|parcel| !parcel.places.is_empty());
    }

    fn note(&mut self, answered: Answered, by: Option<&str>) {
        let Answered { place, entry, stands, forwarded } = answered;
        let item = &mut self.items[place];
        (item.answer, item.forwarded) = (Some(entry), item.forwarded | forwarded);
        item.owner = by.filter(|_| stands).map(str::to_owned);
        match &item.open {
            Some(asked) if !stands => self.api.engine.misplaced(asked.submitter),
            Some(_) | None => item.open = None,
        }
    }

    /// Where the open items belong.
    async fn sort(&mut self) -> Sorted {
        let Sorted { mut here, mut there, mut nowhere } = Sorted::default();
        let mut known: HashMap<Submitter, Place> = HashMap::new();
        for (number, item) in self.items.iter_mut().enumerate() {
            let Some(of) = item.open.as_ref().map(|asked| asked.submitter) else { continue };
            let place = match known.get(&of).cloned() {
                Some(place) => place,
                None if self.headers.contains_key(FORWARDED) => Place::Here,
                // Whether the database can be asked, the local way finds out for each item.
                None => self.api.engine.place(of).await.unwrap_or(Place::Here),
            };
            known.insert(of, place.clone());
            match place {
                Place::There(to) if self.asked.get(&of) == Some(&to.node) => {
                    // It would say the same again, or this node can't do it instead.
                    if to.owns || !self.api.engine.serves(of) {
                        item.open = None;
                    } else {
                        here.push(number);
                    }
                }
                Place::There(to) => {
                    match there.iter_mut().find(|parcel| parcel.to.node == to.node) {
                        Some(parcel) => parcel.places.push(number),
                        None => there.push(Parcel { to, places: vec![number] }),
                    }
                }
                Place::Here => here.push(number),
                Place::Nowhere => nowhere.push(number),
            }
        }
        let asked = known.into_iter().filter_map(|(of, place)| match place {
            Place::There(to) => Some((of, to.node)),
            Place::Here | Place::Nowhere => None,
        });
        self.asked = asked.collect();
        Sorted { here, there, nowhere }
    }

    /// Creates items at this node. They are prepared side by side and queued in the order of the
    /// batch, so that an account's nonces follow it and the first of two equal request ids wins.
    async fn try_here(&self, places: &[usize]) -> Vec<Answered> {
        let prepared = join_all(places.iter().map(|place| self.prepare(*place))).await;
        let pending = prepared
            .into_iter()
            .map(|prepared| prepared.map(|(of, prepared)| (of, self.api.engine.submit(prepared))));
        let pending: Vec<Result<(Submitter, PendingCreate), Problem>> = pending.collect();
        let decided = places.iter().zip(pending).map(|(place, pending)| async {
            let answer = match pending {
                Ok((of, pending)) => decided(self.api, of, pending).await,
                Err(problem) => Err(problem),
            };
            let stands = !matches!(&answer, Err(problem) if problem.code == Code::NotOwner);
            let entry = entry(answer, trace_id(self.headers));
            Answered { place: *place, entry, stands, forwarded: false }
        });
        join_all(decided).await
    }

    async fn prepare(&self, place: usize) -> Result<(Submitter, PreparedCreate), Problem> {
        let answered = || Problem::new(Code::Internal, "it was answered before");
        let asked = self.items[place].open.clone().ok_or_else(answered)?;
        Ok((asked.submitter, prepare(self.api, asked).await?))
    }

    /// Does what another node that was not reached should have done, for the accounts that this one
    /// serves.
    async fn try_instead_of(&self, to: &Destination, places: &[usize]) -> Vec<Answered> {
        let is_served = |place: &usize| {
            let of = self.items[*place].open.as_ref().map(|asked| asked.submitter);
            of.is_some_and(|of| self.api.engine.serves(of))
        };
        let (here, nowhere): (Vec<usize>, Vec<usize>) = places.iter().partition(|it| is_served(it));
        let mut answers = self.try_here(&here).await;
        answers.extend(nowhere.into_iter().map(|place| {
            let problem = Problem::owner_unreached(&to.url);
            let entry = entry(Err(problem), trace_id(self.headers));
            Answered { place, entry, stands: false, forwarded: false }
        }));
        answers
    }

    /// Asks another node for its items.
    async fn pass_on(&self, parcel: &Parcel) -> Vec<Answered> {
        #[derive(Serialize)]
        struct Sent<'a> {
            items: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Said {
            items: Vec<Box<RawValue>>,
        }
        let Parcel { to, places } = parcel;
        let sent = Sent { items: places.iter().map(|place| &*self.items[*place].text).collect() };
        // Text that was JSON before.
        let body = Bytes::from(serde_json::to_vec(&sent).unwrap_or_default());
        let Api { engine, peers, .. } = self.api;
        let problem = match peers.ask(engine, to, PATH_BATCH, self.headers, body).await {
            Ok(posted) => {
                let said = serde_json::from_slice::<Said>(&posted.body).ok();
                match said.filter(|said| said.items.len() == places.len()) {
                    Some(said) => {
                        let (mut answers, mut left) = (Vec::new(), Vec::new());
                        for (place, text) in places.iter().copied().zip(said.items) {
                            let stands = match belongs(code_of_item(&text), to) {
                                // At once: the next round may be over, or lead to another node
                                // without the key.
                                Belongs::Here => {
                                    left.push(place);
                                    continue;
                                }
                                Belongs::There => true,
                                Belongs::Elsewhere => false,
                            };
                            let entry = BatchEntry::Passed(text);
                            answers.push(Answered { place, entry, stands, forwarded: true });
                        }
                        answers.extend(self.try_here(&left).await);
                        return answers;
                    }
                    // Refused as a whole, before anything was done.
                    None if belongs(code_of(&posted), to) == Belongs::Elsewhere => {
                        let detail = format!("{} does not work for the account any more", to.url);
                        let problem = Problem::new(Code::NotOwner, detail);
                        return self.told(places, &problem, false);
                    }
                    None => {
                        let why = format!("{} answered with {}", to.url, posted.status);
                        Problem::unheard(why)
                    }
                }
            }
            Err(Unanswered::NotAsked(_)) => return self.try_instead_of(to, places).await,
            Err(Unanswered::Full) => Problem::too_many_forwarded(),
            Err(Unanswered::Unheard(why)) => Problem::unheard(why),
        };
        self.told(places, &problem, true)
    }

    /// The same answer of another node to all of its items.
    fn told(&self, places: &[usize], problem: &Problem, stands: bool) -> Vec<Answered> {
        let told = |place: &usize| {
            let entry = entry(Err(problem.clone()), trace_id(self.headers));
            Answered { place: *place, entry, stands, forwarded: true }
        };
        places.iter().map(told).collect()
    }

    /// All answers. The owner is named where there is one for all.
    fn answer(self) -> Response {
        let forwarded = self.items.iter().any(|item| item.forwarded);
        let mut owners = self.items.iter().filter_map(|item| item.owner.as_ref());
        let first = owners.next().filter(|first| owners.all(|owner| owner == *first)).cloned();
        let items: Vec<_> = self.items.into_iter().filter_map(|item| item.answer).collect();
        log_refusals(&items);
        let mut response = axum::Json(BatchAnswer { items }).into_response();
        answered_by(&mut response, first.as_deref(), forwarded);
        response
    }
}

/// What the item at a place wants, and its text as another node is told it.
fn understood<'a>(
    api: &Api,
    key: Option<&BatchKey>,
    place: usize,
    text: &'a RawValue,
) -> Result<(Asked, Cow<'a, RawValue>), Problem> {
    let body: CreateBody = read_object(text)?;
    let mut asked = body.read(api.engine.chain_id(), None)?;
    let (None, Some(key)) = (&asked.request_id, key) else {
        return Ok((asked, Cow::Borrowed(text)));
    };
    let id = key.request_id(place)?;
    let renamed = with_request_id(text, &id).map_or(Cow::Borrowed(text), Cow::Owned);
    asked.request_id = Some(id);
    Ok((asked, renamed))
}

/// The code of the problem that an item was answered with.
fn code_of_item(text: &RawValue) -> Option<Code> {
    #[derive(Deserialize)]
    struct Said {
        error: Option<Error>,
    }
    #[derive(Deserialize)]
    struct Error {
        code: String,
    }
    let said = serde_json::from_str::<Said>(text.get()).ok()?;
    Code::of(&said.error?.code)
}

/// Each refused item has a line in the log, as a refused create has. What another node refused is in
/// that node's log, under the same trace id.
fn log_refusals(items: &[BatchEntry]) {
    for (place, item) in items.iter().enumerate() {
        let BatchEntry::Own(item) = item else { continue };
        let Some(error) = &item.error else { continue };
        let (status, code, detail) = (item.status, error.code, error.detail.as_str());
        match status {
            500.. => warn!(place, status, code, detail, "batch item failed"),
            _ => info!(place, status, code, detail, "batch item refused"),
        }
    }
}

fn entry(answer: Result<(StatusCode, super::shape::Tx), Problem>, trace_id: &str) -> BatchEntry {
    BatchEntry::Own(Box::new(match answer {
        Ok((status, tx)) => BatchItem { status: status.as_u16(), tx: Some(tx), error: None },
        Err(problem) => BatchItem {
            status: problem.code.status().as_u16(),
            tx: None,
            error: Some(problem.body(trace_id)),
        },
    }))
}
