//! Carries out a plan, repairs what it broke, and restarts nodes that ended by themselves.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tollgate_devchain::chain::Rng;
use tollgate_devchain::dev_accounts;
use tollgate_testkit::Anvil;
use tollgate_testkit::rpc_proxy::{RpcFaults, RpcProxy, WrongAnswer};

use crate::chain::head;
use crate::cluster::{Cluster, Node, accounts_of, key_of};
use crate::event_log::{Done, EventLog};
use crate::plan::{Fault, Kind, Lasting, NAMES, Plan, Reach, Target};

/// The longest stop of a node: its drain, ten seconds for open requests, and much more.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The interval at which a supervisor checks that a node still runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The pause of a supervisor before it starts a node again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// The time for a node that was just started to answer, before it is stopped.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Carries out a plan to its end; everything is whole afterwards.
pub(crate) async fn carry_out(cluster: &Arc<Cluster>, log: &Arc<EventLog>, plan: &Plan) {
    let mut under_way = JoinSet::new();
    for fault in plan.faults.iter().copied() {
        tokio::time::sleep_until(log.start() + fault.at).await;
        let (cluster, log) = (cluster.clone(), log.clone());
        under_way.spawn(async move {
            let from = log.now();
            log.tell(&describe(&fault));
            let strikes = strike(&cluster, &log, &fault).await;
            let to = log.now();
            if !fault.length.is_zero() {
                log.tell(&format!("  over: {}", title(&fault)));
            }
            log.done(Done { fault, from, to, strikes });
        });
    }
    while let Some(ended) = under_way.join_next().await {
        ended.expect("a fault could not be carried out");
    }
}

/// Starts nodes again that end by themselves, as a service manager does, and events why.
pub(crate) fn supervise(cluster: &Arc<Cluster>, log: &Arc<EventLog>) -> JoinHandle<()> {
    let (cluster, log) = (cluster.clone(), log.clone());
    tokio::spawn(async move {
        loop {
            sleep(LOOK_EVERY).await;
            for node in &cluster.nodes {
                // Whoever does something to it starts it again.
                let Ok(mut process) = node.process.try_lock() else { continue };
                let Some(ended) = process.ended() else { continue };
                let how = ended.code.map_or("a signal".to_owned(), |code| format!("code {code}"));
                let what = format!("{} ended by itself with {how}: {}", node.name, ended.words);
                log.own_end(what);
                sleep(RESTART_PAUSE).await;
                node.start_again(&mut process);
            }
        }
    })
}

/// Carries out one fault; of one of calls to the chain, the number of requests that it has hit.
async fn strike(cluster: &Cluster, log: &EventLog, fault: &Fault) -> Option<u64> {
    match fault.target {
        Target::Node(n) => {
            let node = &cluster.nodes[n];
            if matches!(fault.kind.reach(), Reach::ChainLink | Reach::OneEndpoint) {
                return Some(strike_calls(node, fault).await);
            }
            strike_node(node, log, fault).await;
        }
        Target::Database => {
            let server = cluster.server.clone();
            tokio::task::spawn_blocking(move || server.crash()).await.unwrap();
            sleep(fault.length).await;
            cluster.server.restart().await;
        }
        Target::Chain => match fault.kind {
            Kind::ChainCutForAll => {
                let proxies = || cluster.nodes.iter().flat_map(|node| &node.proxies[fault.chain]);
                let strikes = || proxies().map(RpcProxy::strikes).sum::<u64>();
                let cut = |is_down| {
                    proxies().for_each(|proxy| proxy.change(|faults| faults.is_down = is_down));
                };
                let before = strikes();
                cut(true);
                sleep(fault.length).await;
                cut(false);
                return Some(strikes() - before);
            }
            Kind::Reorg => {
                let anvil = &cluster.chains[fault.chain];
                let before = head(anvil).await;
                anvil.call("anvil_reorg", json!([fault.severity, []])).await;
                // Strict accounts, to which it matters, are on the first chain. Blocks go on coming: the
                // last one may be one too high.
                if fault.chain == 0 {
                    log.replaced(before + 1 - fault.severity..=head(anvil).await);
                }
            }
            kind => {
                assert_eq!(kind, Kind::DroppedTransactions);
                drop_transactions(cluster, fault).await;
            }
        },
    }
    None
}

async fn strike_node(node: &Node, log: &EventLog, fault: &Fault) {
    match fault.kind {
        Kind::Kill => {
            let mut process = node.process.lock().await;
            process.kill().await;
            sleep(fault.length).await;
            node.start_again(&mut process);
        }
        Kind::Freeze => {
            let process = node.process.lock().await;
            process.signal(Signal::STOP);
            sleep(fault.length).await;
            process.signal(Signal::CONT);
        }
        Kind::Term => term(node, log, fault.length).await,
        Kind::DatabaseCut => {
            node.database.cut();
            sleep(fault.length).await;
            node.database.restore();
        }
        Kind::DatabaseDeaf => {
            node.database.lose_answers();
            sleep(fault.length).await;
            node.database.cut();
            node.database.restore();
        }
        Kind::DatabaseStall => {
            node.database.stall();
            sleep(fault.length).await;
            node.database.restore();
        }
        Kind::DatabaseReset => {
            node.database.cut();
            node.database.restore();
        }
        kind => unreachable!("{kind:?} is no fault of a process or of its way to the database"),
    }
}

/// Breaks a node's calls to the chain for a while; the number of requests that were hit.
async fn strike_calls(node: &Node, fault: &Fault) -> u64 {
    // What one endpoint does wrong, the second one does; the first is the measure.
    let proxies = &node.proxies[fault.chain];
    let [_, second] = proxies;
    let hit = match fault.kind.reach() {
        Reach::OneEndpoint => std::slice::from_ref(second),
        _ => proxies,
    };
    let strikes = || hit.iter().map(RpcProxy::strikes).sum::<u64>();
    let before = strikes();
    let broken = broken_calls(fault.kind, fault.severity);
    hit.iter().for_each(|proxy| proxy.change(|faults| *faults = broken));
    sleep(fault.length).await;
    let struck = strikes() - before;
    node.restore_calls_to(fault.chain);
    struck
}

/// The faults that a proxy has for a kind of broken calls.
pub(crate) fn broken_calls(kind: Kind, severity: u64) -> RpcFaults {
    let mut faults = RpcFaults::default();
    let share = severity;
    match kind {
        Kind::ChainCut => faults.is_down = true,
        Kind::LostAnswers => faults.lost_answers = share,
        Kind::LostRequests => faults.lost_requests = share,
        Kind::SlowAnswers => faults.slow = share,
        Kind::ErrorAnswers => faults.errors = share,
        Kind::ForgottenSends => faults.discarded_sends = share,
        Kind::HeadAhead => faults.wrong = Some(WrongAnswer::HeadAhead),
        Kind::WrongCounts => faults.wrong = Some(WrongAnswer::PendingCounts),
        Kind::WrongFees => faults.wrong = Some(WrongAnswer::Fees),
        Kind::NoReceipts => faults.wrong = Some(WrongAnswer::NoReceipts),
        Kind::AbsurdEstimates => faults.wrong = Some(WrongAnswer::Estimates),
        Kind::SwallowedSends => faults.discarded_sends = 100,
        Kind::SilentEndpoint => faults.is_silent = true,
        Kind::MuteHeads => faults.is_mute = true,
        Kind::Quota => faults.quota = Some(severity),
        Kind::Lag => faults.lag_blocks = severity,
        Kind::Balancer => faults.balancer_lag = severity,
        Kind::LowCounts => faults.nonce_offset = -i64::try_from(severity).unwrap(),
        Kind::FlippedReceipts => faults.wrong = Some(WrongAnswer::FlippedReceipts),
        Kind::MissingBlocks => {
            faults.wrong = Some(WrongAnswer::MissingBlocks { one_in: severity });
        }
        Kind::MissingReceipts => {
            faults.wrong = Some(WrongAnswer::MissingReceipts { one_in: severity });
        }
        Kind::PrunedReceipts => {
            faults.wrong = Some(WrongAnswer::PrunedReceipts { kept: severity });
        }
        kind => unreachable!("{kind:?} is no fault of a way to the chain"),
    }
    faults
}

/// Tells a node to stop, and starts it again once it has. One that serves ends in good order.
async fn term(node: &Node, log: &EventLog, pause: Duration) {
    let mut process = node.process.lock().await;
    let mut serves = false;
    let asked = tokio::time::Instant::now();
    while !serves && asked.elapsed() < ANSWER_LIMIT {
        serves = node.is_alive().await;
        sleep(LOOK_EVERY).await;
    }
    process.signal(Signal::TERM);
    match process.end(STOP_LIMIT).await {
        // A node that is still waiting for its database is not in service: it may end as it likes.
        Some(ended) if serves && ended.code != Some(0) => {
            log.violation(format!("{} was told to stop: {ended:?}", node.name));
        }
        Some(_) => {}
        None => {
            log.violation(format!("{} did not stop within {STOP_LIMIT:?}", node.name));
            process.kill().await;
        }
    }
    sleep(pause).await;
    node.start_again(&mut process);
}

/// The pool forgets a share of what it has of the run's accounts.
async fn drop_transactions(cluster: &Cluster, fault: &Fault) {
    let mut rng = Rng::new(u64::try_from(fault.at.as_millis()).unwrap());
    let anvil = &cluster.chains[fault.chain];
    let content = anvil.call("txpool_content", json!([])).await;
    for part in ["pending", "queued"] {
        for account in accounts_of(fault.chain) {
            let address = dev_accounts()[key_of(account)].address;
            let pooled = content[part].as_object().into_iter().flatten();
            let own = pooled.filter(|(from, _)| from.eq_ignore_ascii_case(&address.to_string()));
            for tx in own.flat_map(|(_, slots)| slots.as_object().into_iter().flatten()) {
                if rng.below(100) < fault.severity {
                    drop_one(anvil, &tx.1["hash"]).await;
                }
            }
        }
    }
}

async fn drop_one(anvil: &Anvil, hash: &Value) {
    // It may have been mined meanwhile: then there is nothing to forget, and anvil says so.
    anvil.call("anvil_dropTransaction", json!([hash])).await;
}

/// A fault in a few words.
pub(crate) fn title(fault: &Fault) -> String {
    let what = match fault.chain {
        0 => fault.kind.name().to_owned(),
        _ => format!("{} on the second chain", fault.kind.name()),
    };
    match (fault.target, fault.kind) {
        (Target::Node(n), _) => format!("{what} {}", NAMES[n]),
        (Target::Chain, Kind::Reorg) => format!("{what} of {}", fault.severity),
        (Target::Chain | Target::Database, _) => what,
    }
}

/// A lasting fault in a few words.
pub(crate) fn describe_lasting(lasting: &Lasting) -> String {
    format!("{}{} of each node", lasting.kind.name(), extent(lasting.kind, lasting.severity))
}

/// The severity in words, where a kind has one.
fn extent(kind: Kind, severity: u64) -> String {
    match kind {
        Kind::Quota => format!(" {severity} a second"),
        Kind::Lag | Kind::Balancer => format!(" of {severity}"),
        Kind::LowCounts => format!(" by {severity}"),
        Kind::MissingBlocks | Kind::MissingReceipts => format!(" one in {severity}"),
        Kind::PrunedReceipts => format!(" after {severity}"),
        _ if severity == 0 => String::new(),
        _ => format!(" {severity} %"),
    }
}

fn describe(fault: &Fault) -> String {
    let seconds = fault.length.as_secs_f64();
    let share = match fault.kind {
        Kind::Reorg => String::new(),
        kind => extent(kind, fault.severity),
    };
    let length = if fault.length.is_zero() { String::new() } else { format!(" ({seconds:.1} s)") };
    format!("{}{share}{length}", title(fault))
}
