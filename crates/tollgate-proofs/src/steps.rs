//! The actions, their preconditions, and the nodes' part of their effects. (The database's part is in
//! `database.rs`.)
//!
//! There is no action for a pause: a node that takes no step while others do is paused, and the search
//! tries every order.

use crate::properties;
use crate::protocol::{Bounds, LeaseModel};
use crate::world::{
    Attempt, NODES, Node, ORPHAN, Owner, SESSIONS, Session, Stage, Step, TxId, World,
};
use stateright::{Model, Property};

/// One step. Nodes and sessions are given by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes: the lease is past its end.
    Expire,
    /// A contender reads before its takeover. Only in broken protocols.
    ReadEarly(usize),
    /// First statement of a takeover: the lease row `FOR UPDATE`, if expired.
    LockLease(usize),
    /// Second statement of a takeover: owner, and token + 1.
    BumpToken(usize),
    /// A node without memory of its lease finds it valid and in its own name, and continues with it.
    Adopt(usize),
    /// The new owner reads cursor and attempts.
    Load(usize),
    /// The owner assigns the next nonce to a tx, signs, and begins the transaction that stores it.
    Draft(usize, TxId),
    /// The guard of this session's transaction is executed.
    Guard(usize),
    /// The guard of this session's transaction is executed after the lease's expiry.
    GuardTooLate(usize),
    /// The row and the cursor are written in this session's transaction.
    Write(usize),
    /// This session's transaction commits.
    Commit(usize),
    /// The server aborts this session's transaction.
    Abort(usize),
    /// The node sends the lowest attempt it has to send.
    Send(usize),
    /// The owner's renewal lands.
    Renew(usize),
    /// The node's renewal matches no row: it stops being owner.
    RenewalRefused(usize),
    /// The owner releases the lease.
    Release(usize),
    /// The node crashes and restarts without memory; its open transaction is aborted.
    Crash(usize),
    /// The node crashes and restarts; statements that it had sent may still be executed.
    CrashLeavingOrphan(usize),
    /// The node loses its connection and does not learn how its transaction ends.
    LoseAnswer(usize),
    /// The chain mines an attempt that has arrived.
    Mine(Attempt),
}

impl Model for LeaseModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let Bounds { tokens, txs, .. } = self.bounds;
        assert!(tokens <= Bounds::MAX_TOKENS && txs <= Bounds::MAX_TXS, "{:?}", self.bounds);
        vec![World::default()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Expire);
        for node in 0..NODES {
            self.offer_node(world, node, actions);
        }
        for session in 0..SESSIONS {
            offer_session(world, session, actions);
        }
        if self.bounds.mining {
            actions.extend(world.wire.iter().map(Action::Mine));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        self.apply(&mut world, action).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

/// Offers the server's steps for an open transaction.
fn offer_session(world: &World, session: usize, actions: &mut Vec<Action>) {
    match world.sessions[session] {
        Session::Closed => return,
        Session::Writer { stage: Stage::Begun, .. } => {
            actions.extend([Action::Guard(session), Action::GuardTooLate(session)]);
        }
        Session::Writer { stage: Stage::Guarded, .. } => actions.push(Action::Write(session)),
        Session::Writer { stage: Stage::Written, .. } | Session::TakeoverBumped { .. } => {
            actions.push(Action::Commit(session));
        }
        Session::TakeoverLocked { .. } => {}
    }
    actions.push(Action::Abort(session));
}

impl LeaseModel {
    /// Offers a node's steps. [`LeaseModel::apply`] decides whether each is possible: a lock is free, a
    /// bound is not reached.
    fn offer_node(&self, world: &World, node: usize, actions: &mut Vec<Action>) {
        let Node { step, to_send, .. } = world.nodes[node];
        match step {
            // No memory to lose in a crash, no lease to renew.
            Step::Idle | Step::Fenced => {
                let node_tries = [Action::ReadEarly, Action::LockLease, Action::Adopt];
                return actions.extend(node_tries.map(|action| action(node)));
            }
            Step::ReadEarly => {
                return actions.extend([Action::LockLease(node), Action::BumpToken(node)]);
            }
            Step::Taking => actions.push(Action::BumpToken(node)),
            Step::Loading => actions.push(Action::Load(node)),
            Step::Ready => {
                actions.extend([Action::RenewalRefused(node), Action::Release(node)]);
                self.offer_drafts(world, node, actions);
            }
            Step::Writing => {}
        }
        if !to_send.is_empty() {
            actions.push(Action::Send(node));
        }
        actions.extend([
            Action::Renew(node),
            Action::Crash(node),
            Action::CrashLeavingOrphan(node),
            Action::LoseAnswer(node),
        ]);
    }

    /// Any node may get a request for any tx, also for one that another node got. Of the txs without
    /// any request so far, one represents all.
    fn offer_drafts(&self, world: &World, node: usize, actions: &mut Vec<Action>) {
        let txs = || (0..self.bounds.txs).map(TxId);
        let requested = txs().filter(|tx| world.has_trace_of(*tx));
        let new = txs().find(|tx| !world.has_trace_of(*tx));
        actions.extend(requested.chain(new).map(|tx| Action::Draft(node, tx)));
    }

    /// Applies one action. `false`: it is not possible in this state, and nothing has changed.
    fn apply(&self, world: &mut World, action: Action) -> bool {
        match action {
            Action::Expire => expire(world),
            Action::ReadEarly(node) => self.read_early(world, node),
            Action::LockLease(node) => self.lock_lease(world, node),
            Action::BumpToken(node) => self.bump_token(world, node),
            Action::Adopt(node) => self.adopt(world, node),
            Action::Load(node) => load(world, node),
            Action::Draft(node, tx) => self.draft(world, node, tx),
            Action::Guard(session) => self.guard(world, session),
            Action::GuardTooLate(session) => Self::guard_too_late(world, session),
            Action::Write(session) => self.write(world, session),
            Action::Commit(session) => self.commit(world, session),
            Action::Abort(session) => self.abort(world, session),
            Action::Send(node) => send(world, node),
            Action::Renew(node) => self.renew(world, node),
            Action::RenewalRefused(node) => self.renewal_refused(world, node),
            Action::Release(node) => self.release(world, node),
            Action::Crash(node) => self.crash(world, node),
            Action::CrashLeavingOrphan(node) => {
                self.may_crash(world) && leave_orphan(world, node) && self.crash(world, node)
            }
            Action::LoseAnswer(node) => self.lose_answer(world, node),
            Action::Mine(attempt) => mine(world, attempt),
        }
    }

    fn owner(&self, world: &World, node: usize) -> Owner {
        let boot = if self.protocol.owner_has_boot_id() { world.nodes[node].boot } else { 0 };
        Owner { node, boot }
    }

    /// The lease row agrees with the node's belief.
    fn holds_lease(&self, world: &World, node: usize) -> bool {
        let ours = world.lease.owner == Some(self.owner(world, node));
        ours && world.lease.token == world.nodes[node].token
    }

    fn may_take(&self, world: &World) -> bool {
        world.lease.expired && world.lease.token.0 < self.bounds.tokens
    }

    fn may_crash(&self, world: &World) -> bool {
        world.nodes.iter().map(|node| node.boot).sum::<u8>() < self.bounds.crashes
    }

    /// The mistake of two protocols: one reads the submitter's state too early, the other the token.
    fn read_early(&self, world: &mut World, node: usize) -> bool {
        let early = self.protocol.loads_before_takeover() || !self.protocol.takeover_locks_first();
        if !early || !world.nodes[node].is_contender() || !self.may_take(world) {
            return false;
        }
        world.nodes[node].forget_state(world.lease.token);
        if self.protocol.loads_before_takeover() {
            load(world, node);
        }
        world.nodes[node].step = Step::ReadEarly;
        true
    }

    fn lock_lease(&self, world: &mut World, node: usize) -> bool {
        let ready = if self.protocol.loads_before_takeover() {
            // A row that was changed after the snapshot would be a serialization failure.
            let unchanged = world.nodes[node].token == world.lease.token;
            world.nodes[node].step == Step::ReadEarly && unchanged
        } else {
            self.protocol.takeover_locks_first() && world.nodes[node].is_contender()
        };
        if !ready || !self.may_take(world) || !self.lease_is_free_to_take(world) {
            return false;
        }
        world.sessions[node] = Session::TakeoverLocked { owner: self.owner(world, node) };
        world.nodes[node].step = Step::Taking;
        true
    }

    fn bump_token(&self, world: &mut World, node: usize) -> bool {
        let token = match (world.nodes[node].step, world.sessions[node]) {
            (Step::Taking, Session::TakeoverLocked { .. }) => world.lease.token.next(),
            (Step::ReadEarly, Session::Closed)
                if !self.protocol.takeover_locks_first() && self.lease_is_free_to_take(world) =>
            {
                world.nodes[node].token.next()
            }
            _ => return false,
        };
        world.sessions[node] = Session::TakeoverBumped { owner: self.owner(world, node), token };
        world.nodes[node].step = Step::Taking;
        true
    }

    fn adopt(&self, world: &mut World, node: usize) -> bool {
        let ours = world.lease.owner == Some(self.owner(world, node)) && !world.lease.expired;
        if !ours || !world.nodes[node].is_contender() || world.lease_is_being_taken() {
            return false;
        }
        world.nodes[node].forget_state(world.lease.token);
        true
    }

    fn draft(&self, world: &mut World, node: usize, tx: TxId) -> bool {
        let Node { step, token, next, known, .. } = world.nodes[node];
        if step != Step::Ready || known.contains(tx) || next.0 >= Bounds::MAX_SLOTS {
            return false;
        }
        let owner = self.owner(world, node);
        let attempt = Attempt { nonce: next, tx, signed_under: token };
        world.sessions[node] = Session::Writer { stage: Stage::Begun, owner, attempt };
        world.nodes[node].step = Step::Writing;
        if self.protocol.sends_before_commit() {
            world.nodes[node].to_send.insert(attempt);
        }
        true
    }

    /// A renewal was judged valid before it had to wait for a takeover that then gave up; it lands
    /// after the expiry all the same. (One that lands before it changes nothing here.)
    fn renew(&self, world: &mut World, node: usize) -> bool {
        let lands = self.holds_lease(world, node) && !world.lease_is_being_taken();
        if !lands || !world.lease.expired {
            return false;
        }
        world.lease.expired = false;
        true
    }

    fn renewal_refused(&self, world: &mut World, node: usize) -> bool {
        if self.holds_lease(world, node) && !world.lease.expired {
            return false;
        }
        world.nodes[node].forget(Step::Fenced);
        true
    }

    /// Changes the token, so it waits for writers as a takeover does.
    fn release(&self, world: &mut World, node: usize) -> bool {
        let lands = self.holds_lease(world, node) && self.lease_is_free_to_take(world);
        if !lands || world.lease.token.0 >= self.bounds.tokens {
            return false;
        }
        world.lease.owner = None;
        world.lease.token = world.lease.token.next();
        world.lease.expired = true;
        world.nodes[node].forget(Step::Idle);
        true
    }

    /// Crash and restart are one step; the downtime is the time until its next step.
    fn crash(&self, world: &mut World, node: usize) -> bool {
        if !self.may_crash(world) {
            return false;
        }
        world.sessions[node] = Session::Closed;
        world.nodes[node].forget(Step::Idle);
        world.nodes[node].boot += 1;
        true
    }

    /// The outcome is unknown, so the node must read before it decides anything.
    fn lose_answer(&self, world: &mut World, node: usize) -> bool {
        if world.lost_answers >= self.bounds.lost_answers || !leave_orphan(world, node) {
            return false;
        }
        world.lost_answers += 1;
        let Node { step, token, .. } = world.nodes[node];
        if step == Step::Writing {
            world.nodes[node].forget_state(token);
        } else {
            world.nodes[node].forget(Step::Idle);
        }
        true
    }
}

fn expire(world: &mut World) -> bool {
    if world.lease.owner.is_none() || world.lease.expired {
        return false;
    }
    world.lease.expired = true;
    true
}

/// The node's transaction continues without it. One at a time, to keep the search small, and only
/// one that does more than hold a lock.
fn leave_orphan(world: &mut World, node: usize) -> bool {
    let session = world.sessions[node];
    let may_act = matches!(session, Session::Writer { .. } | Session::TakeoverBumped { .. });
    if !may_act || world.sessions[ORPHAN] != Session::Closed {
        return false;
    }
    world.sessions[ORPHAN] = session;
    world.sessions[node] = Session::Closed;
    true
}

fn load(world: &mut World, node: usize) -> bool {
    let memory = &mut world.nodes[node];
    if memory.step != Step::Loading {
        return false;
    }
    memory.step = Step::Ready;
    memory.next = world.cursor;
    memory.known = world.rows.txs();
    memory.to_send = world.rows;
    true
}

/// Neither lock nor lease protects this: a former owner sends what it has, too.
fn send(world: &mut World, node: usize) -> bool {
    let Some(attempt) = world.nodes[node].to_send.lowest() else { return false };
    world.nodes[node].to_send.remove(attempt);
    world.wire.insert(attempt);
    true
}

/// The chain mines slots in order and each once, from any attempt that was sent.
fn mine(world: &mut World, attempt: Attempt) -> bool {
    if usize::from(attempt.nonce.0) != world.mined.iter().count() {
        return false;
    }
    world.mined.insert(attempt);
    true
}
