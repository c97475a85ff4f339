//! Counts the items of a batch against the rate of its key, and splits one whose items are for several chains.

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_api::{BatchItem, Problem as ProblemBody, path};

use super::{NamedChain, assumed_chain, chain_of_create, find, pass_on, read_parts, run};
use crate::http::access::{Counted, RatedKey};
use crate::http::batch::{BatchItems, check_size};
use crate::http::body::{Fields, raw, read_object};
use crate::http::idempotency::{BatchKey, with_request_id};
use crate::http::middleware::trace_id;
use crate::http::problem::Problem;
use crate::http::served_chains::Chains;

/// The chains of a batch that are worked on at once (I13).
const GROUPS_AT_ONCE: usize = 8;

/// Counts the items of a batch, if that is what a request is and its key has a rate. A body that can't be read, or
/// has a wrong number of items, counts as one request; it is refused later.
pub(super) async fn count_items(request: Request) -> Result<(Request, Option<Counted>), Problem> {
    let is_batch = request.method() == Method::POST && request.uri().path() == path::BATCH;
    let key = request.extensions().get().filter(|_| is_batch).map(|RatedKey(key)| key.clone());
    let Some(key) = key else { return Ok((request, None)) };
    let (parts, body) = read_parts(request).await?;
    let items = raw(&body).and_then(read_object).map(|BatchItems(items)| items);
    let items = items.ok().filter(|items| check_size(items).is_ok());
    let counted = items.map(|items| key.count_batch(items.len())).transpose()?;
    let is_more = |counted: &Counted| counted.is_limited();
    Ok((Request::from_parts(parts, Body::from(body)), counted.filter(is_more)))
}

/// The items of a batch may be for several chains: each chain gets its own, and the answers are put
/// together in the order of the items.
pub(super) async fn create_over_chains(
    chains: &Chains,
    parts: &Parts,
    items: &[Box<RawValue>],
) -> Result<Response, Problem> {
    let key = BatchKey::of(&parts.headers)?;
    let trace_id = trace_id(&parts.headers).to_owned();
    let refused = |problem: Problem| {
        let error = problem.with_trace_id(&trace_id);
        BatchItem { status: error.status, tx: None, error: Some(error) }
    };
    let mut answers: Vec<Option<Box<RawValue>>> = vec![None; items.len()];
    let mut groups: Vec<Group> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let named = chain_of_create(item).and_then(|named| match named {
            Some(named) => Ok(named),
            None => assumed_chain(chains).map(|chain| NamedChain::new("chainId", chain.id)),
        });
        match named {
            Err(problem) => answers[place] = to_raw(&refused(problem)),
            Ok(named) => {
                // The place in the whole batch is part of the request id.
                let renamed = match (&key, has_request_id(item)) {
                    (Some(key), false) => with_request_id(item, &key.request_id(place, None)?),
                    _ => None,
                };
                let item = renamed.unwrap_or_else(|| item.clone());
                match groups.iter_mut().find(|group| group.named.id == named.id) {
                    Some(group) => group.items.push((place, item)),
                    None => groups.push(Group { named, items: vec![(place, item)] }),
                }
            }
        }
    }
    let mut answered = Vec::new();
    for some in groups.chunks(GROUPS_AT_ONCE) {
        answered.extend(join_all(some.iter().map(|group| group.run(chains, parts))).await);
    }
    for (group, answered) in groups.iter().zip(answered) {
        match answered {
            Ok(texts) => {
                for ((place, _), text) in group.items.iter().zip(texts) {
                    answers[*place] = Some(text);
                }
            }
            Err(problem) => {
                for (place, _) in &group.items {
                    answers[*place] = to_raw(&refused(problem.clone()));
                }
            }
        }
    }
    #[derive(Serialize)]
    struct Answers {
        items: Vec<Box<RawValue>>,
    }
    Ok(axum::Json(Answers { items: answers.into_iter().flatten().collect() }).into_response())
}

fn to_raw(item: &BatchItem) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(item).ok()
}

fn has_request_id(item: &RawValue) -> bool {
    Fields::of(item, String::new()).is_ok_and(|mut fields| fields.take("requestId").is_some())
}

/// The items of a batch that are for one chain.
struct Group {
    named: NamedChain,
    items: Vec<(usize, Box<RawValue>)>,
}

impl Group {
    /// Returns the answers, in the order of the items.
    async fn run(&self, chains: &Chains, parts: &Parts) -> Result<Vec<Box<RawValue>>, Problem> {
        #[derive(Serialize)]
        struct Sent<'a> {
            items: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Received {
            items: Vec<Box<RawValue>>,
        }
        let sent = Sent { items: self.items.iter().map(|(_, item)| &**item).collect() };
        let body = serde_json::to_vec(&sent).map_err(|_| Problem::defect())?;
        let mut parts = parts.clone();
        parts.headers.remove(tollgate_api::header::IDEMPOTENCY_KEY);
        parts.headers.remove(header::CONTENT_LENGTH);
        let request = Request::from_parts(parts, Body::from(body));
        let response = match find(chains, &self.named) {
            Some(chain) => run(chain, request).await?,
            None => pass_on(chains, &self.named, request).await?,
        };
        if let Some(problem) = response.extensions().get::<Problem>() {
            return Err(problem.clone());
        }
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
        let received = serde_json::from_slice::<Received>(&body).ok();
        if let Some(received) = received.filter(|it| it.items.len() == self.items.len()) {
            return Ok(received.items);
        }
        // Refused as a whole by a node that did nothing.
        let refused = serde_json::from_slice::<ProblemBody>(&body).ok();
        if let Some((code, body)) = refused.and_then(|body| Some((body.known_code()?, body))) {
            return Err(Problem { code, body: Box::new(body) });
        }
        let why = format!("a node that serves chain {} answered {status}", self.named.id);
        Err(Problem::no_answer_from_owner(why))
    }
}
