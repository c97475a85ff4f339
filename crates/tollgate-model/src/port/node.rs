//! Live nodes and the accounts that each of them serves.

use std::fmt;
use std::time::Duration;

use alloy_primitives::{Address, B256, keccak256};
use async_trait::async_trait;

use super::StoreError;
use crate::ids::{ChainId, NodeId};
use crate::text::Text;

/// A node as the other nodes see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveNode {
    pub node: NodeId,
    /// The chain that the node serves. Nodes of other chains are not peers.
    pub chain_id: ChainId,
    /// The URL at which other nodes reach it.
    pub advertise_url: Text<500>,
    /// The node finishes its work and accepts nothing new.
    pub draining: bool,
    /// The digest of the accounts that the node serves; `None` for a node of an older version.
    pub serves: Option<B256>,
}

/// The secret with which a process signs its requests to other nodes. Generated at each start; the
/// others read it from the database. Never shown: not in `Debug`, logs, the API or lists of nodes.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerKey([u8; 32]);

impl PeerKey {
    /// A key of 256 random bits.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses the stored form; `None` if it does not have 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The secret itself, to store it or to calculate a signature.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey(not shown)")
    }
}

/// The accounts that a node serves: it signs for them, or accepts transactions that their owners signed.
///
/// A set is published under its digest, so that nodes with the same accounts share one copy and
/// each set is read only once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedSet {
    /// Sorted, without duplicates.
    accounts: Vec<Address>,
    digest: B256,
}

impl ServedSet {
    /// Creates a set from accounts in any order.
    pub fn new(accounts: impl IntoIterator<Item = Address>) -> Self {
        let mut accounts: Vec<Address> = accounts.into_iter().collect();
        accounts.sort_unstable();
        accounts.dedup();
        let digest = keccak256(bytes_of(&accounts));
        Self { accounts, digest }
    }

    /// The digest that identifies the set.
    pub const fn digest(&self) -> B256 {
        self.digest
    }

    pub fn contains(&self, account: Address) -> bool {
        self.accounts.binary_search(&account).is_ok()
    }

    /// All accounts, in ascending order.
    pub fn accounts(&self) -> impl Iterator<Item = Address> {
        self.accounts.iter().copied()
    }

    /// The stored form: 20 bytes per account, in ascending order.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes_of(&self.accounts)
    }

    /// Parses the stored form; `None` if it does not consist of whole addresses.
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

/// The list of live nodes, maintained by heartbeats and the database's clock.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Records that a node is alive.
    async fn heartbeat(&self, node: &LiveNode) -> Result<(), StoreError>;

    /// Lists the nodes of a chain whose last heartbeat is younger than `within`, ordered by id.
    /// A node of an older version that did not record its chain is left out.
    async fn live_nodes(
        &self,
        chain_id: ChainId,
        within: Duration,
    ) -> Result<Vec<LiveNode>, StoreError>;

    /// Makes a set of accounts readable for other nodes. Costs one read if it already is.
    async fn publish_served(&self, set: &ServedSet) -> Result<(), StoreError>;

    /// Reads the set that was published under a digest, if it still exists.
    async fn served_set(&self, digest: B256) -> Result<Option<ServedSet>, StoreError>;

    /// Sets the key of a listed node. Costs one lookup if it is set already, and does nothing for a node
    /// that is not listed.
    async fn publish_peer_key(&self, node: &NodeId, key: &PeerKey) -> Result<(), StoreError>;

    /// Reads the key of a node of any chain whose last heartbeat is younger than `within`. `None`: there is
    /// no such node, or its version publishes no key.
    async fn peer_key(
        &self,
        node: &NodeId,
        within: Duration,
    ) -> Result<Option<PeerKey>, StoreError>;

    /// Removes a node from the list. Sets that no listed node names are deleted a day after they were
    /// published.
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
    fn peer_key_is_not_shown_and_has_32_bytes() {
        let key = PeerKey::new([0xab; 32]);
        assert_eq!(format!("{key:?} {key:#?}"), "PeerKey(not shown) PeerKey(not shown)");
        assert_eq!(PeerKey::from_bytes(&[0xab; 32]), Some(key));
        assert_eq!(PeerKey::from_bytes(&[0xab; 31]), None);
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
