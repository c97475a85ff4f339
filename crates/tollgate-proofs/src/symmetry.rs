//! States that differ only in the nodes' names count as one.
//!
//! No step and no promise asks for a particular node, so what can follow from a world can follow,
//! with the names exchanged, from its counterpart. The checker recognises a state by its hash: it is
//! taken here over the world with its nodes in a fixed order, which leaves about a sixth of the
//! worlds to visit. The worlds themselves keep their names, so that a path stays readable.
//!
//! The txs are interchangeable too; see [`World::has_trace_of`].

use crate::world::{Lease, NODES, ORPHAN, Owner, Session, TxId, World};
use std::hash::{Hash, Hasher};

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let order = self.nodes_in_order();
        let mut place = [0; NODES];
        for (position, node) in order.into_iter().enumerate() {
            place[node] = position;
        }
        let renamed = |owner: Owner| Owner { node: place[owner.node], ..owner };

        for node in order {
            self.nodes[node].hash(state);
            self.sessions[node].with_owner(nameless).hash(state);
        }
        self.sessions[ORPHAN].with_owner(renamed).hash(state);
        Lease { owner: self.lease.owner.map(renamed), ..self.lease }.hash(state);

        // A new field of the world that is missing here would merge worlds that differ: the
        // compiler asks for it.
        let Self {
            nodes: _,
            sessions: _,
            lease: _,
            cursor,
            rows,
            wire,
            mined,
            answered,
            lost_answers,
            history,
        } = self;
        (cursor, rows, wire, mined, answered, lost_answers, history).hash(state);
    }
}

impl World {
    /// The nodes, sorted by all that is theirs. Those that still tie are alike in everything, so it
    /// doesn't matter which comes first.
    fn nodes_in_order(&self) -> [usize; NODES] {
        let mut order = std::array::from_fn(|node| node);
        order.sort_unstable_by_key(|&node| {
            let boot = |owner: Option<Owner>| owner.filter(|o| o.node == node).map(|o| o.boot);
            (
                self.nodes[node],
                self.sessions[node].with_owner(nameless),
                boot(self.lease.owner),
                boot(self.sessions[ORPHAN].owner()),
            )
        });
        order
    }

    /// The tx appears anywhere in the state. Of the txs that do not, it is enough to try one: the others
    /// would give the same paths under another name.
    pub(crate) fn has_trace_of(&self, tx: TxId) -> bool {
        self.answered.contains(tx)
            || self.rows.union(self.wire).txs().contains(tx)
            || self
                .nodes
                .iter()
                .any(|node| node.known.contains(tx) || node.to_send.txs().contains(tx))
            || self.sessions.iter().any(
                |session| matches!(session, Session::Writer { attempt, .. } if attempt.tx == tx),
            )
    }
}

/// A node's own session carries its own name, which its place in the order says already.
const fn nameless(owner: Owner) -> Owner {
    Owner { node: 0, ..owner }
}

impl Session {
    const fn owner(self) -> Option<Owner> {
        match self {
            Self::Closed => None,
            Self::Writer { owner, .. }
            | Self::TakeoverLocked { owner }
            | Self::TakeoverBumped { owner, .. } => Some(owner),
        }
    }

    fn with_owner(self, rename: impl FnOnce(Owner) -> Owner) -> Self {
        match self {
            Self::Closed => self,
            Self::Writer { stage, owner, attempt } => {
                Self::Writer { stage, owner: rename(owner), attempt }
            }
            Self::TakeoverLocked { owner } => Self::TakeoverLocked { owner: rename(owner) },
            Self::TakeoverBumped { owner, token } => {
                Self::TakeoverBumped { owner: rename(owner), token }
            }
        }
    }
}
