//! Nonces that callers reserve and use by themselves.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate_model::port::{Reservation as Stored, ReservationState};
use utoipa::ToSchema;

use crate::number::Number;
use crate::schema;
use crate::time::format_time;

/// A nonce in a caller's hands, or back from there.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The chain.
    pub chain_id: u64,
    /// The account.
    #[schema(value_type = schema::Address)]
    pub submitter: String,
    /// The nonce.
    pub nonce: u64,
    /// The state of the reservation.
    #[schema(value_type = schema::ReservationState)]
    pub state: Cow<'static, str>,
    /// When it comes back, or came back, by itself.
    #[schema(value_type = schema::Time)]
    pub deadline: String,
    /// The hash of the transaction that uses it.
    #[schema(value_type = Option<schema::Hash>, required)]
    pub tx_hash: Option<String>,
    /// The reason given when it was returned.
    #[schema(required)]
    pub reason: Option<String>,
}

/// A nonce that was just handed out.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ReservedNonce {
    /// The reservation.
    #[serde(flatten)]
    pub reservation: Reservation,
    /// The caller's proof for its answer: told once, to this caller only.
    #[schema(value_type = schema::OwnerToken)]
    pub owner_token: String,
}

/// The body of a reservation.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reserve {
    /// After so many seconds it comes back by itself; `reservations.hold` if left out.
    #[schema(value_type = Option<schema::Number>)]
    pub hold_seconds: Option<Number>,
}

/// The body of a report that a nonce is used.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsedNonce {
    /// The caller's proof, from the reservation.
    #[schema(value_type = schema::OwnerToken)]
    pub owner_token: String,
    /// The hash of what the caller has signed and is about to send.
    #[schema(value_type = schema::Hash)]
    pub tx_hash: String,
}

/// The body of a return of a nonce.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReturnedNonce {
    /// The caller's proof, from the reservation.
    #[schema(value_type = schema::OwnerToken)]
    pub owner_token: String,
    /// The reason: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText)]
    pub reason: String,
}

impl From<&Stored> for Reservation {
    fn from(stored: &Stored) -> Self {
        let state = match stored.state {
            ReservationState::Reserved => "RESERVED",
            ReservationState::Used => "USED",
            ReservationState::Recyclable => "RECYCLABLE",
        };
        Self {
            chain_id: stored.submitter.chain_id.get(),
            submitter: stored.submitter.address.to_checksum(None),
            nonce: stored.nonce.get(),
            state: state.into(),
            deadline: format_time(stored.deadline),
            tx_hash: stored.tx_hash.map(|hash| hash.to_string()),
            reason: stored.reason.as_ref().map(|reason| reason.as_str().to_owned()),
        }
    }
}

impl From<&Stored> for ReservedNonce {
    fn from(stored: &Stored) -> Self {
        Self { reservation: stored.into(), owner_token: stored.owner_token.to_string() }
    }
}
