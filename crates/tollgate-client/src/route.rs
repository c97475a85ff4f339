//! Chooses the node for a submitter.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tollgate_model::Address;

/// The most owners that are remembered (I13). A forgotten one is learnt again from one response.
const SUBMITTERS_MAX: usize = 100_000;

/// The nodes, by their position in a list, and the known owners of submitters.
#[derive(Debug)]
pub struct Route {
    nodes: Vec<String>,
    owners: RwLock<HashMap<Address, usize>>,
}

impl Route {
    /// A route to these nodes, by their URLs; `None` for an empty list.
    pub fn new(nodes: impl IntoIterator<Item = String>) -> Option<Self> {
        let trimmed = |url: String| url.trim_end_matches('/').to_owned();
        let nodes: Vec<String> = nodes.into_iter().map(trimmed).collect();
        (!nodes.is_empty()).then(|| Self { nodes, owners: RwLock::default() })
    }

    /// The node to try: the last known owner, else one derived from the address, so that submitters
    /// spread over the nodes.
    pub fn node_for(&self, submitter: Address) -> usize {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(&submitter).copied().unwrap_or_else(|| self.default_node(submitter))
    }

    /// Remembers the owner that a response named, if it is one of the nodes.
    pub fn learn(&self, submitter: Address, owner: &str) {
        let owner = owner.trim_end_matches('/');
        if self.nodes[self.node_for(submitter)] == owner {
            return;
        }
        if let Some(found) = self.nodes.iter().position(|node| node == owner) {
            self.remember(submitter, found);
        }
    }

    /// Goes on to the node after `failed`, unless another caller has found the owner meanwhile.
    pub fn move_on(&self, submitter: Address, failed: usize) {
        if self.node_for(submitter) == failed {
            self.remember(submitter, (failed + 1) % self.nodes.len());
        }
    }

    fn remember(&self, submitter: Address, node: usize) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= SUBMITTERS_MAX && !owners.contains_key(&submitter) {
            owners.clear();
        }
        owners.insert(submitter, node);
    }

    fn default_node(&self, submitter: Address) -> usize {
        let [.., a, b] = submitter.into_array();
        usize::from(u16::from_be_bytes([a, b])) % self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        Route::new(["http://a/", "http://b", "http://c"].map(str::to_owned)).unwrap()
    }

    fn submitter(last: u8) -> Address {
        Address::with_last_byte(last)
    }

    #[test]
    fn submitters_with_unknown_owner_spread_over_the_nodes() {
        let route = route();
        assert_eq!([0, 1, 2, 3].map(|n| route.node_for(submitter(n))), [0, 1, 2, 0]);
        assert!(Route::new([]).is_none());
    }

    #[test]
    fn owner_is_remembered_per_submitter() {
        let route = route();
        route.learn(submitter(0), "http://c/");
        assert_eq!((route.node_for(submitter(0)), route.node_for(submitter(3))), (2, 0));
        route.learn(submitter(0), "http://elsewhere");
        assert_eq!(
            route.node_for(submitter(0)),
            2,
            "a node that is not in the list is never contacted"
        );
    }

    #[test]
    fn two_callers_moving_on_from_one_node_advance_once() {
        let route = route();
        route.move_on(submitter(0), 0);
        route.move_on(submitter(0), 0);
        assert_eq!(route.node_for(submitter(0)), 1, "the second caller was late");
        route.learn(submitter(0), "http://c");
        route.move_on(submitter(0), 2);
        assert_eq!(route.node_for(submitter(0)), 0, "wraps around");
    }

    #[test]
    fn remembered_owners_are_bounded() {
        let route = route();
        for n in 0..=SUBMITTERS_MAX {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
            route.learn(Address::from(bytes), "http://b");
        }
        assert_eq!(route.owners.read().unwrap().len(), 1);
    }
}
