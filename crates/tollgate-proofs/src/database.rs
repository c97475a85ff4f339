//! The database server's part of the steps: locks, guards, writes, commits and aborts of the open
//! transactions, under READ COMMITTED. Knows nothing of the nodes' memory, except that it reports to
//! them how their transaction ended.
//!
//! A step that waits for a lock is not possible yet; once it is, it sees the rows as they are then,
//! as PostgreSQL re-checks a row after waiting for it.

use crate::protocol::LeaseModel;
use crate::world::{Attempt, NODES, Node, Owner, Session, Stage, Step, Token, World};

impl World {
    /// A takeover has locked the lease row `FOR UPDATE`, which blocks guards, renewals and takeovers.
    pub(crate) fn lease_is_being_taken(&self) -> bool {
        self.sessions.iter().any(|session| {
            matches!(session, Session::TakeoverLocked { .. } | Session::TakeoverBumped { .. })
        })
    }

    /// A transaction has written the cursor row and holds its lock.
    fn cursor_is_locked(&self) -> bool {
        self.sessions
            .iter()
            .any(|session| matches!(session, Session::Writer { stage: Stage::Written, .. }))
    }

    /// The open transactions that have passed their guard: those that could commit.
    pub(crate) fn writers_past_the_guard(&self) -> impl Iterator<Item = (Owner, Attempt)> {
        self.sessions.iter().filter_map(|session| match *session {
            Session::Writer { stage, owner, attempt } if stage > Stage::Begun => {
                Some((owner, attempt))
            }
            _ => None,
        })
    }

    /// Closes a session and updates its node (an orphan has none).
    fn end(&mut self, session: usize, update: impl FnOnce(&mut Node)) {
        self.sessions[session] = Session::Closed;
        if session < NODES {
            update(&mut self.nodes[session]);
        }
    }
}

impl LeaseModel {
    /// The lease row can be locked `FOR UPDATE`, or its token changed: no takeover has locked it, and no
    /// writer holds it `FOR KEY SHARE`.
    pub(crate) fn lease_is_free_to_take(&self, world: &World) -> bool {
        let held = self.protocol.guard_holds_lease() && world.writers_past_the_guard().count() > 0;
        !held && !world.lease_is_being_taken()
    }

    /// The guard, the first statement of a writer's transaction. No row means fenced.
    ///
    /// A guard that locks may pass after the expiry: it can have read the clock before it had to
    /// wait for the lock. Where the token decides as well, that must do no harm.
    pub(crate) fn guard(&self, world: &mut World, session: usize) -> bool {
        let Session::Writer { stage: Stage::Begun, owner, attempt } = world.sessions[session]
        else {
            return false;
        };
        let locks = self.protocol.guard_holds_lease();
        if locks && world.lease_is_being_taken() {
            return false;
        }
        let ours = world.lease.owner == Some(owner);
        let passes = if self.protocol.guard_compares_token() {
            ours && world.lease.token == attempt.signed_under && (locks || !world.lease.expired)
        } else {
            ours && !world.lease.expired
        };
        if passes {
            world.sessions[session] = Session::Writer { stage: Stage::Guarded, owner, attempt };
        } else {
            world.end(session, |node| node.forget(Step::Fenced));
        }
        true
    }

    /// The guard of a writer that asks after the expiry, whatever its token: the row doesn't match,
    /// so there is no lock to wait for.
    pub(crate) fn guard_too_late(world: &mut World, session: usize) -> bool {
        let begun = matches!(world.sessions[session], Session::Writer { stage: Stage::Begun, .. });
        if !begun || !world.lease.expired {
            return false;
        }
        world.end(session, |node| node.forget(Step::Fenced));
        true
    }

    /// The write: the row, and the cursor past its slot.
    pub(crate) fn write(&self, world: &mut World, session: usize) -> bool {
        let Session::Writer { stage: Stage::Guarded, owner, attempt } = world.sessions[session]
        else {
            return false;
        };
        if world.cursor_is_locked() {
            return false;
        }
        let collides = world.cursor != attempt.nonce || world.rows.txs().contains(attempt.tx);
        if self.second_line && collides {
            world.end(session, |node| node.forget_state(node.token));
        } else {
            world.sessions[session] = Session::Writer { stage: Stage::Written, owner, attempt };
        }
        true
    }

    /// The commit of a writer or a takeover. Its effects and its answer are one step; a lost answer is
    /// the commit of an orphan.
    pub(crate) fn commit(&self, world: &mut World, session: usize) -> bool {
        match world.sessions[session] {
            Session::Writer { stage: Stage::Written, attempt, .. } => {
                commit_write(world, session, attempt);
            }
            Session::TakeoverBumped { owner, token } => {
                self.commit_takeover(world, session, owner, token);
            }
            _ => return false,
        }
        true
    }

    fn commit_takeover(&self, world: &mut World, session: usize, owner: Owner, token: Token) {
        world.history.token_back |= token < world.lease.token;
        world.history.token_reissued |= token <= world.lease.token;
        world.lease.owner = Some(owner);
        world.lease.token = token;
        world.lease.expired = false;
        let loaded = self.protocol.loads_before_takeover();
        world.end(session, |node| {
            node.token = token;
            node.step = if loaded { Step::Ready } else { Step::Loading };
        });
    }

    /// The server ends a transaction: a timeout, a deadlock, a statement that failed, a connection
    /// that went away.
    pub(crate) fn abort(&self, world: &mut World, session: usize) -> bool {
        match world.sessions[session] {
            Session::Closed => return false,
            Session::Writer { attempt, .. } if self.protocol.believes_any_commit() => {
                believe_commit(world, session, attempt);
            }
            Session::Writer { .. } => {
                // The cached nonce goes with the transaction that was to use it.
                world.end(session, |node| node.forget_state(node.token));
            }
            Session::TakeoverLocked { .. } | Session::TakeoverBumped { .. } => {
                world.end(session, |node| node.forget(Step::Idle));
            }
        }
        true
    }
}

fn commit_write(world: &mut World, session: usize, attempt: Attempt) {
    let cursor = attempt.nonce.next();
    world.history.late_write |= attempt.signed_under < world.lease.token;
    world.history.cursor_back |= cursor < world.cursor;
    world.rows.insert(attempt);
    world.cursor = cursor;
    believe_commit(world, session, attempt);
}

/// The node learns that its attempt is stored: it answers the caller and sends the attempt.
fn believe_commit(world: &mut World, session: usize, attempt: Attempt) {
    if session < NODES {
        world.answered.insert(attempt.tx);
    }
    world.end(session, |node| {
        node.step = Step::Ready;
        node.next = attempt.nonce.next();
        node.known.insert(attempt.tx);
        node.to_send.insert(attempt);
    });
}
