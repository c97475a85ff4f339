//! The feed and the reservations over the network.

use async_trait::async_trait;
use tollgate_model::port::{
    FeedPage, FeedStore, Lease, OutboxEvent, Page, Reservation, ReservationStore, Reserve,
    StoreError,
};
use tollgate_model::{ChainId, NodeId, Nonce, Seq, Submitter, Text, TxHash};
use uuid::Uuid;

use super::NodeStore;
use crate::planted::Bug;

#[async_trait]
impl FeedStore for NodeStore {
    async fn completions(
        &self,
        chain_id: ChainId,
        after: Seq,
        page: Page,
    ) -> Result<FeedPage, StoreError> {
        self.read(
            "completions",
            |store| async move { store.completions(chain_id, after, page).await },
        )
        .await
    }

    async fn feed_end(&self, chain_id: ChainId) -> Result<Seq, StoreError> {
        self.read("feed_end", move |store| async move { store.feed_end(chain_id).await }).await
    }

    async fn outbox(&self, page: Page) -> Result<Vec<OutboxEvent>, StoreError> {
        self.read("outbox", |store| async move { store.outbox(page).await }).await
    }

    async fn forget_outbox(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.read("forget_outbox", |store| async move { store.forget_outbox(ids).await }).await
    }
}

#[async_trait]
impl ReservationStore for NodeStore {
    async fn reserve(
        &self,
        node: &NodeId,
        ask: &Reserve,
    ) -> Result<Option<Reservation>, StoreError> {
        self.read("reserve", |store| async move { store.reserve(node, ask).await }).await
    }

    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError> {
        let forgets = self.world.has(Bug::UsedForgotten);
        self.read("reservation_used", |store| async move {
            if forgets {
                let page = Page::new(Page::MAX)?;
                let out = store.reservations(lease.submitter, None, page).await?;
                let is_it = |it: &Reservation| (it.nonce, it.owner_token) == (nonce, owner_token);
                return Ok(out.into_iter().find(is_it));
            }
            store.reservation_used(node, lease, nonce, owner_token, tx_hash).await
        })
        .await
    }

    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError> {
        self.read("reservation_recyclable", |store| async move {
            store.reservation_recyclable(node, lease, nonce, owner_token, reason).await
        })
        .await
    }

    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.read("expire_reservations", |store| async move {
            store.expire_reservations(node, lease).await
        })
        .await
    }

    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.read(
            "retire_passed",
            |store| async move { store.retire_passed(node, lease, mined).await },
        )
        .await
    }

    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        nonces: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.read("adopt", |store| async move { store.adopt(node, lease, nonces, reason).await })
            .await
    }

    async fn reservations(
        &self,
        submitter: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError> {
        self.read("reservations", |store| async move {
            store.reservations(submitter, after, page).await
        })
        .await
    }

    async fn used_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.read("used_from", |store| async move { store.used_from(submitter, from, page).await })
            .await
    }
}
