//! A model of the protocol behind Tollgate's safety, small enough for an exhaustive search: the
//! **lease** of a submitter, the **fence** around its writes, and **durable before the wire**.
//!
//! Three nodes share one database and manage one submitter. Anything may be delayed for any time; a
//! node may crash at any step and restart; an answer may be lost; a message may be late, lost or
//! duplicated. The checker tries every order of the steps within its [`Bounds`] and checks every state
//! it reaches.
//!
//! # How to read it
//!
//! - [`Protocol`]: the protocol as built, and variants with one mistake each. They prove that the
//!   model can detect the mistakes whose absence it claims.
//! - [`World`]: the rows in the database, the open transactions, the nodes' memory, the wire.
//! - [`Action`]: the possible steps. `steps.rs` has the nodes' part, `database.rs` the server's: locks,
//!   guards, commits under READ COMMITTED.
//! - [`promise`]: properties of every state, by the number of the promise (I1 to I6).
//! - [`sighting`]: properties of at least one state, so that "nothing bad happened" does not just mean
//!   "nothing happened".
//! - `symmetry.rs`: the reason why states that differ only in the nodes' names are counted once.
//!
//! A counterexample is a list of actions that leads to the violation.
//!
//! # Results beyond "it holds"
//!
//! - While every answer arrives, the fence alone keeps every promise: the comparison of the cursor
//!   and the unique keys never refuse anything.
//! - The fence tells owners apart, not two transactions of one owner. After a lost answer it is the
//!   comparison of the cursor (`… WHERE next_nonce = expected`), under the cursor row's lock, that
//!   keeps a slot for one tx.
//! - A read right after a lost answer is not conclusive: the transaction that the node gave up may
//!   still commit. See [`promise::OWNER_KNOWS_ALL`].
//!
//! # Modelled more permissively than built
//!
//! The model allows more behaviour than the implementation, so its properties hold there as well:
//!
//! - A guard with the right token may pass after the expiry, and a renewal may land after it: in
//!   PostgreSQL both can have read the clock before they had to wait for a lock. The promises rest
//!   on the token under the lock; expiry only gets a lease moving.
//! - A node does not notice that it lost the lease until the database refuses it.
//! - Reading the submitter's state is not guarded, and a former owner sends whatever it has.
//! - A transaction that its node gave up, or died over, can still be executed from any of its
//!   statements on (the orphan): even one whose guard had not reached the server.
//!
//! # Not modelled
//!
//! - Loss of a committed transaction: no `synchronous_commit = off`, no failover to a replica that
//!   lags behind.
//! - Time as a quantity. "Expired" comes and goes by steps of its own, so nothing is said about how
//!   long a takeover takes, nor that it ever comes: safety only, no liveness.
//! - Bumps, placeholders, recycled slots and other second attempts for a slot; outsiders that use the
//!   submitter's key; reorgs. A slot has one attempt here, and the chain's count is no input.
//! - Several writers at once within one node, except for the one orphan at a time; batches; several
//!   submitters in one transaction (their fences don't share a row).
//! - The load as several statements: it is one step.
//! - Certainty about hashes: the checker knows a world again by 64 bits. That two worlds of the
//!   largest search share them, and one is skipped, has a chance of less than one in ten million.
//! - PostgreSQL itself. Which lock conflicts with which is taken from its manual and from
//!   measurement; the conformance tests of the store try it on a real server. Nor is SQLite modelled:
//!   there a write transaction excludes every other from its first statement, which allows less.

#![allow(missing_docs, reason = "a name and type that say it all need no sentence")]

mod database;
mod properties;
mod protocol;
mod steps;
mod symmetry;
mod world;

pub use properties::{PROMISES, SIGHTINGS, promise, sighting};
pub use protocol::{Bounds, LeaseModel, Protocol};
pub use steps::Action;
pub use world::{
    Attempt, AttemptSet, History, Lease, NODES, Node, Nonce, ORPHAN, Owner, SESSIONS, Session,
    Stage, Step, Token, TxId, TxSet, World,
};
