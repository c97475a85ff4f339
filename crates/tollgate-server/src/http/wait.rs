//! Holds answers back until a transaction is in the state that the caller waits for: `Prefer: wait=30`.
//!
//! The node that took the request waits, by reading the database that all nodes share: nothing waits at
//! the node that a request was forwarded to, nor on the connection to it. A preference is a wish (RFC
//! 7240): where it can't be met, the request is answered as if it had none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use tokio::time::Instant;
use tollgate_api::{WaitPreference, path};
use tollgate_model::port::{Page, StoreError, TxStore};
use tollgate_model::{TxId, TxState};

use super::access::Caller;
use super::access::shares::{Places, TakenPlace};
use super::dispatch::dispatch;
use super::forward::CHAIN_ID;
use super::problem::Problem;
use super::served_chains::Chains;
use super::shared_poll::SharedPoll;

const PREFER: HeaderName = HeaderName::from_static(tollgate_api::header::PREFER);
const PREFERENCE_APPLIED: HeaderName =
    HeaderName::from_static(tollgate_api::header::PREFERENCE_APPLIED);

/// Callers that wait at once (I13): as many as one read of the store takes, and fewer than there are
/// connections, so that creates have room.
const WAITS_MAX: usize = Page::MAX as usize;

/// The transactions that callers wait for.
pub(crate) struct TxWatch {
    /// The states of those that are waited for, as they were last read.
    states: SharedPoll<HashMap<TxId, TxState>>,
    /// Callers by transaction.
    waiting: Mutex<HashMap<TxId, usize>>,
    places: Arc<Places>,
}

/// A caller that waits.
struct Waiting<'a> {
    watch: &'a TxWatch,
    tx_id: TxId,
    _place: TakenPlace,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.watch.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.get_mut(&self.tx_id) {
            Some(callers) if *callers > 1 => *callers -= 1,
            Some(_) | None => {
                waiting.remove(&self.tx_id);
                // The next one to wait for it must not be answered with an old state.
                self.watch.states.amend(|states| {
                    states.remove(&self.tx_id);
                });
            }
        }
    }
}

impl Default for TxWatch {
    fn default() -> Self {
        Self {
            states: SharedPoll::new(HashMap::new()),
            waiting: Mutex::default(),
            places: Places::new(WAITS_MAX),
        }
    }
}

impl TxWatch {
    /// Ends all waits, now and from now on: the node is shutting down.
    pub(crate) fn close(&self) {
        self.states.close();
    }

    /// A place for one more caller; `None` if there is none, if its key or tenant has its share, or if the node is
    /// shutting down.
    fn enter(&self, tx_id: TxId, caller: &Caller) -> Option<Waiting<'_>> {
        if self.states.is_closed() {
            return None;
        }
        let place = self.places.take(caller)?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting.entry(tx_id).or_default() += 1;
        Some(Waiting { watch: self, tx_id, _place: place })
    }

    async fn read(&self, store: &dyn TxStore) -> Result<HashMap<TxId, TxState>, StoreError> {
        let ids: Vec<TxId> = {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.keys().copied().collect()
        };
        let found = store.row_versions(&ids).await?;
        let states = ids.into_iter().zip(found);
        Ok(states.filter_map(|(tx_id, row)| Some((tx_id, row?.state))).collect())
    }
}

impl Waiting<'_> {
    /// Waits until the transaction has come as far as wanted; false if it has not within the time.
    async fn reaches(&self, store: &dyn TxStore, wait: WaitPreference, begun: Instant) -> bool {
        let is_wanted = |states: &HashMap<TxId, TxState>| {
            states.get(&self.tx_id).is_some_and(|state| wait.until.is_reached(*state))
        };
        let until = begun + wait.duration();
        let reached = self.watch.states.reaches(until, || self.watch.read(store), is_wanted).await;
        // Whatever the store says, the caller has an answer already.
        reached.unwrap_or(false)
    }
}

/// The wait that a request asks for. Only reads of one transaction and creates can wait.
pub(crate) fn asked(request: &Request) -> Option<WaitPreference> {
    let can_wait = match *request.method() {
        Method::POST => request.uri().path() == path::TX,
        Method::GET => is_of_one(request.uri().path()),
        _ => false,
    };
    let values = request.headers().get_all(PREFER).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    WaitPreference::read(values).filter(|_| can_wait)
}

fn is_of_one(path: &str) -> bool {
    let below = |of: &str| path.strip_prefix(of).and_then(|rest| rest.strip_prefix('/'));
    let is_last = |id: &str| !id.contains('/');
    path != path::COMPLETIONS
        && [path::TX, path::BY_HASH].into_iter().any(|of| below(of).is_some_and(is_last))
}

/// Answers a request when its transaction is in the state that it waits for, or after the time.
pub(crate) async fn answer(
    chains: &Chains,
    wait: WaitPreference,
    request: Request,
) -> Result<Response, Problem> {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let response = dispatch(chains, Request::from_parts(parts.clone(), body)).await?;
    if !response.status().is_success() {
        return Ok(response);
    }
    let (mut head, body) = response.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return Err(Problem::defect());
    };
    let Some(found) = Found::read(&body) else {
        return Ok(Response::from_parts(head, Body::from(body)));
    };
    let caller = Caller::of(&parts.extensions)?;
    let Some(waiting) = chains.tx_watch().enter(found.tx_id, &caller) else {
        return Ok(Response::from_parts(head, Body::from(body)));
    };
    let body = if wait.until.is_reached(found.state) {
        body
    } else {
        waiting.reaches(chains.store().as_ref(), wait, begun).await;
        if !is_allowed(chains, &parts).await {
            // Answered as it was when the key was valid. Reads are refused (`access::control`).
            return Ok(Response::from_parts(head, Body::from(body)));
        }
        read_again(chains, parts, found.tx_id).await.unwrap_or(body)
    };
    // The length of the first answer, which may not be this one's.
    head.headers.remove(header::CONTENT_LENGTH);
    if let Ok(applied) = HeaderValue::from_str(&wait.to_string()) {
        head.headers.insert(PREFERENCE_APPLIED, applied);
    }
    Ok(Response::from_parts(head, Body::from(body)))
}

/// Returns whether the key of a request is still valid after its wait.
async fn is_allowed(chains: &Chains, parts: &Parts) -> bool {
    let Ok(caller) = Caller::of(&parts.extensions) else { return false };
    match (chains.api_keys(), caller.key_id()) {
        (Some(keys), Some(id)) => keys.known(id).await.is_ok(),
        _ => true,
    }
}

/// A transaction in an answer.
struct Found {
    tx_id: TxId,
    state: TxState,
}

impl Found {
    /// `None` if the answer is no transaction: that of a simulation.
    fn read(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields {
            tx_id: String,
            state: String,
            sub_state: Option<String>,
        }
        let fields: Fields = serde_json::from_slice(body).ok()?;
        let is_it = |state: &TxState| {
            state.name() == fields.state && state.sub_name() == fields.sub_state.as_deref()
        };
        let state = TxState::ALL.into_iter().find(is_it)?;
        Some(Self { tx_id: fields.tx_id.parse().ok()?, state })
    }
}

/// The body of the answer after the wait: the same read once more, or the transaction of a create.
async fn read_again(chains: &Chains, mut parts: Parts, tx_id: TxId) -> Option<Bytes> {
    if parts.method == Method::POST {
        parts.method = Method::GET;
        parts.uri = path::tx(&tx_id.to_string()).parse().ok()?;
        // Any node reads any transaction by its id.
        for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, CHAIN_ID] {
            parts.headers.remove(name);
        }
    }
    let response = dispatch(chains, Request::from_parts(parts, Body::empty())).await.ok()?;
    if response.status() != StatusCode::OK {
        return None;
    }
    axum::body::to_bytes(response.into_body(), usize::MAX).await.ok()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tx_id(number: u128) -> TxId {
        TxId::from_uuid(Uuid::from_u128(number))
    }

    #[test]
    fn waits_are_limited_in_number_and_a_place_is_free_when_its_caller_is_gone() {
        let (watch, caller) = (TxWatch::default(), Caller::without_key(None));
        let half = u128::from(Page::MAX / 2);
        let mut callers: Vec<_> =
            (0..half).filter_map(|number| watch.enter(tx_id(number), &caller)).collect();
        callers.extend((0..half).filter_map(|_| watch.enter(tx_id(0), &caller)));
        assert_eq!(callers.len(), WAITS_MAX);
        assert!(watch.enter(tx_id(0), &caller).is_none(), "no room");
        callers.pop();
        let last = watch.enter(tx_id(7), &caller);
        assert!(last.is_some() && watch.enter(tx_id(7), &caller).is_none());
        drop((last, callers));
        assert!(watch.waiting.lock().unwrap().is_empty());
        watch.close();
        assert!(watch.enter(tx_id(0), &caller).is_none(), "the node is shutting down");
    }

    #[test]
    fn state_of_an_earlier_wait_is_forgotten_with_its_last_caller() {
        let (watch, caller) = (TxWatch::default(), Caller::without_key(None));
        let enter = || watch.enter(tx_id(1), &caller);
        let (first, second) = (enter(), enter());
        watch.states.amend(|states| {
            states.insert(tx_id(1), TxState::Confirmed);
        });
        drop(first);
        watch.states.amend(|states| assert_eq!(states.len(), 1));
        drop(second);
        watch.states.amend(|states| assert!(states.is_empty()));
    }
}
