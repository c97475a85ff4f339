//! An HTTP and WebSocket proxy in front of a JSON-RPC endpoint that injects faults: lost calls, errors, silence,
//! quotas, lag and wrong answers. Counts the calls that a fault has changed.

mod answers;
mod log;
mod socket;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tollgate_devchain::chain::Rng;
use tollgate_model::{Bytes as RawBytes, keccak256};

pub use answers::WrongAnswer;
use log::CallLog;

/// The duration of a slow answer: the minimum, and the range above it. The maximum is longer than
/// the five seconds that a node waits for an endpoint.
const SLOW_MILLIS_MIN: u64 = 200;
const SLOW_MILLIS_SPAN: u64 = 6_000;

/// Share of requests that a balancer gives to its second node.
const BALANCER_SHARE: u64 = 50;

/// The interval at which a silent endpoint checks whether the fault has ended.
const SILENCE_POLL: Duration = Duration::from_millis(100);

/// The faults of an endpoint; none by default. Shares are percentages of calls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RpcFaults {
    /// Every connection is closed.
    pub is_down: bool,
    /// Share of calls that are discarded.
    pub lost_requests: u64,
    /// Share of calls that are executed and not answered.
    pub lost_answers: u64,
    /// The number of further sends that are executed and not answered.
    pub lost_sends: u32,
    /// Share of calls that are answered late.
    pub slow: u64,
    /// Share of calls that are answered with an HTTP error.
    pub errors: u64,
    /// Share of sends that are acknowledged and discarded.
    pub discarded_sends: u64,
    /// A class of answers that is wrong.
    pub wrong: Option<WrongAnswer>,
    /// Calls are accepted and never answered. A WebSocket that was silent once stays so.
    pub is_silent: bool,
    /// Subscriptions stay open and announce nothing.
    pub is_mute: bool,
    /// Calls per second, at most; each call of a batch counts.
    pub quota: Option<u64>,
    /// Blocks that the endpoint is behind.
    pub lag_blocks: u64,
    /// Blocks that a second node behind the same URL is behind; it answers every second request.
    pub balancer_lag: u64,
    /// Added to every transaction count.
    pub nonce_offset: i64,
    /// `eth_getBlockReceipts` and `eth_feeHistory` do not exist, as on old nodes.
    pub is_old_node: bool,
}

impl RpcFaults {
    /// True if calls or answers have to be read.
    fn change_content(&self) -> bool {
        let unchanged = Self {
            discarded_sends: 0,
            lost_sends: 0,
            wrong: None,
            is_mute: false,
            lag_blocks: 0,
            balancer_lag: 0,
            nonce_offset: 0,
            is_old_node: false,
            ..*self
        };
        *self != unchanged
    }
}

/// Forwards calls, except for its faults. Stops when it is dropped.
pub struct RpcProxy {
    url: String,
    faults: Arc<Mutex<RpcFaults>>,
    log: CallLog,
    strikes: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl RpcProxy {
    pub async fn to(endpoint: &str) -> Self {
        Self::seeded(endpoint, 0, 0).await
    }

    /// In front of an endpoint. A seed decides which calls are affected by a fault; `steady_errors`
    /// percent of all calls fail whatever the faults are.
    pub async fn seeded(endpoint: &str, seed: u64, steady_errors: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let faults = Arc::new(Mutex::new(RpcFaults::default()));
        let log = CallLog::default();
        let strikes = Arc::new(AtomicU64::new(0));
        let forwarder = Forwarder {
            endpoint: endpoint.to_owned(),
            log: log.clone(),
            faults: faults.clone(),
            strikes: strikes.clone(),
            steady_errors,
            rng: Arc::new(Mutex::new(Rng::new(seed))),
            second: Arc::new(Mutex::new((Instant::now(), 0))),
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
        };
        Self { url, faults, log, strikes, task: tokio::spawn(serve(listener, forwarder)) }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn ws_url(&self) -> String {
        self.url.replacen("http", "ws", 1)
    }

    /// Keeps the text of all calls from now on.
    pub fn record(&self) {
        self.log.start();
    }

    /// Returns how many recorded calls contain a text, in any letter case.
    pub fn calls_with(&self, text: &str) -> usize {
        self.log.count(text)
    }

    /// Returns how many requests its faults have changed or refused, steady errors aside.
    pub fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::Relaxed)
    }

    pub fn change(&self, change: impl FnOnce(&mut RpcFaults)) {
        change(&mut self.faults.lock().unwrap());
    }
}

impl Drop for RpcProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Forwarder {
    endpoint: String,
    log: CallLog,
    faults: Arc<Mutex<RpcFaults>>,
    strikes: Arc<AtomicU64>,
    steady_errors: u64,
    rng: Arc<Mutex<Rng>>,
    /// The start of the current second, and the number of its calls.
    second: Arc<Mutex<(Instant, u64)>>,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// There is no answer: the connection is closed.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("lost")
    }
}

impl std::error::Error for Lost {}

type Answer = Response<Full<Bytes>>;

async fn serve(listener: TcpListener, forwarder: Forwarder) {
    while let Ok((client, _)) = listener.accept().await {
        if forwarder.faults().is_down {
            forwarder.strike();
        } else {
            tokio::spawn(serve_connection(client, forwarder.clone()));
        }
    }
}

async fn serve_connection(client: TcpStream, forwarder: Forwarder) {
    let service = service_fn(|request| {
        let forwarder = forwarder.clone();
        async move {
            match socket::is_wanted(&request) {
                true => socket::accept(request, forwarder).await,
                false => forwarder.answer(request).await,
            }
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(client), service);
    // The caller disconnected, or a fault closes the connection.
    let _ = connection.with_upgrades().await;
}

impl Forwarder {
    fn faults(&self) -> RpcFaults {
        *self.faults.lock().unwrap()
    }

    fn strike(&self) {
        self.strikes.fetch_add(1, Ordering::Relaxed);
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap().below(bound)
    }

    fn draws(&self, share: u64) -> bool {
        share > 0 && self.below(100) < share
    }

    /// Draws a fault with this share, and counts it if it happens.
    fn is_hit(&self, share: u64) -> bool {
        let is_hit = self.draws(share);
        if is_hit {
            self.strike();
        }
        is_hit
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Lost> {
        self.answer_body(request.into_body().collect().await.map_err(|_| Lost)?.to_bytes()).await
    }

    async fn answer_body(&self, body: Bytes) -> Result<Answer, Lost> {
        self.log.note(&body);
        let mut faults = self.faults();
        if faults.balancer_lag > 0 && self.draws(BALANCER_SHARE) {
            faults.lag_blocks += faults.balancer_lag;
        }
        if faults.is_down {
            self.strike();
            return Err(Lost);
        }
        if self.is_hit(faults.lost_requests) || self.was_silent().await {
            return Err(Lost);
        }
        if faults.quota.is_some_and(|quota| self.is_over(quota, &body)) {
            self.strike();
            let mut answer = status(StatusCode::TOO_MANY_REQUESTS, "rate limit exceeded");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return Ok(answer);
        }
        if self.is_hit(faults.errors) {
            return self.error(body).await;
        }
        if self.draws(self.steady_errors) {
            return Ok(status(StatusCode::SERVICE_UNAVAILABLE, "no backend"));
        }
        let answer = match faults.change_content() {
            true => self.changed(&body, &faults).await?,
            false => self.forward(body).await?,
        };
        if self.is_hit(faults.slow) {
            let millis = SLOW_MILLIS_MIN + self.below(SLOW_MILLIS_SPAN);
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        // The fault may have begun while the call was executed.
        if self.faults().is_down || self.is_hit(faults.lost_answers) {
            return Err(Lost);
        }
        Ok(answer)
    }

    /// Waits while the endpoint is silent; whether it was.
    async fn was_silent(&self) -> bool {
        let was = self.faults().is_silent;
        if was {
            self.strike();
        }
        while self.faults().is_silent {
            tokio::time::sleep(SILENCE_POLL).await;
        }
        was
    }

    fn is_over(&self, quota: u64, body: &Bytes) -> bool {
        let calls = match serde_json::from_slice(body) {
            Ok(Value::Array(calls)) => calls.len() as u64,
            _ => 1,
        };
        let mut second = self.second.lock().unwrap();
        if second.0.elapsed() >= Duration::from_secs(1) {
            *second = (Instant::now(), 0);
        }
        second.1 += calls;
        second.1 > quota
    }

    /// 429 means that the call was not executed; after a 503 it may have been.
    async fn error(&self, body: Bytes) -> Result<Answer, Lost> {
        Ok(match self.below(3) {
            0 => status(StatusCode::TOO_MANY_REQUESTS, "rate limit exceeded"),
            1 => status(StatusCode::SERVICE_UNAVAILABLE, "no backend"),
            _ => {
                self.forward(body).await?;
                status(StatusCode::SERVICE_UNAVAILABLE, "upstream timed out")
            }
        })
    }

    async fn forward(&self, body: Bytes) -> Result<Answer, Lost> {
        let request = Request::post(&self.endpoint)
            .header("content-type", "application/json")
            .body(Full::from(body))
            .map_err(|_| Lost)?;
        let (head, body) = self.client.request(request).await.map_err(|_| Lost)?.into_parts();
        let mut answer = json_answer(body.collect().await.map_err(|_| Lost)?.to_bytes());
        *answer.status_mut() = head.status;
        Ok(answer)
    }

    async fn forward_json(&self, calls: &Value) -> Result<Value, Lost> {
        let answer = self.forward(calls.to_string().into()).await?;
        let text = answer.into_body().collect().await.map_err(|_| Lost)?.to_bytes();
        serde_json::from_slice(&text).map_err(|_| Lost)
    }

    /// Answers a call or a batch with the faults that change calls or answers.
    async fn changed(&self, body: &Bytes, faults: &RpcFaults) -> Result<Answer, Lost> {
        let asked: Value = serde_json::from_slice(body).map_err(|_| Lost)?;
        let (calls, is_batch) = match asked {
            Value::Array(calls) => (calls, true),
            call => (vec![call], false),
        };
        let is_lost = self.loses_a_send(&calls);
        let (mut answers, mut forwarded) = (Vec::new(), Vec::new());
        for call in calls {
            match self.own_answer(&call, faults) {
                Some(answer) => answers.push(answer),
                None => forwarded.push(call),
            }
        }
        if !forwarded.is_empty() {
            answers.extend(self.changed_answers(forwarded, is_batch, faults).await?);
        }
        if is_lost {
            return Err(Lost);
        }
        let answer = if is_batch { Value::Array(answers) } else { answers.remove(0) };
        Ok(json_answer(answer.to_string().into()))
    }

    async fn changed_answers(
        &self,
        mut calls: Vec<Value>,
        is_batch: bool,
        faults: &RpcFaults,
    ) -> Result<Vec<Value>, Lost> {
        let lags = faults.lag_blocks > 0;
        let head = match lags || faults.wrong.is_some_and(WrongAnswer::needs_head) {
            true => Some(self.head().await?.saturating_sub(faults.lag_blocks)),
            false => None,
        };
        let unchanged = calls.clone();
        if let Some(head) = head.filter(|_| lags) {
            calls.iter_mut().for_each(|call| answers::ask_behind(call, head));
        }
        let asked = if is_batch { Value::Array(calls.clone()) } else { calls[0].clone() };
        let mut answers = match self.forward_json(&asked).await? {
            Value::Array(answers) => answers,
            answer if !is_batch => vec![answer],
            _ => return Err(Lost),
        };
        let true_answers = answers.clone();
        change_answers(&calls, &mut answers, head, faults);
        if calls != unchanged || answers != true_answers {
            self.strike();
        }
        Ok(answers)
    }

    async fn head(&self) -> Result<u64, Lost> {
        let question = json!({ "jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber" });
        let head = answers::number(&self.forward_json(&question).await?["result"]);
        u64::try_from(head.ok_or(Lost)?).map_err(|_| Lost)
    }

    fn loses_a_send(&self, calls: &[Value]) -> bool {
        let sends = calls.iter().filter(|call| call["method"] == "eth_sendRawTransaction").count();
        let left = &mut self.faults.lock().unwrap().lost_sends;
        let loses = sends > 0 && *left > 0;
        if loses {
            self.strike();
        }
        if *left != u32::MAX {
            *left = left.saturating_sub(u32::try_from(sends).unwrap_or(u32::MAX));
        }
        loses
    }

    /// The answer to a call that is not forwarded: to a send that is discarded, or to a method that
    /// does not exist.
    fn own_answer(&self, call: &Value, faults: &RpcFaults) -> Option<Value> {
        let id = &call["id"];
        match call["method"].as_str()? {
            "eth_sendRawTransaction" if self.is_hit(faults.discarded_sends) => {
                let raw: RawBytes = call["params"][0].as_str()?.parse().ok()?;
                Some(json!({ "jsonrpc": "2.0", "id": id, "result": keccak256(&raw) }))
            }
            method @ ("eth_getBlockReceipts" | "eth_feeHistory") if faults.is_old_node => {
                let message = format!("the method {method} does not exist/is not available");
                let error = json!({ "code": -32601, "message": message });
                Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            }
            _ => None,
        }
    }
}

/// Applies lag and wrong answers; `head` is the newest block that the endpoint has, where it is needed.
/// Answers of a batch belong to calls by their ids, in any order.
fn change_answers(calls: &[Value], answers: &mut [Value], head: Option<u64>, faults: &RpcFaults) {
    for answer in answers {
        let Some(call) = calls.iter().find(|call| call["id"] == answer["id"]) else { continue };
        if let Some(head) = head.filter(|_| faults.lag_blocks > 0) {
            answers::hide_newer(call, answer, head);
        }
        if let Some(wrong) = faults.wrong {
            wrong.change(call, answer, head);
        }
        if call["method"] == "eth_getTransactionCount" && faults.nonce_offset != 0 {
            answers::add(&mut answer["result"], faults.nonce_offset.into());
        }
    }
}

fn status(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer
}

fn json_answer(text: Bytes) -> Answer {
    let mut answer = Response::new(Full::from(text));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_batch_are_matched_to_calls_by_id() {
        let call = |id: u64, method: &str| json!({ "id": id, "method": method, "params": [] });
        let calls = [call(1, "eth_gasPrice"), call(2, "eth_blockNumber")];
        let mut answers =
            [json!({ "id": 2, "result": "0x1" }), json!({ "id": 1, "result": "0x1" })];
        let faults = RpcFaults { wrong: Some(WrongAnswer::Fees), ..RpcFaults::default() };
        change_answers(&calls, &mut answers, None, &faults);
        let changed = [json!({ "id": 2, "result": "0x1" }), json!({ "id": 1, "result": "0x3e8" })];
        assert_eq!(answers, changed);
    }
}
