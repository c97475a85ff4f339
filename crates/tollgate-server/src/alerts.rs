//! Alerts of a node: what engines raise and what is measured goes into the store, and from there to the sinks.
//!
//! Three tasks beside those of `tollgate-alert`: one measures what this node sees (`local`), one what concerns
//! accounts and which alerts are over (`watch`), which one node does at a time, and one pays accounts that are below
//! their floor (`top_up`). Nothing here is needed for a transaction.

mod local;
#[cfg(test)]
mod tests;
mod top_up;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate_alert::{AlertCollector, AlertDelivery};
use tollgate_engine::Engine;
use tollgate_evm::chain::EvmChain;
use tollgate_metrics::NodeMetrics;
use tollgate_model::alert::{AlertLevel, AlertSubject, Gate, Standing, Threshold};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{AlertKind, Store};
use tollgate_model::{NodeId, Timestamp};

use crate::config::{AlertSettings, TopUpEntry};
use crate::failure::Failure;

/// A chain that has started.
#[derive(Clone)]
struct WatchedChain {
    engine: Engine,
    chain: Arc<EvmChain>,
}

/// The chains that have started.
type WatchedChains = Arc<Mutex<Vec<WatchedChain>>>;

/// The parts that all tasks use.
#[derive(Clone)]
struct Watcher {
    store: Arc<dyn Store>,
    node: NodeId,
    clock: Arc<dyn Clock>,
    settings: AlertSettings,
    top_ups: Arc<[TopUpEntry]>,
    collector: AlertCollector,
    metrics: Arc<NodeMetrics>,
    chains: WatchedChains,
    changed: Arc<Notify>,
}

impl Watcher {
    fn new(
        store: Arc<dyn Store>,
        node: NodeId,
        clock: Arc<dyn Clock>,
        options: NodeAlertOptions,
    ) -> Result<Self, Failure> {
        let NodeAlertOptions { alerts: settings, top_ups, metrics } = options;
        let (sinks, changed) = (settings.sinks()?, Arc::new(Notify::new()));
        let chains = WatchedChains::default();
        let on_new = {
            let (metrics, chains) = (metrics.clone(), chains.clone());
            Box::new(move |kind, of: &AlertSubject| count(&metrics, &chains, kind, of))
        };
        let raised = changed.clone();
        let (collector, _) =
            AlertCollector::start(store.clone(), node.clone(), sinks, raised, on_new);
        let top_ups = top_ups.into();
        Ok(Self { store, node, clock, settings, top_ups, collector, metrics, chains, changed })
    }

    fn chains(&self) -> Vec<WatchedChain> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts a new alert for its chain, or for the node if it is about none.
fn count(metrics: &NodeMetrics, chains: &WatchedChains, kind: AlertKind, of: &AlertSubject) {
    let Some(chain_id) = of.chain_id else {
        return metrics.tollgate.node_alerts_total.inc(kind);
    };
    let chains = chains.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(of) = chains.iter().find(|of| of.engine.chain_id() == chain_id) {
        of.engine.metrics().alerts_total.inc(kind);
    }
}

/// The settings of a node's alerts.
pub(crate) struct NodeAlertOptions {
    pub(crate) alerts: AlertSettings,
    pub(crate) top_ups: Vec<TopUpEntry>,
    pub(crate) metrics: Arc<NodeMetrics>,
}

/// The alerts of a running node.
pub(crate) struct NodeAlerts {
    watcher: Watcher,
    delivery: Mutex<Option<AlertDelivery>>,
    tasks: [JoinHandle<()>; 3],
}

impl NodeAlerts {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        node: NodeId,
        clock: Arc<dyn Clock>,
        options: NodeAlertOptions,
    ) -> Result<Self, Failure> {
        let watcher = Watcher::new(store, node, clock, options)?;
        let Watcher { store, node, clock, changed, .. } = &watcher;
        let sinks = watcher.settings.sinks()?;
        let delivery = AlertDelivery::start(store, node, clock, sinks, changed);
        let tasks = [
            tokio::spawn(local::measure(watcher.clone())),
            tokio::spawn(watch::look_after_alerts(watcher.clone())),
            tokio::spawn(top_up::keep_topped_up(watcher.clone())),
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
