//! Leases: the right to write for a submitter.

use std::time::Duration;

use alloy_primitives::Address;
use async_trait::async_trait;

use super::{StoreError, SubmitterRecord};
use crate::ids::{ChainId, FencingToken, InvalidValue, NodeId, Submitter};

/// The lease's timing parameters. All comparisons use the database's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    duration: Duration,
    renew_interval: Duration,
    clock_skew_allowance: Duration,
}

impl LeaseTerms {
    /// Checks the three values against each other: a lease must survive one missed renewal.
    pub fn new(
        duration: Duration,
        renew_interval: Duration,
        clock_skew_allowance: Duration,
    ) -> Result<Self, InvalidValue> {
        if renew_interval.is_zero() || renew_interval >= duration / 2 {
            let problem = format!(
                "renew_interval {renew_interval:?} must be above zero and below half of duration \
                 {duration:?}"
            );
            return Err(InvalidValue::new("lease.renew_interval", problem));
        }
        if clock_skew_allowance >= duration {
            let problem = format!(
                "clock_skew_allowance {clock_skew_allowance:?} must be below duration {duration:?}"
            );
            return Err(InvalidValue::new("lease.clock_skew_allowance", problem));
        }
        Ok(Self { duration, renew_interval, clock_skew_allowance })
    }

    /// The time for which a lease is valid after it was acquired or renewed.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The interval at which the owner renews its lease.
    pub const fn renew_interval(&self) -> Duration {
        self.renew_interval
    }

    /// The time that other nodes wait after expiry before they take over.
    pub const fn clock_skew_allowance(&self) -> Duration {
        self.clock_skew_allowance
    }
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            renew_interval: Duration::from_secs(3),
            clock_skew_allowance: Duration::from_secs(1),
        }
    }
}

/// The proof that accompanies every critical write: a submitter and its fencing token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    pub submitter: Submitter,
    /// The token that the store must still hold when the write commits (I2).
    pub token: FencingToken,
}

/// The result of an attempt to acquire a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquisition {
    /// The node holds the lease.
    Granted {
        lease: Lease,
        kind: GrantKind,
        /// The submitter's row, read *after* the grant committed, so that it includes everything
        /// that any earlier owner wrote.
        submitter: SubmitterRecord,
    },
    /// Another node holds the lease.
    Held(Owner),
}

/// The way in which a lease was obtained.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GrantKind {
    /// No node held it before.
    First,
    /// The node held it already; it was extended.
    Renewed,
    /// The previous owner's lease had expired or was released: the token grew by one.
    TakenOver,
}

/// The holder of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    pub node: NodeId,
    pub token: FencingToken,
    /// The URL at which other nodes reach it, if it is a live node.
    pub advertise_url: Option<String>,
    /// The time for which the lease is still valid by the database's clock; zero if it has expired.
    pub remaining: Duration,
}

/// Leases: acquire, renew, release, look up.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Acquires the lease if it is free, extends it if `node` holds it, takes it over if it has
    /// expired; otherwise returns its owner. Never waits longer than the store's lock timeout.
    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError>;

    /// Extends all of a node's leases in one statement and returns those that were extended. A lease
    /// that is missing from the result is lost: nothing may be written under it any more.
    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError>;

    /// Releases leases at once: the token grows, so nothing in flight under them can commit (I2).
    /// Returns how many of them the node still held.
    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError>;

    /// Marks a submitter that has private transactions, for ever. Nodes of a version without routes would hand its
    /// transactions to public endpoints, so the store grants them no lease of it from now on. Fenced.
    async fn mark_private(&self, node: &NodeId, lease: Lease) -> Result<(), StoreError>;

    /// Returns the owner of each submitter, in the order asked; `None` if there is none.
    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError>;

    /// Examines the next `limit` submitters of a chain that have open work, by address above `after`,
    /// and returns those without an owner. Submitters without open work are not read.
    async fn orphans(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        limit: u32,
    ) -> Result<OrphanPage, StoreError>;
}

/// Submitters with open work and no owner, in the order of their addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OrphanPage {
    pub orphans: Vec<Submitter>,
    /// The last submitter that was examined, if there may be more above it.
    pub next: Option<Address>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_terms_that_cannot_survive_a_missed_renewal_are_refused() {
        let seconds = Duration::from_secs;
        assert!(LeaseTerms::new(seconds(10), seconds(3), seconds(1)).is_ok());
        for (duration, renew, skew) in [(10, 5, 1), (10, 0, 1), (10, 11, 1), (10, 3, 10)] {
            assert!(LeaseTerms::new(seconds(duration), seconds(renew), seconds(skew)).is_err());
        }
    }
}
