//! Who is alive, by heartbeats and the server's clock, and whom each node works for.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{LiveNode, NodeStore, ServedSet, StoreError};
use tollgate_model::time::micros;
use tollgate_model::{B256, ChainId, NodeId, Text};

use crate::PgStore;
use crate::db::prepared;
use crate::error::failed;
use crate::{queries, row};

#[async_trait]
impl NodeStore for PgStore {
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError> {
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::NODE_HEARTBEAT).await?;
        let (id, url) = (node.node.as_str(), node.advertise_url.as_str());
        let chain_id = node.chain_id.as_i64();
        let serves = node.serves.as_ref().map(|digest| digest.as_slice());
        client
            .execute(&statement, &[&id, &url, &node.draining, &chain_id, &serves])
            .await
            .map_err(failed)?;
        Ok(())
    }

    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError> {
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::NODE_LIVE).await?;
        let asked = (chain_id.as_i64(), micros(within));
        let rows = client.query(&statement, &[&asked.0, &asked.1]).await.map_err(failed)?;
        rows.iter()
            .map(|found| {
                Ok(LiveNode {
                    node: NodeId::from_stored(row::get(found, "node_id")?),
                    chain_id,
                    advertise_url: Text::lossy(row::get(found, "advertise_url")?),
                    draining: row::get(found, "draining")?,
                    serves: row::optional_hash(found, "serves")?,
                })
            })
            .collect()
    }

    async fn publish_served(&self, set: &ServedSet) -> Result<(), StoreError> {
        let client = self.pools.upkeep().await?;
        let digest = set.digest();
        let find = prepared(&client, queries::SERVED_FIND).await?;
        if client.query_opt(&find, &[&digest.as_slice()]).await.map_err(failed)?.is_some() {
            return Ok(());
        }
        let put = prepared(&client, queries::SERVED_PUT).await?;
        client.execute(&put, &[&digest.as_slice(), &set.to_bytes()]).await.map_err(failed)?;
        Ok(())
    }

    async fn served_set(&self, digest: B256) -> Result<Option<ServedSet>, StoreError> {
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::SERVED_GET).await?;
        let found = client.query_opt(&statement, &[&digest.as_slice()]).await.map_err(failed)?;
        let set = |row| Ok(ServedSet::from_bytes(row::get(row, "accounts")?));
        found.as_ref().map_or(Ok(None), set)
    }

    async fn leave(&self, node: &NodeId) -> Result<(), StoreError> {
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::NODE_LEAVE).await?;
        client.execute(&statement, &[&node.as_str()]).await.map_err(failed)?;
        let forget = prepared(&client, queries::SERVED_FORGET).await?;
        client.execute(&forget, &[]).await.map_err(failed)?;
        Ok(())
    }
}
