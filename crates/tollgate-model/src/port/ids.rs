//! Where new ids come from: chance in production, a seed in simulations.

use uuid::Uuid;

use crate::ids::TxId;

/// Makes ids that nobody else has.
pub trait Ids: Send + Sync {
    /// For a new transaction. Ids of one node ascend with time (UUID v7).
    fn tx_id(&self) -> TxId;

    /// For a caller that is given a nonce; nobody can guess it.
    fn owner_token(&self) -> Uuid;
}
