//! The callers: each sends its intents one call after the other, until every intent has an outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_client::{FORWARDED, Node, OWNER, Outcome, Problem, Route};
use tollgate_http::HttpResponse;

use crate::RESPONSE_TIMEOUT;
use crate::plan::Plan;
use crate::record::{IntentOutcome, Run};

/// The resolution of timers: a call of an open loop begins at most this much before its time rather than after it.
const TIMER_TICK: Duration = Duration::from_millis(1);
/// A call of an open loop that begins this much after its time is late.
const LATE: Duration = Duration::from_millis(10);
/// The pause if the response has no `Retry-After`.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after an unreachable node, or before another node.
const SHORT_PAUSE: Duration = Duration::from_millis(50);

/// The load of a run.
pub(crate) struct Load {
    plan: Arc<Plan>,
    nodes: Arc<Vec<Node>>,
    run: Arc<Run>,
    patience: Duration,
    next: AtomicU64,
    route: Route,
}

/// A node's answer for one intent.
enum Reply {
    /// 202.
    Accepted,
    /// 200.
    Known,
    /// Send it again: here, or at another node.
    Retry { code: String, elsewhere: bool, maybe_done: bool },
    /// Refused for good.
    Refused(String),
}

#[derive(Deserialize)]
struct BatchAnswer {
    items: Vec<ItemAnswer>,
}

#[derive(Deserialize)]
struct ItemAnswer {
    status: u16,
    error: Option<Problem>,
}

/// One call with the intents that have no outcome yet.
struct Call {
    numbers: Vec<u64>,
    begun: Instant,
    /// Sent before.
    repeated: bool,
    /// An earlier try may have been executed.
    maybe_done: bool,
}

impl Load {
    pub(crate) fn new(
        plan: Arc<Plan>,
        nodes: Arc<Vec<Node>>,
        run: Arc<Run>,
        patience: Duration,
    ) -> Option<Arc<Self>> {
        let route = Route::new(nodes.iter().map(|node| node.url().to_owned()))?;
        Some(Arc::new(Self { plan, nodes, run, patience, next: AtomicU64::new(0), route }))
    }

    /// Sends all intents; returns when each has its outcome.
    pub(crate) async fn run(self: &Arc<Self>, callers: u32) {
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let load = self.clone();
            tasks.spawn(async move { load.run_caller().await });
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn run_caller(&self) {
        while let Some(numbers) = self.take() {
            let begun = self.begin(numbers[0]).await;
            let mut call = Call { numbers, begun, repeated: false, maybe_done: false };
            while !call.numbers.is_empty() {
                self.send(&mut call).await;
            }
        }
    }

    /// Waits for the arrival of a call, and returns from when its latency is measured: in an open loop from its
    /// arrival, however late all callers were.
    async fn begin(&self, first: u64) -> Instant {
        let Some(arrival) = self.plan.arrival(first).map(|after| self.run.begun() + after) else {
            return Instant::now();
        };
        tokio::time::sleep_until(arrival.checked_sub(TIMER_TICK).unwrap_or(arrival)).await;
        let now = Instant::now();
        if now > arrival + LATE {
            self.run.note_late();
        }
        arrival.min(now)
    }

    /// The next intents that no caller has taken yet.
    fn take(&self) -> Option<Vec<u64>> {
        let first = self.next.fetch_add(self.plan.batch, Ordering::Relaxed);
        let begins = self.plan.arrival(first).unwrap_or_else(|| self.run.elapsed());
        if self.plan.duration.is_some_and(|duration| begins >= duration) {
            return None;
        }
        let end = (first + self.plan.batch).min(self.plan.count);
        (first < end).then(|| (first..end).collect())
    }

    /// Sends a call once. Intents to send again stay in it, and the pause before that is over.
    async fn send(&self, call: &mut Call) {
        let submitter = self.plan.submitter(call.numbers[0]);
        let node = self.route.node_for(submitter);
        let (single, mut body) = (self.plan.batch == 1, String::new());
        match single {
            true => self.plan.write(call.numbers[0], &mut body),
            false => self.plan.write_batch(&call.numbers, &mut body),
        }
        let path = if single { "/api/v1/tx" } else { "/api/v1/tx/batch" };
        let response = self.nodes[node].send(Method::POST, path, body.into(), RESPONSE_TIMEOUT);
        let count = call.numbers.len();
        let (replies, pause) = match response.await {
            Ok(response) => {
                self.run.answered(response.headers.contains_key(FORWARDED));
                if let Some(owner) = response.header(OWNER) {
                    self.route.learn(submitter, owner);
                }
                let replies =
                    if single { vec![read_one(&response)] } else { read_batch(&response, count) };
                (replies, response.retry_after().unwrap_or(PAUSE))
            }
            Err(_) => (repeat(count, || unclear("connection", true)), SHORT_PAUSE),
        };
        let elsewhere = self.record(call, replies);
        if call.numbers.is_empty() {
            return;
        }
        if elsewhere {
            self.route.move_on(submitter, node);
        }
        let pause = if elsewhere && self.nodes.len() > 1 { SHORT_PAUSE } else { pause };
        tokio::time::sleep(pause).await;
    }

    /// Records the replies and keeps the intents to send again; returns whether at another node.
    fn record(&self, call: &mut Call, replies: Vec<Reply>) -> bool {
        let (run, begun) = (&self.run, call.begun);
        let is_over = begun.elapsed() >= self.patience;
        let (mut again, mut at_another, mut maybe_done) = (Vec::new(), false, call.maybe_done);
        for (number, reply) in std::mem::take(&mut call.numbers).into_iter().zip(replies) {
            match reply {
                Reply::Accepted => run.settle(number, IntentOutcome::Accepted, begun),
                // The answer to an earlier try was lost.
                Reply::Known if call.repeated => run.settle(number, IntentOutcome::Accepted, begun),
                Reply::Known => run.settle(number, IntentOutcome::Known, begun),
                Reply::Retry { code, .. } if is_over => {
                    run.give_up(number, IntentOutcome::Unclear, &code, begun);
                }
                Reply::Retry { code, elsewhere, maybe_done: unclear } => {
                    run.retry(&code);
                    (at_another, maybe_done) = (at_another | elsewhere, maybe_done | unclear);
                    again.push(number);
                }
                Reply::Refused(code) => {
                    let outcome = match call.maybe_done {
                        true => IntentOutcome::Unclear,
                        false => IntentOutcome::Refused,
                    };
                    run.give_up(number, outcome, &code, begun);
                }
            }
        }
        (call.numbers, call.repeated, call.maybe_done) = (again, true, maybe_done);
        at_another
    }
}

fn unclear(code: &str, elsewhere: bool) -> Reply {
    Reply::Retry { code: code.to_owned(), elsewhere, maybe_done: true }
}

fn repeat(count: usize, reply: impl Fn() -> Reply) -> Vec<Reply> {
    (0..count).map(|_| reply()).collect()
}

/// The answer to a single create. The body is parsed only where the status is not enough.
fn read_one(response: &HttpResponse) -> Reply {
    match response.status {
        202 => Reply::Accepted,
        200 => Reply::Known,
        status => judge(status, serde_json::from_slice(&response.body).ok()),
    }
}

fn read_batch(response: &HttpResponse, count: usize) -> Vec<Reply> {
    let items = match response.status {
        200 => serde_json::from_slice::<BatchAnswer>(&response.body).ok(),
        _ => return repeat(count, || read_one(response)),
    };
    match items.filter(|answer| answer.items.len() == count) {
        Some(answer) => answer.items.into_iter().map(read_item).collect(),
        None => repeat(count, || unclear("unreadable_answer", false)),
    }
}

fn read_item(item: ItemAnswer) -> Reply {
    match item.status {
        202 => Reply::Accepted,
        200 => Reply::Known,
        status => judge(status, item.error),
    }
}

fn judge(status: u16, problem: Option<Problem>) -> Reply {
    match Outcome::of(status, problem) {
        Outcome::Done => Reply::Accepted,
        Outcome::Retry { problem, elsewhere, maybe_done } => {
            Reply::Retry { code: problem.code, elsewhere, maybe_done }
        }
        Outcome::Refused(problem) => Reply::Refused(problem.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> HttpResponse {
        HttpResponse { status, headers: hyper::HeaderMap::new(), body: body.into() }
    }

    #[test]
    fn reply_follows_from_status_and_problem() {
        assert!(matches!(read_one(&answer(202, "")), Reply::Accepted));
        assert!(matches!(read_one(&answer(200, "")), Reply::Known));
        let busy = answer(429, r#"{"code":"busy","retryable":true}"#);
        assert!(matches!(read_one(&busy), Reply::Retry { code, .. } if code == "busy"));
        let bad = answer(422, r#"{"code":"invalid_address","detail":"x"}"#);
        assert!(matches!(read_one(&bad), Reply::Refused(code) if code == "invalid_address"));
    }

    #[test]
    fn batch_answer_has_one_reply_per_item() {
        let body = r#"{"items":[{"status":202,"tx":{"a":[1]}},
            {"status":429,"error":{"code":"busy","retryable":true}}]}"#;
        let replies = read_batch(&answer(200, body), 2);
        assert!(matches!(replies[0], Reply::Accepted) && matches!(replies[1], Reply::Retry { .. }));
        let short = read_batch(&answer(200, body), 3);
        assert!(short.iter().all(|reply| matches!(reply, Reply::Retry { maybe_done: true, .. })));
        assert_eq!(read_batch(&answer(503, ""), 3).len(), 3);
    }
}
