//! One JSON-RPC endpoint, with bounded concurrency, time-outs, a read budget and health.
//!
//! Owns the connections, the health and the known capabilities of the node. Never repeats a call and
//! never asks another endpoint: the router does. A thin client of our own, because the classifier needs
//! what libraries hide: code, status, text, data and `Retry-After` together, and whether anything was
//! sent at all.

mod answer;
mod batch;
mod budget;
mod capabilities;
#[cfg(feature = "simulation")]
mod carrier;
mod config;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod health;
mod http;
pub(crate) mod json;
mod measured;
mod ws;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use capabilities::{Capabilities, Capability};
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
use tollgate_metrics::ChainMetrics;
pub(crate) use ws::Announced;

use answer::{Answer, HealthSign, health_sign, kind_name, read_as, read_body};
use budget::Budget;
use config::Target;
use json::{Incoming, Request};
use measured::Measured;

/// The method that sends a transaction. All other calls are reads.
pub(crate) const SEND_METHOD: &str = "eth_sendRawTransaction";

/// A read waits this long for the end of a rate limit; a longer limit refuses it at once.
const LIMIT_WAIT_MAX: Duration = Duration::from_secs(3);

/// One in this many places is reserved for sends.
const SENDS_SHARE: usize = 4;

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
    /// Reads need one of these as well; the other places are for sends.
    read_places: Semaphore,
    next_id: AtomicU64,
    health: Mutex<Health>,
    budget: Mutex<Budget>,
    capabilities: Capabilities,
    measured: Measured,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Prepares an endpoint. It connects with the first call; a WebSocket at once, in a task.
    ///
    /// # Errors
    /// [`BadUrl`], which holds none of the URL's secrets.
    pub fn new(config: EndpointConfig) -> Result<Self, BadUrl> {
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
            capabilities: Capabilities::default(),
            measured: Measured::default(),
        })
    }

    /// Scheme, host and port; never the path, which may be a key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same with a number, to tell it from others of the same host.
    #[must_use]
    pub(crate) fn numbered(self, place: usize) -> Self {
        Self { name: format!("{}#{place}", self.name), ..self }
    }

    /// Counts and times its calls under its name.
    #[must_use]
    pub(crate) fn counted(self, metrics: Arc<ChainMetrics>) -> Self {
        Self { measured: Measured::new(&self.name, metrics), ..self }
    }

    /// Returns whether it is for reads, for sends or for both.
    pub const fn role(&self) -> Role {
        self.config.role
    }

    /// Its latency, failures and rate limits.
    pub fn health(&self) -> Health {
        *self.lock_health()
    }

    /// The known capabilities of its node.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The announced heads, if it is a WebSocket.
    pub(crate) fn announced(&self) -> Option<watch::Receiver<Announced>> {
        match &self.transport {
            Transport::Http(_) => None,
            Transport::Ws(ws) => Some(ws.heads()),
        }
    }

    /// Calls a method with the endpoint's own time-out.
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

    /// Calls a method with the endpoint's own time-out, but not beyond a deadline.
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
        let exchange = self.exchange(method, &params);
        let timed = self.timed(load, deadline, exchange).await;
        let (sent, answer) = timed.inspect_err(|unsent| self.measured.note_error(unsent))?;
        let answer = answer.and_then(|raw| read_as(&raw));
        let answer = answer.map_err(|error| self.redacted(error));
        self.note(method, sent, answer.as_ref().err(), 1);
        answer
    }

    /// Calls a method many times in one batch. Returns an answer for each, in order, or `None` for one
    /// that was left out.
    ///
    /// # Errors
    /// [`RpcError`] if there is no batch of answers: then nothing is known of any call.
    pub(crate) async fn batch_until<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &[Value],
        deadline: Instant,
    ) -> Result<Vec<Option<Result<T, RpcError>>>, RpcError> {
        let load = Load { method, calls: u32::try_from(params.len()).unwrap_or(u32::MAX) };
        let exchange = self.exchange_batch(method, params);
        let timed = self.timed(load, deadline, exchange).await;
        let (sent, answers) = timed.inspect_err(|unsent| self.measured.note_error(unsent))?;
        let answers = answers.map_err(|error| self.redacted(error));
        // What one answer tells about the endpoint's health counts for the batch.
        let said = |answer: &Option<Answer>| match answer {
            Some(Err(error)) if !matches!(health_sign(error), HealthSign::Well) => {
                Some(error.clone())
            }
            _ => None,
        };
        let (error, times) = match &answers {
            Ok(answers) => {
                let mut said = answers.iter().filter_map(said);
                let first = said.next();
                (first, u32::try_from(said.count() + 1).unwrap_or(u32::MAX))
            }
            Err(error) => (Some(error.clone()), 1),
        };
        self.note(method, sent, error.as_ref(), times);
        let is_refused =
            |error: &RpcError| matches!(error.kind, RpcErrorKind::Node | RpcErrorKind::NotRpc);
        if answers.as_ref().is_err_and(is_refused) {
            self.capabilities.lacks(Capability::Batch, Instant::now());
        }
        let read = |answer: Answer| {
            let answer = answer.and_then(|raw| read_as(&raw));
            answer.map_err(|error| self.redacted(error))
        };
        Ok(answers?.into_iter().map(|answer| answer.map(read)).collect())
    }

    /// Returns whether a batch is worth trying: over HTTP, unless the node has refused one.
    pub(crate) fn may_batch(&self, now: Instant) -> bool {
        matches!(self.transport, Transport::Http(_))
            && self.capabilities.may_have(Capability::Batch, now)
    }

    /// Waits until the endpoint's quota allows this many reads. A read that fails at once
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

    /// Waits for the quota, a free place and the answer. Returns when the call was sent.
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
        // With hardly any time left, nobody would wait for the answer.
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

    /// Updates the endpoint's health after a call or a batch in which so many calls had the error.
    fn note(&self, method: &'static str, begun: Instant, error: Option<&RpcError>, times: u32) {
        let now = Instant::now();
        let took = now - begun;
        self.measured.note_call(method, took, error);
        let (outcome, sign) = match error {
            None => ("ok", HealthSign::Well),
            Some(error) => (kind_name(error.kind), health_sign(error)),
        };
        {
            let mut health = self.lock_health();
            if method == SEND_METHOD && !error.is_some_and(RpcError::is_unsent) {
                let is_lost = error.is_some_and(|error| error.kind == RpcErrorKind::NoAnswer);
                health.note_send(now, !is_lost);
            }
            match sign {
                HealthSign::Well => health.answered(now, took),
                HealthSign::Limited(retry_after) => {
                    if health.refused(now, retry_after, times) {
                        lock(&self.budget).note_limit(now);
                    }
                }
                HealthSign::Ill => health.failed(now, took),
                HealthSign::None => {}
            }
        }
        if let Some(error) = error {
            let message = &*error.message;
            tracing::debug!(endpoint = %self.name, method, outcome, error = message, "call without result");
        }
    }

    fn lock_health(&self) -> MutexGuard<'_, Health> {
        lock(&self.health)
    }
}

/// The kind and the number of calls of one request.
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
    // They hold plain numbers, so that a panic elsewhere can't have left them half-written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
