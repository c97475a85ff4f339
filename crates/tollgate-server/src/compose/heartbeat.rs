//! Writes the heartbeat of a node and the accounts that it serves. Owns the node's row in the list of
//! nodes.
//!
//! Affects routing only: a node that is missing from the list keeps its leases.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tollgate_model::port::{LiveNode, PeerKey, ServedSet, Store};
use tracing::warn;

/// The longest time for the removal from the list; after that the row expires.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time for the announcement that the node drains.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(2);

/// The heartbeat of a node. If it is dropped without [`Self::leave`], the node is removed from the
/// list as soon as the runtime gets to it.
pub(super) struct Heartbeat {
    store: Arc<dyn Store>,
    node: ListedNode,
    served: watch::Receiver<Arc<ServedSet>>,
    draining: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A node's entry in the list, and the key of its requests to other nodes.
#[derive(Clone)]
struct ListedNode {
    node: LiveNode,
    peer_key: PeerKey,
}

impl Heartbeat {
    /// Writes the first heartbeat before it returns, then one every `every`.
    pub(super) async fn start(
        store: Arc<dyn Store>,
        node: LiveNode,
        peer_key: PeerKey,
        served: watch::Receiver<Arc<ServedSet>>,
        every: Duration,
    ) -> Self {
        let node = ListedNode { node, peer_key };
        let (draining, watched) = watch::channel(node.node.draining);
        let now = served.borrow().clone();
        write(&store, &node, &now).await;
        let task = tokio::spawn(beat(store.clone(), node.clone(), served.clone(), every, watched));
        Self { store, node, served, draining, task }
    }

    /// Announces that the node accepts no new work; written when this returns.
    pub(super) async fn drain(&self) {
        self.draining.send_replace(true);
        let mut node = self.node.clone();
        node.node.draining = true;
        let served = self.served.borrow().clone();
        if timeout(ANNOUNCE_TIMEOUT, write(&self.store, &node, &served)).await.is_err() {
            warn!("draining was not announced to the other nodes");
        }
    }

    /// Removes the node from the list.
    pub(super) async fn leave(self) {
        drop(self.draining);
        if timeout(LEAVE_TIMEOUT, self.task).await.is_err() {
            warn!("the node was not removed from the list of nodes; its entry expires");
        }
    }
}

async fn beat(
    store: Arc<dyn Store>,
    mut node: ListedNode,
    mut served: watch::Receiver<Arc<ServedSet>>,
    every: Duration,
    mut draining: watch::Receiver<bool>,
) {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = draining.changed() => if changed.is_err() { break },
            // Other nodes route by the accounts that this one serves.
            Ok(()) = served.changed() => {}
        }
        node.node.draining = *draining.borrow_and_update();
        let now = served.borrow_and_update().clone();
        write(&store, &node, &now).await;
    }
    if let Err(error) = store.leave(&node.node.node).await {
        warn!(%error, "the node was not removed from the list of nodes; its entry expires");
    }
}

async fn write(store: &Arc<dyn Store>, listed: &ListedNode, served: &ServedSet) {
    let ListedNode { node, peer_key } = listed;
    // Each time: it is a cheap lookup, and the set may have been removed while the node was silent.
    if let Err(error) = store.publish_served(served).await {
        warn!(%error, "the accounts that this node serves were not published");
    }
    let node = LiveNode { serves: Some(served.digest()), ..node.clone() };
    if let Err(error) = store.heartbeat(&node).await {
        warn!(%error, "the heartbeat was not written");
    }
    // Each time for the same reason. Until it is there, other nodes take what this one forwards as a caller's.
    if let Err(error) = store.publish_peer_key(&node.node, peer_key).await {
        warn!(%error, "the key for requests to other nodes was not published");
    }
}
