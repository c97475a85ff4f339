//! A load balancer that knows what `/readyz` says, and callers behind it that do not give up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tollgate_testkit::wait;

use super::stage::{NoResponse, Response, SENDERS, ask, create, is_ready};

const READY_EVERY: Duration = Duration::from_millis(50);
/// The pause between two creates of an account, and before one is repeated.
const PAUSE: Duration = Duration::from_millis(40);
/// The longest wait of a caller before it asks another node.
const PATIENCE: Duration = Duration::from_secs(2);
/// The wait of a caller that measures how long an answer takes: longer than any may.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// The times at which an account's creates were accepted, and the slowest of them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) accepted_at: Vec<Instant>,
    pub(crate) slowest: Duration,
}

/// Answers of one kind.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Answers {
    pub(crate) count: u64,
    pub(crate) longest: Duration,
}

/// The result of all calls.
pub(crate) struct Ended {
    /// The paid values, by transaction id.
    pub(crate) accepted: BTreeMap<String, u64>,
    pub(crate) accounts: BTreeMap<usize, Seen>,
    /// Answers after which a create was repeated, by code.
    pub(crate) repeated: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Notes {
    accepted: BTreeMap<String, u64>,
    accounts: BTreeMap<usize, Seen>,
    /// Answers after which a create was repeated, by code.
    repeated: BTreeMap<String, u64>,
    /// By status and code.
    answers: BTreeMap<String, Answers>,
    /// Everything that should not have happened.
    failures: Vec<String>,
}

impl Notes {
    /// Notes what came of one call, `None` if nothing did; says whether the create was taken.
    fn take(
        &mut self,
        account: usize,
        value: u64,
        begun: Instant,
        (took, asked): (Duration, Option<Result<Response, NoResponse>>),
    ) -> bool {
        let kind = match &asked {
            Some(Ok(said)) => {
                format!("{} {}", said.status, said.body["code"].as_str().unwrap_or_default())
            }
            Some(Err(_)) | None => "none".to_owned(),
        };
        let answers = self.answers.entry(kind.trim().to_owned()).or_default();
        *answers = Answers { count: answers.count + 1, longest: answers.longest.max(took) };
        let why = match asked {
            Some(Ok(said)) if said.status == 202 || said.status == 200 => {
                let tx_id = said.body["txId"].as_str().unwrap().to_owned();
                self.accepted.insert(tx_id, value);
                let seen = self.accounts.entry(account).or_default();
                seen.accepted_at.push(Instant::now());
                seen.slowest = seen.slowest.max(begun.elapsed());
                return true;
            }
            Some(Ok(said)) => {
                let later = said.head.contains("retry-after:") && said.body["retryable"] == true;
                if ![409, 503].contains(&said.status) || !later {
                    self.failures.push(format!("{said:?}"));
                }
                said.body["code"].as_str().unwrap_or_default().to_owned()
            }
            Some(Err(NoResponse::Refused)) => "not there".to_owned(),
            // Whether that may be, the test knows: a process that is killed breaks what it had begun.
            Some(Err(NoResponse::Broken(error))) => format!("broken: {:?}", error.kind()),
            None => "no answer".to_owned(),
        };
        *self.repeated.entry(why).or_default() += 1;
        false
    }
}

#[derive(Default)]
struct Shared {
    ready: Mutex<Vec<u16>>,
    patience: Duration,
    notes: Mutex<Notes>,
    done: AtomicBool,
}

/// One caller for each account.
pub(crate) struct Callers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    balancer: Option<JoinHandle<()>>,
}

impl Callers {
    /// Starts calling, at whichever of these ports is ready.
    pub(crate) fn start(ports: Vec<u16>) -> Self {
        let mut callers = Self::all(Shared { patience: PATIENCE, ..Shared::default() });
        callers.balancer = Some(tokio::spawn(balance(callers.shared.clone(), ports)));
        callers
    }

    /// Starts calling at all of these ports in turn, ready or not, and waits for every answer.
    pub(crate) fn straight(ports: Vec<u16>) -> Self {
        let ready = Mutex::new(ports);
        Self::all(Shared { ready, patience: LONG_PATIENCE, ..Shared::default() })
    }

    fn all(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let tasks = SENDERS.map(|account| tokio::spawn(call(shared.clone(), account))).collect();
        Self { shared, tasks, balancer: None }
    }

    /// Waits until so many more creates of every account were accepted.
    pub(crate) async fn progress(&self, least: usize) {
        let from: Vec<usize> = SENDERS.map(|account| self.count(account)).collect();
        wait::until("creates of every account", || async {
            let went_on = |account: usize| self.count(account) >= from[account] + least;
            SENDERS.clone().all(went_on).then_some(())
        })
        .await;
    }

    /// A caller got a 503 since the answers were last taken.
    pub(crate) fn was_put_off(&self) -> bool {
        self.shared.notes.lock().unwrap().answers.keys().any(|kind| kind.starts_with("503"))
    }

    /// The answers since this was last asked, by status and code.
    pub(crate) fn answers(&self) -> BTreeMap<String, Answers> {
        std::mem::take(&mut self.shared.notes.lock().unwrap().answers)
    }

    pub(crate) fn seen(&self, account: usize) -> Seen {
        self.shared.notes.lock().unwrap().accounts.get(&account).cloned().unwrap_or_default()
    }

    /// The number of an account's creates that were accepted so far.
    pub(crate) fn count(&self, account: usize) -> usize {
        self.seen(account).accepted_at.len()
    }

    /// Ends it, once every create that was begun is taken. Nothing may have failed.
    pub(crate) async fn end(self) -> Ended {
        self.shared.done.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        if let Some(balancer) = self.balancer {
            balancer.abort();
        }
        let notes = std::mem::take(&mut *self.shared.notes.lock().unwrap());
        let Notes { accepted, accounts, repeated, failures, .. } = notes;
        eprintln!("{} accepted, repeated after {repeated:?}", accepted.len());
        assert_eq!(failures, [""; 0]);
        Ended { accepted, accounts, repeated }
    }
}

async fn balance(shared: Arc<Shared>, ports: Vec<u16>) {
    loop {
        let asked = futures_util::future::join_all(ports.iter().map(|port| is_ready(*port))).await;
        let ready = ports.iter().zip(asked).filter(|(_, ready)| *ready).map(|(port, _)| *port);
        *shared.ready.lock().unwrap() = ready.collect();
        tokio::time::sleep(READY_EVERY).await;
    }
}

async fn call(shared: Arc<Shared>, account: usize) {
    let mut turn = account;
    for number in 0.. {
        let value = (account as u64 + 1) * 1_000_000 + number;
        let (body, begun) = (create(account, value), Instant::now());
        loop {
            turn += 1;
            let port = {
                let ready = shared.ready.lock().unwrap();
                ready.get(turn % ready.len().max(1)).copied()
            };
            let Some(port) = port else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let asked_at = Instant::now();
            let asked = timeout(shared.patience, ask(port, "POST", "/api/v1/tx", &body)).await;
            let answer = (asked_at.elapsed(), asked.ok());
            let taken = shared.notes.lock().unwrap().take(account, value, begun, answer);
            if taken {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        if shared.done.load(Ordering::Relaxed) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
