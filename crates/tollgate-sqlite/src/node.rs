//! Who is alive. Implements [`NodeStore`].

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::port::{LiveNode, NodeStore, StoreError};
use tollgate_model::{ChainId, NodeId, Text};

use crate::SqliteStore;
use crate::connection::span;
use crate::db::{all, exec};
use crate::queries;

#[async_trait]
impl NodeStore for SqliteStore {
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError> {
        let node = node.clone();
        let beat = self.db.write(move |scope| {
            let LiveNode { node, chain_id, advertise_url, draining } = &node;
            let url = advertise_url.as_str();
            let params = params![node.as_str(), url, draining, chain_id.as_i64()];
            exec(scope.conn, queries::NODE_HEARTBEAT, params).map(drop)
        });
        beat.await
    }

    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError> {
        let nodes = self.db.read(move |conn| {
            let params = params![chain_id.as_i64(), span(within)];
            all(conn, queries::NODE_LIVE, params, |row| {
                Ok(LiveNode {
                    node: NodeId::from_stored(row.get(0)?),
                    chain_id,
                    advertise_url: Text::new("advertiseUrl", row.get::<_, String>(1)?)?,
                    draining: row.get(2)?,
                })
            })
        });
        nodes.await
    }

    async fn leave(&self, node: &NodeId) -> Result<(), StoreError> {
        let node = node.clone();
        let left = self
            .db
            .write(move |scope| exec(scope.conn, queries::NODE_LEAVE, [node.as_str()]).map(drop));
        left.await
    }
}
