//! Alerts of a node: what engines raise and what is measured goes into the store, and from there to the sinks.
//!
//! Two tasks beside those of `tollgate-alert`: one measures what this node sees (`local`), the other what
//! concerns accounts and which alerts are over (`watch`); of the latter one node at a time does the work.
//! Nothing here is needed for a transaction.

mod local;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate_alert::{AlertCollector, AlertDelivery};
use tollgate_engine::Engine;
use tollgate_evm::chain::EvmChain;
use tollgate_model::alert::{AlertLevel, AlertSubject, Gate, Standing, Threshold};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{AlertKind, Store};
use tollgate_model::{NodeId, Timestamp};

use crate::config::AlertSettings;
use crate::failure::Failure;

/// A chain that has started.
#[derive(Clone)]
struct WatchedChain {
    engine: Engine,
    chain: Arc<EvmChain>,
}

/// The parts that both tasks use.
#[derive(Clone)]
struct Watcher {
    store: Arc<dyn Store>,
    node: NodeId,
    clock: Arc<dyn Clock>,
    settings: AlertSettings,
    collector: AlertCollector,
    chains: Arc<Mutex<Vec<WatchedChain>>>,
    changed: Arc<Notify>,
}

impl Watcher {
    fn chains(&self) -> Vec<WatchedChain> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The alerts of a running node.
pub(crate) struct NodeAlerts {
    watcher: Watcher,
    delivery: Mutex<Option<AlertDelivery>>,
    tasks: [JoinHandle<()>; 2],
}

impl NodeAlerts {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        node: NodeId,
        clock: Arc<dyn Clock>,
        settings: AlertSettings,
    ) -> Result<Self, Failure> {
        let (sinks, changed) = (settings.sinks()?, Arc::new(Notify::new()));
        let (collector, _) =
            AlertCollector::start(store.clone(), node.clone(), sinks.clone(), changed.clone());
        let delivery = AlertDelivery::start(&store, &node, &clock, sinks, &changed);
        let chains = Arc::default();
        let watcher = Watcher { store, node, clock, settings, collector, chains, changed };
        let tasks = [
            tokio::spawn(local::measure(watcher.clone())),
            tokio::spawn(watch::look_after_alerts(watcher.clone())),
        ];
        Ok(Self { watcher, delivery: Mutex::new(Some(delivery)), tasks })
    }

    /// The port through which engines raise their alerts.
    pub(crate) fn collector(&self) -> AlertCollector {
        self.watcher.collector.clone()
    }

    /// Measures a chain from now on.
    pub(crate) fn add(&self, engine: Engine, chain: Arc<EvmChain>) {
        let mut chains = self.watcher.chains.lock().unwrap_or_else(PoisonError::into_inner);
        chains.push(WatchedChain { engine, chain });
    }

    /// Ends all tasks; messages on their way are finished.
    pub(crate) async fn stop(&self) {
        self.watcher.chains.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for task in &self.tasks {
            task.abort();
        }
        // The next node need not wait for the end of the claim.
        let _ = self.watcher.store.claim_alert_watch(&self.watcher.node, Duration::ZERO).await;
        let delivery = self.delivery.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(delivery) = delivery {
            delivery.stop().await;
        }
    }
}

/// The gates of what one task measures.
#[derive(Default)]
struct Gates(HashMap<(AlertKind, AlertSubject), Gate>);

impl Gates {
    /// Judges a number; reports the condition if it is an alert.
    fn judge(
        &mut self,
        by: &AlertCollector,
        now: Timestamp,
        found: Found<'_>,
        detail: impl FnOnce() -> String,
    ) {
        let Found { kind, subject, threshold, measured } = found;
        let key = (kind, subject.clone());
        let gate = self.0.get(&key).copied().unwrap_or_default();
        let (gate, standing) = gate.judge(threshold, measured, now);
        match gate.is_calm() {
            true => self.0.remove(&key),
            false => self.0.insert(key, gate),
        };
        if standing == Standing::Raised {
            by.report(kind, subject.clone(), kind.info().level, &detail());
        }
    }
}

/// A measured number, and the bounds that it is judged by.
struct Found<'a> {
    kind: AlertKind,
    subject: &'a AlertSubject,
    threshold: Threshold,
    measured: u64,
}

/// The level of a balance that lasts for less than a day.
const EMPTY_SOON: AlertLevel = AlertLevel::Critical;
