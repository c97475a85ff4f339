//! A nonce in this program's hands, as Tollgate tells it.

use serde::Deserialize;
use tollgate_model::{Address, ChainId, Nonce};
use uuid::Uuid;

/// A reserved nonce and the proof that it is ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The chain.
    pub chain_id: ChainId,
    /// The account.
    pub submitter: Address,
    /// The nonce.
    pub nonce: Nonce,
    /// The proof: whoever has it can say what became of the nonce.
    pub owner_token: Uuid,
    /// When it goes to somebody else, RFC 3339, by Tollgate's clock.
    pub deadline: String,
}

/// The same as it stands in an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    chain_id: u64,
    submitter: Address,
    nonce: u64,
    owner_token: Uuid,
    deadline: String,
}

impl Answer {
    pub(crate) fn read(self) -> Result<Reservation, String> {
        Ok(Reservation {
            chain_id: ChainId::new(self.chain_id).map_err(|error| error.to_string())?,
            submitter: self.submitter,
            nonce: Nonce::new(self.nonce).map_err(|error| error.to_string())?,
            owner_token: self.owner_token,
            deadline: self.deadline,
        })
    }
}
