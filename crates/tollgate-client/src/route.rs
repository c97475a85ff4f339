//! Which of several nodes is asked for a submitter.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tollgate_model::Address;

/// So many submitters are remembered (I13). What is forgotten is learnt again from one answer.
const SUBMITTERS_MAX: usize = 100_000;

/// Nodes by their place in a list, and who was found to work for whom.
#[derive(Debug)]
pub struct Route {
    nodes: Vec<String>,
    homes: RwLock<HashMap<Address, usize>>,
}

impl Route {
    /// To these nodes, by their URLs; `None` if there is none.
    pub fn new(nodes: impl IntoIterator<Item = String>) -> Option<Self> {
        let trimmed = |url: String| url.trim_end_matches('/').to_owned();
        let nodes: Vec<String> = nodes.into_iter().map(trimmed).collect();
        (!nodes.is_empty()).then(|| Self { nodes, homes: RwLock::default() })
    }

    /// The nodes' URLs, without a slash at the end.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The node to ask: the one that was found last, else one that hangs on the address, so that
    /// submitters spread.
    pub fn home(&self, of: Address) -> usize {
        let homes = self.homes.read().unwrap_or_else(PoisonError::into_inner);
        homes.get(&of).copied().unwrap_or_else(|| self.first(of))
    }

    /// An answer named the owner: it is asked from now on, if it is one of the nodes.
    pub fn learn(&self, of: Address, owner: &str) {
        let owner = owner.trim_end_matches('/');
        if self.nodes[self.home(of)] == owner {
            return;
        }
        if let Some(found) = self.nodes.iter().position(|node| node == owner) {
            self.note(of, found);
        }
    }

    /// Asking `at` did not help: the next one is asked, unless another caller has found the owner
    /// meanwhile.
    pub fn leave(&self, of: Address, at: usize) {
        if self.home(of) == at {
            self.note(of, (at + 1) % self.nodes.len());
        }
    }

    fn note(&self, of: Address, home: usize) {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        if homes.len() >= SUBMITTERS_MAX && !homes.contains_key(&of) {
            homes.clear();
        }
        homes.insert(of, home);
    }

    fn first(&self, of: Address) -> usize {
        let [.., a, b] = of.into_array();
        usize::from(u16::from_be_bytes([a, b])) % self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        Route::new(["http://a/", "http://b", "http://c"].map(str::to_owned)).unwrap()
    }

    fn of(last: u8) -> Address {
        Address::with_last_byte(last)
    }

    #[test]
    fn submitters_spread_until_their_owners_are_known() {
        let route = route();
        assert_eq!([0, 1, 2, 3].map(|n| route.home(of(n))), [0, 1, 2, 0]);
        assert!(Route::new([]).is_none());
    }

    #[test]
    fn an_owner_is_remembered_for_its_submitter_alone() {
        let route = route();
        route.learn(of(0), "http://c/");
        assert_eq!((route.home(of(0)), route.home(of(3))), (2, 0));
        route.learn(of(0), "http://elsewhere");
        assert_eq!(route.home(of(0)), 2, "nobody is asked that was not named at the start");
    }

    #[test]
    fn a_node_that_does_not_help_is_left_once() {
        let route = route();
        route.leave(of(0), 0);
        route.leave(of(0), 0);
        assert_eq!(route.home(of(0)), 1, "the second caller was late");
        route.learn(of(0), "http://c");
        route.leave(of(0), 2);
        assert_eq!(route.home(of(0)), 0, "all around");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let route = route();
        for n in 0..=SUBMITTERS_MAX {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
            route.learn(Address::from(bytes), "http://b");
        }
        assert_eq!(route.homes.read().unwrap().len(), 1);
    }
}
