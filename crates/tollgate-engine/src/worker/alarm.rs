//! Raises one submitter's alerts, each at most once in a while. Owns when which was raised.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_model::alert::ALERT_REPEAT;
use tollgate_model::port::{Alert, AlertKind, Alerts};
use tollgate_model::{Nonce, Submitter, Timestamp, TxId};

const REPEAT: Duration = ALERT_REPEAT;
/// Alerts that are remembered as raised (I13). More than that within [`REPEAT`] are about more open
/// transactions than an account usually has; then the older half is forgotten and may be raised again.
const REMEMBERED_MAX: usize = 50_000;

/// The subject of an alert: a transaction in a slot, a slot, or the submitter.
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
            self.forget_older(now);
        }
        self.raised.insert(key, now);
        let (submitter, AlertSubject { tx_id, nonce }) = (self.submitter, about);
        self.alerts.raise(&Alert { kind, submitter, tx_id, nonce, detail: detail.to_owned() });
    }

    /// Forgets that an alert was raised: the next one about the same subject is about a new event.
    pub(super) fn forget(&mut self, kind: AlertKind, about: AlertSubject) {
        self.raised.remove(&(kind, about));
    }

    /// Forgets alerts that may be raised again anyway, and the older half if there are none.
    fn forget_older(&mut self, now: Timestamp) {
        self.raised.retain(|_, at| now.since(*at) < REPEAT);
        if self.raised.len() >= REMEMBERED_MAX {
            let mut times: Vec<Timestamp> = self.raised.values().copied().collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.raised.retain(|_, at| *at > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use tollgate_model::{Address, ChainId};

    #[derive(Default)]
    struct Raised(Mutex<Vec<Nonce>>);

    impl Alerts for Raised {
        fn raise(&self, alert: &Alert) {
            self.0.lock().unwrap().extend(alert.nonce);
        }
    }

    #[test]
    fn alerts_about_thousands_of_slots_are_raised_once_each_until_they_are_repeated() {
        let raised = Arc::new(Raised::default());
        let submitter = Submitter::new(ChainId::MIN, Address::ZERO);
        let mut alarm = Alarm::new(raised.clone(), submitter);
        let mut raise_all = |now| {
            for nonce in (0..5_000).map(|nonce| Nonce::new(nonce).unwrap()) {
                alarm.raise(AlertKind::Stuck, AlertSubject::nonce(nonce), "", now);
            }
            raised.0.lock().unwrap().len()
        };
        let now = Timestamp::EPOCH;
        assert_eq!([raise_all(now), raise_all(now)], [5_000, 5_000]);
        assert_eq!(raise_all(now.after(REPEAT)), 10_000);
    }

    #[test]
    fn memory_of_raised_alerts_is_bounded() {
        let submitter = Submitter::new(ChainId::MIN, Address::ZERO);
        let mut alarm = Alarm::new(Arc::new(Raised::default()), submitter);
        for n in 0..2 * REMEMBERED_MAX as u64 {
            let now = Timestamp::EPOCH.after(Duration::from_micros(n));
            let subject = AlertSubject::nonce(Nonce::new(n).unwrap());
            alarm.raise(AlertKind::Stuck, subject, "", now);
            assert!(alarm.raised.len() <= REMEMBERED_MAX, "I13");
        }
    }
}
