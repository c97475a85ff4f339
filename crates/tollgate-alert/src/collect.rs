//! Takes alerts into the store in the background. Owns the queue between those who raise them and the store.
//!
//! Raising never waits: what does not fit the queue is in the log alone, and counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tollgate_model::alert::{AlertLevel, AlertSubject};
use tollgate_model::port::{Alert, AlertKind, AlertReport, Alerts, Store};
use tollgate_model::{NodeId, Text};
use tracing::{info, warn};
use uuid::Uuid;

use crate::sink::Sink;

/// Reports that wait for the store (I13).
const WAITING_MAX: usize = 1_000;
/// The pause after a report that the store did not take.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Tries of one report: then it is in the log alone. Its condition is reported again while it holds.
const TRIES_MAX: u32 = 3;

/// Is told of each new alert, after it was stored.
pub type OnNewAlert = Box<dyn Fn(AlertKind, &AlertSubject) + Send + Sync>;

/// A condition of this node's, on its way to the store.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    kind: AlertKind,
    subject: AlertSubject,
    level: AlertLevel,
    detail: Text<500>,
}

/// Takes alerts. Cheap to clone.
#[derive(Clone)]
pub struct AlertCollector {
    reports: mpsc::Sender<Condition>,
    dropped: Arc<AtomicU64>,
}

impl AlertCollector {
    /// Starts the task that writes reports; it ends with the last collector. For each new alert `on_new` is
    /// called, and then `raised` is notified.
    pub fn start(
        store: Arc<dyn Store>,
        node: NodeId,
        sinks: Vec<Sink>,
        raised: Arc<Notify>,
        on_new: OnNewAlert,
    ) -> (Self, JoinHandle<()>) {
        let (reports, waiting) = mpsc::channel(WAITING_MAX);
        let writer = Writer { store, node, sinks, raised, on_new };
        let task = tokio::spawn(writer.run(waiting));
        (Self { reports, dropped: Arc::default() }, task)
    }

    /// Reports a condition. Must be repeated while it holds.
    pub fn report(&self, kind: AlertKind, subject: AlertSubject, level: AlertLevel, detail: &str) {
        let detail = Text::lossy(detail);
        if self.reports.try_send(Condition { kind, subject, level, detail }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports that did not fit the queue.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Alerts for AlertCollector {
    fn raise(&self, alert: &Alert) {
        let Alert { kind, submitter, tx_id, nonce, detail } = alert;
        let tx_id = tx_id.map(|id| id.to_string());
        let nonce = nonce.map(|nonce| nonce.get());
        warn!(target: "tollgate::alert", %kind, %submitter, tx_id, nonce, detail, "alert");
        let mut words = detail.clone();
        if let Some(nonce) = nonce {
            words = format!("nonce {nonce}: {words}");
        }
        if let Some(tx_id) = tx_id {
            words = format!("tx {tx_id}, {words}");
        }
        self.report(*kind, AlertSubject::account(*submitter), kind.info().level, &words);
    }
}

/// Writes reports into the store, one at a time.
struct Writer {
    store: Arc<dyn Store>,
    node: NodeId,
    sinks: Vec<Sink>,
    raised: Arc<Notify>,
    on_new: OnNewAlert,
}

impl Writer {
    async fn run(self, mut waiting: mpsc::Receiver<Condition>) {
        let mut together = Vec::new();
        while waiting.recv_many(&mut together, WAITING_MAX).await > 0 {
            // Of the same kind about the same subject the latest words are enough.
            let mut latest = HashMap::new();
            for condition in together.drain(..) {
                latest.insert((condition.kind, condition.subject.clone()), condition);
            }
            for condition in latest.into_values() {
                self.write(condition).await;
            }
        }
    }

    async fn write(&self, condition: Condition) {
        let Condition { kind, subject, level, detail } = condition;
        let wanting = self.sinks.iter().filter(|sink| sink.wants(kind, level));
        let wanting: Vec<String> = wanting.map(|sink| sink.name().to_owned()).collect();
        let (alert_id, node) = (Uuid::now_v7(), self.node.clone());
        let report = AlertReport { alert_id, kind, subject, level, detail, node };
        for attempt in 1..=TRIES_MAX {
            match self.store.report_alert(&report, &wanting).await {
                Ok(is_new) => {
                    if is_new {
                        let (subject, detail) = (&report.subject, report.detail.as_str());
                        info!(target: "tollgate::alert", %kind, %level, %subject, detail, "alert raised");
                        (self.on_new)(kind, subject);
                        self.raised.notify_one();
                    }
                    return;
                }
                Err(error) if attempt == TRIES_MAX => {
                    warn!(%kind, subject = %report.subject, %error, "alert not stored");
                }
                Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }
}
