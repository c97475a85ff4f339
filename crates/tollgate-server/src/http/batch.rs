//! Many creates in one call, each answered for itself.
//!
//! Items go where their submitters are: those of each other node together, in one call to it.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::future::{join, join_all};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_engine::{Destination, Place};
use tollgate_model::Submitter;
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{Array, Ref};

use super::Api;
use super::body::{Asked, CreateBody, Json};
use super::code::Code;
use super::create::carry_out;
use super::doc::may_fail;
use super::forward::{FORWARDED, PATH_BATCH, answered_by};
use super::peers::Unanswered;
use super::problem::Problem;
use super::query::Words;
use super::shape::{BatchAnswer, BatchEntry, BatchItem};

/// Creates in one batch (I13).
pub(crate) const BATCH_MAX: usize = 1_000;

may_fail! {
    BatchProblems: InvalidJson, UnreadableBody, BodyTooLarge, InvalidBody, InvalidBatch,
        InvalidQuery;
}

/// Creates to be carried out side by side.
#[derive(Deserialize, ToSchema)]
#[schema(as = Batch)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    #[schema(schema_with = items)]
    items: Vec<Box<RawValue>>,
}

fn items() -> Array {
    let create = ArrayBuilder::new().items(Ref::from_schema_name(CreateBody::name()));
    let about = create.description(Some("Each as in a create of its own."));
    about.min_items(Some(1)).max_items(Some(BATCH_MAX)).build()
}

/// Create many transactions
///
/// Each item is answered for itself, in order, with the status that a create of its own would have
/// had: one bad item never fails its neighbours.
#[utoipa::path(
    post,
    path = "/api/v1/tx/batch",
    operation_id = "createTxBatch",
    tag = "transactions",
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
        let detail = format!("{} items, must be 1 to {BATCH_MAX}", items.len());
        return Err(Problem::new(Code::InvalidBatch, detail));
    }
    let Sorted { here, there, mut answers } = sort(&api, &headers, &items).await;
    let (is_here, one_place) = (!here.is_empty(), there.len() + usize::from(!here.is_empty()) == 1);
    let local = join_all(here.into_iter().map(|(place, asked)| answer(&api, place, asked)));
    let remote = join_all(there.iter().map(|parcel| pass_on(&api, &headers, &items, parcel)));
    let (local, remote) = join(local, remote).await;
    for (place, answer) in local.into_iter().chain(remote.into_iter().flatten()) {
        answers[place] = Some(answer);
    }
    let items = answers.into_iter().flatten().collect();
    let mut response = axum::Json(BatchAnswer { items }).into_response();
    let to = there.first().map(|parcel| &parcel.to);
    match (to, one_place) {
        (Some(to), true) => answered_by(&mut response, Some(&to.url), true),
        (Some(_), false) => answered_by(&mut response, None, true),
        (None, _) if is_here => {
            let own = api.engine.own_url();
            answered_by(&mut response, own.as_ref().map(|url| url.as_str()), false);
        }
        (None, _) => {}
    }
    Ok(response)
}

/// Items of one other node, with their places in the batch.
struct Parcel {
    to: Destination,
    items: Vec<(usize, Asked)>,
}

/// A batch by where its items belong.
struct Sorted {
    here: Vec<(usize, Asked)>,
    there: Vec<Parcel>,
    /// What has its answer already.
    answers: Vec<Option<BatchEntry>>,
}

async fn sort(api: &Api, headers: &HeaderMap, items: &[Box<RawValue>]) -> Sorted {
    let mut sorted = Sorted { here: Vec::new(), there: Vec::new(), answers: Vec::new() };
    let mut places: HashMap<Submitter, Place> = HashMap::new();
    for (number, item) in items.iter().enumerate() {
        let asked = serde_json::from_str::<CreateBody>(item.get())
            .map_err(|error| Problem::new(Code::InvalidBody, error.to_string()))
            .and_then(|body| body.read(api.engine.chain_id(), None));
        let asked = match asked {
            Ok(asked) => asked,
            Err(problem) => {
                sorted.answers.push(Some(entry(Err(problem))));
                continue;
            }
        };
        let known = places.get(&asked.submitter).cloned();
        let place = match known {
            Some(place) => place,
            None if headers.contains_key(FORWARDED) => Place::Here,
            // Whether the database can be asked, the local way finds out for each item.
            None => api.engine.place(asked.submitter).await.unwrap_or(Place::Here),
        };
        places.insert(asked.submitter, place.clone());
        sorted.answers.push(None);
        match place {
            Place::Here => sorted.here.push((number, asked)),
            Place::There(to) => {
                match sorted.there.iter_mut().find(|parcel| parcel.to.node == to.node) {
                    Some(parcel) => parcel.items.push((number, asked)),
                    None => sorted.there.push(Parcel { to, items: vec![(number, asked)] }),
                }
            }
            Place::Nowhere => sorted.answers[number] = Some(entry(Err(Problem::draining()))),
        }
    }
    sorted
}

/// Asks another node for its items. Where it was not even reached, they are tried here.
async fn pass_on(
    api: &Api,
    headers: &HeaderMap,
    items: &[Box<RawValue>],
    parcel: &Parcel,
) -> Vec<(usize, BatchEntry)> {
    #[derive(Serialize)]
    struct Sent<'a> {
        items: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Said {
        items: Vec<Box<RawValue>>,
    }
    let sent = Sent { items: parcel.items.iter().map(|(n, _)| items[*n].as_ref()).collect() };
    // Text that was JSON before.
    let body = Bytes::from(serde_json::to_vec(&sent).unwrap_or_default());
    let to = &parcel.to;
    let posted = api.peers.ask(&api.engine, to, PATH_BATCH, headers, body).await;
    let why = match posted {
        Ok(posted) => {
            let said = serde_json::from_slice::<Said>(&posted.body).ok();
            match said.filter(|said| said.items.len() == parcel.items.len()) {
                Some(said) => {
                    let numbers = parcel.items.iter().map(|(number, _)| *number);
                    return numbers.zip(said.items.into_iter().map(BatchEntry::Passed)).collect();
                }
                None => Problem::unheard(format!("{} answered with {}", to.url, posted.status)),
            }
        }
        Err(Unanswered::NotAsked(_)) => {
            for (_, asked) in &parcel.items {
                api.engine.misplaced(asked.submitter);
            }
            let here = parcel.items.iter().cloned();
            return join_all(here.map(|(number, asked)| answer(api, number, asked))).await;
        }
        Err(Unanswered::Full) => Problem::too_many_forwarded(),
        Err(Unanswered::Unheard(why)) => Problem::unheard(why),
    };
    parcel.items.iter().map(|(number, _)| (*number, entry(Err(why.clone())))).collect()
}

async fn answer(api: &Api, number: usize, asked: Asked) -> (usize, BatchEntry) {
    (number, entry(carry_out(api, asked).await))
}

fn entry(answer: Result<(axum::http::StatusCode, super::shape::Tx), Problem>) -> BatchEntry {
    BatchEntry::Own(Box::new(match answer {
        Ok((status, tx)) => BatchItem { status: status.as_u16(), tx: Some(tx), error: None },
        Err(problem) => BatchItem {
            status: problem.code.status().as_u16(),
            tx: None,
            error: Some(problem.body(None)),
        },
    }))
}
