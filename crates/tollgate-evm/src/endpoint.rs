//! One JSON-RPC endpoint: a bounded, timed, watched way to ask a node something.
//!
//! Owns the connections, the health and what was learnt of the node's abilities. Never repeats a
//! call and never asks anybody else: that is the router's business. A thin client of our own,
//! because the classifier needs what libraries hide: code, status, text, data and `Retry-After`
//! together, and whether anything was sent at all.

mod abilities;
mod budget;
#[cfg(feature = "simulation")]
mod carrier;
mod config;
mod error;
mod health;
mod http;
mod many;
pub(crate) mod wire;
mod ws;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use abilities::{Abilities, Ability};
#[cfg(feature = "simulation")]
pub use carrier::{Carried, Carrier};
pub use config::{BadUrl, EndpointConfig, Role};
pub use error::{RpcError, RpcErrorKind};
pub use health::Health;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_model::answer::AnswerClass;
pub(crate) use ws::Announced;

use crate::classify::classify;
use budget::Budget;
use config::Target;
use wire::{Incoming, Request};

/// How transactions are handed over. Everything else is a read.
pub(crate) const SEND_METHOD: &str = "eth_sendRawTransaction";

/// A read waits this long for the end of a rate limit; a longer limit refuses it at once.
const LIMIT_WAIT_MAX: Duration = Duration::from_secs(3);

/// One in so many places is kept for sends.
const SENDS_SHARE: usize = 4;

/// Is told of every call, for metrics.
pub trait RpcObserver: Send + Sync {
    /// A call ended: with `ok`, or with the kind of its failure.
    fn called(&self, endpoint: &str, method: &'static str, took: Duration, outcome: &'static str);
}

enum Transport {
    Http(Box<http::Http>),
    Ws(ws::Ws),
}

/// One endpoint.
pub struct Endpoint {
    name: String,
    target: Target,
    config: EndpointConfig,
    transport: Transport,
    places: Semaphore,
    /// Reads need one of these as well: the other places are for sends.
    read_places: Semaphore,
    next_id: AtomicU64,
    health: Mutex<Health>,
    budget: Mutex<Budget>,
    abilities: Abilities,
    observer: Option<Arc<dyn RpcObserver>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Prepares an endpoint. Connects when it is first asked (a WebSocket: at once, in a task).
    ///
    /// # Errors
    /// [`BadUrl`], which says nothing of the URL's secrets.
    pub fn new(
        config: EndpointConfig,
        observer: Option<Arc<dyn RpcObserver>>,
    ) -> Result<Self, BadUrl> {
        let target = Target::parse(&config.url)?;
        let bounds = [config.timeout, config.connect_timeout];
        if bounds.contains(&Duration::ZERO)
            || config.concurrency == 0
            || config.response_bytes_max == 0
        {
            return Err(BadUrl::ZeroLimit);
        }
        let transport = match target.socket {
            false => Transport::Http(Box::new(http::Http::new(&target, &config))),
            true => Transport::Ws(ws::Ws::new(&target, &config)),
        };
        Ok(Self {
            name: target.place.clone(),
            places: Semaphore::new(config.concurrency),
            read_places: Semaphore::new(config.concurrency - config.concurrency / SENDS_SHARE),
            target,
            transport,
            config,
            next_id: AtomicU64::new(1),
            health: Mutex::default(),
            budget: Mutex::default(),
            abilities: Abilities::default(),
            observer,
        })
    }

    /// Scheme, host and port; never the path, which may be a key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same, told from others of the same host by a number.
    #[must_use]
    pub(crate) fn numbered(self, place: usize) -> Self {
        Self { name: format!("{}#{place}", self.name), ..self }
    }

    /// What it is used for.
    pub const fn role(&self) -> Role {
        self.config.role
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        *self.lock_health()
    }

    /// What its node can do, as far as that was found out.
    pub const fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Heads as they are announced, where it is a WebSocket.
    pub(crate) fn announced(&self) -> Option<watch::Receiver<Announced>> {
        match &self.transport {
            Transport::Http(_) => None,
            Transport::Ws(ws) => Some(ws.heads()),
        }
    }

    /// Asks, with the endpoint's own time-out.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<T, RpcError> {
        self.call_until(method, params, Instant::now() + self.config.timeout).await
    }

    /// Asks, with the endpoint's own time-out, but not beyond a deadline.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn call_until<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
        deadline: Instant,
    ) -> Result<T, RpcError> {
        let load = Load { method, calls: 1 };
        let (sent, answer) = self.timed(load, deadline, self.exchange(method, &params)).await?;
        let answer = answer.and_then(|raw| read_as(&raw));
        let answer = answer.map_err(|error| self.redacted(error));
        self.note(method, sent, answer.as_ref().err());
        answer
    }

    /// Asks many times the same thing in one call, in order; an answer for each, or `None` for one
    /// that was left out.
    ///
    /// # Errors
    /// [`RpcError`] if there is no batch of answers: nothing is known of any of them.
    pub(crate) async fn batch_until<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &[Value],
        deadline: Instant,
    ) -> Result<Vec<Option<Result<T, RpcError>>>, RpcError> {
        let load = Load { method, calls: u32::try_from(params.len()).unwrap_or(u32::MAX) };
        let exchange = self.exchange_batch(method, params);
        let (sent, answers) = self.timed(load, deadline, exchange).await?;
        let answers = answers.map_err(|error| self.redacted(error));
        // What one of them says of the endpoint holds for it as a whole.
        let said = |answer: &Option<Answer>| match answer {
            Some(Err(error)) if !matches!(sign_of(error), Sign::Well) => Some(error.clone()),
            _ => None,
        };
        let error = match &answers {
            Ok(answers) => answers.iter().find_map(said),
            Err(error) => Some(error.clone()),
        };
        self.note(method, sent, error.as_ref());
        let is_refused =
            |error: &RpcError| matches!(error.kind, RpcErrorKind::Node | RpcErrorKind::NotRpc);
        if answers.as_ref().is_err_and(is_refused) {
            self.abilities.lacks(Ability::Batch, Instant::now());
        }
        let read = |answer: Answer| {
            let answer = answer.and_then(|raw| read_as(&raw));
            answer.map_err(|error| self.redacted(error))
        };
        Ok(answers?.into_iter().map(|answer| answer.map(read)).collect())
    }

    /// Whether many calls in one are worth trying: over HTTP, unless the node has refused them.
    pub(crate) fn may_batch(&self, now: Instant) -> bool {
        matches!(self.transport, Transport::Http(_)) && self.abilities.may_have(Ability::Batch, now)
    }

    /// Waits until the endpoint's quota leaves room for so many reads. A read that fails at once
    /// because of a quota would be put off by its caller for longer than the quota lasts.
    async fn within_budget(&self, reads: u32, deadline: Instant) -> Result<(), RpcError> {
        let busy = || RpcError::new(RpcErrorKind::Busy, "not asked: its quota is used up");
        loop {
            let now = Instant::now();
            let limited_until = self.lock_health().limited_until(now);
            let free_at = match limited_until {
                Some(until) => until,
                None => match lock(&self.budget).take(reads, now) {
                    Ok(()) => return Ok(()),
                    Err(at) => at,
                },
            };
            let is_limited_for_long =
                limited_until.is_some_and(|until| until > now + LIMIT_WAIT_MAX);
            if free_at >= deadline || is_limited_for_long {
                return Err(busy());
            }
            sleep_until(free_at).await;
        }
    }

    /// Waits for room in the quota, a place, and an answer, and tells when it was sent.
    async fn timed<T>(
        &self,
        load: Load,
        deadline: Instant,
        exchange: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<(Instant, Result<T, RpcError>), RpcError> {
        let begun = Instant::now();
        let deadline = deadline.min(begun + self.config.timeout);
        let busy = || RpcError::new(RpcErrorKind::Busy, "too many calls in flight");
        let mut _read_place = None;
        if !load.is_send() {
            self.within_budget(load.calls, deadline).await?;
            let place = timeout_at(deadline, self.read_places.acquire()).await;
            _read_place = Some(place.map_err(|_| busy())?.map_err(|_| busy())?);
        }
        let place = timeout_at(deadline, self.places.acquire()).await.map_err(|_| busy())?;
        let _place = place.map_err(|_| busy())?;
        let sent = Instant::now();
        // With hardly any time left, sending would only make an answer that nobody waits for.
        if (sent - begun) * 20 >= deadline.saturating_duration_since(begun) * 19 {
            return Err(busy());
        }
        lock(&self.budget).note_calls(load.calls, sent);
        let late = || RpcError::new(RpcErrorKind::NoAnswer, "no answer in time");
        let answer = timeout_at(deadline, exchange).await.unwrap_or_else(|_| Err(late()));
        Ok((sent, answer))
    }

    fn redacted(&self, error: RpcError) -> RpcError {
        RpcError { message: self.target.redact(&error.message), ..error }
    }

    async fn exchange(&self, method: &str, params: &Value) -> Result<Box<RawValue>, RpcError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = serde_json::to_string(&Request::new(id, method, params))
            .map_err(|error| RpcError::new(RpcErrorKind::Unreachable, error.to_string()))?;
        match &self.transport {
            Transport::Ws(ws) => ws.call(id, request).await,
            Transport::Http(http) => {
                let answer = http.post(request.into_bytes()).await?;
                let read = read_body(id, answer.status, &answer.body);
                read.map_err(|error| RpcError { retry_after: answer.retry_after, ..error })
            }
        }
    }

    async fn exchange_batch(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Vec<Option<Answer>>, RpcError> {
        let Transport::Http(http) = &self.transport else {
            let message = "batches go over HTTP only";
            return Err(RpcError::new(RpcErrorKind::Unreachable, message));
        };
        let first = self.next_id.fetch_add(params.len() as u64, Ordering::Relaxed);
        let requests: Vec<_> =
            (first..).zip(params).map(|(id, params)| Request::new(id, method, params)).collect();
        let body = serde_json::to_vec(&requests)
            .map_err(|error| RpcError::new(RpcErrorKind::Unreachable, error.to_string()))?;
        let answer = http.post(body).await?;
        let Ok(incoming) = serde_json::from_slice::<Vec<Incoming>>(&answer.body) else {
            let error = match serde_json::from_slice::<Incoming>(&answer.body) {
                Ok(one) if one.error.is_some() => {
                    read_body(first, answer.status, &answer.body).err()
                }
                _ => None,
            };
            let error = error.unwrap_or_else(|| RpcError::from_body(answer.status, &answer.body));
            return Err(RpcError { retry_after: answer.retry_after, ..error });
        };
        let mut answers: Vec<Option<Answer>> = params.iter().map(|_| None).collect();
        for one in incoming {
            let place = one.number().and_then(|id| usize::try_from(id.checked_sub(first)?).ok());
            if let Some(slot) = place.and_then(|place| answers.get_mut(place)) {
                *slot = Some(ws::read(one));
            }
        }
        Ok(answers)
    }

    /// Keeps what a call says about the endpoint's health.
    fn note(&self, method: &'static str, begun: Instant, error: Option<&RpcError>) {
        let now = Instant::now();
        let took = now - begun;
        let (outcome, sign) = match error {
            None => ("ok", Sign::Well),
            Some(error) => (kind_name(error.kind), sign_of(error)),
        };
        {
            let mut health = self.lock_health();
            match sign {
                Sign::Well => health.answered(now, took),
                Sign::Limited(retry_after) => {
                    health.limited(now, retry_after);
                    lock(&self.budget).note_limit(now);
                }
                Sign::Ill => health.failed(now, took),
                Sign::None => {}
            }
        }
        if let Some(error) = error {
            let message = &*error.message;
            tracing::debug!(endpoint = %self.name, method, outcome, message, "call without result");
        }
        if let Some(observer) = &self.observer {
            observer.called(&self.name, method, took, outcome);
        }
    }

    fn lock_health(&self) -> MutexGuard<'_, Health> {
        lock(&self.health)
    }
}

/// What a call costs, and whether it is held back for the sake of others.
#[derive(Clone, Copy)]
struct Load {
    method: &'static str,
    calls: u32,
}

impl Load {
    fn is_send(self) -> bool {
        self.method == SEND_METHOD
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain numbers: a panic elsewhere can't have left them half-written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an answer says about the endpoint itself.
enum Sign {
    Well,
    Limited(Option<Duration>),
    Ill,
    None,
}

fn sign_of(error: &RpcError) -> Sign {
    match error.kind {
        RpcErrorKind::Busy => Sign::None,
        // A node that says no is a node that works, unless it speaks of itself.
        RpcErrorKind::Node | RpcErrorKind::NotRpc => match classify(&error.as_answer()) {
            AnswerClass::RateLimited => Sign::Limited(error.retry_after),
            AnswerClass::Transient => Sign::Ill,
            _ if error.kind == RpcErrorKind::NotRpc => Sign::Ill,
            _ => Sign::Well,
        },
        RpcErrorKind::Unreachable | RpcErrorKind::NoAnswer | RpcErrorKind::Unreadable => Sign::Ill,
    }
}

const fn kind_name(kind: RpcErrorKind) -> &'static str {
    match kind {
        RpcErrorKind::Node => "node_error",
        RpcErrorKind::NotRpc => "not_rpc",
        RpcErrorKind::Unreachable => "unreachable",
        RpcErrorKind::NoAnswer => "no_answer",
        RpcErrorKind::Unreadable => "unreadable",
        RpcErrorKind::Busy => "busy",
    }
}

type Answer = Result<Box<RawValue>, RpcError>;

fn read_as<T: DeserializeOwned>(raw: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let message = format!("an answer of another shape: {error}");
        RpcError::new(RpcErrorKind::Unreadable, message)
    })
}

/// Reads the body of an HTTP answer; errors in JSON-RPC come with any status.
fn read_body(id: u64, status: u16, body: &[u8]) -> Result<Box<RawValue>, RpcError> {
    let Ok(incoming) = serde_json::from_slice::<Incoming>(body) else {
        return Err(RpcError::from_body(status, body));
    };
    if !incoming.answers(id) {
        return Err(RpcError::new(RpcErrorKind::Unreadable, "the answer to another call"));
    }
    let is_error = incoming.error.as_ref().is_some_and(|error| !error.is_null());
    if !is_error && !(200..300).contains(&status) {
        return Err(RpcError::from_body(status, body));
    }
    ws::read(incoming).map_err(|error| RpcError { status: Some(status), ..error })
}
