//! A scripted node: JSON-RPC over HTTP and WebSocket, with faults.

mod answers;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use answers::{result_of, wire_of};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{Address, B256, Nonce, TxHash};

/// The account of most questions.
pub(crate) const SOMEBODY: Address = Address::repeat_byte(0x11);

/// The behaviour of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Behaviour {
    /// Answers.
    #[default]
    Normal,
    /// Drops every connection.
    Down,
    /// Never answers.
    Hangs,
    /// A proxy's page.
    BadGateway,
    /// 429, with `Retry-After`.
    Limited(u64),
}

/// The answer to a send.
#[derive(Clone, Debug, Default)]
pub(crate) enum SendBehaviour {
    /// The hash.
    #[default]
    Accepts,
    /// Another hash.
    AnotherHash,
    /// A JSON-RPC error.
    Fails(&'static str),
    /// Nothing, but it was taken.
    LosesAnswer,
    /// Nothing, and a WebSocket stays open.
    Swallows,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) behaviour: Behaviour,
    pub(crate) send_behaviour: SendBehaviour,
    pub(crate) chain_id: u64,
    pub(crate) branch: Vec<(BlockRef, Vec<TxHash>)>,
    pub(crate) base_fee: Option<u64>,
    pub(crate) mined: u64,
    pub(crate) pending: u64,
    /// Questions for pending counts are never answered: the connection breaks.
    pub(crate) mutes_pool: bool,
    pub(crate) finalized: Option<u64>,
    /// A fixed answer for the tag `finalized`.
    pub(crate) finalized_as: Option<Value>,
    /// The newest block that it tells is so far above the newest that it has.
    pub(crate) head_ahead: u64,
    /// Methods that are answered with -32601.
    pub(crate) missing: HashSet<&'static str>,
    /// Fixed answers, before everything else.
    pub(crate) fixed: HashMap<&'static str, Result<Value, Value>>,
    pub(crate) failed: HashSet<TxHash>,
    /// Receipts that are answered with an error, and are missing among those of their block.
    pub(crate) unreadable: HashSet<TxHash>,
    /// Fields that each receipt has besides.
    pub(crate) receipt_extras: Value,
    pub(crate) in_pool: HashSet<TxHash>,
    /// The senders and slots of these transactions: shown in full blocks and counted at past
    /// ones.
    pub(crate) slots: HashMap<TxHash, (Address, u64)>,
    /// States of blocks before this one are gone.
    pub(crate) oldest_state: u64,
    /// The count that it answers there, if it does not say that they are gone.
    pub(crate) counts_without_state: Option<u64>,
    /// Changes right after a call of a method was answered, each time.
    pub(crate) after: HashMap<&'static str, fn(&mut Self)>,
    /// The answer of `eth_estimateGas` to more than a call.
    pub(crate) estimates_take_one: Option<Value>,
    /// Many calls in one are answered with an error.
    pub(crate) no_batches: bool,
    /// Many calls in one are taken, and their answer is lost.
    pub(crate) loses_batches: bool,
    /// The answer to the call in this place of a batch is left out, though it was taken.
    pub(crate) leaves_out: Option<usize>,
    /// Refusals of single transactions of a batch: their bytes, and the text.
    pub(crate) refused: Vec<(String, &'static str)>,
    /// Calls in a second; more are answered with 429, and count as well.
    pub(crate) quota: Option<usize>,
    quota_used: Option<(Instant, usize)>,
    /// The number of requests that were answered so.
    pub(crate) above_quota: usize,
    /// Added to the id of each answer.
    pub(crate) id_shift: u64,
    pub(crate) calls: Vec<String>,
    pub(crate) in_flight: usize,
    pub(crate) most_in_flight: usize,
}

impl State {
    fn swallows(&self) -> bool {
        matches!(self.send_behaviour, SendBehaviour::Swallows)
    }

    /// Uses so much of the quota; whether that is too much.
    fn is_above_quota(&mut self, calls: usize) -> bool {
        let Some(quota) = self.quota else { return false };
        let now = Instant::now();
        let (since, used) = self.quota_used.get_or_insert((now, 0));
        if now - *since >= Duration::from_secs(1) {
            (*since, *used) = (now, 0);
        }
        *used += calls;
        let is_above = *used > quota;
        self.above_quota += usize::from(is_above);
        is_above
    }
}

/// A block's name: the branch it is on, and its number.
pub(crate) fn block(branch: u8, number: u64) -> BlockRef {
    let name = |branch: u8, number: u64| {
        let mut hash = B256::with_last_byte(branch);
        hash[..8].copy_from_slice(&number.to_be_bytes());
        hash
    };
    // All branches begin with the same block.
    let of = |number: u64| name(if number == 0 { 0 } else { branch }, number);
    let parent = number.checked_sub(1).map_or(B256::ZERO, of);
    BlockRef { number, hash: of(number), parent }
}

pub(crate) struct Node {
    state: Arc<Mutex<State>>,
    heads: Arc<watch::Sender<u64>>,
    http: String,
    ws: String,
    _tasks: JoinSet<()>,
}

impl Node {
    /// A node on chain 31337 with blocks 0 to 10.
    pub(crate) async fn start() -> Self {
        let state = State {
            chain_id: 31_337,
            branch: (0..=10).map(|number| (block(1, number), Vec::new())).collect(),
            base_fee: Some(1_000),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let heads = Arc::new(watch::channel(0).0);
        let mut tasks = JoinSet::new();
        let listen = async || {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            (listener, port)
        };
        let (http, http_port) = listen().await;
        tasks.spawn(serve_http(http, state.clone()));
        let (ws, ws_port) = listen().await;
        tasks.spawn(serve_ws(ws, state.clone(), heads.clone()));
        let http = format!("http://127.0.0.1:{http_port}/key-0123456789");
        let ws = format!("ws://127.0.0.1:{ws_port}/");
        Self { state, heads, http, ws, _tasks: tasks }
    }

    pub(crate) fn http(&self) -> EndpointConfig {
        EndpointConfig::new(&self.http)
    }

    pub(crate) fn http_as(&self, role: Role) -> EndpointConfig {
        EndpointConfig { role, ..self.http() }
    }

    pub(crate) fn ws(&self) -> EndpointConfig {
        EndpointConfig::new(&self.ws)
    }

    /// For a node that will hang: a time-out that a test can wait for.
    pub(crate) fn impatient(&self) -> EndpointConfig {
        EndpointConfig { timeout: Duration::from_millis(300), ..self.http() }
    }

    pub(crate) fn set(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Mines a block on a branch on top of `below`, and announces it.
    pub(crate) fn mine(&self, branch: u8, number: u64, transactions: Vec<TxHash>) -> BlockRef {
        let at = block(branch, number);
        let mut state = self.set();
        state.branch.retain(|(block, _)| block.number < number);
        state.branch.push((at, transactions));
        drop(state);
        self.heads.send_modify(|count| *count += 1);
        at
    }

    pub(crate) fn calls_of(&self, method: &str) -> usize {
        self.set().calls.iter().filter(|call| *call == method).count()
    }
}

/// A chain over these endpoints, with short times.
pub(crate) fn config(endpoints: Vec<EndpointConfig>) -> ChainConfig {
    ChainConfig {
        poll_interval: Duration::from_millis(20),
        send_patience: Duration::from_millis(300),
        lag_grace: Duration::from_millis(100),
        ..ChainConfig::new(endpoints)
    }
}

pub(crate) async fn connect(endpoints: Vec<EndpointConfig>) -> EvmChain {
    EvmChain::connect(config(endpoints)).await.unwrap()
}

/// Waits until every endpoint has reported this head.
pub(crate) async fn heads_at(chain: &EvmChain, number: u64) {
    until("every endpoint reports its head", || async {
        let endpoints = chain.endpoints();
        endpoints.iter().all(|endpoint| endpoint.head.is_some_and(|head| head.number == number))
    })
    .await;
}

/// A node, and a chain over it.
pub(crate) async fn one_node() -> (Node, EvmChain) {
    let node = Node::start().await;
    let chain = connect(vec![node.http()]).await;
    (node, chain)
}

/// Two nodes, and a chain over them that has heard both.
pub(crate) async fn two_nodes() -> (Node, Node, EvmChain) {
    let (one, two) = (Node::start().await, Node::start().await);
    let chain = connect(vec![one.http(), two.http()]).await;
    heads_at(&chain, 10).await;
    (one, two, chain)
}

pub(crate) fn nonce(nonce: u64) -> Nonce {
    Nonce::new(nonce).unwrap()
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect(what);
}

async fn serve_http(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = state.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer_http(state.clone(), request));
            let server = hyper::server::conn::http1::Builder::new();
            // A node that is down drops its connections: that is an error here.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer_http(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let body = request.into_body().collect().await.map_err(|_| "cut off")?.to_bytes();
    let (behaviour, is_above_quota) = {
        let mut state = state.lock().unwrap();
        let call: Value = serde_json::from_slice(&body).unwrap();
        let method = if call.is_array() { "batch" } else { call["method"].as_str().unwrap() };
        state.calls.push(method.to_owned());
        let is_above_quota = state.is_above_quota(call.as_array().map_or(1, Vec::len));
        (state.behaviour, is_above_quota)
    };
    let page = |status: u16, text: &'static str| {
        Response::builder().status(status).body(Full::new(Bytes::from(text))).unwrap()
    };
    match behaviour {
        _ if is_above_quota => return Ok(page(429, "Too Many Requests")),
        Behaviour::Down => return Err("down"),
        Behaviour::BadGateway => {
            let html = "<html><body><h1>502 Bad Gateway</h1>nginx</body></html>";
            return Ok(page(502, html));
        }
        Behaviour::Limited(seconds) => {
            let mut limited = page(429, "Too Many Requests");
            limited.headers_mut().insert("retry-after", seconds.into());
            return Ok(limited);
        }
        Behaviour::Hangs | Behaviour::Normal => {}
    }
    let answered = match serde_json::from_slice::<Vec<Value>>(&body) {
        Ok(calls) => answer_batch(&state, calls).await,
        Err(_) => answer(&state, &body).await,
    };
    match answered {
        Some(answer) => {
            let status = if answer.get("error").is_some() { 400 } else { 200 };
            let body = Full::new(Bytes::from(answer.to_string()));
            Ok(Response::builder().status(status).body(body).unwrap())
        }
        None => Err("lost"),
    }
}

/// Answers a batch, last one first: an order that is allowed.
async fn answer_batch(state: &Mutex<State>, calls: Vec<Value>) -> Option<Value> {
    if state.lock().unwrap().no_batches {
        let error = json!({"code": -32600, "message": "batch requests are not supported"});
        return Some(json!({"jsonrpc": "2.0", "id": null, "error": error}));
    }
    let (loses, leaves_out) = {
        let state = state.lock().unwrap();
        (state.loses_batches, state.leaves_out)
    };
    let mut answers = Vec::new();
    for (place, call) in calls.iter().enumerate().rev() {
        let answer = answer(state, call.to_string().as_bytes()).await?;
        if leaves_out != Some(place) {
            answers.push(answer);
        }
    }
    (!loses).then_some(Value::Array(answers))
}

async fn serve_ws(listener: TcpListener, state: Arc<Mutex<State>>, heads: Arc<watch::Sender<u64>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(talk_ws(stream, state.clone(), heads.subscribe()));
    }
}

async fn talk_ws(stream: TcpStream, state: Arc<Mutex<State>>, mut heads: watch::Receiver<u64>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let mut subscribed = false;
    loop {
        enum Woken {
            Said(Option<Message>),
            Mined,
        }
        let woken = tokio::select! {
            message = socket.next() => Woken::Said(message.and_then(Result::ok)),
            _ = heads.changed(), if subscribed => Woken::Mined,
        };
        let text = match woken {
            Woken::Said(None) => return,
            Woken::Said(Some(message)) => {
                if state.lock().unwrap().behaviour == Behaviour::Down {
                    return;
                }
                let Ok(text) = message.to_text() else { continue };
                if text.is_empty() {
                    continue;
                }
                let call: Value = serde_json::from_str(text).unwrap();
                let method = call["method"].as_str().unwrap().to_owned();
                state.lock().unwrap().calls.push(method);
                if call["method"] == "eth_subscribe"
                    && !state.lock().unwrap().missing.contains("eth_subscribe")
                {
                    subscribed = true;
                    json!({"jsonrpc": "2.0", "id": call["id"], "result": "0xsub"})
                } else {
                    match answer(&state, text.as_bytes()).await {
                        Some(answer) => answer,
                        None if state.lock().unwrap().swallows() => continue,
                        None => return,
                    }
                }
            }
            Woken::Mined => {
                let head = wire_of(&state.lock().unwrap(), |branch| branch.last().cloned());
                let params = json!({"subscription": "0xsub", "result": head});
                json!({"jsonrpc": "2.0", "method": "eth_subscription", "params": params})
            }
        };
        if socket.send(Message::text(text.to_string())).await.is_err() {
            return;
        }
    }
}

/// Answers a call; `None` loses the answer.
async fn answer(state: &Mutex<State>, body: &[u8]) -> Option<Value> {
    let call: Value = serde_json::from_slice(body).unwrap();
    let method = call["method"].as_str().unwrap().to_owned();
    let hangs = {
        let mut state = state.lock().unwrap();
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        state.behaviour == Behaviour::Hangs
    };
    if hangs {
        let never: Infallible = std::future::pending().await;
        match never {}
    }
    tokio::task::yield_now().await;
    let mut state = state.lock().unwrap();
    state.in_flight -= 1;
    if state.mutes_pool && call["params"][1] == "pending" {
        return None;
    }
    let id = call["id"].as_u64().unwrap() + state.id_shift;
    let result = if state.missing.contains(&*method) {
        Err(json!({"code": -32601, "message": format!("the method {method} does not exist")}))
    } else if let Some((_, said)) = state.refused.iter().find(|(raw, _)| call["params"][0] == **raw)
    {
        Err(json!({"code": -32000, "message": said}))
    } else if let Some(fixed) = state.fixed.get(&*method) {
        fixed.clone()
    } else {
        result_of(&state, &method, &call["params"])?
    };
    if let Some(change) = state.after.get(&*method).copied() {
        change(&mut state);
    }
    Some(match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    })
}
