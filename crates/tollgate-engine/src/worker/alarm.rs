//! Tells people, and keeps quiet about the same thing for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_model::port::{Alert, AlertKind, Alerts};
use tollgate_model::{Nonce, Submitter, Timestamp, TxId};

/// How soon the same thing is said again.
const REPEAT: Duration = Duration::from_secs(600);
/// Things that are remembered as said (I13); then all are forgotten.
const REMEMBERED_MAX: usize = 1_000;

/// What an alert is about: a transaction in a slot, a slot, or the submitter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct About {
    pub(super) tx_id: Option<TxId>,
    pub(super) nonce: Option<Nonce>,
}

/// One submitter's alerts.
pub(super) struct Alarm {
    alerts: Arc<dyn Alerts>,
    submitter: Submitter,
    said: HashMap<(AlertKind, About), Timestamp>,
}

impl Alarm {
    pub(super) fn new(alerts: Arc<dyn Alerts>, submitter: Submitter) -> Self {
        Self { alerts, submitter, said: HashMap::new() }
    }

    pub(super) fn raise(&mut self, kind: AlertKind, about: About, detail: &str, now: Timestamp) {
        let key = (kind, about);
        if self.said.get(&key).is_some_and(|at| now.since(*at) < REPEAT) {
            return;
        }
        if self.said.len() >= REMEMBERED_MAX {
            self.said.clear();
        }
        self.said.insert(key, now);
        let (submitter, About { tx_id, nonce }) = (self.submitter, about);
        self.alerts.raise(&Alert { kind, submitter, tx_id, nonce, detail: detail.to_owned() });
    }
}
