//! Ownership: which node should own a submitter, and when ownership moves.
//!
//! Rendezvous hashing over the live nodes that serve the submitter: each has a weight for it, and the
//! highest one is preferred. Nodes only have to agree on the list. A preference is never a right: the
//! lease alone decides who may write (I1), and a request at a node that is not the owner is merely
//! slower.
//!
//! A submitter with open work that no live node serves is *followed* by the node that would be preferred
//! among all: it tracks receipts and finality and resends signed bytes, and signs nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;

use crate::ids::{NodeId, Submitter};
use crate::port::{LeaseTerms, LiveNode, ServedSet};

/// The node that should own a submitter; `None` if no node accepts new work. The order of the list does
/// not matter.
///
/// A node's weight depends on its address, not on its id: a restarted node gets back what it had, and
/// nothing else moves. Of two processes at one address the older one's entry has not expired yet; the
/// newer one answers there now.
pub fn preferred(submitter: Submitter, nodes: &[LiveNode]) -> Option<&LiveNode> {
    preferred_but(submitter, nodes, |_| false)
}

/// The same, without nodes that are known to be unwilling.
pub fn preferred_but(
    submitter: Submitter,
    nodes: &[LiveNode],
    is_unwilling: impl Fn(&LiveNode) -> bool,
) -> Option<&LiveNode> {
    let key = submitter_hash(submitter);
    let takes_work = nodes.iter().filter(|node| !node.draining && !is_unwilling(node));
    takes_work
        .map(|node| (weight(key, node), node))
        .max_by(|(weight, node), (other_weight, other)| {
            weight.cmp(other_weight).then_with(|| by_age(node, other))
        })
        .map(|(_, node)| node)
}

/// Ids of one name sort by their start, so the newest of two at one address wins.
fn by_age(node: &LiveNode, other: &LiveNode) -> Ordering {
    node.advertise_url
        .as_str()
        .cmp(other.advertise_url.as_str())
        .then_with(|| node.node.as_str().cmp(other.node.as_str()))
}

fn weight(key: u64, node: &LiveNode) -> u64 {
    mixed(key ^ mixed(hash(node.advertise_url.as_str().as_bytes())))
}

fn submitter_hash(submitter: Submitter) -> u64 {
    mixed(hash(submitter.address.as_slice()) ^ mixed(submitter.chain_id.get()))
}

/// FNV-1a: stable across versions and machines, unlike the standard library's hash.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The finaliser of SplitMix64: every input bit affects every output bit.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The sets of accounts that nodes serve, by the digests in the list of nodes.
#[derive(Clone, Default, Debug)]
pub struct ServedSets(BTreeMap<B256, Arc<ServedSet>>);

impl ServedSets {
    pub fn insert(&mut self, set: Arc<ServedSet>) {
        self.0.insert(set.digest(), set);
    }

    /// Drops the sets that none of these nodes names (I13); returns the digests that have yet to be read,
    /// each once.
    pub fn keep_only(&mut self, nodes: &[LiveNode]) -> Vec<B256> {
        self.0.retain(|digest, _| nodes.iter().any(|node| node.serves == Some(*digest)));
        let mut unread: Vec<B256> = nodes.iter().filter_map(|node| node.serves).collect();
        unread.retain(|digest| !self.0.contains_key(digest));
        unread.sort_unstable();
        unread.dedup();
        unread
    }

    /// The set with this digest, if it is known.
    pub fn get(&self, digest: B256) -> Option<Arc<ServedSet>> {
        self.0.get(&digest).cloned()
    }

    /// Checks whether a node serves a submitter; `None` if it does not say or its set could not be read.
    pub fn is_served(&self, submitter: Submitter, by: &LiveNode) -> Option<bool> {
        let set = by.serves.and_then(|digest| self.0.get(&digest))?;
        Some(set.contains(submitter.address))
    }

    /// The same, with unknown counting as yes: a node of an older version serves every account. If it does
    /// not, it misses its turn and is passed over.
    pub fn may_be_served(&self, submitter: Submitter, by: &LiveNode) -> bool {
        self.is_served(submitter, by).unwrap_or(true)
    }
}

/// A busy node is not an unwilling one, however short its leases are.
const GRACE_MIN: Duration = Duration::from_secs(1);

/// The timeouts of ownership changes, derived from the lease terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoverTimings {
    /// A node without a heartbeat for longer counts as dead. Never later than its leases expire, so that no
    /// node waits for a dead one.
    pub live_within: Duration,
    /// The time for which work without an owner is left to the preferred node: it may have to wait for the
    /// end of `clock_skew_allowance` first.
    pub grace: Duration,
    /// The time for which another node must have been preferred before the owner releases the lease.
    pub outranked_for: Duration,
    /// The time for which a node that did not take over its work is passed over.
    pub unwilling_for: Duration,
    /// The time for which open work that no live node serves must have had no owner before it is followed
    /// without a key. Longer than a restart of the only node that serves it.
    pub unserved_for: Duration,
}

impl HandoverTimings {
    /// The timings for these lease terms.
    pub fn of(terms: &LeaseTerms) -> Self {
        let beat = terms.renew_interval();
        Self {
            live_within: terms.duration() - beat,
            grace: (beat + terms.clock_skew_allowance()).max(GRACE_MIN),
            outranked_for: beat * 3,
            unwilling_for: beat * 30,
            unserved_for: beat * 10,
        }
    }

    /// Returns whether a node that was last on the list so long ago may be restarting: what it serves is
    /// not unknown yet.
    pub fn may_return(&self, gone: Duration) -> bool {
        gone < self.unserved_for
    }

    /// Returns whether a node takes over work that has had no owner for `orphaned`.
    pub fn adopts(&self, me: &NodeId, preferred: Option<&NodeId>, orphaned: Duration) -> bool {
        preferred.is_none_or(|preferred| preferred == me) || orphaned >= self.grace
    }

    /// Returns whether a node that does not serve a submitter follows its open work, which no live node
    /// serves and which has had no owner for `orphaned`. `preferred` is the preferred node among all.
    pub fn follows(&self, me: &NodeId, preferred: Option<&NodeId>, orphaned: Duration) -> bool {
        orphaned
            .checked_sub(self.unserved_for)
            .is_some_and(|beyond| self.adopts(me, preferred, beyond))
    }

    /// Returns whether an owner releases the lease for a node that has been preferred for `outranked`.
    pub fn lets_go(&self, outranked: Duration) -> bool {
        outranked >= self.outranked_for
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::ChainId;
    use crate::text::Text;
    use crate::{Address, B256, keccak256};

    fn node(number: u32) -> LiveNode {
        LiveNode {
            node: NodeId::new("n", Uuid::from_u128(u128::from(number))).unwrap(),
            chain_id: ChainId::new(1).unwrap(),
            advertise_url: Text::lossy(&format!("http://10.0.0.{number}:8550")),
            draining: false,
            serves: None,
        }
    }

    fn nodes(count: u32) -> Vec<LiveNode> {
        (1..=count).map(node).collect()
    }

    fn submitters(count: u32) -> Vec<Submitter> {
        let address = |n: u32| {
            let digest: B256 = keccak256(n.to_be_bytes());
            Address::from_slice(&digest[12..])
        };
        (0..count).map(|n| Submitter::new(ChainId::new(1).unwrap(), address(n))).collect()
    }

    fn url(submitter: Submitter, nodes: &[LiveNode]) -> String {
        preferred(submitter, nodes).unwrap().advertise_url.as_str().to_owned()
    }

    #[test]
    fn submitters_spread_evenly() {
        for count in [2, 3, 5, 10] {
            let nodes = nodes(count);
            let mut shares = std::collections::HashMap::new();
            for submitter in submitters(10_000) {
                *shares.entry(url(submitter, &nodes)).or_insert(0_u32) += 1;
            }
            let fair = 10_000 / count;
            assert_eq!(shares.len(), count as usize);
            for (node, share) in shares {
                let off = f64::from(share.abs_diff(fair)) / f64::from(fair);
                assert!(off < 0.1, "{node} of {count} has {share}, fair is {fair}");
            }
        }
    }

    /// Nodes of different versions must agree on the preferred node.
    #[test]
    fn preferred_node_is_the_same_in_every_version() {
        let nodes = nodes(5);
        let preferred = |byte| {
            let of = Submitter::new(ChainId::new(1).unwrap(), Address::repeat_byte(byte));
            nodes.iter().position(|node| Some(node) == preferred(of, &nodes)).unwrap() + 1
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(preferred), [2, 5, 3, 2, 3, 2, 4, 2]);
    }

    #[test]
    fn addresses_and_chains_that_differ_little_spread_as_well() {
        let nodes = nodes(4);
        let mut shares = [std::collections::HashMap::new(), std::collections::HashMap::new()];
        for n in 0..4_000_u32 {
            let mut address = [0; 20];
            address[16..].copy_from_slice(&n.to_be_bytes());
            let alike = Submitter::new(ChainId::new(1).unwrap(), Address::from(address));
            let chain = ChainId::new(u64::from(n) + 1).unwrap();
            let one_of_many_chains = Submitter::new(chain, Address::repeat_byte(7));
            for (shares, submitter) in shares.iter_mut().zip([alike, one_of_many_chains]) {
                *shares.entry(url(submitter, &nodes)).or_insert(0_u32) += 1;
            }
        }
        for shares in shares {
            assert_eq!(shares.len(), 4);
            assert!(shares.values().all(|share| (850..1_150).contains(share)), "{shares:?}");
        }
    }

    #[test]
    fn leaving_node_moves_only_its_submitters_and_a_new_one_takes_only_its_share() {
        let (few, many) = (nodes(4), nodes(5));
        let came = node(5).advertise_url.as_str().to_owned();
        let mut moved = 0;
        for submitter in submitters(5_000) {
            let (before, after) = (url(submitter, &few), url(submitter, &many));
            // In reverse this is the node's departure.
            if before != after {
                assert_eq!(after, came, "nothing moves between those that stay");
                moved += 1;
            }
        }
        assert!((850..1_150).contains(&moved), "about a fifth: {moved}");
    }

    #[test]
    fn draining_node_is_never_preferred() {
        let mut nodes = nodes(3);
        nodes[1].draining = true;
        let rest = [nodes[0].clone(), nodes[2].clone()];
        for submitter in submitters(500) {
            assert_eq!(url(submitter, &nodes), url(submitter, &rest));
        }
        for node in &mut nodes {
            node.draining = true;
        }
        assert_eq!(preferred(submitters(1)[0], &nodes), None);
        assert_eq!(preferred(submitters(1)[0], &[]), None);
    }

    #[test]
    fn restart_moves_no_submitter_and_the_newer_of_two_at_one_address_wins() {
        let before = nodes(3);
        let mut both = before.clone();
        let mut again = before[0].clone();
        again.node = NodeId::new("n", Uuid::from_u128(1 << 100)).unwrap();
        both.insert(0, again.clone());
        let after = [again.clone(), before[1].clone(), before[2].clone()];
        for submitter in submitters(500) {
            assert_eq!(url(submitter, &before), url(submitter, &after));
            let meant = preferred(submitter, &both).unwrap();
            assert_ne!(meant.node, before[0].node, "the one that is gone");
            assert_eq!(meant, preferred(submitter, &after).unwrap());
        }
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let nodes = nodes(5);
        let mut turned = nodes.clone();
        for _ in 0..5 {
            turned.rotate_left(1);
            for submitter in submitters(200) {
                assert_eq!(preferred(submitter, &nodes), preferred(submitter, &turned));
            }
        }
        turned.reverse();
        for submitter in submitters(200) {
            assert_eq!(preferred(submitter, &nodes), preferred(submitter, &turned));
        }
    }

    #[test]
    fn unwilling_node_is_skipped_for_the_next() {
        let nodes = nodes(3);
        for submitter in submitters(200) {
            let first = preferred(submitter, &nodes).unwrap();
            let second = preferred_but(submitter, &nodes, |node| node == first).unwrap();
            let rest: Vec<_> = nodes.iter().filter(|node| *node != first).cloned().collect();
            assert_eq!(second, preferred(submitter, &rest).unwrap());
        }
    }

    #[test]
    fn a_dead_node_is_off_the_list_before_its_leases_run_out() {
        let seconds = Duration::from_secs;
        for (duration, renew) in [(10, 3), (10, 1), (9, 4)] {
            let terms = LeaseTerms::new(seconds(duration), seconds(renew), seconds(1)).unwrap();
            let timings = HandoverTimings::of(&terms);
            // The lease was renewed at most one interval before the last heartbeat.
            assert!(timings.live_within + terms.renew_interval() <= terms.duration());
            assert!(timings.live_within > terms.renew_interval());
        }
    }

    #[test]
    fn orphans_go_to_the_preferred_node_at_once_and_to_others_after_the_grace() {
        let timings = HandoverTimings::of(&LeaseTerms::default());
        let (me, other) = (node(1).node, node(2).node);
        let short = Duration::ZERO;
        assert!(timings.adopts(&me, Some(&me), short));
        assert!(timings.adopts(&me, None, short));
        assert!(!timings.adopts(&me, Some(&other), short));
        assert!(!timings.adopts(&me, Some(&other), timings.grace - Duration::from_millis(1)));
        assert!(timings.adopts(&me, Some(&other), timings.grace));
        assert!(!timings.lets_go(timings.outranked_for - Duration::from_millis(1)));
        assert!(timings.lets_go(timings.outranked_for));
    }

    #[test]
    fn unserved_work_is_followed_by_the_preferred_node_first_and_by_others_after_the_grace() {
        let timings = HandoverTimings::of(&LeaseTerms::default());
        let (me, other) = (node(1).node, node(2).node);
        let (moment, after) = (Duration::from_millis(1), timings.unserved_for);
        assert!(!timings.follows(&me, Some(&me), after - moment), "a restart takes a while");
        assert!(timings.follows(&me, Some(&me), after));
        assert!(timings.follows(&me, None, after));
        assert!(!timings.follows(&me, Some(&other), after + timings.grace - moment));
        assert!(timings.follows(&me, Some(&other), after + timings.grace));
    }

    #[test]
    fn node_serves_what_its_set_holds_and_anything_as_long_as_its_set_is_not_known() {
        let all = submitters(3);
        let set = Arc::new(ServedSet::new([all[0].address, all[1].address]));
        let says = LiveNode { serves: Some(set.digest()), ..node(1) };
        let (other, silent) = (LiveNode { serves: Some(B256::ZERO), ..node(2) }, node(3));
        let nodes = [says.clone(), other.clone(), silent.clone(), other.clone()];
        let mut sets = ServedSets::default();
        assert_eq!(sets.is_served(all[0], &says), None, "not read yet");
        assert!(sets.may_be_served(all[2], &says));
        let mut expected = vec![B256::ZERO, set.digest()];
        expected.sort_unstable();
        assert_eq!(sets.keep_only(&nodes), expected, "each is read once");
        sets.insert(set);
        assert_eq!(sets.is_served(all[0], &says), Some(true));
        assert_eq!(sets.is_served(all[2], &says), Some(false));
        assert!(!sets.may_be_served(all[2], &says));
        assert!([&other, &silent].iter().all(|node| sets.may_be_served(all[2], node)));
        assert_eq!(sets.keep_only(&nodes), [B256::ZERO]);
        assert!(sets.keep_only(&[silent]).is_empty(), "nobody names it any more");
        assert_eq!(sets.is_served(all[0], &says), None, "I13: forgotten");
    }
}
