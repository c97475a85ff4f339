//! Where a submitter's work belongs, as this node sees it: who is alive, who owns, who should.
//!
//! Owns a copy of the list of nodes of its own chain, who alone are peers, and some short memories, all of which may be wrong or lost: only
//! speed hangs on them. The lease alone says who may write (I1).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::ownership::{Manners, preferred_but};
use tollgate_model::port::{LeaseTerms, LiveNode, Owner, Store, StoreError};
use tollgate_model::{ChainId, NodeId, Submitter, Text};

use crate::context::Context;
use crate::engine::Engine;

/// How long it is believed who owns a submitter that is not this node's.
const OWNER_BELIEVED: Duration = Duration::from_secs(1);
/// The pause between two submitters that are let go for another node: never more than a few per
/// second, so that a node that comes is not flooded.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(250);
/// Submitters that each of its memories holds (I13).
const REMEMBERED_MAX: usize = 20_000;

/// Where a request for a submitter belongs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// This node.
    Here,
    /// Another one.
    There(Destination),
    /// This node stops, and there is no other.
    Nowhere,
}

/// Another node that is to be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Which.
    pub node: NodeId,
    /// Where it is reached.
    pub url: String,
    /// It holds the lease. Else it is merely the one that should.
    pub owns: bool,
}

/// What a look at the lease and the list shows.
#[derive(Clone)]
enum Whose {
    /// This node has it, should have it, or must find out by trying.
    Mine,
    /// Another one has it, or should.
    Anothers(Destination),
    /// Nobody has it, and nobody takes new work.
    Nobodys,
}

/// See the module.
pub(crate) struct Placement {
    me: NodeId,
    chain_id: ChainId,
    manners: Manners,
    draining: AtomicBool,
    nodes: Mutex<Arc<Vec<LiveNode>>>,
    owners: Mutex<BTreeMap<Submitter, (Whose, Instant)>>,
    moves: Mutex<Moves>,
}

#[derive(Default)]
struct Moves {
    /// When a submitter was last let go.
    last: Option<Instant>,
    /// Let go for these.
    left: BTreeMap<Submitter, (NodeId, Instant)>,
    /// These did not take them.
    unwilling: BTreeMap<Submitter, (NodeId, Instant)>,
}

impl Placement {
    pub(crate) fn new(me: NodeId, chain_id: ChainId, terms: &LeaseTerms) -> Self {
        Self {
            me,
            chain_id,
            manners: Manners::of(terms),
            draining: AtomicBool::new(false),
            nodes: Mutex::default(),
            owners: Mutex::default(),
            moves: Mutex::default(),
        }
    }

    /// Whether an owner that has been outranked for so long lets go.
    pub(crate) fn lets_go(&self, outranked: Duration) -> bool {
        self.manners.lets_go(outranked)
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        // What should have been this node's is another's now.
        lock(&self.owners).clear();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Reads the list anew.
    pub(crate) async fn refresh(
        &self,
        store: &dyn Store,
    ) -> Result<Arc<Vec<LiveNode>>, StoreError> {
        let now = Arc::new(store.live_nodes(self.chain_id, self.manners.live_within).await?);
        *lock(&self.nodes) = now.clone();
        Ok(now)
    }

    fn nodes(&self) -> Arc<Vec<LiveNode>> {
        lock(&self.nodes).clone()
    }

    fn is_listed(&self, node: &NodeId) -> bool {
        lock(&self.nodes).iter().any(|listed| listed.node == *node)
    }

    /// Nothing to forward, nobody to hand over to.
    fn is_alone(&self) -> bool {
        lock(&self.nodes).iter().all(|node| node.node == self.me)
    }

    fn has_peer(&self) -> bool {
        lock(&self.nodes).iter().any(|node| node.node != self.me && !node.draining)
    }

    /// The node that should own a submitter, as far as the list goes.
    fn preferred(&self, submitter: Submitter) -> Option<LiveNode> {
        let nodes = self.nodes();
        let mut moves = lock(&self.moves);
        let unwilling = match moves.unwilling.get(&submitter) {
            Some((_, since)) if since.elapsed() > self.manners.unwilling_for => {
                moves.unwilling.remove(&submitter);
                None
            }
            Some((node, _)) => Some(node.clone()),
            None => None,
        };
        drop(moves);
        let draining = self.is_draining();
        let passed_over = |node: &LiveNode| {
            unwilling.as_ref() == Some(&node.node) || draining && node.node == self.me
        };
        preferred_but(submitter, &nodes, passed_over).cloned()
    }

    /// Another node that should own a submitter which this node owns. None while this node is not on
    /// the list itself: what the list says is not worth much then.
    pub(crate) fn better_owner(&self, submitter: Submitter) -> Option<NodeId> {
        if self.is_alone() || !self.is_listed(&self.me) {
            return None;
        }
        self.preferred(submitter).map(|node| node.node).filter(|node| *node != self.me)
    }

    /// Takes a turn to let a submitter go for another node; there is not always one.
    pub(crate) fn may_hand_over(&self, submitter: Submitter, to: NodeId) -> bool {
        let mut moves = lock(&self.moves);
        let now = Instant::now();
        if moves.last.is_some_and(|last| now - last < HAND_OVER_PAUSE) {
            return false;
        }
        moves.last = Some(now);
        let kept = self.manners.grace;
        bound(&mut moves.left, |(_, at)| now - *at < kept);
        moves.left.insert(submitter, (to, now));
        true
    }

    /// Whether a submitter was let go a moment ago for a node that has yet to take it. Taking it back
    /// now would be thrashing.
    pub(crate) fn is_left_to_another(&self, submitter: Submitter) -> bool {
        let left = lock(&self.moves).left.get(&submitter).cloned();
        left.is_some_and(|(to, at)| at.elapsed() < self.manners.grace && self.is_listed(&to))
    }

    /// Whether this node takes up work that has had no owner for so long. A preferred node that let
    /// its chance pass, perhaps for want of the key, is passed over for a while.
    pub(crate) fn adopts(&self, submitter: Submitter, orphaned: Duration) -> bool {
        let preferred = self.preferred(submitter).map(|node| node.node);
        let adopts = self.manners.adopts(&self.me, preferred.as_ref(), orphaned);
        if let Some(other) = preferred.filter(|node| adopts && *node != self.me) {
            let (mut moves, now) = (lock(&self.moves), Instant::now());
            bound(&mut moves.unwilling, |(_, at)| now - *at < self.manners.unwilling_for);
            moves.unwilling.insert(submitter, (other, now));
        }
        adopts
    }

    /// Who owns a submitter that this node does not work for, or who should.
    async fn look_up(&self, submitter: Submitter, store: &dyn Store) -> Result<Whose, StoreError> {
        if let Some((known, at)) = lock(&self.owners).get(&submitter)
            && at.elapsed() < OWNER_BELIEVED
        {
            return Ok(known.clone());
        }
        let owner = store.owners(&[submitter]).await?.pop().flatten();
        let owner = owner.filter(|owner| !owner.remaining.is_zero());
        if owner.as_ref().is_some_and(|owner| !self.is_listed(&owner.node)) {
            // It may have come a moment ago.
            self.refresh(store).await?;
        }
        let found = self.judge(submitter, owner);
        let mut owners = lock(&self.owners);
        bound(&mut owners, |(_, at)| at.elapsed() < OWNER_BELIEVED);
        owners.insert(submitter, (found.clone(), Instant::now()));
        Ok(found)
    }

    fn judge(&self, submitter: Submitter, owner: Option<Owner>) -> Whose {
        if let Some(Owner { node, advertise_url, .. }) = owner {
            return match advertise_url {
                // An owner that is silent, or not on the list at all, can't be asked.
                Some(url) if node != self.me && self.is_listed(&node) => {
                    Whose::Anothers(Destination { node, url, owns: true })
                }
                Some(_) | None => Whose::Mine,
            };
        }
        match self.preferred(submitter) {
            Some(LiveNode { node, advertise_url, .. }) if node != self.me => {
                let url = advertise_url.as_str().to_owned();
                Whose::Anothers(Destination { node, url, owns: false })
            }
            Some(_) => Whose::Mine,
            None => Whose::Nobodys,
        }
    }
}

impl Engine {
    /// Where a request for a submitter belongs.
    pub async fn place(&self, submitter: Submitter) -> Result<Place, StoreError> {
        let placement = &self.context.placement;
        let draining = placement.is_draining();
        if !draining && (placement.is_alone() || self.works_for(submitter)) {
            return Ok(Place::Here);
        }
        Ok(match placement.look_up(submitter, self.context.store.as_ref()).await? {
            Whose::Anothers(there) if there.owns || self.serves(submitter) => Place::There(there),
            // Nobody's, and no account of this node: it knows what to say to that.
            Whose::Anothers(_) | Whose::Mine => Place::Here,
            Whose::Nobodys if draining => Place::Nowhere,
            Whose::Nobodys => Place::Here,
        })
    }

    /// The last answer of [`Self::place`] was wrong.
    pub fn misplaced(&self, submitter: Submitter) {
        lock(&self.context.placement.owners).remove(&submitter);
    }

    /// Whether no other node is alive.
    pub fn is_alone(&self) -> bool {
        self.context.placement.is_alone()
    }

    /// Whether another node that takes new work is alive, by the list as it is now.
    pub async fn has_peer(&self) -> bool {
        let Context { placement, store, .. } = self.context.as_ref();
        // A list that can't be read is as it was.
        let _ = placement.refresh(store.as_ref()).await;
        placement.has_peer()
    }

    /// Whether a node is alive, as far as this one knows.
    pub fn is_live(&self, node: &NodeId) -> bool {
        self.context.placement.is_listed(node)
    }

    /// Where this node is reached, if the others know.
    pub fn own_url(&self) -> Option<Text<500>> {
        let placement = &self.context.placement;
        let nodes = lock(&placement.nodes);
        let own = nodes.iter().find(|node| node.node == placement.me);
        own.map(|node| node.advertise_url.clone())
    }

    /// Takes up no submitter from now on; what it has goes on until [`Self::stop`].
    pub fn drain(&self) {
        self.context.placement.drain();
    }

    /// Whether it takes up no submitter any more.
    pub fn is_draining(&self) -> bool {
        self.context.placement.is_draining()
    }
}

/// I13: a full memory loses what is old, or else everything. It may be lost at any time.
fn bound<T>(memory: &mut BTreeMap<Submitter, T>, is_fresh: impl Fn(&T) -> bool) {
    if memory.len() >= REMEMBERED_MAX {
        memory.retain(|_, it| is_fresh(it));
    }
    if memory.len() >= REMEMBERED_MAX {
        memory.clear();
    }
}

fn lock<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tollgate_model::Address;
    use uuid::Uuid;

    use super::*;

    fn node(name: &str) -> LiveNode {
        LiveNode {
            node: NodeId::new(name, Uuid::nil()).unwrap(),
            chain_id: ChainId::new(1).unwrap(),
            advertise_url: Text::lossy(&format!("http://{name}")),
            draining: false,
        }
    }

    fn account(n: u8) -> Submitter {
        Submitter::new(ChainId::new(1).unwrap(), Address::repeat_byte(n))
    }

    /// As seen by `me`, with one other node.
    fn placement() -> Placement {
        let placement =
            Placement::new(node("me").node, node("me").chain_id, &LeaseTerms::default());
        *lock(&placement.nodes) = Arc::new(vec![node("me"), node("other")]);
        placement
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_submitters_are_let_go_in_a_second_and_no_more() {
        let (placement, begun) = (placement(), Instant::now());
        let mut moved = 0;
        while begun.elapsed() < Duration::from_secs(10) {
            let to = node("other").node;
            moved += u32::from(placement.may_hand_over(account(moved as u8), to));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!((35..=40).contains(&moved), "{moved} in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_let_go_is_left_to_the_other_node_while_it_lives_and_for_the_grace() {
        let placement = placement();
        assert!(!placement.is_left_to_another(account(1)));
        assert!(placement.may_hand_over(account(1), node("other").node));
        assert!(placement.is_left_to_another(account(1)));
        assert!(!placement.is_left_to_another(account(2)));
        let both = placement.nodes();
        *lock(&placement.nodes) = Arc::new(vec![node("me")]);
        assert!(!placement.is_left_to_another(account(1)), "nobody is there to take it");
        *lock(&placement.nodes) = both;
        tokio::time::sleep(placement.manners.grace).await;
        assert!(!placement.is_left_to_another(account(1)), "it had its chance");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_let_its_chance_pass_is_passed_over_for_a_while() {
        let placement = placement();
        let of_other =
            |of: &Submitter| placement.preferred(*of).unwrap().node == node("other").node;
        let of = (0..100).map(account).find(of_other).unwrap();
        assert!(!placement.adopts(of, Duration::ZERO));
        assert_eq!(placement.better_owner(of), Some(node("other").node));
        assert!(placement.adopts(of, placement.manners.grace));
        assert!(placement.adopts(of, Duration::ZERO), "at once from now on");
        assert_eq!(placement.better_owner(of), None);
        tokio::time::sleep(placement.manners.unwilling_for + Duration::from_secs(1)).await;
        assert_eq!(placement.better_owner(of), Some(node("other").node));
    }

    #[test]
    fn a_node_that_is_not_on_the_list_itself_hands_nothing_over() {
        let placement = placement();
        *lock(&placement.nodes) = Arc::new(vec![node("other")]);
        assert!((0..100).all(|n| placement.better_owner(account(n)).is_none()));
    }
}
