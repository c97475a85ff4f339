//! Says that a node is alive, and whom it serves, as long as it is. Owns its row in the list of nodes.
//!
//! Nothing hangs on it but routing: a node that is missing from the list still keeps its leases.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tollgate_model::port::{LiveNode, ServedSet, Store};
use tracing::warn;

/// How long leaving the list may take; after that the row grows old by itself.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take to say that the node drains.
const SAY_PATIENCE: Duration = Duration::from_secs(2);

/// A node's sign of life. Dropped without [`Self::leave`], the node is off the list as soon as its
/// runtime lets it.
pub(super) struct Heartbeat {
    store: Arc<dyn Store>,
    node: LiveNode,
    served: Arc<ServedSet>,
    draining: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Heartbeat {
    /// Says so now, before anybody is answered, and then every `every`.
    pub(super) async fn start(
        store: Arc<dyn Store>,
        node: LiveNode,
        served: ServedSet,
        every: Duration,
    ) -> Self {
        let (draining, watched) = watch::channel(node.draining);
        let node = LiveNode { serves: Some(served.digest()), ..node };
        let served = Arc::new(served);
        say(&store, &node, &served).await;
        let task = tokio::spawn(beat(store.clone(), node.clone(), served.clone(), every, watched));
        Self { store, node, served, draining, task }
    }

    /// From now on with the word that it takes nothing new; said when this returns.
    pub(super) async fn drain(&self) {
        self.draining.send_replace(true);
        let node = LiveNode { draining: true, ..self.node.clone() };
        if timeout(SAY_PATIENCE, say(&self.store, &node, &self.served)).await.is_err() {
            warn!("the others do not know that it takes nothing new");
        }
    }

    /// Takes the node off the list.
    pub(super) async fn leave(self) {
        drop(self.draining);
        if timeout(LEAVE_PATIENCE, self.task).await.is_err() {
            warn!("not taken off the list of nodes: the entry grows old by itself");
        }
    }
}

async fn beat(
    store: Arc<dyn Store>,
    mut node: LiveNode,
    served: Arc<ServedSet>,
    every: Duration,
    mut draining: watch::Receiver<bool>,
) {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = draining.changed() => if changed.is_err() { break },
        }
        node.draining = *draining.borrow_and_update();
        say(&store, &node, &served).await;
    }
    if let Err(error) = store.leave(&node.node).await {
        warn!(%error, "not taken off the list of nodes: the entry grows old by itself");
    }
}

async fn say(store: &Arc<dyn Store>, node: &LiveNode, served: &ServedSet) {
    // Each time: it costs a look, and the set may have been forgotten while the node was silent.
    if let Err(error) = store.publish_served(served).await {
        warn!(%error, "the accounts that this node serves were not published");
    }
    if let Err(error) = store.heartbeat(node).await {
        warn!(%error, "the sign of life was not written");
    }
}
