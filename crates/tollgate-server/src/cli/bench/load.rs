//! The callers: each makes its intents one call after the other, until every one has a fate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Method, Uri};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_client::{Advice, Problem, Route};
use tollgate_model::Address;

use super::plan::Plan;
use super::record::{Fate, Run};
use crate::cli::client::{Answer, Client, Target};

/// The pause where a node gives none.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause before a node is tried again that could not be reached, or that another one is asked.
const SHORT_PAUSE: Duration = Duration::from_millis(50);

/// The load of a run.
pub(super) struct Load {
    plan: Arc<Plan>,
    targets: Arc<Vec<Target>>,
    run: Arc<Run>,
    patience: Duration,
    next: AtomicU64,
    route: Route,
}

/// What a node said of one intent.
enum Word {
    /// 202.
    New,
    /// 200.
    Known,
    /// Ask again: here, or at another node.
    Later { code: String, elsewhere: bool, unclear: bool },
    /// Refused for good.
    No(String),
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

/// Intents on their way: those of one call.
struct Shipment {
    numbers: Vec<u64>,
    begun: Instant,
    /// Whether it was asked before, and whether an answer is owed.
    asked_before: bool,
    unclear: bool,
}

impl Load {
    pub(super) fn new(
        plan: Arc<Plan>,
        targets: Arc<Vec<Target>>,
        run: Arc<Run>,
        patience: Duration,
    ) -> Option<Arc<Self>> {
        let route = Route::new(targets.iter().map(|target| target.url().to_owned()))?;
        Some(Arc::new(Self { plan, targets, run, patience, next: AtomicU64::new(0), route }))
    }

    /// Makes all intents; returns when each has its fate.
    pub(super) async fn carry_out(self: &Arc<Self>, callers: u32) {
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let mut caller = Caller::new(self.clone());
            tasks.spawn(async move { caller.work().await });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Remembers who works for a submitter: the next call goes straight there.
    fn learn(&self, of: Address, answer: &Answer) {
        if let Some(owner) = answer.owner.as_ref().and_then(|url| url.to_str().ok()) {
            self.route.learn(of, owner);
        }
    }

    /// The next intents that nobody has taken yet.
    fn take(&self) -> Option<Vec<u64>> {
        if self.plan.duration.is_some_and(|duration| self.run.elapsed() >= duration) {
            return None;
        }
        let first = self.next.fetch_add(self.plan.batch, Ordering::Relaxed);
        let end = (first + self.plan.batch).min(self.plan.count);
        (first < end).then(|| (first..end).collect())
    }
}

struct Caller {
    load: Arc<Load>,
    /// One connection for each node, made when it is needed.
    clients: Vec<Client>,
    uris: Vec<Uri>,
    body: String,
}

impl Caller {
    fn new(load: Arc<Load>) -> Self {
        let path = if load.plan.batch == 1 { "/api/v1/tx" } else { "/api/v1/tx/batch" };
        let uris = load.targets.iter().filter_map(|target| target.uri(path).ok()).collect();
        let clients = load.targets.iter().cloned().map(Client::new).collect();
        Self { load, clients, uris, body: String::new() }
    }

    async fn work(&mut self) {
        while let Some(numbers) = self.load.take() {
            let begun = Instant::now();
            let mut shipment = Shipment { numbers, begun, asked_before: false, unclear: false };
            while !shipment.numbers.is_empty() {
                self.ship(&mut shipment).await;
            }
        }
    }

    /// One call. What is to be asked again stays in the shipment, after the pause that it takes.
    async fn ship(&mut self, shipment: &mut Shipment) {
        let of = self.load.plan.submitter(shipment.numbers[0]);
        let home = self.load.route.home(of);
        self.body.clear();
        let single = self.load.plan.batch == 1;
        match single {
            true => self.load.plan.write(shipment.numbers[0], &mut self.body),
            false => self.load.plan.write_batch(&shipment.numbers, &mut self.body),
        }
        let body = Bytes::copy_from_slice(self.body.as_bytes());
        let uri = self.uris[home].clone();
        let answer = self.clients[home].call(Method::POST, uri, body).await;
        let count = shipment.numbers.len();
        let (words, pause) = match answer {
            Ok(answer) => {
                self.load.run.answered(answer.forwarded);
                self.load.learn(of, &answer);
                let words =
                    if single { vec![read_one(&answer)] } else { read_batch(&answer, count) };
                (words, answer.retry_after.unwrap_or(PAUSE))
            }
            Err(_) => (repeat(count, || later("connection", true)), SHORT_PAUSE),
        };
        let elsewhere = self.settle(shipment, words);
        if shipment.numbers.is_empty() {
            return;
        }
        if elsewhere {
            self.load.route.leave(of, home);
        }
        let pause = if elsewhere && self.clients.len() > 1 { SHORT_PAUSE } else { pause };
        tokio::time::sleep(pause).await;
    }

    /// Notes what was said, and keeps what is to be asked again; says whether at another node.
    fn settle(&self, shipment: &mut Shipment, words: Vec<Word>) -> bool {
        let (run, begun) = (&self.load.run, shipment.begun);
        let tired = begun.elapsed() >= self.load.patience;
        let (mut again, mut at_another, mut owed) = (Vec::new(), false, shipment.unclear);
        for (number, word) in std::mem::take(&mut shipment.numbers).into_iter().zip(words) {
            match word {
                Word::New => run.settle(number, Fate::Accepted, begun),
                // The answer to an earlier try was lost.
                Word::Known if shipment.asked_before => run.settle(number, Fate::Accepted, begun),
                Word::Known => run.settle(number, Fate::Known, begun),
                Word::Later { code, .. } if tired => {
                    run.give_up(number, Fate::Unclear, &code, begun);
                }
                Word::Later { code, elsewhere, unclear } => {
                    run.retry(&code);
                    (at_another, owed) = (at_another | elsewhere, owed | unclear);
                    again.push(number);
                }
                Word::No(code) => {
                    let fate = if shipment.unclear { Fate::Unclear } else { Fate::Refused };
                    run.give_up(number, fate, &code, begun);
                }
            }
        }
        (shipment.numbers, shipment.asked_before, shipment.unclear) = (again, true, owed);
        at_another
    }
}

fn later(code: &str, elsewhere: bool) -> Word {
    Word::Later { code: code.to_owned(), elsewhere, unclear: true }
}

fn repeat(count: usize, word: impl Fn() -> Word) -> Vec<Word> {
    (0..count).map(|_| word()).collect()
}

/// An answer to a single create. The body is read only where the status does not say it all.
fn read_one(answer: &Answer) -> Word {
    match answer.status {
        202 => Word::New,
        200 => Word::Known,
        status => judge(status, serde_json::from_slice(&answer.body).ok()),
    }
}

fn read_batch(answer: &Answer, count: usize) -> Vec<Word> {
    let items = match answer.status {
        200 => serde_json::from_slice::<BatchAnswer>(&answer.body).ok(),
        _ => return repeat(count, || read_one(answer)),
    };
    match items.filter(|answer| answer.items.len() == count) {
        Some(answer) => answer.items.into_iter().map(read_item).collect(),
        None => repeat(count, || later("unreadable_answer", false)),
    }
}

fn read_item(item: ItemAnswer) -> Word {
    match item.status {
        202 => Word::New,
        200 => Word::Known,
        status => judge(status, item.error),
    }
}

fn judge(status: u16, problem: Option<Problem>) -> Word {
    match Advice::after(status, problem) {
        Advice::Done => Word::New,
        Advice::Again { problem, elsewhere, unclear } => {
            Word::Later { code: problem.code, elsewhere, unclear }
        }
        Advice::Refused(problem) => Word::No(problem.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> Answer {
        let body = Bytes::from_static(body.as_bytes());
        Answer { status, retry_after: None, owner: None, forwarded: false, body }
    }

    #[test]
    fn what_answers_mean() {
        assert!(matches!(read_one(&answer(202, "")), Word::New));
        assert!(matches!(read_one(&answer(200, "")), Word::Known));
        let busy = answer(429, r#"{"code":"busy","retryable":true}"#);
        assert!(matches!(read_one(&busy), Word::Later { code, .. } if code == "busy"));
        let bad = answer(422, r#"{"code":"invalid_address","detail":"x"}"#);
        assert!(matches!(read_one(&bad), Word::No(code) if code == "invalid_address"));
    }

    #[test]
    fn a_batch_has_a_word_for_each_item() {
        let body = r#"{"items":[{"status":202,"tx":{"a":[1]}},
            {"status":429,"error":{"code":"busy","retryable":true}}]}"#;
        let words = read_batch(&answer(200, body), 2);
        assert!(matches!(words[0], Word::New) && matches!(words[1], Word::Later { .. }));
        let short = read_batch(&answer(200, body), 3);
        assert!(short.iter().all(|word| matches!(word, Word::Later { unclear: true, .. })));
        assert_eq!(read_batch(&answer(503, ""), 3).len(), 3);
    }
}
