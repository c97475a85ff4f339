//! Keeps a node's leases alive: all of them in one statement.
//!
//! Owns the list of leases, nothing else. Only liveness hangs on it: a write under a lease that ran
//! out is refused by the store.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tollgate_model::port::{Lease, LeaseTerms, Store};
use tollgate_model::{NodeId, Submitter};
use tracing::warn;

use crate::notes::{Note, Notes};
use crate::supervisor::{Deaths, supervise};

/// The leases of a node, and whom to tell when one is lost.
#[derive(Clone)]
pub(crate) struct Keeper {
    leases: Arc<Leases>,
}

type Leases = Mutex<BTreeMap<Submitter, (Lease, Notes)>>;

impl Keeper {
    /// Starts renewing; ends when the last handle is gone.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        node: NodeId,
        terms: LeaseTerms,
        deaths: &Deaths,
    ) -> Self {
        let leases = Arc::new(Leases::default());
        let held = Arc::downgrade(&leases);
        supervise(deaths, "keeper", move || run(store.clone(), node.clone(), terms, held.clone()));
        Self { leases }
    }

    pub(crate) fn keep(&self, lease: Lease, notes: Notes) {
        lock(&self.leases).insert(lease.submitter, (lease, notes));
    }

    pub(crate) fn forget(&self, lease: Lease) {
        let mut leases = lock(&self.leases);
        if leases.get(&lease.submitter).is_some_and(|(kept, _)| *kept == lease) {
            leases.remove(&lease.submitter);
        }
    }
}

async fn run(store: Arc<dyn Store>, node: NodeId, terms: LeaseTerms, leases: Weak<Leases>) {
    let mut interval = tokio::time::interval(terms.renew_interval());
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(leases) = leases.upgrade() else { return };
        let held: Vec<Lease> = lock(&leases).values().map(|(lease, _)| *lease).collect();
        if held.is_empty() {
            continue;
        }
        match store.renew(&node, &held, &terms).await {
            Ok(kept) => tell_losers(&leases, &held, &kept),
            // The database is in trouble; the leases may still be good when it is back.
            Err(error) => warn!(%error, leases = held.len(), "leases not renewed"),
        }
    }
}

fn tell_losers(leases: &Leases, held: &[Lease], kept: &[Lease]) {
    let kept: HashSet<&Lease> = kept.iter().collect();
    let mut leases = lock(leases);
    for lost in held.iter().filter(|lease| !kept.contains(lease)) {
        if leases.get(&lost.submitter).is_some_and(|(lease, _)| lease == lost)
            && let Some((_, notes)) = leases.remove(&lost.submitter)
        {
            notes.leave([Note::LeaseLost(*lost)]);
        }
    }
}

fn lock(leases: &Leases) -> MutexGuard<'_, BTreeMap<Submitter, (Lease, Notes)>> {
    leases.lock().unwrap_or_else(PoisonError::into_inner)
}
