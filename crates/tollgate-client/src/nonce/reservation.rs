//! A reserved nonce.

use serde::{Deserialize, Deserializer, de};
use tollgate_model::ids::InvalidValue;
use tollgate_model::{Address, ChainId, Nonce};
use uuid::Uuid;

/// A reserved nonce and the token that proves the reservation.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The chain.
    #[serde(deserialize_with = "chain_id")]
    pub chain_id: ChainId,
    /// The account.
    pub submitter: Address,
    /// The nonce.
    #[serde(deserialize_with = "nonce")]
    pub nonce: Nonce,
    /// The proof of ownership: its holder may report the nonce as used or recyclable.
    pub owner_token: Uuid,
    /// The end of the reservation, RFC 3339, by Tollgate's clock.
    pub deadline: String,
}

fn chain_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ChainId, D::Error> {
    number(deserializer, ChainId::new)
}

fn nonce<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nonce, D::Error> {
    number(deserializer, Nonce::new)
}

fn number<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    new: fn(u64) -> Result<T, InvalidValue>,
) -> Result<T, D::Error> {
    new(u64::deserialize(deserializer)?).map_err(de::Error::custom)
}
