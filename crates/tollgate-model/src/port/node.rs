//! Who is alive, and whom each node works for.

use std::time::Duration;

use alloy_primitives::{Address, B256, keccak256};
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
    /// The digest of the accounts that it serves. `None`: a node of an older version, which does not
    /// say.
    pub serves: Option<B256>,
}

/// The accounts that a node serves: it signs for them, or takes what their owners have signed.
///
/// Published under its digest, so that nodes with the same accounts share one copy, and a node that
/// reads the list of nodes reads a set only once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedSet {
    /// In order, each once.
    accounts: Vec<Address>,
    digest: B256,
}

impl ServedSet {
    /// The set of these accounts, in any order.
    pub fn new(accounts: impl IntoIterator<Item = Address>) -> Self {
        let mut accounts: Vec<Address> = accounts.into_iter().collect();
        accounts.sort_unstable();
        accounts.dedup();
        let digest = keccak256(bytes_of(&accounts));
        Self { accounts, digest }
    }

    /// The same set always has the same digest, and no other set has it.
    pub const fn digest(&self) -> B256 {
        self.digest
    }

    /// Whether an account is in it.
    pub fn contains(&self, account: Address) -> bool {
        self.accounts.binary_search(&account).is_ok()
    }

    /// All of them, in order.
    pub fn accounts(&self) -> impl Iterator<Item = Address> {
        self.accounts.iter().copied()
    }

    /// As it is stored: 20 bytes for each account, in order.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes_of(&self.accounts)
    }

    /// The set that was stored so; `None` if these are no whole addresses.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.chunks_exact(Address::len_bytes());
        if !whole.remainder().is_empty() {
            return None;
        }
        Some(Self::new(whole.map(Address::from_slice)))
    }
}

fn bytes_of(accounts: &[Address]) -> Vec<u8> {
    accounts.iter().flat_map(|account| account.as_slice()).copied().collect()
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

    /// Makes a set of accounts readable for other nodes. Costs one look if it is already.
    async fn publish_served(&self, set: &ServedSet) -> Result<(), StoreError>;

    /// The set that was published under a digest, if it is still there.
    async fn served_set(&self, digest: B256) -> Result<Option<ServedSet>, StoreError>;

    /// Takes a node off the list. Sets that no node on the list names are forgotten a day after they
    /// were published.
    async fn leave(&self, node: &NodeId) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    #[test]
    fn served_set_does_not_depend_on_order_or_repetition() {
        let set = ServedSet::new([account(2), account(1), account(2), account(3)]);
        assert_eq!(set, ServedSet::new([account(3), account(2), account(1)]));
        assert!((1..=3).all(|n| set.contains(account(n))) && !set.contains(account(4)));
        assert_ne!(set.digest(), ServedSet::new([account(1), account(2)]).digest());
        assert!(!ServedSet::new([]).contains(account(0)));
    }

    #[test]
    fn served_set_reads_back_as_it_was_stored_and_refuses_parts_of_addresses() {
        for set in [ServedSet::new([]), ServedSet::new((0..=255).rev().map(account))] {
            assert_eq!(ServedSet::from_bytes(&set.to_bytes()), Some(set));
        }
        assert_eq!(ServedSet::from_bytes(&[1; 19]), None);
        assert_eq!(ServedSet::from_bytes(&[1; 41]), None);
    }
}
