//! JSON-RPC in front of a chain that can't be told to misbehave: one for each node, with faults of
//! its own.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{hex, keccak256};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
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

use crate::lag::{ask_behind, hide_newer};
use crate::lies::Lie;

/// How long a slow answer takes at least, and by how much more at most: beyond the five seconds that
/// a node waits for an endpoint.
const SLOW_MILLIS_MIN: u64 = 200;
const SLOW_MILLIS_SPAN: u64 = 6_000;

/// How often a silent endpoint looks whether it may speak again.
const SILENCE_LOOK: Duration = Duration::from_millis(100);

/// What goes wrong; shares are of a hundred calls. Nothing by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Faults {
    /// Every connection ends.
    pub(crate) is_cut: bool,
    /// Calls that don't arrive.
    pub(crate) lost_requests: u64,
    /// Calls that are carried out and not answered.
    pub(crate) lost_answers: u64,
    /// Calls that are answered late.
    pub(crate) slow: u64,
    /// Calls that are answered with an error of HTTP.
    pub(crate) errors: u64,
    /// Sends that are answered as if they were taken, and are not passed on.
    pub(crate) forgotten: u64,
    /// What it says against the truth.
    pub(crate) lie: Option<Lie>,
    /// Takes calls and never answers.
    pub(crate) is_silent: bool,
    /// Calls in a second, at most; those of a batch count each.
    pub(crate) quota: Option<u64>,
    /// Blocks that it is behind.
    pub(crate) lag: u64,
}

/// Passes calls on, but for its faults. Stops when it is dropped.
pub(crate) struct Proxy {
    url: String,
    faults: Arc<Mutex<Faults>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// In front of this node of the chain. What befalls which call is drawn from a seed. Of a hundred
    /// calls `steady_errors` fail, whatever else goes wrong.
    pub(crate) async fn to(node: &str, seed: u64, steady_errors: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let faults = Arc::new(Mutex::new(Faults::default()));
        let seat = Seat {
            node: node.to_owned(),
            faults: faults.clone(),
            steady_errors,
            rng: Arc::new(Mutex::new(Rng::new(seed))),
            second: Arc::new(Mutex::new((Instant::now(), 0))),
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
        };
        Self { url, faults, task: tokio::spawn(serve(listener, seat)) }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Changes what goes wrong.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock().unwrap());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Seat {
    node: String,
    faults: Arc<Mutex<Faults>>,
    steady_errors: u64,
    rng: Arc<Mutex<Rng>>,
    /// When the running second began, and how many calls it has had.
    second: Arc<Mutex<(Instant, u64)>>,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// There is no answer: the connection ends.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("lost")
    }
}

impl std::error::Error for Lost {}

type Answer = Response<Full<Bytes>>;

async fn serve(listener: TcpListener, seat: Seat) {
    while let Ok((client, _)) = listener.accept().await {
        if !seat.faults().is_cut {
            tokio::spawn(talk(client, seat.clone()));
        }
    }
}

async fn talk(client: TcpStream, seat: Seat) {
    let service = service_fn(|request| {
        let seat = seat.clone();
        async move { seat.answer(request).await }
    });
    // A caller that went away, or a fault that ends the connection.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
}

impl Seat {
    fn faults(&self) -> Faults {
        *self.faults.lock().unwrap()
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap().below(bound)
    }

    fn befalls(&self, share: u64) -> bool {
        share > 0 && self.below(100) < share
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Lost> {
        let body = request.into_body().collect().await.map_err(|_| Lost)?.to_bytes();
        let faults = self.faults();
        if faults.is_cut || self.befalls(faults.lost_requests) {
            return Err(Lost);
        }
        if self.is_silent_to_the_end().await {
            return Err(Lost);
        }
        if faults.quota.is_some_and(|quota| self.is_over(quota, &body)) {
            return Ok(too_many());
        }
        if self.befalls(faults.errors) {
            return self.error(body).await;
        }
        if self.befalls(self.steady_errors) {
            return Ok(status(StatusCode::SERVICE_UNAVAILABLE, "no backend"));
        }
        let answer = if faults.forgotten > 0 {
            self.forgetful(&body, faults.forgotten).await?
        } else if faults.lag > 0 {
            self.behind(&body, faults.lag).await?
        } else {
            self.pass_on(body.clone()).await?
        };
        let answer = match faults.lie {
            Some(lie) => self.bent(lie, &body, answer).await?,
            None => answer,
        };
        if self.befalls(faults.slow) {
            let millis = SLOW_MILLIS_MIN + self.below(SLOW_MILLIS_SPAN);
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        // A cut is a cut for what is on its way, too.
        if self.faults().is_cut || self.befalls(faults.lost_answers) {
            return Err(Lost);
        }
        Ok(answer)
    }

    /// Says nothing for as long as it is silent; whether it was.
    async fn is_silent_to_the_end(&self) -> bool {
        let was = self.faults().is_silent;
        while self.faults().is_silent {
            tokio::time::sleep(SILENCE_LOOK).await;
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

    /// An answer with what an endpoint that lies makes of it.
    async fn bent(&self, lie: Lie, asked: &Bytes, answer: Answer) -> Result<Answer, Lost> {
        let text = answer.into_body().collect().await.unwrap_or_else(never).to_bytes();
        let asked: Value = serde_json::from_slice(asked).map_err(|_| Lost)?;
        let mut said: Value = serde_json::from_slice(&text).map_err(|_| Lost)?;
        lie.bend(&asked, &mut said);
        Ok(json_answer(Response::new(Full::from(said.to_string()))))
    }

    /// 429 means that nobody looked; behind a 503 the call may have been carried out.
    async fn error(&self, body: Bytes) -> Result<Answer, Lost> {
        Ok(match self.below(3) {
            0 => status(StatusCode::TOO_MANY_REQUESTS, "rate limit exceeded"),
            1 => status(StatusCode::SERVICE_UNAVAILABLE, "no backend"),
            _ => {
                self.pass_on(body).await?;
                status(StatusCode::SERVICE_UNAVAILABLE, "upstream timed out")
            }
        })
    }

    /// Answers as a node that is some blocks behind.
    async fn behind(&self, body: &Bytes, lag: u64) -> Result<Answer, Lost> {
        let question = json!({ "jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber" });
        let head = self.json(&question).await?;
        let head = head["result"].as_str().and_then(|head| head.strip_prefix("0x"));
        let head = u64::from_str_radix(head.ok_or(Lost)?, 16).map_err(|_| Lost)?;
        let head = head.saturating_sub(lag);
        let mut asked: Value = serde_json::from_slice(body).map_err(|_| Lost)?;
        ask_behind(&mut asked, head);
        let mut said = self.json(&asked).await?;
        hide_newer(&asked, &mut said, head);
        Ok(json_answer(Response::new(Full::from(said.to_string()))))
    }

    /// What the chain answers.
    async fn json(&self, asked: &Value) -> Result<Value, Lost> {
        let answer = self.pass_on(asked.to_string().into()).await?;
        let text = answer.into_body().collect().await.unwrap_or_else(never).to_bytes();
        serde_json::from_slice(&text).map_err(|_| Lost)
    }

    async fn pass_on(&self, body: Bytes) -> Result<Answer, Lost> {
        let request = Request::post(&self.node)
            .header("content-type", "application/json")
            .body(Full::from(body))
            .map_err(|_| Lost)?;
        let (head, body) = self.client.request(request).await.map_err(|_| Lost)?.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let mut answer = Response::new(Full::from(body));
        *answer.status_mut() = head.status;
        Ok(json_answer(answer))
    }

    /// Answers some sends by itself; the rest goes on, in one call.
    async fn forgetful(&self, body: &Bytes, share: u64) -> Result<Answer, Lost> {
        let asked: Value = serde_json::from_slice(body).map_err(|_| Lost)?;
        let Value::Array(calls) = asked else {
            return match self.forgets(&asked, share) {
                Some(answer) => Ok(json_answer(Response::new(Full::from(answer.to_string())))),
                None => self.pass_on(body.clone()).await,
            };
        };
        let (mut answers, mut rest) = (Vec::new(), Vec::new());
        for call in calls {
            match self.forgets(&call, share) {
                Some(answer) => answers.push(answer),
                None => rest.push(call),
            }
        }
        if !rest.is_empty() {
            let passed = self.json(&Value::Array(rest)).await?;
            answers.extend(passed.as_array().ok_or(Lost)?.iter().cloned());
        }
        let text = Value::Array(answers).to_string();
        Ok(json_answer(Response::new(Full::from(text))))
    }

    /// What a node says that takes a transaction, if this one is to be forgotten.
    fn forgets(&self, call: &Value, share: u64) -> Option<Value> {
        let is_send = call["method"] == "eth_sendRawTransaction";
        let raw = hex::decode(call["params"][0].as_str()?).ok()?;
        (is_send && self.befalls(share))
            .then(|| json!({ "jsonrpc": "2.0", "id": call["id"], "result": keccak256(raw) }))
    }
}

fn status(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer
}

fn too_many() -> Answer {
    let mut answer = status(StatusCode::TOO_MANY_REQUESTS, "rate limit exceeded");
    let wait = hyper::header::HeaderValue::from_static("1");
    answer.headers_mut().insert(hyper::header::RETRY_AFTER, wait);
    answer
}

fn json_answer(mut answer: Answer) -> Answer {
    let json = hyper::header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    answer
}

fn never<T>(impossible: Infallible) -> T {
    match impossible {}
}
