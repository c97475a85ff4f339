//! Alerts for whoever reads the log.

use tollgate_model::port::{Alert, Alerts};
use tracing::warn;

/// Writes alerts to the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoggedAlerts;

impl Alerts for LoggedAlerts {
    fn raise(&self, alert: &Alert) {
        let Alert { kind, submitter, tx_id, nonce, detail } = alert;
        let tx_id = tx_id.map(|id| id.to_string());
        let nonce = nonce.map(|nonce| nonce.get());
        warn!(target: "tollgate::alert", %kind, %submitter, tx_id, nonce, detail, "alert");
    }
}
