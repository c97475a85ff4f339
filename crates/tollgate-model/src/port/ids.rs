//! The source of new ids: random in production, seeded in simulations.

use uuid::Uuid;

use crate::ids::TxId;

/// Generates unique ids.
pub trait Ids: Send + Sync {
    /// Generates the id of a new transaction. Ids of one node ascend with time (UUID v7).
    fn tx_id(&self) -> TxId;

    /// Generates the unguessable owner token of a reservation.
    fn owner_token(&self) -> Uuid;
}
