//! Ports outside of simulations: alerts in the log, and ids from the machine's clock and random numbers.

use tollgate_model::TxId;
use tollgate_model::port::ids::Ids;
use tollgate_model::port::{Alert, Alerts};
use tracing::warn;
use uuid::Uuid;

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

/// The source of ids outside of simulations.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn tx_id(&self) -> TxId {
        TxId::from_uuid(Uuid::now_v7())
    }

    fn owner_token(&self) -> Uuid {
        Uuid::new_v4()
    }
}
