//! Keeps a node's leases alive: all of them in one statement. Lets go of leases together, too: a node
//! that stops has thousands of workers that end at once.
//!
//! Owns the list of leases, nothing else. Only liveness hangs on it: a write under a lease that ran
//! out is refused by the store.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tollgate_metrics::{ChainMetrics, FencedOp, RenewResult};
use tollgate_model::port::{Lease, LeaseTerms, Store, StoreError};
use tollgate_model::{NodeId, Submitter};
use tracing::warn;

use crate::mailbox::{Mailbox, WorkerEvent};
use crate::supervisor::{ActorGroup, supervise};

/// The leases of a node, and whom to tell when one is lost.
#[derive(Clone)]
pub(crate) struct Keeper {
    leases: Arc<Leases>,
    releases: mpsc::Sender<Release>,
    metrics: Arc<ChainMetrics>,
}

/// A lease to let go of, and who waits for it.
type Release = (Lease, oneshot::Sender<Result<(), StoreError>>);

/// Leases that one statement lets go of (I13).
const RELEASED_AT_ONCE: usize = 1_000;

type Leases = Mutex<BTreeMap<Submitter, (Lease, Mailbox)>>;

impl Keeper {
    /// Starts renewing; ends when the last handle is gone.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        node: NodeId,
        terms: LeaseTerms,
        actors: &ActorGroup,
        metrics: Arc<ChainMetrics>,
    ) -> Self {
        let leases = Arc::new(Leases::default());
        let held = Arc::downgrade(&leases);
        let (releases, ended) = mpsc::channel(RELEASED_AT_ONCE);
        let ended = Arc::new(AsyncMutex::new(ended));
        let (releasing, releaser) = (store.clone(), node.clone());
        let counters = metrics.clone();
        supervise(actors, "keeper", move || {
            run(store.clone(), node.clone(), terms, (held.clone(), counters.clone()))
        });
        supervise(actors, "releaser", move || {
            let (store, node, ended) = (releasing.clone(), releaser.clone(), ended.clone());
            async move {
                let release = |leases: Vec<Lease>| {
                    let (store, node) = (store.clone(), node.clone());
                    async move { store.release(&node, &leases).await.map(drop) }
                };
                release_together(&mut *ended.lock().await, release).await;
            }
        });
        Self { leases, releases, metrics }
    }

    /// Lets a lease go, together with whatever else is let go of at the time.
    pub(crate) async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let (done, answer) = oneshot::channel();
        let gone = || StoreError::Unavailable("the releaser has stopped".into());
        self.releases.send((lease, done)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    pub(crate) fn keep(&self, lease: Lease, mailbox: Mailbox) {
        let mut leases = lock(&self.leases);
        leases.insert(lease.submitter, (lease, mailbox));
        note_held(&self.metrics, leases.len());
    }

    pub(crate) fn forget(&self, lease: Lease) {
        let mut leases = lock(&self.leases);
        if leases.get(&lease.submitter).is_some_and(|(kept, _)| *kept == lease) {
            leases.remove(&lease.submitter);
        }
        note_held(&self.metrics, leases.len());
    }
}

fn note_held(metrics: &ChainMetrics, leases: usize) {
    metrics.leases_held.set(f64::from(u32::try_from(leases).unwrap_or(u32::MAX)));
}

async fn run(
    store: Arc<dyn Store>,
    node: NodeId,
    terms: LeaseTerms,
    (leases, metrics): (Weak<Leases>, Arc<ChainMetrics>),
) {
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
            Ok(kept) => {
                metrics.lease_renew_total.add(RenewResult::Renewed, kept.len() as u64);
                report_lost(&leases, &held, &kept, &metrics);
            }
            // The database is in trouble; the leases may still be good when it is back.
            Err(error) => {
                metrics.lease_renew_total.add(RenewResult::Error, held.len() as u64);
                warn!(%error, leases = held.len(), "leases not renewed");
            }
        }
    }
}

/// Releases whatever waits, until nobody is left who could add to it.
async fn release_together<F>(ended: &mut mpsc::Receiver<Release>, release: impl Fn(Vec<Lease>) -> F)
where
    F: Future<Output = Result<(), StoreError>>,
{
    let mut waiting = Vec::new();
    while ended.recv_many(&mut waiting, RELEASED_AT_ONCE).await > 0 {
        let leases = waiting.iter().map(|(lease, _)| *lease).collect();
        let released = release(leases).await;
        for (_, done) in waiting.drain(..) {
            // A worker that was given up meanwhile does not wait.
            let _ = done.send(released.clone());
        }
    }
}

fn report_lost(leases: &Leases, held: &[Lease], kept: &[Lease], metrics: &ChainMetrics) {
    let kept: HashSet<&Lease> = kept.iter().collect();
    let mut leases = lock(leases);
    for lost in held.iter().filter(|lease| !kept.contains(lease)) {
        if leases.get(&lost.submitter).is_some_and(|(lease, _)| lease == lost)
            && let Some((_, mailbox)) = leases.remove(&lost.submitter)
        {
            metrics.lease_renew_total.inc(RenewResult::Lost);
            metrics.lease_fenced_total.inc(FencedOp::Renew);
            mailbox.post([WorkerEvent::LeaseLost(*lost)]);
        }
    }
    note_held(metrics, leases.len());
}

fn lock(leases: &Leases) -> MutexGuard<'_, BTreeMap<Submitter, (Lease, Mailbox)>> {
    leases.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::{Address, ChainId, FencingToken};

    #[tokio::test]
    async fn leases_that_end_together_are_released_in_one_statement() {
        let (releases, mut ended) = mpsc::channel(RELEASED_AT_ONCE);
        let mut answers = Vec::new();
        for n in 0..200 {
            let submitter = Submitter::new(ChainId::MIN, Address::repeat_byte(n));
            let (done, answer) = oneshot::channel();
            releases.send((Lease { submitter, token: FencingToken::MIN }, done)).await.unwrap();
            answers.push(answer);
        }
        drop(releases);
        let statements = Mutex::new(Vec::new());
        release_together(&mut ended, |leases| {
            statements.lock().unwrap().push(leases.len());
            std::future::ready(Ok(()))
        })
        .await;
        assert_eq!(statements.into_inner().unwrap(), [200]);
        for answer in answers {
            assert_eq!(answer.await.unwrap(), Ok(()));
        }
    }
}
