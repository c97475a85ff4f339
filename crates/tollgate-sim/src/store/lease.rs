//! Leases and nodes over the network.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{
    Acquisition, Lease, LeaseStore, LeaseTerms, LiveNode, NodeStore as Nodes, OrphanPage, Owner,
    ServedSet, StoreError,
};
use tollgate_model::{Address, B256, ChainId, NodeId, Submitter};

use super::NodeStore;
use crate::planted::{self, Bug};

/// What the planted bug sees of them.
const FEW_ORPHANS: u32 = 20;

#[async_trait]
impl LeaseStore for NodeStore {
    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError> {
        let (node, terms) = (node.clone(), *terms);
        let change = async move |world: &crate::world::World, name: &str| {
            let answer = world.store.acquire(submitter, &node, &terms).await;
            let Ok(Acquisition::Granted { lease, kind, .. }) = &answer else { return answer };
            world.note(format_args!("{name} lease of {submitter} {} {kind:?}", lease.token.get()));
            world.granted(*lease, &node).await;
            answer
        };
        let answer =
            self.write("acquire", move |world, name| async move { change(&world, &name).await });
        let answer = answer.await?;
        self.line.arrive("acquire").await;
        answer.map(|granted| planted::unstrict(&self.world, granted))
    }

    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError> {
        let (node, leases, terms) = (node.clone(), leases.to_vec(), *terms);
        let answer = self.write("renew", move |world, name| async move {
            world.note(format_args!("{name} renew {}", leases.len()));
            world.store.renew(&node, &leases, &terms).await
        });
        let answer = answer.await?;
        self.line.arrive("renew").await;
        answer
    }

    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError> {
        let (node, leases) = (node.clone(), leases.to_vec());
        let answer = self.write("release", move |world, name| async move {
            let released = world.store.release(&node, &leases).await;
            world.note(format_args!("{name} release {released:?}"));
            world.released(&leases).await;
            released
        });
        let answer = answer.await?;
        self.line.arrive("release").await;
        answer
    }

    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError> {
        self.read("owners", |store| async move { store.owners(submitters).await }).await
    }

    async fn orphans(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        limit: u32,
    ) -> Result<OrphanPage, StoreError> {
        let sees_all = !self.world.has(Bug::OrphansCutOff);
        let limit = if sees_all { limit } else { FEW_ORPHANS };
        let read = self
            .read("orphans", |store| async move { store.orphans(chain_id, after, limit).await });
        read.await.map(|page| OrphanPage { next: page.next.filter(|_| sees_all), ..page })
    }
}

#[async_trait]
impl Nodes for NodeStore {
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError> {
        self.read("heartbeat", |store| async move { store.heartbeat(node).await }).await
    }

    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError> {
        self.read("live_nodes", |store| async move { store.live_nodes(chain_id, within).await })
            .await
    }

    async fn publish_served(&self, set: &ServedSet) -> Result<(), StoreError> {
        self.read("publish_served", |store| async move { store.publish_served(set).await }).await
    }

    async fn served_set(&self, digest: B256) -> Result<Option<ServedSet>, StoreError> {
        self.read("served_set", |store| async move { store.served_set(digest).await }).await
    }

    async fn leave(&self, node: &NodeId) -> Result<(), StoreError> {
        self.read("leave", |store| async move { store.leave(node).await }).await
    }
}
