//! Callers that don't give up: they repeat, race, and come back to what was done long ago.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::from_value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tollgate_api::{Batch, BatchAnswer, BatchItem, Create, Problem, path};
use tollgate_devchain::chain::Rng;
use tollgate_testkit::http::Response;

use crate::cluster::{Cluster, RESERVING, SECOND, SENDING, STRICT};
use crate::event_log::{Accepted, EventLog};
use crate::order::{Order, call, has_retry_after, note_refusal};
use crate::plan::below;
use crate::reservers::Reserver;

/// The pause before a create is repeated, in milliseconds.
const REPEAT_MILLIS: u64 = 300;

/// The pause between two creates of a pipelined account is below that many milliseconds.
const PAUSE_MILLIS: u64 = 400;

/// The pause between two creates of a strict account.
const STRICT_PAUSE: Duration = Duration::from_secs(4);

/// An account's creates that may be accepted and not final: a slow machine gets less work, not a
/// longer queue.
const OPEN_MAX: u64 = 200;
const STRICT_OPEN_MAX: u64 = 2;

/// Of a hundred turns so many race one create at several nodes, are a batch, or repeat an old one.
const RACES: u64 = 12;
const BATCHES: u64 = 4;
const REPEATS: u64 = 8;

/// Of a hundred turns so many are an action on a transaction of the last few.
const ACTIONS: u64 = 8;
const RECENT: u64 = 6;

/// The allowed answers to an action: done, refused as things are, too much, or not now.
const ACTION_ANSWERS: [u16; 6] = [200, 202, 409, 422, 429, 503];

/// The longest batch.
const BATCH_MAX: u64 = 6;

/// One caller for each account, and one for each that reserves nonces.
pub(crate) struct Clients {
    tasks: Vec<JoinHandle<()>>,
    done: Arc<AtomicBool>,
}

impl Clients {
    /// Starts calling.
    pub(crate) fn start(cluster: &Cluster, log: &Arc<EventLog>, seed: u64) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let client = |account: usize| Client {
            account,
            ports: cluster.ports(),
            port_without_key: cluster.port_without_key(account),
            log: log.clone(),
            rng: Rng::new(seed.wrapping_add(account as u64).wrapping_mul(0x9e37_79b9)),
            next: 0,
            done: done.clone(),
        };
        let reserver = |account| Reserver::new(cluster, log, &done, (seed, account));
        let tasks = SENDING
            .chain(SECOND)
            .map(|account| tokio::spawn(client(account).call()))
            .chain(RESERVING.map(|account| tokio::spawn(reserver(account).reserve())))
            .collect();
        Self { tasks, done }
    }

    /// No new creates; waits until all that were begun are taken. Whether that came within a limit.
    pub(crate) async fn end(self, limit: Duration) -> bool {
        self.done.store(true, Ordering::Relaxed);
        let ends = self.tasks.iter().map(JoinHandle::abort_handle).collect::<Vec<_>>();
        match timeout(limit, join_all(self.tasks)).await {
            Ok(ended) => {
                ended.into_iter().for_each(|task| task.expect("a caller does not die"));
                true
            }
            Err(_) => {
                ends.iter().for_each(tokio::task::AbortHandle::abort);
                false
            }
        }
    }
}

struct Client {
    account: usize,
    ports: Vec<u16>,
    /// The node that lacks the account's key.
    port_without_key: Option<u16>,
    log: Arc<EventLog>,
    rng: Rng,
    /// The number of the next create.
    next: u64,
    done: Arc<AtomicBool>,
}

impl Client {
    async fn call(mut self) {
        while !self.done.load(Ordering::Relaxed) {
            sleep(self.pause()).await;
            let open_max = if self.is_strict() { STRICT_OPEN_MAX } else { OPEN_MAX };
            if self.log.open(self.account) < open_max {
                self.turn().await;
            }
        }
    }

    fn is_strict(&self) -> bool {
        STRICT.contains(&self.account)
    }

    fn pause(&mut self) -> Duration {
        if self.is_strict() {
            STRICT_PAUSE
        } else {
            Duration::from_millis(self.rng.below(PAUSE_MILLIS))
        }
    }

    async fn turn(&mut self) {
        let draw = self.rng.below(100);
        if draw < REPEATS && self.next > 0 {
            let old = Order::new(self.account, self.rng.below(self.next));
            let port = self.port();
            self.ask_once(port, &old).await;
        } else if draw < REPEATS + BATCHES && !self.is_strict() {
            self.batch().await;
        } else if draw < REPEATS + BATCHES + ACTIONS && self.next > 0 {
            self.act().await;
        } else {
            let order = self.new_order();
            let is_race = draw >= 100 - RACES;
            let at_once = if is_race { 2 + below(&mut self.rng, self.ports.len() - 1) } else { 1 };
            let first = below(&mut self.rng, self.ports.len());
            let ports = (0..at_once).map(|n| self.ports[(first + n) % self.ports.len()]);
            let asked: Vec<u16> = ports.collect();
            let answers = join_all(asked.iter().map(|port| self.ask_once(*port, &order))).await;
            if !answers.contains(&true) {
                self.insist(&order).await;
            }
        }
    }

    /// Asks for something to be done to a transaction of the last few, as an operator does: once, at any
    /// node. Whatever is answered, only a cancel may change how it ends.
    async fn act(&mut self) {
        let number = self.next.saturating_sub(1 + self.rng.below(RECENT));
        let order = Order::new(self.account, number);
        let Some(tx_id) = self.log.tx_of(&order.request()) else { return };
        let action = ["cancel", "speed-up", "resubmit"][below(&mut self.rng, 3)];
        if action == "cancel" {
            self.log.cancels(&tx_id);
        }
        let port = self.port();
        let path = format!("{}/{action}", path::tx(&tx_id));
        let Some(said) = self.post(port, &path, None::<&Create>).await else { return };
        let problem: Option<Problem> = from_value(said.body.clone()).ok();
        let code = problem.as_ref().map_or("done", |problem| &problem.code);
        self.log.answer(format!("{action}: {} {code}", said.status));
        if !ACTION_ANSWERS.contains(&said.status) {
            let what = format!("{action} of {tx_id} was answered {}: {}", said.status, said.body);
            self.log.violation(what);
        }
    }

    fn new_order(&mut self) -> Order {
        self.next += 1;
        Order::new(self.account, self.next - 1)
    }

    fn port(&mut self) -> u16 {
        self.ports[below(&mut self.rng, self.ports.len())]
    }

    /// Asks until it is taken.
    async fn insist(&mut self, order: &Order) {
        loop {
            let millis = self.rng.below(REPEAT_MILLIS);
            sleep(Duration::from_millis(millis)).await;
            let port = self.port();
            if self.ask_once(port, order).await {
                return;
            }
        }
    }

    /// Sends a create once; returns true if it was accepted.
    async fn ask_once(&self, port: u16, order: &Order) -> bool {
        let Some(said) = self.post(port, path::TX, Some(&order.create())).await else {
            return false;
        };
        let hint = has_retry_after(&said);
        let tx = from_value(said.body.clone()).ok();
        let error = from_value(said.body).ok();
        let item = BatchItem { status: said.status, tx, error };
        self.judge(order, item, (hint, self.has_key(port)))
    }

    async fn batch(&mut self) {
        let count = 2 + self.rng.below(BATCH_MAX - 1);
        let orders: Vec<Order> = (0..count).map(|_| self.new_order()).collect();
        let batch = Batch { items: orders.iter().map(Order::create).collect() };
        let port = self.port();
        let said = self.post(port, path::BATCH, Some(&batch)).await;
        let mut missing = orders;
        match said {
            Some(said) if said.status == 200 => {
                let answer = from_value(said.body).map(|answer: BatchAnswer| answer.items);
                let items = answer.unwrap_or_default();
                if items.len() != missing.len() {
                    self.log.violation(format!("{} answers to {count} items", items.len()));
                }
                let mut answers = items.into_iter();
                missing.retain(|order| {
                    let Some(item) = answers.next() else { return true };
                    // An item has no headers: `retryable` is what it can say.
                    !self.judge(order, item, (true, self.has_key(port)))
                });
            }
            Some(said) => {
                let asked = (has_retry_after(&said), self.has_key(port));
                let problem = from_value(said.body).ok();
                note_refusal(&self.log, "a batch", said.status, problem, asked);
            }
            None => {}
        }
        for order in missing {
            self.insist(&order).await;
        }
    }

    async fn post(&self, port: u16, path: &str, body: Option<&impl Serialize>) -> Option<Response> {
        let body = body.map(|body| serde_json::to_string(body).unwrap()).unwrap_or_default();
        call(&self.log, port, ("POST", path), &body).await
    }

    /// Records an answer; returns true if the create was accepted.
    fn judge(&self, order: &Order, answer: BatchItem, asked: (bool, bool)) -> bool {
        let (BatchItem { status, tx, error }, request_id) = (answer, order.request_id());
        if ![200, 202].contains(&status) {
            note_refusal(&self.log, &request_id, status, error, asked);
            return false;
        }
        self.log.answer(status.to_string());
        let Some(tx) = tx else {
            self.log.violation(format!("{request_id} was accepted without a transaction"));
            return true;
        };
        if tx.request_id.as_ref() != Some(&request_id) {
            self.log.violation(format!("{request_id} was answered with {tx:?}"));
        }
        let Order { account, value } = *order;
        if tx.chain_id != order.chain_id() {
            self.log.violation(format!("{} was accepted for {}", order.request(), tx.chain_id));
        }
        self.log.accept(&order.request(), Accepted { account, value, tx_id: tx.tx_id });
        true
    }

    /// Returns true if a node has the key of the account.
    fn has_key(&self, port: u16) -> bool {
        self.port_without_key != Some(port)
    }
}
