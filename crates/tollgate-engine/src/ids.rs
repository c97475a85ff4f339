//! Ids from the machine's clock and chance.

use tollgate_model::TxId;
use tollgate_model::port::ids::Ids;
use uuid::Uuid;

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
