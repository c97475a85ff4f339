//! The keys of other nodes, as far as they are known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::NodeId;
use tollgate_model::port::{PeerKey, Store};
use tracing::debug;

/// The time for which a key is used without another look at the list of nodes.
const KEY_KEPT: Duration = Duration::from_secs(30);
/// The time for which a node without a key is not looked up again.
const ABSENCE_KEPT: Duration = Duration::from_secs(1);
/// Nodes that are remembered (I13).
const KNOWN_MAX: usize = 4_096;
/// Looks at the list of nodes per second (I13): anybody can make up ids.
const LOOKUPS_PER_SECOND: u32 = 50;

/// Keys of other nodes, read from the list of nodes when they are first needed.
pub(super) struct PeerKeys {
    store: Arc<dyn Store>,
    live_within: Duration,
    known: Mutex<Known>,
}

struct Known {
    keys: HashMap<NodeId, (Option<PeerKey>, Instant)>,
    second_began: Instant,
    lookups: u32,
}

impl PeerKeys {
    pub(super) fn new(store: Arc<dyn Store>, live_within: Duration) -> Self {
        let known = Known { keys: HashMap::new(), second_began: Instant::now(), lookups: 0 };
        Self { store, live_within, known: Mutex::new(known) }
    }

    /// The key of a live node. `None`: there is none, or it can't be read now.
    pub(super) async fn get(&self, node: &NodeId) -> Option<PeerKey> {
        if let Some(known) = self.lock().find(node) {
            return known;
        }
        if !self.lock().may_look_up() {
            debug!("the key of a node was not looked up: too many unknown nodes");
            return None;
        }
        let found = match self.store.peer_key(node, self.live_within).await {
            Ok(found) => found,
            Err(error) => {
                debug!(%error, "the key of a node was not read");
                return None;
            }
        };
        self.lock().put(node, found.clone());
        found
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&self, node: &NodeId) -> Option<Option<PeerKey>> {
        let (key, read_at) = self.keys.get(node)?;
        is_fresh(key, *read_at).then(|| key.clone())
    }

    fn may_look_up(&mut self) -> bool {
        if self.second_began.elapsed() >= Duration::from_secs(1) {
            (self.second_began, self.lookups) = (Instant::now(), 0);
        }
        self.lookups += 1;
        self.lookups <= LOOKUPS_PER_SECOND
    }

    fn put(&mut self, node: &NodeId, key: Option<PeerKey>) {
        if self.keys.len() >= KNOWN_MAX {
            self.keys.retain(|_, (key, read_at)| is_fresh(key, *read_at));
        }
        if self.keys.len() < KNOWN_MAX {
            self.keys.insert(node.clone(), (key, Instant::now()));
        }
    }
}

fn is_fresh(key: &Option<PeerKey>, read_at: Instant) -> bool {
    let kept = if key.is_some() { KEY_KEPT } else { ABSENCE_KEPT };
    read_at.elapsed() < kept
}
