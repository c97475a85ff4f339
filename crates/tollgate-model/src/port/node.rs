//! Who is alive.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::ids::{ChainId, NodeId};
use crate::text::Text;

/// A node as the others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveNode {
    /// Which.
    pub node: NodeId,
    /// The chain that it works on. Nodes of other chains are no peers: they can't do its work.
    pub chain_id: ChainId,
    /// Where the others reach it.
    pub advertise_url: Text<500>,
    /// It finishes what it has and takes nothing new.
    pub draining: bool,
}

/// The list of nodes, kept by heartbeats and the database's clock.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Says that a node is alive.
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError>;

    /// The nodes of a chain whose last heartbeat is younger than `within`, in the order of their ids.
    /// A node that did not say which chain it works on (one of an older version) is not among them.
    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError>;

    /// Takes a node off the list.
    async fn leave(&self, node: &NodeId) -> Result<(), StoreError>;
}
