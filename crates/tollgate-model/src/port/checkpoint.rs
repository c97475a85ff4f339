//! Named places inside a store's transactions, so that tests can stop there.
//!
//! A race is only tested when it is made to happen: the suite holds a writer at a checkpoint while
//! another node acts. In production nobody watches and reaching one costs a virtual call.

use async_trait::async_trait;

/// A place in a store's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Checkpoint {
    /// A fenced batch has proved its leases and holds them still.
    BatchGuarded,
    /// A fenced batch has written everything and is about to commit.
    BatchWritten,
    /// A fenced batch has committed; the caller does not know yet.
    BatchCommitted,
    /// A takeover is about to look for an expired lease.
    TakeoverStarted,
}

/// Somebody who wants to know.
#[async_trait]
pub trait Checkpoints: Send + Sync + 'static {
    /// Work waits here until this returns.
    async fn reached(&self, at: Checkpoint);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

#[async_trait]
impl Checkpoints for Unwatched {
    async fn reached(&self, _at: Checkpoint) {}
}
