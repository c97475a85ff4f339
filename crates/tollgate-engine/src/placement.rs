//! Finds the node that a submitter's work belongs to.
//!
//! Owns a copy of the list of live nodes of its own chain with the accounts that they serve, and caches of
//! owners and of recent handovers. All of it may be wrong or lost: it affects latency, never correctness. The
//! lease alone decides who may write (I1).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_model::ownership::{HandoverTimings, ServedSets, preferred_but};
use tollgate_model::port::{LeaseTerms, LiveNode, Owner, ServedSet, Store, StoreError};
use tollgate_model::{ChainId, NodeId, Submitter, Text};
use tracing::debug;

use crate::context::Context;
use crate::engine::Engine;
use crate::errors::Unserved;

/// The lifetime of a cached owner of a submitter.
const OWNER_BELIEVED: Duration = Duration::from_secs(1);
/// The pause between two submitters that are released for another node, so that a node that joins is not
/// flooded.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(250);
/// Submitters in each cache (I13).
const REMEMBERED_MAX: usize = 20_000;

/// The node that a request for a submitter belongs to.
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
    /// Its id.
    pub node: NodeId,
    /// Its URL.
    pub url: String,
    /// True if it holds the lease; otherwise it is only preferred.
    pub owns: bool,
}

/// The owner of a submitter, by the lease and the list of nodes.
#[derive(Clone)]
enum OwnerLookup {
    /// This node has it, is preferred, or must try to get the lease.
    Mine,
    /// Another node has it, or is preferred.
    Anothers(Destination),
    /// Nobody has it, and nobody takes new work.
    Nobodys,
}

/// The placement of submitters, as this node sees it.
pub(crate) struct Placement {
    me: NodeId,
    chain_id: ChainId,
    timings: HandoverTimings,
    draining: AtomicBool,
    /// The accounts that this node serves.
    served: watch::Receiver<Arc<ServedSet>>,
    nodes: Mutex<Arc<Vec<LiveNode>>>,
    sets: Mutex<ServedSets>,
    /// The accounts of the other nodes by the name of the node, which a restart keeps, with the time at which it was
    /// last on the list.
    recent: Mutex<BTreeMap<String, (Arc<ServedSet>, Instant)>>,
    owners: Mutex<BTreeMap<Submitter, (OwnerLookup, Instant)>>,
    moves: Mutex<Moves>,
}

#[derive(Default)]
struct Moves {
    /// The time of the last release of a submitter for another node.
    last: Option<Instant>,
    /// Released submitters, each with the node it was released for.
    left: BTreeMap<Submitter, (NodeId, Instant)>,
    /// Preferred nodes that did not take up a submitter.
    unwilling: BTreeMap<Submitter, (NodeId, Instant)>,
}

impl Placement {
    pub(crate) fn new(
        me: NodeId,
        chain_id: ChainId,
        terms: &LeaseTerms,
        served: watch::Receiver<Arc<ServedSet>>,
    ) -> Self {
        Self {
            me,
            chain_id,
            timings: HandoverTimings::of(terms),
            draining: AtomicBool::new(false),
            served,
            nodes: Mutex::default(),
            sets: Mutex::default(),
            recent: Mutex::default(),
            owners: Mutex::default(),
            moves: Mutex::default(),
        }
    }

    /// True if an owner that another node outranks for so long releases the lease.
    pub(crate) fn lets_go(&self, outranked: Duration) -> bool {
        self.timings.lets_go(outranked)
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        // What should have been this node's is another's now.
        lock(&self.owners).clear();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub(crate) fn serves(&self, submitter: Submitter) -> bool {
        submitter.chain_id == self.chain_id && self.served.borrow().contains(submitter.address)
    }

    /// The accounts that this node serves.
    pub(crate) fn served(&self) -> Arc<ServedSet> {
        self.served.borrow().clone()
    }

    /// Reads the list anew, and the accounts of nodes whose set is new here.
    pub(crate) async fn refresh(
        &self,
        store: &dyn Store,
    ) -> Result<Arc<Vec<LiveNode>>, StoreError> {
        let now = Arc::new(store.live_nodes(self.chain_id, self.timings.live_within).await?);
        let unread = {
            let mut sets = lock(&self.sets);
            sets.insert(self.served());
            sets.keep_only(&now)
        };
        for digest in unread {
            match store.served_set(digest).await {
                Ok(Some(set)) if set.digest() == digest => lock(&self.sets).insert(Arc::new(set)),
                // It is asked for again with the next look at the list.
                Ok(_) => debug!(%digest, "accounts of a node are not published"),
                Err(error) => debug!(%digest, %error, "accounts of a node not read"),
            }
        }
        self.remember(&now);
        *lock(&self.nodes) = now.clone();
        Ok(now)
    }

    /// Notes what the other nodes of the list serve, and forgets what none has served for long (I13).
    fn remember(&self, nodes: &[LiveNode]) {
        let (sets, mut recent, now) = (lock(&self.sets), lock(&self.recent), Instant::now());
        recent.retain(|_, (_, at)| self.timings.may_return(at.elapsed()));
        // This node knows itself what its predecessor's accounts have become.
        for other in nodes.iter().filter(|node| node.node.name() != self.me.name()) {
            // An account that a live node serves no longer was removed: nobody is awaited.
            match other.serves.and_then(|digest| sets.get(digest)) {
                Some(set) => recent.insert(other.node.name().to_owned(), (set, now)),
                None => recent.remove(other.node.name()),
            };
        }
    }

    /// The reason why nothing is done for a submitter that this node has no key for. Callers ask again if
    /// this node still follows its work, and another one serves it; or if no live node serves it, but one
    /// did a moment ago, which may be restarting.
    pub(crate) fn refusal(&self, submitter: Submitter, is_followed: bool) -> Unserved {
        if submitter.chain_id != self.chain_id {
            return Unserved::UnknownSubmitter;
        }
        if self.is_served_elsewhere(submitter) {
            let is_taken = is_followed || self.serves(submitter);
            return if is_taken { Unserved::NotOwner(None) } else { Unserved::UnknownSubmitter };
        }
        let was_served = lock(&self.recent).values().any(|(set, at)| {
            set.contains(submitter.address) && self.timings.may_return(at.elapsed())
        });
        match was_served {
            true => Unserved::unavailable("no node that serves the account is alive at the moment"),
            false => Unserved::UnknownSubmitter,
        }
    }

    /// True unless a node is known not to serve a submitter.
    fn may_serve(&self, node: &LiveNode, submitter: Submitter) -> bool {
        if node.node == self.me {
            return self.serves(submitter);
        }
        lock(&self.sets).may_be_served(submitter, node)
    }

    /// Returns a node's own statement whether it serves a submitter; `None` if it states
    /// nothing or is not on the list.
    fn is_served(&self, submitter: Submitter, by: &NodeId) -> Option<bool> {
        let nodes = self.nodes();
        let node = nodes.iter().find(|node| node.node == *by)?;
        lock(&self.sets).is_served(submitter, node)
    }

    /// True if another node publishes that it serves a submitter.
    pub(crate) fn is_served_elsewhere(&self, submitter: Submitter) -> bool {
        let (nodes, sets) = (self.nodes(), lock(&self.sets));
        let says_so = |node: &LiveNode| sets.is_served(submitter, node) == Some(true);
        submitter.chain_id == self.chain_id
            && nodes.iter().any(|node| node.node != self.me && says_so(node))
    }

    /// True if no node that takes work serves a submitter. False while this node is not on the list itself.
    pub(crate) fn is_unserved(&self, submitter: Submitter) -> bool {
        let nodes = self.nodes();
        let takes = |node: &LiveNode| !node.draining && self.may_serve(node, submitter);
        self.is_listed(&self.me) && !nodes.iter().any(takes)
    }

    fn nodes(&self) -> Arc<Vec<LiveNode>> {
        lock(&self.nodes).clone()
    }

    fn is_listed(&self, node: &NodeId) -> bool {
        lock(&self.nodes).iter().any(|listed| listed.node == *node)
    }

    fn is_alone(&self) -> bool {
        lock(&self.nodes).iter().all(|node| node.node == self.me)
    }

    fn has_peer(&self) -> bool {
        lock(&self.nodes).iter().any(|node| node.node != self.me && !node.draining)
    }

    /// The node that should own a submitter, as far as the list goes: one that serves it.
    fn preferred(&self, submitter: Submitter) -> Option<LiveNode> {
        self.preferred_among(submitter, |node| self.may_serve(node, submitter))
    }

    fn preferred_among(
        &self,
        submitter: Submitter,
        is_suited: impl Fn(&LiveNode) -> bool,
    ) -> Option<LiveNode> {
        let nodes = self.nodes();
        let mut moves = lock(&self.moves);
        let unwilling = match moves.unwilling.get(&submitter) {
            Some((_, since)) if since.elapsed() > self.timings.unwilling_for => {
                moves.unwilling.remove(&submitter);
                None
            }
            Some((node, _)) => Some(node.clone()),
            None => None,
        };
        drop(moves);
        let draining = self.is_draining();
        let passed_over = |node: &LiveNode| {
            unwilling.as_ref() == Some(&node.node)
                || draining && node.node == self.me
                || !is_suited(node)
        };
        preferred_but(submitter, &nodes, passed_over).cloned()
    }

    /// Another node that should own a submitter which this node owns. None while this node is not on
    /// the list itself: what the list says is not worth much then. What this node merely follows goes
    /// to nobody but a node that is known to serve it.
    pub(crate) fn better_owner(&self, submitter: Submitter) -> Option<NodeId> {
        if self.is_alone() || !self.is_listed(&self.me) {
            return None;
        }
        let better = self.preferred(submitter).map(|node| node.node);
        better.filter(|node| {
            *node != self.me
                && (self.serves(submitter) || self.is_served(submitter, node) == Some(true))
        })
    }

    /// Takes a turn to let a submitter go for another node; there is not always one.
    pub(crate) fn may_hand_over(&self, submitter: Submitter, to: NodeId) -> bool {
        let mut moves = lock(&self.moves);
        let now = Instant::now();
        if moves.last.is_some_and(|last| now - last < HAND_OVER_PAUSE) {
            return false;
        }
        moves.last = Some(now);
        let kept = self.timings.grace;
        bound(&mut moves.left, |(_, at)| now - *at < kept);
        moves.left.insert(submitter, (to, now));
        true
    }

    /// Returns whether a submitter was released a moment ago for a node that has yet to take it. Taking it back
    /// now would be thrashing.
    pub(crate) fn is_left_to_another(&self, submitter: Submitter) -> bool {
        let left = lock(&self.moves).left.get(&submitter).cloned();
        left.is_some_and(|(to, at)| at.elapsed() < self.timings.grace && self.is_listed(&to))
    }

    /// Returns whether this node follows, without a key, work that has had no owner for so long: no node that
    /// takes work serves it.
    pub(crate) fn follows(&self, submitter: Submitter, orphaned: Duration) -> bool {
        let preferred = || self.preferred_among(submitter, |_| true).map(|node| node.node);
        self.is_unserved(submitter)
            && self.timings.follows(&self.me, preferred().as_ref(), orphaned)
    }

    /// Returns whether this node takes up work that has had no owner for so long. A preferred node that let
    /// its chance pass, perhaps because it does not serve the submitter and does not say so, is passed
    /// over for a while.
    pub(crate) fn adopts(&self, submitter: Submitter, orphaned: Duration) -> bool {
        let preferred = self.preferred(submitter).map(|node| node.node);
        let adopts = self.timings.adopts(&self.me, preferred.as_ref(), orphaned);
        if let Some(other) = preferred.filter(|node| adopts && *node != self.me) {
            let (mut moves, now) = (lock(&self.moves), Instant::now());
            bound(&mut moves.unwilling, |(_, at)| now - *at < self.timings.unwilling_for);
            moves.unwilling.insert(submitter, (other, now));
        }
        adopts
    }

    /// Finds the owner of a submitter that this node does not work for, or else the preferred node.
    async fn look_up(
        &self,
        submitter: Submitter,
        store: &dyn Store,
    ) -> Result<OwnerLookup, StoreError> {
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

    fn judge(&self, submitter: Submitter, owner: Option<Owner>) -> OwnerLookup {
        let preferred = self.preferred(submitter);
        let owner =
            owner.filter(|owner| !self.merely_follows(submitter, owner, preferred.as_ref()));
        if let Some(Owner { node, advertise_url, .. }) = owner {
            return match advertise_url {
                // An owner that is silent, or not on the list at all, can't be asked.
                Some(url) if node != self.me && self.is_listed(&node) => {
                    OwnerLookup::Anothers(Destination { node, url, owns: true })
                }
                Some(_) | None => OwnerLookup::Mine,
            };
        }
        match preferred {
            Some(LiveNode { node, advertise_url, .. }) if node != self.me => {
                let url = advertise_url.as_str().to_owned();
                OwnerLookup::Anothers(Destination { node, url, owns: false })
            }
            Some(_) => OwnerLookup::Mine,
            None => OwnerLookup::Nobodys,
        }
    }

    /// True if an owner does not serve its submitter and will release it for a node that does.
    fn merely_follows(
        &self,
        submitter: Submitter,
        owner: &Owner,
        preferred: Option<&LiveNode>,
    ) -> bool {
        let serves = |node: &NodeId| self.is_served(submitter, node);
        serves(&owner.node) == Some(false)
            && preferred.is_some_and(|node| serves(&node.node) == Some(true))
    }
}

impl Engine {
    /// The node that a request for a submitter belongs to.
    pub async fn place(&self, submitter: Submitter) -> Result<Place, StoreError> {
        let placement = &self.context.placement;
        let draining = placement.is_draining();
        // What is merely followed here belongs to a node that serves it, if there is one.
        let is_ours = || {
            self.workers.works_for(submitter)
                && (self.serves(submitter) || placement.better_owner(submitter).is_none())
        };
        if !draining && (placement.is_alone() || is_ours()) {
            return Ok(Place::Here);
        }
        Ok(match placement.look_up(submitter, self.context.store.as_ref()).await? {
            OwnerLookup::Anothers(there)
                if there.owns
                    || self.serves(submitter)
                    || placement.is_served(submitter, &there.node) == Some(true) =>
            {
                Place::There(there)
            }
            // Nobody's, and no account of this node: it knows what to say to that.
            OwnerLookup::Anothers(_) | OwnerLookup::Mine => Place::Here,
            OwnerLookup::Nobodys if draining && self.serves(submitter) => Place::Nowhere,
            OwnerLookup::Nobodys => Place::Here,
        })
    }

    /// The last answer of [`Self::place`] was wrong.
    pub fn misplaced(&self, submitter: Submitter) {
        lock(&self.context.placement.owners).remove(&submitter);
    }

    /// True if no other node is alive.
    pub fn is_alone(&self) -> bool {
        self.context.placement.is_alone()
    }

    /// Reads the list of nodes; true if another node that takes new work is alive.
    pub async fn has_peer(&self) -> bool {
        let Context { placement, store, .. } = self.context.as_ref();
        // A list that can't be read is as it was.
        let _ = placement.refresh(store.as_ref()).await;
        placement.has_peer()
    }

    /// True if a node is on the list of live nodes.
    pub fn is_live(&self, node: &NodeId) -> bool {
        self.context.placement.is_listed(node)
    }

    /// The id of this node.
    pub fn node(&self) -> &NodeId {
        &self.context.placement.me
    }

    /// The URL that this node has published.
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

    /// True if it takes up no submitter any more.
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
mod tests;
