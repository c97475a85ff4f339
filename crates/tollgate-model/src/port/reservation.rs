//! Reservations: nonces for callers that send by themselves.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::chain::AccountCounts;
use super::{Lease, Page, StoreError};
use crate::ids::{NodeId, Nonce, Submitter, TxHash};
use crate::text::Text;
use crate::time::Timestamp;

/// The state of a reserved nonce.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReservationState {
    /// A caller holds it until the deadline.
    Reserved,
    /// Spent: a caller reported it as used, or a managed transaction took it from the pool.
    Used,
    /// Free: the lowest recyclable nonce is assigned before the cursor moves.
    Recyclable,
}

codes!(ReservationState { Reserved => 1, Used => 2, Recyclable => 3 });

impl ReservationState {
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Used, Self::Recyclable];
}

/// A nonce that a caller holds or held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    pub submitter: Submitter,
    pub nonce: Nonce,
    pub state: ReservationState,
    /// The caller's token: a later report with another token is stale.
    pub owner_token: Uuid,
    /// When it becomes recyclable by itself.
    pub deadline: Timestamp,
    /// The hash of the transaction that uses it.
    pub tx_hash: Option<TxHash>,
    pub reason: Option<Text<500>>,
}

/// A request to reserve a nonce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    pub lease: Lease,
    /// The token that the caller must present later.
    pub owner_token: Uuid,
    /// The time for which the caller may hold it.
    pub hold: Duration,
    /// The higher of the chain's mined and pending counts: no nonce below it is assigned. I3: a
    /// nonce that only a pool counts may belong to a caller that sent it after its deadline.
    pub floor: Nonce,
    /// The maximum number of nonces that callers may hold at once (I13).
    pub outstanding_max: u32,
}

impl Reserve {
    /// The floor for an account with these counts.
    pub fn floor_of(counts: AccountCounts) -> Nonce {
        counts.mined.max(counts.pending)
    }
}

/// Nonces that an operator returns to the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReturnedNonces {
    /// The nonces, at most [`Page::MAX`].
    pub nonces: Vec<Nonce>,
    /// Also return nonces that callers reported as used: the operator vouches that they will not be sent.
    pub used: bool,
    /// The reason, kept with each nonce and in the audit trail.
    pub reason: Text<500>,
}

/// Reservations, under the same lease, cursor and fence as everything else.
#[async_trait]
pub trait ReservationStore: Send + Sync {
    /// Assigns the lowest recyclable nonce, else the cursor's; `None` if too many are reserved or the
    /// submitter accepts no work.
    async fn reserve(
        &self,
        node: &NodeId,
        ask: &Reserve,
    ) -> Result<Option<Reservation>, StoreError>;

    /// Records that the caller uses a nonce, before the caller sends it. Repeating the report with the
    /// same hash gives the same answer. `None` if the token is stale: the nonce is no longer the
    /// caller's.
    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError>;

    /// Records that the caller did not and will not use a nonce. `None` if the token is stale.
    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError>;

    /// Makes reservations recyclable whose deadline has passed; returns their nonces.
    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Marks recyclable nonces below the mined count as used, because the chain has spent them. Returns
    /// the nonces.
    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Adds nonces below the cursor that belong to neither a managed transaction nor a reservation to
    /// the pool and returns them. At most [`Page::MAX`] per call.
    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        nonces: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Adds nonces below the cursor to the pool at an operator's request, with an audit entry; returns
    /// those that are recyclable now. A nonce that belongs to a managed transaction or a caller keeps
    /// its owner (I3), unless the operator vouches for those reported as used.
    async fn return_nonces(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &ReturnedNonces,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Lists a submitter's unused reservations after a nonce, lowest first.
    async fn reservations(
        &self,
        submitter: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError>;

    /// The hash for which a nonce was reported as used, or in which it was used; `None` if it is not used.
    async fn used_for(
        &self,
        submitter: Submitter,
        nonce: Nonce,
    ) -> Result<Option<TxHash>, StoreError>;

    /// Lists a submitter's used nonces from a nonce on, lowest first: those that callers, or
    /// transactions in a recycled slot, have sent or will send.
    async fn used_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError>;
}
