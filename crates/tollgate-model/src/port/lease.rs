//! The right to write for a submitter.

use std::time::Duration;

use alloy_primitives::Address;
use async_trait::async_trait;

use super::{StoreError, SubmitterRecord};
use crate::ids::{ChainId, FencingToken, InvalidId, NodeId, Submitter};

/// How long leases last. All comparisons are made by the database's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    duration: Duration,
    renew_interval: Duration,
    clock_skew_allowance: Duration,
}

impl LeaseTerms {
    /// Checks the three against each other: a lease must survive one missed renewal.
    pub fn new(
        duration: Duration,
        renew_interval: Duration,
        clock_skew_allowance: Duration,
    ) -> Result<Self, InvalidId> {
        if renew_interval.is_zero() || renew_interval >= duration / 2 {
            let problem = format!(
                "renew_interval {renew_interval:?} must be above zero and below half of duration \
                 {duration:?}"
            );
            return Err(InvalidId::new("lease.renew_interval", problem));
        }
        if clock_skew_allowance >= duration {
            let problem = format!(
                "clock_skew_allowance {clock_skew_allowance:?} must be below duration {duration:?}"
            );
            return Err(InvalidId::new("lease.clock_skew_allowance", problem));
        }
        Ok(Self { duration, renew_interval, clock_skew_allowance })
    }

    /// How long a lease is good for after it was acquired or renewed.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// How often the owner renews.
    pub const fn renew_interval(&self) -> Duration {
        self.renew_interval
    }

    /// How long after expiry others wait before they take over.
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

/// The proof that goes with every critical write: this submitter, under this token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    /// Whose writes it allows.
    pub submitter: Submitter,
    /// The token that the store must still hold when the write commits (I2).
    pub token: FencingToken,
}

/// The answer to an attempt to acquire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquisition {
    /// The node may write.
    Granted {
        /// The proof to write with.
        lease: Lease,
        /// How it came about.
        kind: GrantKind,
        /// The submitter as it stood *after* the grant committed, so that it includes everything
        /// that any earlier owner ever wrote.
        submitter: SubmitterRecord,
    },
    /// Another node may.
    Held(Owner),
}

/// How a lease came to its owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GrantKind {
    /// Nobody ever had it.
    First,
    /// The node had it already; its time was extended.
    Renewed,
    /// Another owner's time was over, or it let go: token + 1.
    TakenOver,
}

/// Who holds a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The node.
    pub node: NodeId,
    /// The token it holds.
    pub token: FencingToken,
    /// Where the other nodes reach it, if it is in the list of live nodes.
    pub advertise_url: Option<String>,
    /// How long the lease still lasts, by the database's clock; zero if its time is over.
    pub remaining: Duration,
}

/// Leases: acquire, renew, release, look up.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Takes the lease if it is free, extends it if `node` has it, takes it over if its time is
    /// over; else says who has it. Never waits longer than the store's lock timeout.
    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError>;

    /// Extends all of a node's leases in one statement; returns those that were extended. One that
    /// is missing from the answer is lost: nothing may be written under it any more.
    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError>;

    /// Lets leases go at once: the token grows, so nothing in flight under them can commit (I2).
    /// Returns how many were still the node's.
    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError>;

    /// Who holds each of the leases, in the order asked; `None` if nobody does.
    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError>;

    /// Looks at the next `limit` submitters of a chain that have open work, in the order of their
    /// addresses from above `after` on, for those without an owner. Submitters without open work are
    /// not looked at and cost nothing.
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
    /// Those that were found.
    pub orphans: Vec<Submitter>,
    /// The last submitter that was looked at, if there may be more above it.
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
