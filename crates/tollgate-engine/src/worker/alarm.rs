//! Raises one submitter's alerts, each at most once in a while. Owns when which was raised.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_model::port::{Alert, AlertKind, Alerts};
use tollgate_model::{Nonce, Submitter, Timestamp, TxId};

/// How soon the same alert is raised again.
const REPEAT: Duration = Duration::from_secs(600);
/// Alerts that are remembered as raised (I13); then all are forgotten.
const REMEMBERED_MAX: usize = 1_000;

/// What an alert is about: a transaction in a slot, a slot, or the submitter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct AlertSubject {
    pub(super) tx_id: Option<TxId>,
    pub(super) nonce: Option<Nonce>,
}

/// One submitter's alerts.
pub(super) struct Alarm {
    alerts: Arc<dyn Alerts>,
    submitter: Submitter,
    raised: HashMap<(AlertKind, AlertSubject), Timestamp>,
}

impl AlertSubject {
    /// A transaction in a slot.
    pub(super) const fn slot(tx_id: TxId, nonce: Nonce) -> Self {
        Self { tx_id: Some(tx_id), nonce: Some(nonce) }
    }

    /// A transaction without a slot.
    pub(super) const fn tx(tx_id: TxId) -> Self {
        Self { tx_id: Some(tx_id), nonce: None }
    }

    /// A slot.
    pub(super) const fn nonce(nonce: Nonce) -> Self {
        Self { tx_id: None, nonce: Some(nonce) }
    }
}

impl Alarm {
    pub(super) fn new(alerts: Arc<dyn Alerts>, submitter: Submitter) -> Self {
        Self { alerts, submitter, raised: HashMap::new() }
    }

    pub(super) fn raise(
        &mut self,
        kind: AlertKind,
        about: AlertSubject,
        detail: &str,
        now: Timestamp,
    ) {
        let key = (kind, about);
        if self.raised.get(&key).is_some_and(|at| now.since(*at) < REPEAT) {
            return;
        }
        if self.raised.len() >= REMEMBERED_MAX {
            self.raised.clear();
        }
        self.raised.insert(key, now);
        let (submitter, AlertSubject { tx_id, nonce }) = (self.submitter, about);
        self.alerts.raise(&Alert { kind, submitter, tx_id, nonce, detail: detail.to_owned() });
    }
}
