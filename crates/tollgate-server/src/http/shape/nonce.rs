//! Nonces outside of managed transactions.

use serde::Serialize;
use tollgate_model::port::{Reservation as Stored, ReservationState};
use utoipa::ToSchema;

use super::{address, time};
use crate::http::schema;

/// A nonce in a caller's hands, or back from there.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reservation {
    /// The chain.
    chain_id: u64,
    /// The account.
    #[schema(value_type = schema::Address)]
    submitter: String,
    /// The nonce.
    nonce: u64,
    /// Where it is.
    #[schema(value_type = schema::ReservationState)]
    state: &'static str,
    /// When it comes back, or came back, by itself.
    #[schema(value_type = schema::Time)]
    deadline: String,
    /// What it was used for.
    #[schema(value_type = Option<schema::Hash>, required)]
    tx_hash: Option<String>,
    /// Why it came back.
    #[schema(required)]
    reason: Option<String>,
}

/// A nonce that was just handed out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReservedNonce {
    #[serde(flatten)]
    reservation: Reservation,
    /// The caller's proof for its answer: told once, to this caller only.
    #[schema(value_type = schema::OwnerToken)]
    owner_token: String,
}

/// A page of nonces, lowest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReservationPage {
    /// The nonces.
    items: Vec<Reservation>,
    /// The `cursor` of the next page; null after the last one.
    #[schema(required)]
    next: Option<String>,
}

impl Reservation {
    pub(crate) fn new(stored: &Stored) -> Self {
        Self {
            chain_id: stored.submitter.chain_id.get(),
            submitter: address(stored.submitter.address),
            nonce: stored.nonce.get(),
            state: match stored.state {
                ReservationState::Reserved => "RESERVED",
                ReservationState::Used => "USED",
                ReservationState::Recyclable => "RECYCLABLE",
            },
            deadline: time(stored.deadline),
            tx_hash: stored.tx_hash.map(|hash| hash.to_string()),
            reason: stored.reason.as_ref().map(|reason| reason.as_str().to_owned()),
        }
    }
}

impl ReservedNonce {
    pub(crate) fn new(stored: &Stored) -> Self {
        let owner_token = stored.owner_token.to_string();
        Self { reservation: Reservation::new(stored), owner_token }
    }
}

impl ReservationPage {
    pub(crate) fn new(found: &[Stored], full: bool) -> Self {
        let next = found.last().filter(|_| full).map(|last| last.nonce.get().to_string());
        Self { items: found.iter().map(Reservation::new).collect(), next }
    }
}
