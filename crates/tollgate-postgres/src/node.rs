//! Live nodes, by heartbeats and the server's clock, and the accounts that each serves. Implements
//! [`NodeStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{LiveNode, NodeStore, PeerKey, ServedSet, StoreError};
use tollgate_model::time::micros;
use tollgate_model::{B256, ChainId, NodeId};

use crate::{PgStore, queries, row};

#[async_trait]
impl NodeStore for PgStore {
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError> {
        let (id, url) = (node.node.as_str(), node.advertise_url.as_str());
        let chain_id = node.chain_id.as_i64();
        let serves = node.serves.as_ref().map(|digest| digest.as_slice());
        let upkeep = self.pools.upkeep().await?;
        upkeep
            .execute(queries::NODE_HEARTBEAT, &[&id, &url, &node.draining, &chain_id, &serves])
            .await?;
        Ok(())
    }

    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        let rows =
            upkeep.query_all(queries::NODE_LIVE, &[&chain_id.as_i64(), &micros(within)]).await?;
        rows.iter().map(|row| row::live_node(row, chain_id)).collect()
    }

    async fn publish_served(&self, set: &ServedSet) -> Result<(), StoreError> {
        let digest = set.digest();
        let digest = digest.as_slice();
        let upkeep = self.pools.upkeep().await?;
        if upkeep.query_opt(queries::SERVED_FIND, &[&digest]).await?.is_none() {
            upkeep.execute(queries::SERVED_PUT, &[&digest, &set.to_bytes()]).await?;
        }
        Ok(())
    }

    async fn served_set(&self, digest: B256) -> Result<Option<ServedSet>, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        let found = upkeep.query_opt(queries::SERVED_GET, &[&digest.as_slice()]).await?;
        let set = |row| Ok(ServedSet::from_bytes(row::bytes(row, "accounts")?));
        found.as_ref().map_or(Ok(None), set)
    }

    async fn publish_peer_key(&self, node: &NodeId, key: &PeerKey) -> Result<(), StoreError> {
        let (node, key) = (node.as_str(), key.as_bytes().as_slice());
        let upkeep = self.pools.upkeep().await?;
        if upkeep.query_opt(queries::NODE_KEY_FIND, &[&node, &key]).await?.is_none() {
            upkeep.execute(queries::NODE_KEY_PUT, &[&node, &key]).await?;
        }
        Ok(())
    }

    async fn peer_key(
        &self,
        node: &NodeId,
        within: Duration,
    ) -> Result<Option<PeerKey>, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        let found =
            upkeep.query_opt(queries::NODE_KEY_GET, &[&node.as_str(), &micros(within)]).await?;
        let key = |row| Ok(PeerKey::from_bytes(row::bytes(row, "peer_key")?));
        found.as_ref().map_or(Ok(None), key)
    }

    async fn leave(&self, node: &NodeId) -> Result<(), StoreError> {
        let upkeep = self.pools.upkeep().await?;
        upkeep.execute(queries::NODE_LEAVE, &[&node.as_str()]).await?;
        upkeep.execute(queries::SERVED_FORGET, &[]).await?;
        Ok(())
    }
}
