//! Carries out a plan, heals what it broke, and starts again what ended by itself.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tollgate_devchain::chain::Rng;
use tollgate_devchain::dev_accounts;

use crate::chain::head;
use crate::ledger::{Done, Ledger};
use crate::lies::Lie;
use crate::plan::{Fault, Kind, NAMES, Plan, Target};
use crate::proxy::Faults;
use crate::site::{Node, PIPELINED, STRICT, Site};

/// How long a node may take to stop: its drain, ten seconds for whoever waits, and much more.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked whether a node still runs, as a supervisor does.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long a supervisor waits before it starts a node again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// How long a node that was just started has to answer, before it is told to stop.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Carries out a plan to its end; everything is whole afterwards.
pub(crate) async fn carry_out(site: &Arc<Site>, ledger: &Arc<Ledger>, plan: &Plan) {
    let mut under_way = JoinSet::new();
    for fault in plan.faults.iter().copied() {
        tokio::time::sleep_until(ledger.start() + fault.at).await;
        let (site, ledger) = (site.clone(), ledger.clone());
        under_way.spawn(async move {
            let from = ledger.now();
            ledger.tell(&words(&fault));
            strike(&site, &ledger, &fault).await;
            let to = ledger.now();
            if !fault.length.is_zero() {
                ledger.tell(&format!("  over: {}", title(&fault)));
            }
            ledger.done(Done { fault, from, to });
        });
    }
    while let Some(ended) = under_way.join_next().await {
        ended.expect("a fault could not be carried out");
    }
}

/// Starts nodes again that end by themselves, as a service manager does, and notes why.
pub(crate) fn supervise(site: &Arc<Site>, ledger: &Arc<Ledger>) -> JoinHandle<()> {
    let (site, ledger) = (site.clone(), ledger.clone());
    tokio::spawn(async move {
        loop {
            sleep(LOOK_EVERY).await;
            for node in &site.nodes {
                // Whoever does something to it starts it again.
                let Ok(mut process) = node.process.try_lock() else { continue };
                let Some(ended) = process.ended() else { continue };
                let how = ended.code.map_or("a signal".to_owned(), |code| format!("code {code}"));
                let what = format!("{} ended by itself with {how}: {}", node.name, ended.words);
                ledger.own_end(what);
                sleep(RESTART_PAUSE).await;
                node.start_again(&mut process);
            }
        }
    })
}

async fn strike(site: &Site, ledger: &Ledger, fault: &Fault) {
    match fault.target {
        Target::Node(n) => strike_node(&site.nodes[n], ledger, fault).await,
        Target::Database => {
            let server = site.server.clone();
            tokio::task::spawn_blocking(move || server.crash()).await.unwrap();
            sleep(fault.length).await;
            site.server.restart().await;
        }
        Target::Chain => match fault.kind {
            Kind::ChainCutForAll => {
                let cut = |is_cut| {
                    for proxy in site.nodes.iter().flat_map(|node| &node.proxies) {
                        proxy.change(|faults| faults.is_cut = is_cut);
                    }
                };
                cut(true);
                sleep(fault.length).await;
                cut(false);
            }
            Kind::Reorg => {
                let before = head(&site.anvil).await;
                site.anvil.call("anvil_reorg", json!([fault.severity, []])).await;
                // Blocks go on coming: the last one may be one too high.
                ledger.replaced(before + 1 - fault.severity..=head(&site.anvil).await);
            }
            kind => {
                assert_eq!(kind, Kind::DroppedTransactions);
                drop_transactions(site, fault).await;
            }
        },
    }
}

async fn strike_node(node: &Node, ledger: &Ledger, fault: &Fault) {
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
        Kind::Term => term(node, ledger, fault.length).await,
        Kind::DatabaseCut => {
            node.wire.cut();
            sleep(fault.length).await;
            node.wire.mend();
        }
        Kind::DatabaseDeaf => {
            node.wire.go_deaf();
            sleep(fault.length).await;
            node.wire.cut();
            node.wire.mend();
        }
        Kind::DatabaseStall => {
            node.wire.hold();
            sleep(fault.length).await;
            node.wire.mend();
        }
        Kind::DatabaseReset => {
            node.wire.cut();
            node.wire.mend();
        }
        _ => {
            // What one endpoint does wrong, the second one does; the first is the measure.
            let [_, second] = &node.proxies;
            let hit = match fault.kind.is_of_one_endpoint() {
                true => std::slice::from_ref(second),
                false => &node.proxies,
            };
            hit.iter().for_each(|proxy| proxy.change(|faults| break_calls(faults, fault)));
            sleep(fault.length).await;
            hit.iter().for_each(|proxy| proxy.change(|faults| *faults = Faults::default()));
        }
    }
}

fn break_calls(faults: &mut Faults, fault: &Fault) {
    let share = fault.severity;
    match fault.kind {
        Kind::ChainCut => faults.is_cut = true,
        Kind::LostAnswers => faults.lost_answers = share,
        Kind::LostRequests => faults.lost_requests = share,
        Kind::SlowAnswers => faults.slow = share,
        Kind::ErrorAnswers => faults.errors = share,
        Kind::ForgottenSends => faults.forgotten = share,
        Kind::HeadAhead => faults.lie = Some(Lie::HeadAhead),
        Kind::WrongCounts => faults.lie = Some(Lie::Counts),
        Kind::WrongFees => faults.lie = Some(Lie::Fees),
        Kind::NoReceipts => faults.lie = Some(Lie::NoReceipts),
        Kind::AbsurdEstimates => faults.lie = Some(Lie::Estimates),
        Kind::SwallowedSends => faults.forgotten = 100,
        Kind::SilentEndpoint => faults.is_silent = true,
        Kind::Quota => faults.quota = Some(share),
        Kind::Lag => faults.lag = share,
        kind => unreachable!("{kind:?} is no fault of a way to the chain"),
    }
}

/// Tells a node to stop, and starts it again once it has. One that serves ends in good order.
async fn term(node: &Node, ledger: &Ledger, pause: Duration) {
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
            ledger.violation(format!("{} was told to stop: {ended:?}", node.name));
        }
        Some(_) => {}
        None => {
            ledger.violation(format!("{} did not stop within {STOP_LIMIT:?}", node.name));
            process.kill().await;
        }
    }
    sleep(pause).await;
    node.start_again(&mut process);
}

/// The pool forgets a share of what it has of the run's accounts.
async fn drop_transactions(site: &Site, fault: &Fault) {
    let mut rng = Rng::new(u64::try_from(fault.at.as_millis()).unwrap());
    let content = site.anvil.call("txpool_content", json!([])).await;
    for part in ["pending", "queued"] {
        for account in PIPELINED.start..STRICT.end {
            let address = dev_accounts()[account].address;
            let pooled = content[part].as_object().into_iter().flatten();
            let own = pooled.filter(|(from, _)| from.eq_ignore_ascii_case(&address.to_string()));
            for tx in own.flat_map(|(_, slots)| slots.as_object().into_iter().flatten()) {
                if rng.below(100) < fault.severity {
                    drop_one(site, &tx.1["hash"]).await;
                }
            }
        }
    }
}

async fn drop_one(site: &Site, hash: &Value) {
    // It may have been mined meanwhile: then there is nothing to forget, and anvil says so.
    site.anvil.call("anvil_dropTransaction", json!([hash])).await;
}

/// A fault in a few words.
pub(crate) fn title(fault: &Fault) -> String {
    let what = fault.kind.words();
    match (fault.target, fault.kind) {
        (Target::Node(n), _) => format!("{what} {}", NAMES[n]),
        (Target::Chain, Kind::Reorg) => format!("{what} of {}", fault.severity),
        (Target::Chain | Target::Database, _) => what.to_owned(),
    }
}

fn words(fault: &Fault) -> String {
    let seconds = fault.length.as_secs_f64();
    let share = match fault.kind {
        Kind::Reorg => String::new(),
        Kind::Quota => format!(" {} a second", fault.severity),
        Kind::Lag => format!(" of {}", fault.severity),
        _ if fault.severity == 0 => String::new(),
        _ => format!(" {} %", fault.severity),
    };
    let length = if fault.length.is_zero() { String::new() } else { format!(" ({seconds:.1} s)") };
    format!("{}{share}{length}", title(fault))
}
