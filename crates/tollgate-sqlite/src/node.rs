//! Live nodes, by heartbeats, and the accounts that each serves. Implements [`NodeStore`].

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::port::{LiveNode, NodeStore, PeerKey, ServedSet, StoreError};
use tollgate_model::{B256, ChainId, NodeId};

use crate::connection::span;
use crate::{SqliteStore, queries, row};

/// The time that a set of accounts is kept that no node names.
const UNNAMED_SET_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

#[async_trait]
impl NodeStore for SqliteStore {
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError> {
        let node = node.clone();
        let beat = self.db.write(move |tx| {
            let LiveNode { node, chain_id, advertise_url, draining, serves } = &node;
            let (url, serves) = (advertise_url.as_str(), serves.as_ref().map(|it| it.as_slice()));
            let params = params![node.as_str(), url, draining, chain_id.as_i64(), serves];
            tx.exec(queries::NODE_HEARTBEAT, params).map(drop)
        });
        beat.await
    }

    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError> {
        let params = (chain_id.as_i64(), span(within));
        self.db.all(queries::NODE_LIVE, params, move |row| row::live_node(row, chain_id)).await
    }

    async fn publish_served(&self, set: &ServedSet) -> Result<(), StoreError> {
        let digest = set.digest();
        let found =
            self.db.read(move |conn| conn.exists(queries::SERVED_FIND, [digest.as_slice()]));
        if found.await? {
            return Ok(());
        }
        let accounts = set.to_bytes();
        let published = self.db.write(move |tx| {
            tx.exec(queries::SERVED_PUT, params![digest.as_slice(), accounts]).map(drop)
        });
        published.await
    }

    async fn served_set(&self, digest: B256) -> Result<Option<ServedSet>, StoreError> {
        let accounts = self.db.one(queries::SERVED_GET, [digest.0], |row| {
            row::bytes(row, "accounts").map(<[u8]>::to_vec)
        });
        Ok(accounts.await?.as_deref().and_then(ServedSet::from_bytes))
    }

    async fn publish_peer_key(&self, node: &NodeId, key: &PeerKey) -> Result<(), StoreError> {
        let (id, wanted) = (node.as_str().to_owned(), *key.as_bytes());
        let is_set =
            self.db.read(move |conn| conn.exists(queries::NODE_KEY_FIND, params![id, wanted]));
        if is_set.await? {
            return Ok(());
        }
        let (node, key) = (node.clone(), *key.as_bytes());
        let published = self
            .db
            .write(move |tx| tx.exec(queries::NODE_KEY_PUT, params![node.as_str(), key]).map(drop));
        published.await
    }

    async fn peer_key(
        &self,
        node: &NodeId,
        within: Duration,
    ) -> Result<Option<PeerKey>, StoreError> {
        let params = (node.as_str().to_owned(), span(within));
        let key = self.db.one(queries::NODE_KEY_GET, params, |row| {
            row::bytes(row, "peer_key").map(<[u8]>::to_vec)
        });
        Ok(key.await?.as_deref().and_then(PeerKey::from_bytes))
    }

    async fn leave(&self, node: &NodeId) -> Result<(), StoreError> {
        let node = node.clone();
        let left = self.db.write(move |tx| {
            tx.exec(queries::NODE_LEAVE, [node.as_str()])?;
            tx.exec(queries::SERVED_FORGET, [span(UNNAMED_SET_KEPT)]).map(drop)
        });
        left.await
    }
}
