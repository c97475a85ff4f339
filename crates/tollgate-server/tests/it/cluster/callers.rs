//! A load balancer that knows what `/readyz` says, and callers behind it that do not give up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::stage::{SENDERS, Said, Silence, ask, create, is_ready};

/// How often nodes are asked whether they are ready.
const READY_EVERY: Duration = Duration::from_millis(50);
/// The pause between two creates of an account, and before one is repeated.
const PAUSE: Duration = Duration::from_millis(40);
/// How long a caller waits before it asks somebody else.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an account's caller saw: when each create was accepted, and how long that took.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    pub(super) accepted_at: Vec<Instant>,
    pub(super) slowest: Duration,
}

/// What came of it all.
pub(super) struct Ended {
    /// What was paid, by the transaction's id.
    pub(super) accepted: BTreeMap<String, u64>,
    pub(super) accounts: BTreeMap<usize, Seen>,
    /// Answers after which a create was repeated, by code.
    pub(super) repeated: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Notes {
    accepted: BTreeMap<String, u64>,
    accounts: BTreeMap<usize, Seen>,
    /// Answers after which a create was repeated, by code.
    repeated: BTreeMap<String, u64>,
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
        asked: Option<Result<Said, Silence>>,
    ) -> bool {
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
            Some(Err(Silence::NotThere)) => "not there".to_owned(),
            // Whether that may be, the test knows: a process that is killed breaks what it had begun.
            Some(Err(Silence::Broken(error))) => format!("broken: {:?}", error.kind()),
            None => "no answer".to_owned(),
        };
        *self.repeated.entry(why).or_default() += 1;
        false
    }
}

#[derive(Default)]
struct Shared {
    ready: Mutex<Vec<u16>>,
    notes: Mutex<Notes>,
    done: AtomicBool,
}

/// One caller for each account.
pub(super) struct Callers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    balancer: JoinHandle<()>,
}

impl Callers {
    /// Starts calling, at whichever of these ports is ready.
    pub(super) fn start(ports: Vec<u16>) -> Self {
        let shared = Arc::new(Shared::default());
        let balancer = tokio::spawn(balance(shared.clone(), ports));
        let tasks = SENDERS.map(|account| tokio::spawn(call(shared.clone(), account))).collect();
        Self { shared, tasks, balancer }
    }

    /// What an account's caller has seen so far.
    pub(super) fn seen(&self, account: usize) -> Seen {
        self.shared.notes.lock().unwrap().accounts.get(&account).cloned().unwrap_or_default()
    }

    /// How many creates of an account were accepted so far.
    pub(super) fn count(&self, account: usize) -> usize {
        self.seen(account).accepted_at.len()
    }

    /// Ends it, once every create that was begun is taken. Nothing may have failed.
    pub(super) async fn end(self) -> Ended {
        self.shared.done.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.balancer.abort();
        let notes = std::mem::take(&mut *self.shared.notes.lock().unwrap());
        let Notes { accepted, accounts, repeated, failures } = notes;
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
            let asked = timeout(PATIENCE, ask(port, "POST", "/api/v1/tx", &body)).await;
            let taken = shared.notes.lock().unwrap().take(account, value, begun, asked.ok());
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
