//! Nonces for callers that send by themselves.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::chain::AccountCounts;
use super::{Lease, Page, StoreError};
use crate::ids::{InvalidId, NodeId, Nonce, Submitter, TxHash};
use crate::text::Text;
use crate::time::Timestamp;

/// Where a reserved nonce is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReservationState {
    /// A caller has it until the deadline.
    Reserved,
    /// It is spent: a caller said so, or a managed transaction took it from the pool.
    Used,
    /// It is free: the lowest one is handed out before the cursor moves.
    Recyclable,
}

impl ReservationState {
    /// Every state there is.
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Used, Self::Recyclable];

    /// The number under which stores keep the state.
    pub const fn code(self) -> i16 {
        match self {
            Self::Reserved => 1,
            Self::Used => 2,
            Self::Recyclable => 3,
        }
    }

    /// The state that a store keeps under `code`.
    pub fn from_code(code: i16) -> Result<Self, InvalidId> {
        Self::ALL
            .into_iter()
            .find(|state| state.code() == code)
            .ok_or_else(|| InvalidId::new("reservation", format!("no state {code}")))
    }
}

/// A nonce in a caller's hands, or back from there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Of which account.
    pub submitter: Submitter,
    /// Which nonce.
    pub nonce: Nonce,
    /// Where it is.
    pub state: ReservationState,
    /// Who has it: an answer with another token is late.
    pub owner_token: Uuid,
    /// When it returns by itself.
    pub deadline: Timestamp,
    /// What it was used for.
    pub tx_hash: Option<TxHash>,
    /// Why it came back.
    pub reason: Option<Text<500>>,
}

/// What to reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// The right to write for the submitter.
    pub lease: Lease,
    /// The caller's proof for its later answer.
    pub owner_token: Uuid,
    /// How long the caller may take.
    pub hold: Duration,
    /// The higher of the chain's mined and pending counts: nothing below it is handed out. I3: what
    /// only a pool counts may be a caller's that sent it and let its time run out.
    pub floor: Nonce,
    /// How many nonces callers may hold at once (I13).
    pub outstanding_max: u32,
}

impl Reserve {
    /// The floor that follows from an account's counts.
    pub fn floor_of(counts: AccountCounts) -> Nonce {
        counts.mined.max(counts.pending)
    }
}

/// Nonces that an operator hands back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandBack {
    /// Which, at most [`Page::MAX`].
    pub nonces: Vec<Nonce>,
    /// Also those that callers said to use: the operator vouches that they will not be sent.
    pub used: bool,
    /// Why: kept with each nonce and in the audit trail.
    pub reason: Text<500>,
}

/// Reservations: the same lease, cursor and fence as everything else.
#[async_trait]
pub trait ReservationStore: Send + Sync {
    /// Hands out the lowest recyclable nonce, else the cursor's; `None` if too many are out or the
    /// submitter takes no work.
    async fn reserve(
        &self,
        node: &NodeId,
        ask: &Reserve,
    ) -> Result<Option<Reservation>, StoreError>;

    /// The caller uses it: told before it is sent, so that it is known whatever happens next. Told
    /// again with the same hash it is the same answer. `None`: the token is stale, the nonce is not
    /// the caller's any more.
    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError>;

    /// The caller did not use it, and will not. `None`: the token is stale.
    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError>;

    /// Returns reservations whose deadline has passed to the pool; returns their nonces.
    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Marks what is in the pool below the mined count as used: whoever did it, it is spent. Returns
    /// the nonces.
    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Puts nonces below the cursor that neither a managed transaction nor a reservation has into
    /// the pool, so that the next one fills them; returns those. At most [`Page::MAX`] at once.
    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        nonces: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// Puts nonces below the cursor into the pool by an operator's word, with an entry in the audit
    /// trail; returns those that are free now. What a managed transaction or a caller has keeps its
    /// owner (I3), unless the operator vouches for what callers said to use.
    async fn hand_back(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &HandBack,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// A page of a submitter's reservations that are not used, lowest first, after a nonce.
    async fn reservations(
        &self,
        submitter: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError>;

    /// A page of a submitter's nonces that are used, from a nonce on, lowest first: what callers, or
    /// transactions with a recycled slot, have sent or will.
    async fn used_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError>;
}
