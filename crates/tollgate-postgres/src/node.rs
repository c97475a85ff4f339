//! Who is alive, by heartbeats and the server's clock.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::port::{LiveNode, NodeStore, StoreError};
use tollgate_model::time::micros;
use tollgate_model::{ChainId, NodeId, Text};

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
        client
            .execute(&statement, &[&id, &url, &node.draining, &chain_id])
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
                })
            })
            .collect()
    }

    async fn leave(&self, node: &NodeId) -> Result<(), StoreError> {
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::NODE_LEAVE).await?;
        client.execute(&statement, &[&node.as_str()]).await.map_err(failed)?;
        Ok(())
    }
}
